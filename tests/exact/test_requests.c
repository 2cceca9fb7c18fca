/* tests/exact/test_requests.c - requests that share steps, with and without
 * drafts, say what each says alone: ids, log probabilities and text.
 *
 * The dull run reads one token at a time with one thread and scalar code. */
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/heard.h"
#include "support/rng.h"

#include "state/state_parts.h"

#include <string.h>

enum { REQUESTS = 6, MOST_PROMPT = 90, MOST_TOKENS = 32, CONTEXT = 160 };

typedef struct wish {
    uint32_t              prompt[MOST_PROMPT], n_prompt;
    weir_sample_params    sample;
    weir_logit_bias       bias[2];
    const char           *stop[1];
    uint32_t              prefix[3], stop_ids[2];
    weir_generate_options generate;
    int32_t               priority;
    uint32_t              joins; /* before this step */
    heard                 alone, beside;
    weir_request         *request;
} wish;

/* Tokens that are told in advance, and ids that end the reply. */
static void make_script(wish *w, uint32_t vocab, uint64_t number)
{
    uint64_t               own = number + 1, *seed = &own;
    weir_generate_options *g = &w->generate;
    g->thinking_open         = rng_below(seed, 2) == 0;
    g->limit_reasoning       = rng_below(seed, 3) != 0;
    g->reasoning_budget      = rng_below(seed, 12);
    for (int i = 0; i < 3; i++) w->prefix[i] = rng_below(seed, vocab);
    g->prefix   = w->prefix;
    g->n_prefix = rng_below(seed, 4);
    for (int i = 0; i < 2; i++) w->stop_ids[i] = rng_below(seed, vocab);
    g->stop_ids   = w->stop_ids;
    g->n_stop_ids = rng_below(seed, 3);
}

/* Texts that repeat themselves, so that look-ups have something to find; and
 * options of every kind. */
static void make_wish(wish *w, const weir_model *m, uint64_t *seed)
{
    weir_model_info info;
    weir_model_get_info(m, &info);
    memset(w, 0, sizeof *w);
    w->n_prompt           = 1 + rng_below(seed, MOST_PROMPT);
    const uint32_t period = 1 + rng_below(seed, 9);
    for (uint32_t i = 0; i < w->n_prompt; i++)
        w->prompt[i] =
            i >= period && rng_below(seed, 12) != 0 ? w->prompt[i - period] : rng_below(seed, info.vocab_size);
    w->sample                  = (weir_sample_params)WEIR_SAMPLE_PARAMS_INIT;
    w->sample.fresh_seed       = false;
    w->sample.seed             = rng_below(seed, 1000);
    w->sample.choice           = rng_below(seed, 3);
    static const double heat[] = {0, 0, 0.05, 0.7, 1.5};
    w->sample.temperature      = heat[rng_below(seed, 5)];
    if (rng_below(seed, 3) == 0) w->sample.repetition_penalty = 1.2;
    if (rng_below(seed, 4) == 0) w->sample.presence_penalty = 0.6, w->sample.frequency_penalty = 0.3;
    if (rng_below(seed, 4) == 0) w->sample.top_k = 20;
    if (rng_below(seed, 4) == 0) w->sample.min_tokens = 5;
    if (rng_below(seed, 2) == 0) w->sample.ignore_eos = true;
    if (rng_below(seed, 4) == 0) {
        w->bias[0]             = (weir_logit_bias){rng_below(seed, info.vocab_size), 5.0f};
        w->sample.logit_bias   = w->bias;
        w->sample.n_logit_bias = 1;
    }
    w->generate              = (weir_generate_options)WEIR_GENERATE_OPTIONS_INIT;
    w->generate.sample       = &w->sample;
    w->generate.max_tokens   = 1 + rng_below(seed, MOST_TOKENS);
    w->generate.logprobs     = true;
    w->generate.top_logprobs = rng_below(seed, 4);
    w->generate.raw          = rng_below(seed, 2) == 0;
    if (rng_below(seed, 3) == 0 && info.has_tokenizer) {
        w->stop[0]         = "e ";
        w->generate.stop   = w->stop;
        w->generate.n_stop = 1;
    }
    w->priority = (int32_t)rng_below(seed, 3) - 1;
    w->joins    = rng_below(seed, 25);
    make_script(w, info.has_tokenizer ? 8000 : info.vocab_size, *seed);
}

static void say_alone(wish *w, const weir_model *m)
{
    weir_error     err;
    weir_engine   *e = engine_with(m, (weir_engine_options){.isa = "scalar", .threads = 1, .max_context = CONTEXT});
    weir_sequence *s = sequence_on(e);
    for (uint32_t i = 0; i < w->n_prompt; i++) append(s, &w->prompt[i], 1);
    must(weir_generate(s, &w->generate, hear, &w->alone, NULL, &err), &err);
    weir_sequence_free(s);
    weir_engine_close(e);
}

static void compare(const wish *w, const char *what, int i)
{
    weir_request_info info;
    weir_request_get_info(w->request, &info);
    if (info.status != WEIR_OK) fail_msg("%s, request %d: %s", what, i, info.error);
    size_t n = 0;
    while (n < w->alone.n && n < w->beside.n && w->alone.ids[n] == w->beside.ids[n]) n++;
    if (n < w->alone.n || n < w->beside.n)
        fail_msg("%s, request %d: token %zu differs (%zu tokens alone, %zu now)", what, i, n, w->alone.n, w->beside.n);
    assert_memory_equal(&w->alone, &w->beside, sizeof w->alone);
    assert_int_equal(info.reply.tokens, w->alone.n);
    assert_true(info.reply.accepted <= info.reply.drafted);
}

/* All wishes on one engine, each joining at its time; every seventh step one that
 * nobody waits for comes and goes. */
static void say_together(wish *w, const weir_model *m, weir_engine_options opt, const char *what)
{
    weir_error err;
    opt.max_context    = CONTEXT;
    opt.max_sequences  = 4;
    weir_engine  *e    = engine_with(m, opt);
    uint32_t      left = REQUESTS, step = 0, drafted = 0, accepted = 0;
    weir_request *passing = NULL;
    heard         noise   = {0};
    for (int i = 0; i < REQUESTS; i++) w[i].request = NULL, memset(&w[i].beside, 0, sizeof w[i].beside);
    for (bool more = true; more; step++) {
        more = false;
        for (int i = 0; i < REQUESTS; i++) {
            if (w[i].request == NULL && w[i].joins <= step) {
                const weir_request_options o = {.size     = sizeof o,
                                                .prompt   = w[i].prompt,
                                                .n_prompt = w[i].n_prompt,
                                                .generate = &w[i].generate,
                                                .priority = w[i].priority,
                                                .token    = hear,
                                                .user     = &w[i].beside};
                must(weir_engine_submit(e, &o, &w[i].request, &err), &err);
            }
            more = more || w[i].request == NULL;
        }
        if (step % 7 == 3 && passing == NULL) {
            const weir_request_options o = {
                .size = sizeof o, .prompt = w[0].prompt, .n_prompt = w[0].n_prompt, .token = hear, .user = &noise};
            must(weir_engine_submit(e, &o, &passing, &err), &err);
        } else if (step % 7 == 1) {
            weir_request_free(passing);
            passing = NULL;
            noise   = (heard){0};
        }
        must(weir_engine_step(e, &left, &err), &err);
        more = more || left > 0;
        assert_true(step < 5000);
    }
    weir_request_free(passing);
    for (int i = 0; i < REQUESTS; i++) {
        weir_request_info info;
        weir_request_get_info(w[i].request, &info);
        drafted += info.reply.drafted;
        accepted += info.reply.accepted;
        compare(&w[i], what, i);
        weir_request_free(w[i].request);
    }
    if (opt.draft != NULL) print_message("%s: %u of %u drafts accepted\n", what, accepted, drafted);
    /* The model itself guesses right nearly always: then many windows are kept whole. */
    if (opt.draft_model != NULL && accepted < REQUESTS) fail_msg("%s: %u drafts accepted", what, accepted);
    if (opt.fixed_drafts && strcmp(opt.draft, "mtp") == 0 && drafted < REQUESTS) fail_msg("%s: nothing drafted", what);
    assert_int_equal(e->st->n_free_slots, e->st->n_slots); /* all is given back */
    assert_int_equal(e->st->n_promised, 0);
    weir_engine_close(e);
}

static void test_model(void **given)
{
    weir_model     *m = model_named(*given);
    static wish     w[REQUESTS];
    uint64_t        seed = 7;
    weir_model_info info;
    weir_model_get_info(m, &info);
    for (int i = 0; i < REQUESTS; i++) {
        make_wish(&w[i], m, &seed);
        say_alone(&w[i], m);
    }
    const struct {
        const char         *what;
        weir_engine_options opt;
    } ways[] = {
        {"no drafts", {.threads = 2, .chunk = 16}},
        {"n-gram", {.threads = 1, .draft = "ngram", .fixed_drafts = true}},
        {"n-gram in small chunks", {.threads = 3, .draft = "ngram", .fixed_drafts = true, .chunk = 5}},
        {"mtp", {.threads = 2, .draft = "mtp", .fixed_drafts = true, .chunk = 30}},
        {"mtp, one draft", {.threads = 1, .draft = "mtp", .fixed_drafts = true, .max_drafts = 1, .mtp_pre_norm = true}},
        {"itself", {.threads = 2, .draft = "model", .draft_model = m, .fixed_drafts = true, .chunk = 20}},
        {"adaptive", {.threads = 2, .draft = "ngram"}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const bool mtp = ways[i].opt.draft != NULL && strcmp(ways[i].opt.draft, "mtp") == 0;
        if (!mtp || info.has_mtp) say_together(w, m, ways[i].opt, ways[i].what);
    }
    weir_model_close(m);
}

int main(void)
{
    static const char *const models[] = {"tiny-dense", "tiny-moe", "tiny-odd", "mlx-q4", "demo"};
    enum { N = sizeof models / sizeof *models };
    struct CMUnitTest tests[N];
    for (unsigned i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){
            .name = models[i], .test_func = test_model, .initial_state = (void *)(uintptr_t)models[i]};
    return cmocka_run_group_tests_name("exact requests", tests, NULL, NULL);
}
