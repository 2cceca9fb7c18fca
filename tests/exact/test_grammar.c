/* tests/exact/test_grammar.c - replies within a grammar: the same alone and in a batch,
 * in any chunks, with guesses of every source; and all of them are within it. */
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/heard.h"
#include "support/rng.h"

#include <stdio.h>
#include <string.h>

enum { REQUESTS = 5, CONTEXT = 128, TOKENS = 32 };

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\","
    "\"items\":{\"enum\":[\"red\",\"green\"]},\"maxItems\":2}},\"required\":[\"name\",\"age\"]}";

static const struct {
    weir_grammar_kind kind;
    const char       *text;
} forms[REQUESTS] = {
    {WEIR_GRAMMAR_JSON_SCHEMA, person},
    {WEIR_GRAMMAR_REGEX, "([A-Z][a-z]{1,6} ){2,4}[0-9]{3}"},
    {WEIR_GRAMMAR_EBNF, "root ::= item (\", \" item){2,5} \".\"\nitem ::= \"a \" [a-z]{2,5} | \"the \" item\n"},
    {WEIR_GRAMMAR_CHOICE, "[\"yes\",\"no\",\"yesterday\",\"nothing at all\"]"},
    {WEIR_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"maximum\":9999,\"minimum\":0},"
                               "\"minItems\":3,\"maxItems\":9}"},
};

typedef struct wish {
    weir_ids              prompt;
    weir_grammar         *form;
    weir_sample_params    sample;
    weir_generate_options generate;
    heard                 alone, beside;
    weir_request         *request;
} wish;

static void make_wish(wish *w, const weir_model *m, int i, uint64_t *seed)
{
    static const char *const prompts[REQUESTS] = {
        "A person: {\"name\": \"Tom\", \"age\": 7} and {\"name\": ", "Ann Lee 123 and Tom Fox 456 and ",
        "I saw a fox, the a dog, a cat. I saw ", "Yes or no? ", "[1, 2, 3, 4, 1, 2, 3, 4] "};
    static const double heat[] = {0, 0.7, 1.5};
    weir_error          err;
    memset(w, 0, sizeof *w);
    must(weir_tokenize(m, prompts[i], strlen(prompts[i]), false, &w->prompt, &err), &err);
    must(weir_grammar_compile(&w->form, m, forms[i].kind, forms[i].text, strlen(forms[i].text), NULL, &err), &err);
    w->sample                    = (weir_sample_params)WEIR_SAMPLE_PARAMS_INIT;
    w->sample.fresh_seed         = false;
    w->sample.seed               = rng_below(seed, 1000);
    w->sample.temperature        = heat[rng_below(seed, 3)];
    w->sample.repetition_penalty = rng_below(seed, 2) == 0 ? 1.0 : 1.2;
    w->generate                  = (weir_generate_options)WEIR_GENERATE_OPTIONS_INIT;
    w->generate.sample           = &w->sample;
    w->generate.max_tokens       = TOKENS;
    w->generate.logprobs         = true;
    w->generate.top_logprobs     = 2;
    w->generate.raw              = true;
    w->generate.grammar          = w->form;
}

static void free_wish(wish *w)
{
    weir_ids_free(&w->prompt);
    weir_grammar_free(w->form);
}

/* Whether what was said is a whole text of its grammar, or the beginning of one. */
static void check_form(const wish *w, weir_finish finish)
{
    weir_error    err;
    weir_matcher *m;
    must(weir_matcher_new(&m, w->form, &err), &err);
    for (size_t i = 0; i < w->alone.n; i++)
        if (w->alone.ids[i] != UINT32_MAX) must(weir_matcher_accept(m, w->alone.ids[i], &err), &err);
    if (finish == WEIR_FINISH_STOP) assert_true(weir_matcher_may_end(m));
    weir_matcher_free(m);
}

static void say_alone(wish *w, const weir_model *m)
{
    weir_error           err;
    weir_generate_result result;
    weir_engine         *e = engine_with(m, (weir_engine_options){.threads = 1, .max_context = CONTEXT});
    weir_sequence       *s = sequence_on(e);
    for (uint32_t i = 0; i < w->prompt.n; i++) append(s, &w->prompt.data[i], 1);
    must(weir_generate(s, &w->generate, hear, &w->alone, &result, &err), &err);
    check_form(w, result.finish);
    assert_true(result.tokens > 0);
    weir_sequence_free(s);
    weir_engine_close(e);
}

static void say_together(wish *w, const weir_model *m, weir_engine_options opt, const char *what, uint32_t *accepted)
{
    weir_error err;
    uint32_t   left   = 1;
    opt.max_context   = CONTEXT;
    opt.max_sequences = 3;
    weir_engine *e    = engine_with(m, opt);
    for (int i = 0; i < REQUESTS; i++) {
        const weir_request_options o = {.size     = sizeof o,
                                        .prompt   = w[i].prompt.data,
                                        .n_prompt = w[i].prompt.n,
                                        .generate = &w[i].generate,
                                        .token    = hear,
                                        .user     = &w[i].beside};
        memset(&w[i].beside, 0, sizeof w[i].beside);
        must(weir_engine_submit(e, &o, &w[i].request, &err), &err);
    }
    while (left > 0) must(weir_engine_step(e, &left, &err), &err);
    for (int i = 0; i < REQUESTS; i++) {
        weir_request_info info;
        weir_request_get_info(w[i].request, &info);
        if (info.status != WEIR_OK) fail_msg("%s, request %d: %s", what, i, info.error);
        if (memcmp(&w[i].alone, &w[i].beside, sizeof w[i].alone) != 0)
            fail_msg("%s, request %d: \"%.*s\" alone, \"%.*s\" now", what, i, (int)w[i].alone.text_len, w[i].alone.text,
                     (int)w[i].beside.text_len, w[i].beside.text);
        *accepted += info.reply.accepted;
        weir_request_free(w[i].request);
    }
    weir_engine_close(e);
}

static void the_same_in_every_company(void **unused)
{
    (void)unused;
    weir_model                      *m      = model_named("demo");
    uint64_t                         seed   = 3;
    static const weir_engine_options runs[] = {{.threads = 2, .chunk = 3},
                                               {.draft = "ngram", .fixed_drafts = true},
                                               {.draft = "mtp", .max_drafts = 6, .fixed_drafts = true}};
    wish                             w[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        make_wish(&w[i], m, i, &seed);
        say_alone(&w[i], m);
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        uint32_t accepted = 0;
        say_together(w, m, runs[i], runs[i].draft != NULL ? runs[i].draft : "together", &accepted);
        /* Replies within a grammar go on guessing, and guess right. */
        assert_true(runs[i].draft == NULL || accepted > 0);
    }
    for (int i = 0; i < REQUESTS; i++) free_wish(&w[i]);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_in_every_company)};
    return cmocka_run_group_tests_name("exact grammar", tests, NULL, NULL);
}
