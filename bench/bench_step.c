/* bench/bench_step.c - what a whole step costs, by its rows, beside a step of one row.
 *
 *   bench_step [shape [format [isa [threads]]]]      default: 0.8b affine4, the best set, all cores
 *
 * A window is rows of one sequence, as when drafts are checked; a batch is one
 * row each of several sequences.  Every row gets logits.  Steps are not
 * committed, so that all rounds run at one length.  Prints tab-separated: step,
 * minimum and median milliseconds, both in steps of one row, and the mean of some
 * operations.  The steps take
 * turns within a round, so that a neighbour's noise hits all of them. */
#include "base/clock.h"
#include "engine/engine_parts.h"
#include "weir/experimental.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, MAX_ROWS = 8, LENGTH = 32 };

typedef struct step_case {
    const char *name;
    uint32_t    sequences, rows; /* rows of each sequence */
} step_case;

static const step_case cases[] = {
    {"1 row", 1, 1},      {"window of 2", 1, 2}, {"window of 4", 1, 4}, {"window of 8", 1, 8},
    {"batch of 2", 2, 1}, {"batch of 4", 4, 1},  {"batch of 8", 8, 1},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Prints the error and leaves: a benchmark has nobody to report to. */
static void must(weir_status st, const weir_error *err)
{
    if (st == WEIR_OK) return;
    (void)fprintf(stderr, "bench_step: %s\n", err->text);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- where the time goes ---- */

/* Operations of the backend that are timed by themselves. */
typedef enum part { LINEAR, DELTA, CONV, ATTENTION, PARTS_N } part;
static const char *const part_names[PARTS_N] = {"linear", "delta", "conv", "attention"};
static kernels           plain; /* the backend's own table */
static uint64_t          spent[PARTS_N];

static void timed_linear(kernels *k, const k_buf *x, uint32_t rows, const k_linear_job *jobs, uint32_t n)
{
    const uint64_t start = clock_ns();
    plain.linear(k, x, rows, jobs, n);
    spent[LINEAR] += clock_ns() - start;
}

static void timed_delta(kernels *k, k_buf *y, k_buf *qkv, k_buf *a, k_buf *b, const k_buf *rate, const k_buf *bias,
                        k_buf *st)
{
    const uint64_t start = clock_ns();
    plain.delta(k, y, qkv, a, b, rate, bias, st);
    spent[DELTA] += clock_ns() - start;
}

static void timed_conv(kernels *k, k_buf *y, const k_buf *qkv, const k_buf *taps, k_buf *tail)
{
    const uint64_t start = clock_ns();
    plain.conv(k, y, qkv, taps, tail);
    spent[CONV] += clock_ns() - start;
}

static void timed_attention(kernels *k, k_buf *y, k_buf *qg, k_buf *keys, const k_buf *values, const k_buf *q_gain,
                            const k_buf *k_gain, const k_cache *cache)
{
    const uint64_t start = clock_ns();
    plain.attention(k, y, qg, keys, values, q_gain, k_gain, cache);
    spent[ATTENTION] += clock_ns() - start;
}

static void time_parts(kernels *k)
{
    plain        = *k;
    k->linear    = timed_linear;
    k->delta     = timed_delta;
    k->conv      = timed_conv;
    k->attention = timed_attention;
}

/* One step of the first sequences, logits for all its rows; milliseconds. */
static double run_step(weir_engine *e, sequence *const *q, const step_case *c)
{
    static const uint32_t ids[MAX_ROWS] = {11, 222, 3333, 44444, 5, 66, 777, 8888};
    static const uint32_t all[MAX_ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    k_span                spans[MAX_ROWS];
    weir_error            err;
    const uint32_t        rows = c->sequences * c->rows;
    for (uint32_t i = 0; i < c->sequences; i++)
        must(sequence_span(q[i], ids + i * c->rows, c->rows, i * c->rows, &spans[i], &err), &err);
    const k_step   step  = {.n_rows = rows, .n_spans = c->sequences, .ids = ids, .spans = spans};
    const uint64_t start = clock_ns();
    model_forward(&e->m, e->k, &step, e->st, &e->w, NULL);
    model_head(&e->m, e->k, &e->w, all, rows);
    must(e->k->finish(e->k, &err), &err);
    return (double)(clock_ns() - start) / 1e6;
}

static void measure(weir_engine *e, sequence *const *q)
{
    static double ms[N_CASES][ROUNDS], parts[N_CASES][PARTS_N];
    for (int r = -1; r < ROUNDS; r++) /* the first round warms up */
        for (size_t c = 0; c < N_CASES; c++) {
            memset(spent, 0, sizeof spent);
            ms[c][r < 0 ? 0 : r] = run_step(e, q, &cases[c]);
            for (int p = 0; p < PARTS_N && r >= 0; p++) parts[c][p] += (double)spent[p] * 1e-6 / ROUNDS;
        }
    puts("step\tms min\tms median\tsteps min\tsteps median\tmean ms of parts");
    for (size_t c = 0; c < N_CASES; c++) {
        qsort(ms[c], ROUNDS, sizeof ms[c][0], by_value);
        (void)printf("%s\t%.2f\t%.2f\t%.2f\t%.2f", cases[c].name, ms[c][0], ms[c][ROUNDS / 2], ms[c][0] / ms[0][0],
                     ms[c][ROUNDS / 2] / ms[0][ROUNDS / 2]);
        for (int p = 0; p < PARTS_N; p++) (void)printf("%s%s %.1f", p == 0 ? "\t" : ", ", part_names[p], parts[c][p]);
        (void)putchar('\n');
    }
}

int main(int argc, char **argv)
{
    weir_error          err;
    weir_model         *m;
    weir_engine        *e;
    sequence           *q[MAX_ROWS];
    const step_case     fill = {"", 1, MAX_ROWS};
    weir_engine_options opt  = WEIR_ENGINE_OPTIONS_INIT;
    opt.max_context          = LENGTH + MAX_ROWS;
    opt.max_sequences        = MAX_ROWS;
    opt.chunk                = MAX_ROWS;
    opt.isa                  = argc > 3 ? argv[3] : NULL;
    opt.threads              = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    must(weir_model_random(&m, argc > 1 ? argv[1] : "0.8b", argc > 2 ? argv[2] : "affine4", 1, &err), &err);
    must(weir_engine_open(&e, m, &opt, &err), &err);
    for (uint32_t i = 0; i < MAX_ROWS; i++) must(sequence_new(&q[i], e->st, 0, &err), &err);
    for (uint32_t i = 0; i < MAX_ROWS; i++)
        for (uint32_t n = 0; n < LENGTH; n += MAX_ROWS) {
            (void)run_step(e, &q[i], &fill);
            sequence_commit(q[i], MAX_ROWS);
        }
    time_parts(e->k);
    (void)printf("# %s, %u threads\n", e->info.isa, e->info.threads);
    measure(e, q);
    for (uint32_t i = 0; i < MAX_ROWS; i++) sequence_free(q[i]);
    weir_engine_close(e);
    weir_model_close(m);
    return 0;
}
