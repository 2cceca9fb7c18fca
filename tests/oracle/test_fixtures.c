/* tests/oracle/test_fixtures.c - logits, residual stream and state against
 * transformers' own code in float64.
 *
 * With the cache in float32 everything must agree to float32 rounding; with
 * bfloat16 the logits stay within a part of what the reference loses. */
#include "fixture_cases.h"

#include "state/state_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest |found - expected| over the rms of the expected tensor, of the kinds
 * that come with few roundings behind them.  About four times what is measured. */
static const double bound_resid = 2e-5, bound_norm = 2e-5, bound_tail = 2e-5, bound_recurrent = 8e-5, bound_kv = 1.2e-5;

typedef struct worst {
    double logits, resid, norm, tail, recurrent, kv;
} worst;

static void raise_to(double *worst_so_far, double value)
{
    if (!(value <= *worst_so_far)) *worst_so_far = value;
}

/* ---- rows: logits, residual stream, final norm ---- */

typedef struct rows_check {
    const fixture_case *c;
    numbers             logits, resid, norm, positions; /* n 0: the file has none */
    uint32_t            total, seen;
    worst              *w;
} rows_check;

/* Index of `position` among the kept ones, or -1. */
static long kept(const rows_check *r, uint32_t position)
{
    for (size_t i = 0; i < r->positions.n; i++)
        if ((uint32_t)r->positions.x[i] == position) return (long)i;
    return -1;
}

static void check_logits(rows_check *r, uint32_t position, const float *logits)
{
    const size_t vocab = r->c->e->m.config.vocab_size, first = r->total - r->logits.n / vocab;
    if (position < first) return; /* the file has those of the last position alone */
    const double *expected = r->logits.x + (position - first) * vocab;
    raise_to(&r->w->logits, numbers_worst(logits, expected, vocab) / numbers_std(expected, vocab));
}

static void check_hidden(rows_check *r, const weir_rows *rows, uint32_t i)
{
    const size_t H      = r->c->e->m.config.hidden_size;
    const long   at     = kept(r, rows->first_position + i);
    const float *normed = r->c->e->k->buf_host(r->c->e->k, r->c->e->w.h); /* what the head read */
    if (at < 0) return;
    for (uint32_t l = 0; l < r->c->e->m.config.n_layers; l++) {
        const double *expected = r->resid.x + ((l + 1) * r->positions.n + (size_t)at) * H;
        raise_to(&r->w->resid, numbers_worst(rows->hidden[l] + i * H, expected, H) / numbers_rms(expected, H));
    }
    const double *expected = r->norm.x + (size_t)at * H;
    raise_to(&r->w->norm, numbers_worst(normed + i * H, expected, H) / numbers_rms(expected, H));
}

static bool check_rows(void *user, const weir_rows *rows)
{
    rows_check *r = user;
    for (uint32_t i = 0; i < rows->n; i++) {
        check_logits(r, rows->first_position + i, rows->logits + (size_t)i * r->c->e->m.config.vocab_size);
        if (r->resid.n > 0) check_hidden(r, rows, i);
    }
    r->seen += rows->n;
    return true;
}

/* ---- state ---- */

/* Our tail [kernel-1][channel] against [channel][kernel], whose first column is never read again. */
static void check_tail(const fixture_case *c, unsigned p, uint32_t at_layer, uint32_t index, worst *w)
{
    if (!tensors_have(&c->expected, "p%u.conv_state.%u", p, at_layer)) return;
    numbers        n = tensors_get(&c->expected, "p%u.conv_state.%u", p, at_layer);
    const uint64_t C = n.shape[0], K = n.shape[1];
    const float   *tail = c->e->k->buf_host(c->e->k, state_tail(c->e->st, index));
    const double   rms  = numbers_rms(n.x, n.n);
    assert_int_equal(K, c->e->m.config.delta.conv_kernel);
    tail += c->s->q->slot * (K - 1) * C;
    for (uint64_t i = 0; i < C; i++)
        for (uint64_t j = 1; j < K; j++)
            raise_to(&w->tail, numbers_worst(&tail[(j - 1) * C + i], &n.x[i * K + j], 1) / rms);
    numbers_free(&n);
}

static void check_recurrent(const fixture_case *c, unsigned p, uint32_t at_layer, uint32_t index, worst *w)
{
    if (!tensors_have(&c->expected, "p%u.recurrent_state.%u", p, at_layer)) return;
    numbers      n = tensors_get(&c->expected, "p%u.recurrent_state.%u", p, at_layer);
    const float *x = c->e->k->buf_host(c->e->k, state_recurrent(c->e->st, index));
    raise_to(&w->recurrent, numbers_worst(x + c->s->q->slot * n.n, n.x, n.n) / numbers_rms(n.x, n.n));
    numbers_free(&n);
}

/* Pages [page][kv head][K_PAGE][dim] of a float32 cache against [kv head][position][dim]. */
static void check_pages(const fixture_case *c, const numbers *n, const float *pages, worst *w)
{
    const uint64_t heads = n->shape[0], positions = n->shape[1], D = n->shape[2];
    const double   rms = numbers_rms(n->x, n->n);
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t t = 0; t < positions; t++) {
            const uint64_t page = c->s->q->pages[t / K_PAGE];
            const float   *at   = pages + ((page * heads + h) * K_PAGE + t % K_PAGE) * D;
            raise_to(&w->kv, numbers_worst(at, n->x + (h * positions + t) * D, D) / rms);
        }
}

static void check_cache(const fixture_case *c, unsigned p, uint32_t at_layer, uint32_t index, worst *w)
{
    if (strcmp(c->kv, "f32") != 0 || !tensors_have(&c->expected, "p%u.k_cache.%u", p, at_layer)) return;
    numbers keys   = tensors_get(&c->expected, "p%u.k_cache.%u", p, at_layer);
    numbers values = tensors_get(&c->expected, "p%u.v_cache.%u", p, at_layer);
    check_pages(c, &keys, c->e->k->buf_host(c->e->k, state_cache(c->e->st, index)->keys), w);
    check_pages(c, &values, c->e->k->buf_host(c->e->k, state_cache(c->e->st, index)->values), w);
    numbers_free(&keys);
    numbers_free(&values);
}

static void check_state(const fixture_case *c, unsigned p, worst *w)
{
    const model *m = &c->e->m;
    for (uint32_t i = 0; i < m->config.n_layers; i++) {
        if (m->layers[i].kind == LAYER_DELTA) {
            check_tail(c, p, i, m->layers[i].index, w);
            check_recurrent(c, p, i, m->layers[i].index, w);
        } else {
            check_cache(c, p, i, m->layers[i].index, w);
        }
    }
}

/* ---- cases ---- */

static void score(const fixture_case *c, const uint32_t *ids, size_t n, rows_check *r)
{
    weir_error err;
    weir_sequence_reset(c->s);
    must(weir_sequence_score(c->s, ids, n, r->resid.n > 0, check_rows, r, &err), &err);
    assert_int_equal(r->seen, n);
}

static void check_prompt(const fixture_case *c, unsigned p, worst *w)
{
    size_t     n;
    uint32_t  *ids = tensors_ids(&c->expected, &n, "p%u.input_ids", p);
    rows_check r   = {.c = c, .total = (uint32_t)n, .w = w};
    const bool all = tensors_have(&c->expected, "p%u.logits", p);
    r.logits       = tensors_get(&c->expected, all ? "p%u.logits" : "p%u.last_logits", p);
    if (tensors_have(&c->expected, "p%u.resid", p)) {
        r.resid     = tensors_get(&c->expected, "p%u.resid", p);
        r.norm      = tensors_get(&c->expected, "p%u.final_norm", p);
        r.positions = tensors_get(&c->expected, "p%u.resid_positions", p);
    }
    score(c, ids, n, &r);
    check_state(c, p, w);
    free(ids);
    numbers_free(&r.logits);
    numbers_free(&r.resid);
    numbers_free(&r.norm);
    numbers_free(&r.positions);
}

/* The rows of the padded batch, each as a sequence of its own. */
static void check_batch(const fixture_case *c, worst *w)
{
    if (!tensors_have(&c->expected, "batch.lens")) return;
    size_t    n, n_rows;
    uint32_t *ids  = tensors_ids(&c->expected, &n, "batch.right.input_ids");
    uint32_t *lens = tensors_ids(&c->expected, &n_rows, "batch.lens");
    for (unsigned i = 0; i < n_rows; i++) {
        rows_check r = {.c = c, .total = lens[i], .w = w, .logits = tensors_get(&c->expected, "batch.row%u.logits", i)};
        score(c, ids + i * (n / n_rows), lens[i], &r);
        numbers_free(&r.logits);
    }
    free(ids);
    free(lens);
}

static void test_fixture(void **given)
{
    const fixture_case *c = *given;
    worst               w = {0};
    for (unsigned i = 0; i < N_PROMPTS; i++) check_prompt(c, prompts[i], &w);
    check_batch(c, &w);
    print_message("%-24s logits %.1e of std (allowed %.1e); of rms: residual %.1e, final norm %.1e, tail %.1e, "
                  "recurrent %.1e, keys and values %.1e\n",
                  c->name, w.logits, c->bound, w.resid, w.norm, w.tail, w.recurrent, w.kv);
    assert_true(w.logits <= c->bound);
    if (strcmp(c->kv, "f32") != 0) return;
    assert_true(w.resid <= bound_resid && w.norm <= bound_norm);
    assert_true(w.tail <= bound_tail && w.recurrent <= bound_recurrent && w.kv <= bound_kv);
}

int main(void)
{
    return fixture_cases_run("oracle fixtures", test_fixture, NULL);
}
