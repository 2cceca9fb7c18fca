/* cli/measure.c - timing; see measure.h.
 *
 * Floors: decoding must read the weights a token uses, the cached keys and
 * values, and read and write the recurrent state; a prompt must do the
 * multiply-adds of its tokens (the head's only for the last).  A run's floor is
 * the larger of both times.
 * Minimum and median are kept: the minimum is the code, the gap the neighbours.
 * The floors are measured again between the lines, and a line is compared with
 * those beside it: on a shared machine they move with the neighbours, too. */
#include "cli/measure.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WARM_UP = 32 };

/* Time samples in milliseconds. */
typedef struct samples {
    double ms[1024];
    size_t n;
} samples;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What `tokens` tokens at `depth` cannot do without; `heads` rows have their
 * logits computed. */
static measure_run least_work(const measure_plan *p, uint32_t tokens, uint32_t depth, uint32_t heads)
{
    weir_model_info info;
    weir_model_get_info(p->model, &info);
    const double head = (double)info.vocab_size * (double)info.hidden_size;
    return (measure_run){
        .least_bytes = (double)info.bytes_per_token + 2.0 * (double)p->fit.state_bytes_per_sequence +
                       (double)p->fit.kv_bytes_per_token * (double)depth,
        .least_macs = ((double)info.macs_per_token - head) * tokens + head * heads,
    };
}

/* Adds a line for calls of `per_call` tokens. */
static void add_run(measure_report *out, const char *kind, uint32_t tokens, uint32_t depth, uint32_t per_call,
                    measure_run least, samples *s)
{
    if (s->n == 0 || out->n == MEASURE_MAX_RUNS) return;
    qsort(s->ms, s->n, sizeof s->ms[0], by_value);
    least.kind          = kind;
    least.tokens        = tokens;
    least.depth         = depth;
    least.batch         = 1;
    least.ms_median     = s->ms[s->n / 2];
    least.ms_min        = s->ms[0];
    least.tps           = 1e3 * per_call / least.ms_median;
    out->runs[out->n++] = least;
}

/* Memory in use now. */
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE              *f     = fopen("/proc/self/statm", "re");
    if (f != NULL && fscanf(f, "%*u %llu", &pages) != 1) pages = 0;
    if (f != NULL) (void)fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void note_memory(measure_report *out)
{
    struct rusage u;
    uint64_t      now = resident_bytes();
    /* The system's own peak counts only until a floor has taken its memory. */
    if (out->n_floors == 0 && getrusage(RUSAGE_SELF, &u) == 0) now = (uint64_t)u.ru_maxrss * 1024u;
    if (now > out->peak_rss_bytes) out->peak_rss_bytes = now;
}

static weir_status measure_machine(const measure_plan *p, measure_report *out, weir_error *err)
{
    note_memory(out);
    if (out->n_floors > MEASURE_MAX_RUNS) return WEIR_OK;
    measure_floor *f = &out->floors[out->n_floors];
    TRY(weir_measure_floor(p->threads, p->isa, &f->read_gbps, &f->fma_gflops, err));
    out->n_floors++;
    return terminal_interrupted() ? status_fail(err, WEIR_CANCELLED, "interrupted") : WEIR_OK;
}

static double median_of(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

void measure_finish(measure_report *report, measure_floor *floors)
{
    double read[MEASURE_MAX_RUNS + 1], fma[MEASURE_MAX_RUNS + 1];
    for (size_t i = 0; i < report->n; i++) {
        measure_run         *r = &report->runs[i];
        const measure_floor *f = &report->floors[i];
        const double gbps = (f[0].read_gbps + f[1].read_gbps) / 2, gflops = (f[0].fma_gflops + f[1].fma_gflops) / 2;
        const double bytes_ms = r->least_bytes / (gbps * 1e6), macs_ms = 2.0 * r->least_macs / (gflops * 1e6);
        r->floor_fraction = (bytes_ms > macs_ms ? bytes_ms : macs_ms) / r->ms_median;
    }
    for (size_t i = 0; i < report->n_floors; i++) {
        read[i] = report->floors[i].read_gbps;
        fma[i]  = report->floors[i].fma_gflops;
    }
    *floors = (measure_floor){median_of(read, report->n_floors), median_of(fma, report->n_floors)};
}

weir_status measure_load(const measure_plan *p, double seconds, measure_report *out, weir_error *err)
{
    samples s = {.ms = {seconds * 1e3}, .n = 1};
    TRY(measure_machine(p, out, err));
    add_run(out, "load", 0, 0, 0, (measure_run){.least_bytes = (double)p->fit.weights_bytes}, &s);
    out->floors[out->n_floors++] = out->floors[0]; /* the load is over: one measurement stands for both sides */
    return WEIR_OK;
}

/* Token `i` of the measured text: spread over the vocabulary, always the same. */
static uint32_t token_at(const measure_plan *p, uint32_t i)
{
    weir_model_info info;
    weir_model_get_info(p->model, &info);
    return (uint32_t)((uint64_t)(i + 1) * 2654435761u % info.vocab_size);
}

static bool go_on(void *user, uint32_t done, uint32_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return !terminal_interrupted();
}

static bool take_rows(void *user, const weir_rows *rows)
{
    (void)user;
    (void)rows;
    return true;
}

/* Appends the next n tokens of the text; adds the time to `s` unless NULL. */
static weir_status append_timed(const measure_plan *p, uint32_t n, samples *s, weir_error *err)
{
    uint32_t *ids = mem_alloc(n, sizeof *ids);
    if (ids == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    for (uint32_t i = 0; i < n; i++) ids[i] = token_at(p, weir_sequence_length(p->sequence) + i);
    const uint64_t    start = clock_ns();
    const weir_status st    = weir_sequence_append(p->sequence, ids, n, go_on, NULL, err);
    if (s != NULL && s->n < sizeof s->ms / sizeof s->ms[0]) s->ms[s->n++] = (double)(clock_ns() - start) * 1e-6;
    mem_free(ids);
    if (st == WEIR_OK && terminal_interrupted()) return status_fail(err, WEIR_CANCELLED, "interrupted");
    return st;
}

/* Prompts of n tokens, again and again; leaves the last in the sequence. */
static weir_status measure_prefill(const measure_plan *p, uint32_t n, measure_report *out, weir_error *err)
{
    samples s = {0};
    for (uint32_t i = 0; i < p->repeats && (i == 0 || clock_ns() < p->deadline); i++) {
        weir_sequence_reset(p->sequence);
        TRY(append_timed(p, n, &s, err));
    }
    add_run(out, "prefill", n, 0, n, least_work(p, n, 0, 1), &s);
    return measure_machine(p, out, err);
}

/* Single tokens from where the sequence is. */
static weir_status measure_decode(const measure_plan *p, measure_report *out, weir_error *err)
{
    const uint32_t depth = weir_sequence_length(p->sequence);
    samples        s     = {0};
    for (uint32_t i = 0; i < MEASURE_DECODE && (i < 2 || clock_ns() < p->deadline); i++)
        TRY(append_timed(p, 1, &s, err));
    add_run(out, "decode", (uint32_t)s.n, depth, 1, least_work(p, 1, depth + (uint32_t)s.n / 2, 1), &s);
    return measure_machine(p, out, err);
}

/* All logits of n tokens at once, as a verification of drafts has it. */
static weir_status measure_window(const measure_plan *p, uint32_t n, const weir_snapshot *base, measure_report *out,
                                  weir_error *err)
{
    const uint32_t depth = weir_snapshot_length(base);
    uint32_t       ids[16];
    samples        s = {0};
    for (uint32_t i = 0; i < n; i++) ids[i] = token_at(p, depth + i);
    for (uint32_t i = 0; i < 2 * p->repeats && (i == 0 || clock_ns() < p->deadline); i++) {
        TRY(weir_sequence_rewind(p->sequence, base, err));
        const uint64_t start = clock_ns();
        TRY(weir_sequence_score(p->sequence, ids, n, false, take_rows, NULL, err));
        if (terminal_interrupted()) return status_fail(err, WEIR_CANCELLED, "interrupted");
        s.ms[s.n++] = (double)(clock_ns() - start) * 1e-6;
    }
    add_run(out, "window", n, depth, n, least_work(p, n, depth, n), &s);
    return measure_machine(p, out, err);
}

/* Everything that begins where the prefill ended; the windows first. */
static weir_status measure_from(const measure_plan *p, const weir_snapshot *base, measure_report *out, weir_error *err)
{
    TRY(measure_window(p, 4, base, out, err));
    TRY(measure_window(p, 8, base, out, err));
    TRY(weir_sequence_rewind(p->sequence, base, err));
    return measure_decode(p, out, err);
}

weir_status measure_all(const measure_plan *p, measure_report *out, weir_error *err)
{
    weir_engine_info info;
    weir_engine_get_info(p->engine, &info);
    const uint32_t room    = info.max_context;
    const uint32_t prefill = room > MEASURE_PREFILL + MEASURE_DECODE ? MEASURE_PREFILL : room / 2;
    weir_sequence_reset(p->sequence);
    TRY(append_timed(p, prefill < WARM_UP ? prefill : WARM_UP, NULL, err));
    TRY(measure_prefill(p, prefill, out, err));

    weir_snapshot *base;
    TRY(weir_sequence_snapshot(p->sequence, &base, err));
    const weir_status st = measure_from(p, base, out, err);
    weir_snapshot_free(base);
    TRY(st);

    weir_sequence_reset(p->sequence);
    TRY(append_timed(p, 1, NULL, err));
    TRY(measure_decode(p, out, err));

    if (p->depth == 0) return WEIR_OK;
    weir_sequence_reset(p->sequence);
    TRY(append_timed(p, p->depth, NULL, err));
    return measure_decode(p, out, err);
}
