/* tests/oracle/test_greedy.c - greedy continuations against float64, token by
 * token, wherever the best token leads by more than the engine's own error. */
#include "fixture_cases.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 64 };

typedef struct greedy {
    const fixture_case *c;
    size_t              n;
    uint32_t           *tokens;
    numbers             margin, logits; /* logits: n 0 where the file has none */
} greedy;

static greedy greedy_read(const fixture_case *c, unsigned p)
{
    greedy g = {.c = c};
    g.tokens = tensors_ids(&c->expected, &g.n, "p%u.greedy_tokens", p);
    g.margin = tensors_get(&c->expected, "p%u.greedy_margin", p);
    if (tensors_have(&c->expected, "p%u.greedy_logits", p))
        g.logits = tensors_get(&c->expected, "p%u.greedy_logits", p);
    assert_int_equal(g.margin.n, g.n);
    assert_true(g.n <= MAX_TOKENS);
    return g;
}

static void greedy_free(greedy *g)
{
    free(g->tokens);
    numbers_free(&g->margin);
    numbers_free(&g->logits);
}

/* The standard deviation of the logits at a step, from the file or from our own. */
static double spread(const greedy *g, size_t step)
{
    const size_t vocab = g->c->e->m.config.vocab_size;
    if (g->logits.n > 0) return numbers_std(g->logits.x + step * vocab, vocab);
    double      *x = malloc(vocab * sizeof *x);
    const float *l = weir_sequence_logits(g->c->s);
    assert_non_null(x);
    for (size_t i = 0; i < vocab; i++) x[i] = (double)l[i];
    const double std = numbers_std(x, vocab);
    free(x);
    return std;
}

/* Both sides may err, so a lead of twice the bound decides. */
static bool decided(const greedy *g, size_t step)
{
    return g->margin.x[step] > 2.0 * g->c->bound * spread(g, step);
}

/* Feeds the expected tokens, so that a narrow step does not end the comparison;
 * returns how many steps were compared, *first_open the first that was not. */
static size_t check_steps(const greedy *g, size_t *first_open)
{
    const size_t vocab    = g->c->e->m.config.vocab_size;
    size_t       compared = 0;
    *first_open           = g->n;
    for (size_t i = 0; i < g->n; i++) {
        const float *logits = weir_sequence_logits(g->c->s);
        if (g->logits.n > 0)
            assert_true(numbers_worst(logits, g->logits.x + i * vocab, vocab) <= g->c->bound * spread(g, i));
        if (decided(g, i)) {
            assert_int_equal(numbers_best(logits, vocab), g->tokens[i]);
            compared++;
        } else if (*first_open == g->n) {
            *first_open = i;
        }
        append(g->c->s, &g->tokens[i], 1);
    }
    return compared;
}

typedef struct heard {
    uint32_t ids[MAX_TOKENS];
    size_t   n;
} heard;

static bool hear(void *user, const weir_token *t)
{
    heard *h = user;
    if (t->id != UINT32_MAX && h->n < MAX_TOKENS) h->ids[h->n++] = t->id;
    return true;
}

/* Of the first n steps those before the first end token. */
static size_t before_end(const greedy *g, size_t n)
{
    size_t          n_eos;
    const uint32_t *eos = weir_model_eos_ids(g->c->m, &n_eos);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_eos; j++)
            if (g->tokens[i] == eos[j]) return i;
    return n;
}

/* The engine's own loop, as far as every step is decided. */
static void check_generate(const greedy *g, const uint32_t *prompt, size_t n_prompt, size_t n)
{
    weir_error         err;
    heard              h            = {.n = 0};
    weir_sample_params params       = WEIR_SAMPLE_PARAMS_INIT;
    params.temperature              = 0;
    params.ignore_eos               = true;
    const weir_generate_options opt = {
        .size = sizeof opt, .sample = &params, .max_tokens = (uint32_t)g->n, .raw = true};
    weir_sequence_reset(g->c->s);
    append(g->c->s, prompt, n_prompt);
    must(weir_generate(g->c->s, &opt, hear, &h, NULL, &err), &err);
    assert_true(h.n >= n);
    assert_memory_equal(h.ids, g->tokens, n * sizeof *h.ids);
}

static void test_greedy(void **given)
{
    const fixture_case *c     = *given;
    size_t              steps = 0, compared = 0;
    for (unsigned i = 0; i < N_PROMPTS; i++) {
        if (!tensors_have(&c->expected, "p%u.greedy_tokens", prompts[i])) continue;
        size_t    n, first_open;
        uint32_t *ids = tensors_ids(&c->expected, &n, "p%u.input_ids", prompts[i]);
        greedy    g   = greedy_read(c, prompts[i]);
        weir_sequence_reset(c->s);
        append(c->s, ids, n);
        compared += check_steps(&g, &first_open);
        steps += g.n;
        check_generate(&g, ids, n, before_end(&g, first_open));
        free(ids);
        greedy_free(&g);
    }
    print_message("%s: %zu of %zu greedy tokens are decided, and equal\n", c->name, compared, steps);
    assert_true(steps > 0 && compared >= steps / 4);
}

int main(void)
{
    return fixture_cases_run("oracle greedy", test_greedy, fixture_case_plain);
}
