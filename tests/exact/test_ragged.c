/* tests/exact/test_ragged.c - sequences that share a step: each keeps the bits
 * it has alone, whatever its neighbours, their number and their order. */
#include "trace.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 3, MAX_ROWS = 36, LENGTH = 67 };
static const uint32_t stops[] = {1, 3, 20, 63, 64, 65, LENGTH};

typedef struct ragged {
    weir_model  *m;
    trace        t[SEQUENCES]; /* three texts */
    const char  *kv;
    weir_engine *e;
    sequence    *q[SEQUENCES];
    uint64_t     seed;
    char         what[96];
} ragged;

/* Random order of 0 .. n-1. */
static void shuffle(uint64_t *seed, uint32_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) list[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = rng_below(seed, i), x = list[i - 1];
        list[i - 1] = list[j];
        list[j]     = x;
    }
}

/* One step of some of the sequences; logits of every span's last row are compared. */
static void ragged_step(ragged *r)
{
    weir_error err;
    uint32_t   order[SEQUENCES], who[SEQUENCES], last[SEQUENCES], ids[MAX_ROWS], n_spans = 0, rows = 0;
    k_span     spans[SEQUENCES];
    shuffle(&r->seed, order, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const uint32_t q = order[i], at = sequence_length(r->q[q]), left = LENGTH - at;
        uint32_t       n = rng_below(&r->seed, 2) == 0 ? 1 : rng_below(&r->seed, 12);
        if (n > left) n = left;
        if (n == 0) continue;
        memcpy(ids + rows, r->t[q].ids + at, n * sizeof *ids);
        must(sequence_span(r->q[q], ids + rows, n, rows, &spans[n_spans], &err), &err);
        rows += n;
        last[n_spans]  = rows - 1;
        who[n_spans++] = q;
    }
    if (rows == 0) return;
    const k_step step = {.n_rows = rows, .n_spans = n_spans, .ids = ids, .spans = spans};
    model_forward(&r->e->m, r->e->k, &step, r->e->st, &r->e->w, NULL);
    model_head(&r->e->m, r->e->k, &r->e->w, last, n_spans);
    must(r->e->k->finish(r->e->k, &err), &err);
    const float *logits = r->e->k->buf_host(r->e->k, r->e->w.logits);
    for (uint32_t i = 0; i < n_spans; i++) {
        const trace *t = &r->t[who[i]];
        sequence_commit(r->q[who[i]], spans[i].n);
        trace_check_logits(t, sequence_length(r->q[who[i]]) - 1, logits + (size_t)i * t->vocab, r->what);
        trace_check_state(t, r->e, r->q[who[i]], r->what);
    }
}

static bool all_read(const ragged *r)
{
    for (int i = 0; i < SEQUENCES; i++)
        if (sequence_length(r->q[i]) < LENGTH) return false;
    return true;
}

/* Everybody to the end; one leaves on the way and starts again in a new place. */
static void run_schedule(ragged *r, const char *isa, uint32_t threads)
{
    weir_error err;
    r->seed = 100 * threads;
    (void)snprintf(r->what, sizeof r->what, "%s, %s, %u threads", r->kv, isa, threads);
    r->e = engine_with(r->m, (weir_engine_options){.kv            = r->kv,
                                                   .isa           = isa,
                                                   .threads       = threads,
                                                   .max_context   = LENGTH,
                                                   .max_sequences = SEQUENCES,
                                                   .chunk         = MAX_ROWS});
    for (int i = 0; i < SEQUENCES; i++) must(sequence_new(&r->q[i], r->e->st, 0, &err), &err);
    for (int steps = 0; !all_read(r); steps++) {
        if (steps == 9) {
            sequence_free(r->q[1]);
            sequence_reset(r->q[2]);
            must(sequence_new(&r->q[1], r->e->st, 0, &err), &err);
        }
        ragged_step(r);
    }
    for (int i = 0; i < SEQUENCES; i++) sequence_free(r->q[i]);
    weir_engine_close(r->e);
}

static void check(ragged *r, const char *kv)
{
    const char  *names[MAX_ISAS];
    const size_t n_isas = isas(names);
    r->kv               = kv;
    for (uint64_t i = 0; i < SEQUENCES; i++)
        trace_make(&r->t[i], r->m, kv, 40 + i, stops, sizeof stops / sizeof *stops);
    for (size_t i = 0; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= 3; threads++)
            if (i > 0 || threads == 2) run_schedule(r, names[i], threads); /* scalar code is slow */
    for (int i = 0; i < SEQUENCES; i++) trace_free(&r->t[i]);
}

static void test_fixture(void **given)
{
    ragged r = {.m = model_named(*given)};
    check(&r, strcmp(*given, "tiny-moe") == 0 ? "f32" : "bf16");
    weir_model_close(r.m);
}

int main(void)
{
    struct CMUnitTest tests[FIXTURES];
    for (unsigned i = 0; i < FIXTURES; i++)
        tests[i] = (struct CMUnitTest){
            .name = fixture_names[i], .test_func = test_fixture, .initial_state = (void *)(uintptr_t)fixture_names[i]};
    return cmocka_run_group_tests_name("exact ragged steps", tests, NULL, NULL);
}
