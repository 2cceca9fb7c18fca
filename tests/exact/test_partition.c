/* tests/exact/test_partition.c - long contexts: where attention is cut into
 * partitions, and threads share one query, the bits stay.
 *
 * Few rows in a step let several threads take a partition each, many rows let
 * a thread walk all partitions; both happen on either side of every border. */
#include "trace.h"

#include <stdio.h>

static const uint32_t stops[] = {1000, 1023, 1024, 1025, 1090, 2040, 2047, 2048, 2049, 2070};
enum { ALL_STOPS = sizeof stops / sizeof *stops, STOPS_TO_1090 = 5 };

/* Up to three tokens near a border, long chunks elsewhere. */
static uint32_t next_cut(uint64_t *seed, uint32_t at, uint32_t end)
{
    const bool     near = (at >= 1010 && at < 1060) || at >= 2036;
    const uint32_t n    = 1 + rng_below(seed, near ? 3 : 300);
    return n < end - at ? n : end - at;
}

static void run_schedule(const trace *t, const char *isa, uint32_t threads, uint64_t seed)
{
    char         what[96];
    weir_engine *e = engine_with(
        t->m, (weir_engine_options){.kv = t->kv, .isa = isa, .threads = threads, .max_context = t->n, .chunk = 256});
    weir_sequence *s = sequence_on(e);
    (void)snprintf(what, sizeof what, "%s, %s, %u threads", t->kv, isa, threads);
    for (uint32_t i = 0; i < t->n_stops; i++)
        while (weir_sequence_length(s) < t->stops[i])
            trace_read(t, s, next_cut(&seed, weir_sequence_length(s), t->stops[i]), rng_below(&seed, 4) == 0, what);
    weir_sequence_free(s);
    weir_engine_close(e);
}

/* Scalar code is slow: with `n_stops` small it runs a schedule of its own too. */
static void check(const char *kv, uint32_t n_stops)
{
    trace        t;
    const char  *names[MAX_ISAS];
    const size_t n_isas = isas(names);
    weir_model  *m      = model_named("tiny-odd");
    trace_make(&t, m, kv, 21, stops, n_stops);
    if (n_stops < ALL_STOPS || n_isas == 1) run_schedule(&t, names[0], 2, 1);
    for (size_t i = 1; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= MAX_THREADS; threads++)
            run_schedule(&t, names[i], threads, 7 * i + threads);
    trace_free(&t);
    weir_model_close(m);
}

static void test_f32(void **given)
{
    (void)given;
    check("f32", ALL_STOPS);
}

static void test_bf16(void **given)
{
    (void)given;
    check("bf16", STOPS_TO_1090);
}

static void test_affine(void **given)
{
    (void)given;
    check("affine8-32,affine4", STOPS_TO_1090);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_affine)};
    return cmocka_run_group_tests_name("exact partition", tests, NULL, NULL);
}
