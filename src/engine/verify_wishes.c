/* engine/verify_wishes.c - requests of all kinds, and what each says in the dullest run.
 *
 * Saying it takes scalar code many tokens, so there are few wishes, each is
 * computed when it is first wanted, and many schedules share them. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/verify_parts.h"

#include <string.h>

enum { SHORT_PROMPT = 24, LONG_PROMPT = 300, LONG_WISH = VERIFY_WISHES - 1 };

/* ---- what is wished ---- */

static void draw_sampling(verifier *v, verify_wish *w, bool biased)
{
    static const double heat[] = {0, 0, 0.4, 0.9, 1.5};
    w->sample                  = (weir_sample_params)WEIR_SAMPLE_PARAMS_INIT;
    w->sample.fresh_seed       = false;
    w->sample.seed             = below(&v->seed, 1000);
    w->sample.choice           = below(&v->seed, 3);
    w->sample.temperature      = heat[below(&v->seed, 5)];
    if (below(&v->seed, 3) == 0) w->sample.repetition_penalty = 1.2;
    if (below(&v->seed, 4) == 0) {
        w->sample.presence_penalty  = 0.6;
        w->sample.frequency_penalty = 0.3;
    }
    if (below(&v->seed, 4) == 0) w->sample.top_k = 20;
    if (below(&v->seed, 4) == 0) w->sample.top_p = 0.8;
    if (below(&v->seed, 4) == 0) w->sample.min_tokens = 3;
    w->sample.ignore_eos = biased || below(&v->seed, 2) == 0;
    /* Two tokens that are said most of the time: then drafts out of the text are right now and then. */
    if (biased) {
        const uint32_t id      = below(&v->seed, v->vocab - 1);
        w->bias[0]             = (weir_logit_bias){id, 60.0f};
        w->bias[1]             = (weir_logit_bias){id + 1, 60.0f};
        w->sample.logit_bias   = w->bias;
        w->sample.n_logit_bias = 2;
    }
}

/* Reasoning, a budget for it, and a given beginning of the content.  The numbers are a
 * stream of their own. */
static void draw_script(const verifier *v, verify_wish *w, uint32_t i)
{
    uint64_t seed                = ~v->seed + i;
    w->generate.thinking_open    = below(&seed, 2) == 0;
    w->generate.limit_reasoning  = below(&seed, 3) != 0;
    w->generate.reasoning_budget = below(&seed, VERIFY_WISH_TOKENS);
    for (uint32_t k = 0; k < VERIFY_PREFIX; k++) w->prefix[k] = below(&seed, model_valid_ids(v->m));
    w->generate.prefix   = w->prefix;
    w->generate.n_prefix = below(&seed, 2 * VERIFY_PREFIX);
    if (w->generate.n_prefix > VERIFY_PREFIX) w->generate.n_prefix = 0;
}

/* Prompts are the beginnings of texts and of each other, so that the prefix cache has
 * something to give; the first one of its kind refers to nothing. */
static void draw_wish(verifier *v, uint32_t i)
{
    verify_wish *w      = &v->wishes[i];
    const bool   biased = i % 2 == 0;
    *w                  = (verify_wish){.text = below(&v->seed, VERIFY_TEXTS), .after = -1};
    const uint32_t most = least(v->texts[w->text].planned, below(&v->seed, 4) == 0 ? 2 * K_PAGE : SHORT_PROMPT);
    w->n_from           = 1 + below(&v->seed, most);
    w->n_own            = below(&v->seed, 4);
    w->chosen           = i % 3 == 1 ? below(&v->seed, VERIFY_CHOICES) : v->texts[w->text].chosen;
    if (i > 0 && below(&v->seed, 4) == 0) w->after = (int32_t)below(&v->seed, i);
    draw_sampling(v, w, biased);
    w->generate            = (weir_generate_options)WEIR_GENERATE_OPTIONS_INIT;
    w->generate.sample     = &w->sample;
    w->generate.max_tokens = 1 + below(&v->seed, VERIFY_WISH_TOKENS);
    if (biased) w->generate.max_tokens = VERIFY_WISH_TOKENS - below(&v->seed, 4);
    w->generate.logprobs     = true;
    w->generate.top_logprobs = below(&v->seed, 4);
    w->generate.raw          = below(&v->seed, 2) == 0;
    draw_script(v, w, i);
    if (i != LONG_WISH) return;
    w->text   = VERIFY_TEXTS - 1;
    w->chosen = VERIFY_NONE;
    w->n_from = least(v->texts[w->text].planned, LONG_PROMPT);
    w->after  = -1;
}

weir_status verify_wishes_new(verifier *v, weir_error *err)
{
    v->wishes = mem_alloc(VERIFY_WISHES, sizeof *v->wishes);
    if (v->wishes == NULL) return status_fail(err, WEIR_NO_MEMORY, "verify: out of memory");
    for (uint32_t i = 0; i < VERIFY_WISHES; i++) draw_wish(v, i);
    return WEIR_OK;
}

void verify_wishes_free(verifier *v)
{
    mem_free(v->wishes);
}

/* ---- what is said ---- */

bool verify_listen(void *user, const weir_token *t)
{
    verify_listener *l    = user;
    verify_reply    *r    = &l->reply;
    const bool       rest = t->id == UINT32_MAX;
    if (!rest && r->n == VERIFY_WISH_TOKENS) return false;
    digest *d = rest ? &r->rest : &r->said[r->n];
    *d        = digest_start;
    digest_put(d, t->id);
    digest_put(d, t->position);
    digest_put(d, f32_bits(t->logprob));
    for (uint32_t i = 0; i < t->n_top; i++) {
        digest_put(d, t->top[i].id);
        digest_put(d, f32_bits(t->top[i].logprob));
    }
    for (size_t i = 0; i < t->text_len; i++) digest_put(d, (uint8_t)t->text[i]);
    if (rest) return true;
    r->ids[r->n++] = t->id;
    return r->n != l->stop_after;
}

static weir_status say(verifier *v, verify_wish *w, weir_error *err)
{
    weir_sequence       *s;
    verify_listener      l = {.stop_after = 0};
    weir_generate_result result;
    TRY(weir_sequence_new(&s, v->dull, err));
    const uint64_t from = clock_ns();
    weir_status    st   = verify_choose(v, s, w->chosen, err);
    for (uint32_t i = 0; st == WEIR_OK && i < w->n_prompt; i++)
        st = weir_sequence_append(s, &w->prompt[i], 1, NULL, NULL, err);
    if (st == WEIR_OK) st = weir_generate(s, &w->generate, verify_listen, &l, &result, err);
    v->dull_ns += clock_ns() - from;
    v->dull_tokens += w->n_prompt + l.reply.n;
    weir_sequence_free(s);
    if (st != WEIR_OK) return st;
    w->known        = true;
    w->alone        = l.reply;
    w->alone.finish = result.finish;
    return WEIR_OK;
}

/* True when so many more tokens of the dullest run stay within a third of the budget. */
static bool affordable(const verifier *v, uint32_t tokens)
{
    const uint64_t third = (v->end - v->start) / 3;
    return v->dull_tokens > 0 && v->dull_ns <= third &&
           (double)tokens * (double)v->dull_ns / (double)v->dull_tokens <= (double)(third - v->dull_ns);
}

/* Behind the prompt, as much as the engines have room for. */
static void put(const verifier *v, verify_wish *w, const uint32_t *ids, uint32_t n)
{
    n = least(n, least(VERIFY_WISH_PROMPT, v->opt.max_length) - w->n_prompt);
    memcpy(w->prompt + w->n_prompt, ids, n * sizeof *ids);
    w->n_prompt += n;
}

weir_status verify_wish_alone(verifier *v, uint32_t wish, bool *out, weir_error *err)
{
    verify_wish *w = &v->wishes[wish];
    *out           = w->known;
    if (w->known) return WEIR_OK;
    w->n_prompt = 0;
    if (w->after >= 0) {
        const verify_wish *before = &v->wishes[w->after];
        bool               known;
        TRY(verify_wish_alone(v, (uint32_t)w->after, &known, err));
        if (!known) return WEIR_OK;
        put(v, w, before->prompt, before->n_prompt);
        put(v, w, before->alone.ids, before->alone.n);
    } else {
        put(v, w, v->texts[w->text].ids, w->n_from);
    }
    /* Others than the text's own: its last ones, backwards. */
    for (uint32_t i = 0; i < w->n_own; i++)
        put(v, w, &v->texts[w->text].ids[w->n_from - 1 - least(i, w->n_from - 1)], 1);
    if (!affordable(v, w->n_prompt + w->generate.max_tokens)) return WEIR_OK;
    *out = true;
    return say(v, w, err);
}
