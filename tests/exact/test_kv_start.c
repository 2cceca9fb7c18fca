/* tests/exact/test_kv_start.c - the start of a sequence in bfloat16, the rest in a few
 * bits: the form of a position follows from the position alone, however it was read. */
#include "trace.h"

#include <stdio.h>
#include <string.h>

/* The border is at 256: 200 is rounded up. */
enum { START = 200, BORDER = 256, CHUNK = 97 };
static const uint32_t stops[] = {64, 192, 255, 256, 257, 300, 320, 321, 340};
enum { N_STOPS = sizeof stops / sizeof *stops };
static const char kv[]    = "affine8,affine4-32";
static const char turbo[] = "turbo"; /* which rotates the values of both kinds of pages */

static weir_engine *engine_of(const weir_model *m, const char *form, uint32_t start, const char *isa, uint32_t threads)
{
    return engine_with(m, (weir_engine_options){.kv            = form,
                                                .kv_start      = start,
                                                .isa           = isa,
                                                .threads       = threads,
                                                .max_context   = stops[N_STOPS - 1],
                                                .max_sequences = 2,
                                                .chunk         = CHUNK});
}

static uint32_t next_cut(uint64_t *seed, uint32_t at, uint32_t end)
{
    const uint32_t n = 1 + rng_below(seed, at > BORDER - 10 && at < BORDER + 5 ? 3 : CHUNK);
    return n < end - at ? n : end - at;
}

/* Reads on to `end`, stopping at the stops. */
static void read_to(const trace *t, weir_sequence *s, uint32_t end, uint64_t *seed, const char *what)
{
    for (uint32_t i = 0; i < N_STOPS && stops[i] <= end; i++)
        while (weir_sequence_length(s) < stops[i])
            trace_read(t, s, next_cut(seed, weir_sequence_length(s), stops[i]), rng_below(seed, 3) == 0, what);
}

/* Reading, a snapshot on either side of the border, going back to it, and a fork that reads on. */
static void run_schedule(const trace *t, const char *isa, uint32_t threads, uint64_t seed)
{
    char           what[64];
    weir_error     err;
    weir_snapshot *before, *behind;
    weir_sequence *fork;
    weir_engine   *e = engine_of(t->m, t->kv, t->kv_start, isa, threads);
    weir_sequence *s = sequence_on(e);
    (void)snprintf(what, sizeof what, "%s, %u threads, seed %u", isa, threads, (unsigned)seed);
    read_to(t, s, 192, &seed, what);
    must(weir_sequence_snapshot(s, &before, &err), &err);
    read_to(t, s, 300, &seed, what);
    must(weir_sequence_snapshot(s, &behind, &err), &err);
    read_to(t, s, 340, &seed, what);
    must(weir_sequence_rewind(s, behind, &err), &err);
    read_to(t, s, 320, &seed, what);
    must(weir_sequence_rewind(s, before, &err), &err);
    must(weir_sequence_fork(&fork, s, &err), &err);
    read_to(t, fork, 340, &seed, what);
    read_to(t, s, 340, &seed, what);
    weir_snapshot_free(before);
    weir_snapshot_free(behind);
    weir_sequence_free(fork);
    weir_sequence_free(s);
    weir_engine_close(e);
}

static void check_schedules(const char *form)
{
    trace        t;
    const char  *names[MAX_ISAS];
    const size_t n_isas = isas(names);
    weir_model  *m      = model_named("tiny-odd");
    trace_make_from(&t, m, form, START, 61, stops, N_STOPS);
    run_schedule(&t, names[0], 2, 1);
    for (size_t i = 1; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= MAX_THREADS; threads++)
            run_schedule(&t, names[i], threads, 10 * i + threads);
    trace_free(&t);
    weir_model_close(m);
}

static void test_schedules(void **given)
{
    (void)given;
    check_schedules(kv);
    check_schedules(turbo);
}

/* Rows of logits of n tokens in one engine; free(). */
static float *rows_of(const weir_model *m, const char *form, uint32_t start, const uint32_t *ids, uint32_t n)
{
    weir_engine   *e     = engine_of(m, form, start, NULL, 1);
    weir_sequence *s     = sequence_on(e);
    const size_t   vocab = e->m.config.vocab_size;
    float         *rows  = malloc(n * vocab * sizeof *rows);
    assert_non_null(rows);
    for (uint32_t i = 0; i < n; i++) {
        append(s, &ids[i], 1);
        memcpy(rows + i * vocab, weir_sequence_logits(s), vocab * sizeof *rows);
    }
    weir_sequence_free(s);
    weir_engine_close(e);
    return rows;
}

/* The first position that the two runs see differently. */
static uint32_t first_difference(const float *a, const float *b, uint32_t n, size_t vocab)
{
    uint32_t i = 0;
    while (i < n && memcmp(a + i * vocab, b + i * vocab, vocab * sizeof *a) == 0) i++;
    return i;
}

static void test_border(void **given)
{
    (void)given;
    const uint32_t n     = stops[N_STOPS - 1];
    weir_model    *m     = model_named("tiny-odd");
    const size_t   vocab = 300;
    uint32_t      *ids   = random_ids(m, n, 62);
    float *bf16 = rows_of(m, "bf16", 0, ids, n), *none = rows_of(m, kv, 0, ids, n), *one = rows_of(m, kv, 1, ids, n);
    float *all = rows_of(m, kv, n, ids, n), *exact = rows_of(m, kv, BORDER, ids, n);
    assert_int_equal(first_difference(bf16, none, n, vocab), 0);
    assert_int_equal(first_difference(bf16, one, n, vocab), BORDER);
    assert_int_equal(first_difference(one, exact, n, vocab), n); /* rounded up */
    assert_int_equal(first_difference(bf16, all, n, vocab), n);  /* 340 are in 512 */
    free(ids);
    free(bf16);
    free(none);
    free(one);
    free(all);
    free(exact);
    weir_model_close(m);
}

/* What is said to be taken: pages of two kinds, and enough of both for every sequence. */
static void test_fit(void **given)
{
    (void)given;
    weir_error          err;
    weir_fit            fit, plain;
    weir_model         *m   = model_named("tiny-odd"); /* 2 attention layers, 2 heads of 64 */
    weir_engine_options opt = {.size = sizeof opt, .kv = "affine8,affine4-32", .max_context = 1000, .max_sequences = 3};
    const uint64_t      row = 2 * 2 * ((64 + 4) + (32 + 8)), bf16 = 2 * 2 * (128 + 128);
    must(weir_engine_fit(m, &opt, &plain, &err), &err);
    assert_int_equal(plain.kv_bytes_per_token, row);
    assert_int_equal(plain.kv_start_bytes, 0);
    opt.kv_start = 257;
    must(weir_engine_fit(m, &opt, &fit, &err), &err);
    assert_int_equal(fit.kv_bytes_per_token, row);
    assert_int_equal(fit.kv_start_bytes, 512 * bf16);
    assert_int_equal(fit.total_bytes - plain.total_bytes, 3 * 512 * (bf16 - row));
    opt.max_context = 300; /* five pages, all of them early */
    must(weir_engine_fit(m, &opt, &fit, &err), &err);
    assert_int_equal(fit.kv_start_bytes, 320 * bf16);
    /* All sequences at their longest. */
    opt.max_context    = 600;
    weir_engine   *e   = engine_with(m, opt);
    uint32_t      *ids = random_ids(m, 600, 63);
    weir_sequence *s[3];
    for (int i = 0; i < 3; i++) s[i] = sequence_on(e), append(s[i], ids, 600);
    for (int i = 0; i < 3; i++) weir_sequence_free(s[i]);
    weir_engine_close(e);
    opt.kv = "bf16";
    assert_int_equal(weir_engine_fit(m, &opt, &fit, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "kv_start: expected 0"));
    free(ids);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules), cmocka_unit_test(test_border),
                                       cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests_name("exact kv start", tests, NULL, NULL);
}
