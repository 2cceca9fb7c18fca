/* tests/exact/trace.c - the dullest run of a list of tokens. */
#include "trace.h"

#include "state/state_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_MAX = 128 };

/* Bytes of one position's keys or values. */
static size_t position_bytes(const weir_engine *e, k_kv_form form, uint32_t position)
{
    const k_attention_shape *a     = &e->m.config.attention;
    const bool               early = position / K_PAGE < e->st->limits.early;
    return (size_t)a->kv_heads * k_kv_row_bytes(early ? k_kv_early(form) : form, a->head_dim);
}

/* Of one layer's keys or values for so many positions. */
static size_t part_bytes(const weir_engine *e, k_kv_form form, uint32_t length)
{
    size_t sum = 0;
    for (uint32_t t = 0; t < length; t++) sum += position_bytes(e, form, t);
    return sum;
}

static size_t cache_bytes(const weir_engine *e, uint32_t length)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < e->m.config.n_attention_layers; i++) {
        const k_kv_layer form = state_cache(e->st, i)->form;
        sum += part_bytes(e, form.keys, length) + part_bytes(e, form.values, length);
    }
    return sum;
}

/* Of one layer's keys or values, what belongs to the sequence: [position][kv head] rows. */
static uint8_t *copy_pages(const weir_engine *e, const sequence *q, const k_buf *buf, k_kv_form form, uint8_t *to)
{
    const uint32_t heads = e->m.config.attention.kv_heads, n_early = e->st->limits.early_pages;
    const uint8_t *pages = e->k->buf_host(e->k, buf);
    const size_t   early = k_kv_row_bytes(k_kv_early(form), e->m.config.attention.head_dim) * heads * K_PAGE;
    for (uint32_t t = 0; t < q->length; t++) {
        const size_t   page = q->pages[t / K_PAGE], row = position_bytes(e, form, t) / heads;
        const uint8_t *at =
            pages + (page < n_early ? page * early : n_early * early + (page - n_early) * row * heads * K_PAGE);
        assert_int_equal(page < n_early, t / K_PAGE < e->st->limits.early);
        for (uint32_t h = 0; h < heads; h++, to += row) memcpy(to, at + (h * K_PAGE + t % K_PAGE) * row, row);
    }
    return to;
}

/* All that q remembers; free(). */
static uint8_t *remember(const weir_engine *e, const sequence *q, size_t *n)
{
    const size_t recurrent = state_size(e->st);
    *n                     = recurrent + cache_bytes(e, q->length);
    uint8_t *all           = malloc(*n);
    assert_non_null(all);
    sequence_save(q, all);
    uint8_t *to = all + recurrent;
    for (uint32_t i = 0; i < e->m.config.n_attention_layers; i++) {
        const k_cache *c = state_cache(e->st, i);
        to               = copy_pages(e, q, c->keys, c->form.keys, to);
        to               = copy_pages(e, q, c->values, c->form.values, to);
    }
    assert_int_equal(to - all, *n);
    return all;
}

static long stop_at(const trace *t, uint32_t length)
{
    for (uint32_t i = 0; i < t->n_stops; i++)
        if (t->stops[i] == length) return (long)i;
    return -1;
}

void trace_make(trace *t, const weir_model *m, const char *kv, uint64_t seed, const uint32_t *stops, uint32_t n_stops)
{
    trace_make_from(t, m, kv, 0, seed, stops, n_stops);
}

void trace_make_from(trace *t, const weir_model *m, const char *kv, uint32_t kv_start, uint64_t seed,
                     const uint32_t *stops, uint32_t n_stops)
{
    assert_true(n_stops > 0 && n_stops <= MAX_STOPS);
    *t = (trace){.m = m, .kv = kv, .kv_start = kv_start, .n = stops[n_stops - 1], .n_stops = n_stops};
    memcpy(t->stops, stops, n_stops * sizeof *stops);
    weir_engine *e = engine_with(
        m, (weir_engine_options){.kv = kv, .kv_start = kv_start, .isa = "scalar", .threads = 1, .max_context = t->n});
    weir_sequence *s = sequence_on(e);
    t->vocab         = e->m.config.vocab_size;
    t->ids           = random_ids(m, t->n, seed);
    t->logits        = malloc((size_t)t->n * t->vocab * sizeof *t->logits);
    assert_non_null(t->logits);
    for (uint32_t i = 0; i < t->n; i++) {
        size_t bytes;
        append(s, &t->ids[i], 1);
        memcpy(t->logits + (size_t)i * t->vocab, weir_sequence_logits(s), t->vocab * sizeof *t->logits);
        const long stop = stop_at(t, i + 1);
        if (stop >= 0) t->remembered[stop] = remember(e, s->q, &bytes);
    }
    weir_sequence_free(s);
    weir_engine_close(e);
}

void trace_free(trace *t)
{
    for (uint32_t i = 0; i < t->n_stops; i++) free(t->remembered[i]);
    free(t->ids);
    free(t->logits);
}

void trace_check_logits(const trace *t, uint32_t position, const float *logits, const char *what)
{
    if (memcmp(logits, t->logits + (size_t)position * t->vocab, t->vocab * sizeof *logits) != 0)
        fail_msg("%s: logits at position %u have other bits", what, position);
}

/* Names the part of what is remembered that byte `at` is in. */
static const char *part_of(const weir_engine *e, size_t at, uint32_t length, char buf[PART_MAX])
{
    const model_config *c           = &e->m.config;
    const size_t        layer_bytes = c->n_delta_layers > 0 ? state_size(e->st) / c->n_delta_layers : 1;
    const size_t        tail = layer_bytes - (size_t)c->delta.value_heads * c->delta.value_dim * c->delta.key_dim * 4;
    if (at < state_size(e->st)) {
        (void)snprintf(buf, PART_MAX, "%s of DeltaNet layer %zu",
                       at % layer_bytes < tail ? "convolution tail" : "recurrent state", at / layer_bytes);
        return buf;
    }
    at -= state_size(e->st);
    for (uint32_t i = 0;; i++) { /* keys, then values of every layer */
        const k_kv_layer form = state_cache(e->st, i / 2)->form;
        const k_kv_form  one  = i % 2 == 0 ? form.keys : form.values;
        const size_t     n    = part_bytes(e, one, length);
        uint32_t         t    = 0;
        while (t < length && part_bytes(e, one, t + 1) <= at) t++;
        (void)snprintf(buf, PART_MAX, "%s of attention layer %u, position %u", i % 2 == 0 ? "keys" : "values", i / 2,
                       t);
        if (at < n) return buf;
        at -= n;
    }
}

void trace_check_state(const trace *t, const weir_engine *e, const sequence *q, const char *what)
{
    size_t     n;
    char       buf[PART_MAX];
    const long stop = stop_at(t, q->length);
    if (stop < 0) return;
    uint8_t       *found    = remember(e, q, &n);
    const uint8_t *expected = t->remembered[stop];
    size_t         at       = 0;
    while (at < n && found[at] == expected[at]) at++;
    free(found);
    if (at < n) fail_msg("%s: length %u: %s has other bits", what, q->length, part_of(e, at, q->length, buf));
}

void trace_check(const trace *t, const weir_sequence *s, const char *what)
{
    assert_memory_equal(weir_sequence_tokens(s), t->ids, weir_sequence_length(s) * sizeof *t->ids);
    trace_check_logits(t, weir_sequence_length(s) - 1, weir_sequence_logits(s), what);
    trace_check_state(t, s->e, s->q, what);
}

bool trace_check_rows(void *user, const weir_rows *rows)
{
    trace_rows *r = user;
    for (uint32_t i = 0; i < rows->n; i++)
        trace_check_logits(r->t, rows->first_position + i, rows->logits + (size_t)i * r->t->vocab, r->what);
    r->rows += rows->n;
    return true;
}

void trace_read(const trace *t, weir_sequence *s, uint32_t n, bool score, const char *what)
{
    weir_error      err;
    const uint32_t *ids  = t->ids + weir_sequence_length(s);
    trace_rows      rows = {.t = t, .what = what};
    if (score) {
        must(weir_sequence_score(s, ids, n, false, trace_check_rows, &rows, &err), &err);
        assert_int_equal(rows.rows, n);
    } else {
        append(s, ids, n);
    }
    trace_check(t, s, what);
}
