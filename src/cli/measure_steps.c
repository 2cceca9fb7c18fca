/* cli/measure_steps.c - steps of several sequences, and windows of one: what
 * batching gains, and what checking drafts costs.
 *
 * They are measured in turn, a step of each kind after the other, round after
 * round: what disturbs the machine for a while disturbs all kinds alike.  Ratios
 * are those of steps of one round, and the median of them counts.
 *
 * The sequences begin with the same tokens and so share their pages of keys and
 * values; their recurrent states are their own.  Of a window all tokens but the
 * last stay, so that what a wrong draft costs is in its time. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/measure.h"
#include "cli/terminal.h"

enum { ROUNDS_PER_REPEAT = 8, LEAST_ROUNDS = 3 };
static const uint64_t floor_every_ns = 10ull * 1000 * 1000 * 1000;
static const double   steps_share    = 0.8; /* of the budget, with what came before */

/* One kind of step. */
typedef struct kind {
    uint32_t        batch, tokens; /* sequences, and tokens of each */
    measure_samples s;
} kind;

typedef struct rounds {
    const measure_plan  *p;
    weir_sequence      **sequences; /* [n]; [0] is the caller's */
    uint32_t             n;
    const weir_snapshot *base;
    uint32_t             longest; /* then they go back to `base` */
    uint32_t            *ids;     /* [most tokens of a step] */
    kind                *kinds;   /* [n_kinds]; [0] is a single token */
    size_t               n_kinds, done;
} rounds;

static uint32_t keep_of(const kind *k)
{
    return k->tokens > 1 ? k->tokens - 1 : 1;
}

static weir_status step(rounds *r, kind *k, weir_error *err)
{
    if (terminal_interrupted()) return status_fail(err, WEIR_CANCELLED, "interrupted");
    if (weir_sequence_length(r->sequences[0]) + k->tokens > r->longest)
        for (uint32_t i = 0; i < r->n; i++) TRY(weir_sequence_rewind(r->sequences[i], r->base, err));
    for (uint32_t i = 0; i < k->batch * k->tokens; i++)
        r->ids[i] = measure_token(r->p, weir_sequence_length(r->sequences[0]) + i * 7);
    double seconds;
    TRY(weir_measure_step(r->sequences, k->batch, r->ids, k->tokens, keep_of(k), &seconds, err));
    k->s.ms[k->s.n++] = seconds * 1e3;
    return WEIR_OK;
}

/* The first round touches memory for the first time: it does not count. */
static weir_status warm_up(rounds *r, weir_error *err)
{
    for (size_t k = 0; k < r->n_kinds; k++) {
        TRY(step(r, &r->kinds[k], err));
        r->kinds[k].s.n = 0;
    }
    return WEIR_OK;
}

static weir_status run_rounds(rounds *r, measure_report *out, weir_error *err)
{
    const uint32_t wanted = r->p->repeats * ROUNDS_PER_REPEAT;
    const uint32_t most   = wanted < MEASURE_MAX_SAMPLES ? wanted : MEASURE_MAX_SAMPLES;
    uint64_t       last   = clock_ns();
    TRY(warm_up(r, err));
    for (; r->done < most && (r->done < LEAST_ROUNDS || measure_time_left(r->p, steps_share)); r->done++) {
        if (clock_ns() - last > floor_every_ns) {
            TRY(measure_machine(r->p, out, err));
            last = clock_ns();
        }
        for (size_t k = 0; k < r->n_kinds; k++) TRY(step(r, &r->kinds[k], err));
    }
    return measure_machine(r->p, out, err);
}

/* Against the single token of the same round. */
static double ratio_of(const rounds *r, const kind *k)
{
    double x[MEASURE_MAX_SAMPLES];
    for (size_t i = 0; i < r->done; i++) {
        const double one = r->kinds[0].s.ms[i];
        x[i]             = k->tokens > 1 ? k->s.ms[i] / one : k->batch * one / k->s.ms[i];
    }
    return measure_median(x, r->done);
}

static void report_rounds(const rounds *r, size_t first_floor, measure_report *out)
{
    const uint32_t depth = weir_snapshot_length(r->base), middle = (depth + r->longest) / 2;
    for (size_t i = 0; i < r->n_kinds; i++) {
        const kind *k    = &r->kinds[i];
        const bool  one  = k->tokens == 1;
        measure_run line = measure_least(r->p, k->batch, k->tokens, middle, k->batch * k->tokens);
        line.kind        = one ? "decode" : "window";
        line.tokens      = one ? (uint32_t)r->done : k->tokens;
        line.depth       = depth;
        line.batch       = k->batch;
        line.first_floor = first_floor;
        if (i > 0) line.ratio = ratio_of(r, k);
        measure_add(out, line, k->batch * k->tokens, &k->s);
    }
}

/* A single token first, then the batches, then the windows. */
static weir_status list_kinds(rounds *r, weir_error *err)
{
    const arg_numbers *batches = r->p->batches, *windows = r->p->windows;
    uint32_t           most = 1;
    r->kinds                = mem_zalloc(1 + batches->n + windows->n, sizeof *r->kinds);
    if (r->kinds == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    r->n                   = 1;
    r->kinds[r->n_kinds++] = (kind){.batch = 1, .tokens = 1};
    for (size_t i = 0; i < batches->n; i++) {
        if (batches->items[i] > 1) r->kinds[r->n_kinds++] = (kind){.batch = batches->items[i], .tokens = 1};
        if (batches->items[i] > r->n) r->n = batches->items[i];
    }
    for (size_t i = 0; i < windows->n; i++) r->kinds[r->n_kinds++] = (kind){.batch = 1, .tokens = windows->items[i]};
    for (size_t i = 0; i < r->n_kinds; i++) {
        const uint32_t rows = r->kinds[i].batch * r->kinds[i].tokens;
        if (rows > most) most = rows;
    }
    r->ids       = mem_alloc(most, sizeof *r->ids);
    r->sequences = mem_zalloc(r->n, sizeof *r->sequences);
    if (r->ids == NULL || r->sequences == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    return WEIR_OK;
}

static weir_status measure_kinds(rounds *r, weir_sequence *s, measure_report *out, weir_error *err)
{
    TRY(list_kinds(r, err));
    r->sequences[0] = s;
    for (uint32_t i = 1; i < r->n; i++) TRY(weir_sequence_fork(&r->sequences[i], s, err));
    const size_t first_floor = out->n_floors - 1;
    TRY(run_rounds(r, out, err));
    report_rounds(r, first_floor, out);
    return WEIR_OK;
}

weir_status measure_steps(const measure_plan *p, weir_sequence *s, measure_report *out, weir_error *err)
{
    weir_engine_info info;
    weir_snapshot   *base;
    weir_engine_get_info(p->engine, &info);
    TRY(weir_sequence_snapshot(s, &base, err));
    const uint32_t    depth = weir_sequence_length(s), left = info.max_context - depth;
    rounds            r  = {.p = p, .base = base, .longest = depth + (left < MEASURE_DECODE ? left : MEASURE_DECODE)};
    const weir_status st = measure_kinds(&r, s, out, err);
    for (uint32_t i = 1; r.sequences != NULL && i < r.n; i++) weir_sequence_free(r.sequences[i]);
    weir_snapshot_free(base);
    mem_free(r.sequences);
    mem_free(r.ids);
    mem_free(r.kinds);
    return st;
}
