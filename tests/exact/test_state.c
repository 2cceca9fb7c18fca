/* tests/exact/test_state.c - however a prompt is cut, on every instruction set
 * and number of threads, logits and everything remembered have the bits of the
 * dullest run. */
#include "trace.h"

#include <stdio.h>
#include <string.h>

/* Around the borders of pages and of the blocks of the matrix kernels. */
static const uint32_t stops[] = {1, 2, 3, 4, 7, 31, 63, 64, 65, 100, 127, 128, 129, 140};
enum { N_STOPS = sizeof stops / sizeof *stops, CHUNK = 97 };

/* Cuts of every size, short ones most; every second cut that would cross a stop ends there. */
static uint32_t next_cut(uint64_t *seed, const trace *t, uint32_t at)
{
    const uint32_t left = t->n - at, longest = rng_below(seed, 3) == 0 ? left : 6;
    uint32_t       n = 1 + rng_below(seed, longest);
    if (n > left) n = left;
    for (uint32_t i = 0; i < t->n_stops; i++)
        if (t->stops[i] > at && t->stops[i] < at + n && rng_below(seed, 2) == 0) return t->stops[i] - at;
    return n;
}

static void run_schedule(const trace *t, const char *isa, uint32_t threads, uint64_t seed)
{
    char         what[96];
    weir_engine *e = engine_with(
        t->m, (weir_engine_options){.kv = t->kv, .isa = isa, .threads = threads, .max_context = t->n, .chunk = CHUNK});
    weir_sequence *s = sequence_on(e);
    assert_int_equal(e->info.threads, threads);
    assert_string_equal(e->info.isa, isa);
    (void)snprintf(what, sizeof what, "%s, %s, %u threads, seed %llu", t->kv, isa, threads, (unsigned long long)seed);
    while (weir_sequence_length(s) < t->n) {
        const uint32_t n = next_cut(&seed, t, weir_sequence_length(s));
        trace_read(t, s, n, rng_below(&seed, 2) == 0, what);
    }
    weir_sequence_free(s);
    weir_engine_close(e);
}

static void check_all(const weir_model *m, const char *kv)
{
    trace        t;
    const char  *names[MAX_ISAS];
    const size_t n_isas = isas(names);
    trace_make(&t, m, kv, 11, stops, N_STOPS);
    for (size_t i = 0; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= MAX_THREADS; threads++)
            if (i > 0 || (threads == 3 && strcmp(kv, "bf16") == 0)) /* scalar code is slow */
                run_schedule(&t, names[i], threads, 10 * i + threads);
    trace_free(&t);
}

static void test_fixture(void **given)
{
    weir_model *m = model_named(*given);
    check_all(m, "bf16");
    if (strncmp(*given, "tiny-", 5) == 0) check_all(m, "f32");
    weir_model_close(m);
}

/* Forms of a few bits, for heads of 64 numbers and of 256, of one and of several heads. */
static const struct {
    const char *fixture, *kv;
} coded[] = {{"tiny-odd", "affine8,affine4-32"},
             {"tiny-odd", "affine4,f32"},
             {"tiny-dense", "affine8-128"},
             {"tiny-moe", "affine4"},
             {"tiny-odd", "turbo"},
             {"mlx-moe-q4", "turbo"},
             {"mlx-q4", "affine8-32,affine4-128"}};
enum { CODED = sizeof coded / sizeof *coded };

static void test_coded(void **given)
{
    (void)given;
    for (unsigned i = 0; i < CODED; i++) {
        weir_model *m = model_named(coded[i].fixture);
        check_all(m, coded[i].kv);
        weir_model_close(m);
    }
}

int main(void)
{
    struct CMUnitTest tests[FIXTURES + 1];
    for (unsigned i = 0; i < FIXTURES; i++)
        tests[i] = (struct CMUnitTest){
            .name = fixture_names[i], .test_func = test_fixture, .initial_state = (void *)(uintptr_t)fixture_names[i]};
    tests[FIXTURES] = (struct CMUnitTest){.name = "forms of a few bits", .test_func = test_coded};
    return cmocka_run_group_tests_name("exact state", tests, NULL, NULL);
}
