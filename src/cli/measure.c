/* cli/measure.c - timing; see measure.h.
 *
 * Floors: a step must read the weights a token uses, the cached keys and values,
 * and read and write the recurrent state; and it must do the multiply-adds of
 * its tokens (the head's only for the rows whose logits are made).  A run's
 * floor is the larger of both times.
 * Minimum and median are kept: the minimum is the code, the gap the neighbours.
 * The floors are measured again between the lines, and a line is compared with
 * those beside it: on a shared machine they move with the neighbours, too. */
#include "cli/measure.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WARM_UP = 32 };
static const double prefill_share = 0.25; /* of the budget */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

measure_run measure_least(const measure_plan *p, uint32_t sequences, uint32_t tokens, uint32_t depth, uint32_t heads)
{
    weir_model_info info;
    weir_model_get_info(p->model, &info);
    const double head = (double)info.vocab_size * (double)info.hidden_size;
    const double own  = 2.0 * (double)p->fit.snapshot_bytes + (double)p->fit.kv_bytes_per_token * (double)depth;
    return (measure_run){
        .least_bytes = (double)info.bytes_per_token + own * sequences,
        .least_macs  = ((double)info.macs_per_token - head) * tokens * sequences + head * heads,
    };
}

void measure_add(measure_report *out, measure_run r, uint32_t per_call, const measure_samples *s)
{
    if (s->n == 0 || out->n == MEASURE_MAX_RUNS) return;
    measure_samples sorted = *s;
    r.ms_median            = measure_median(sorted.ms, sorted.n);
    r.ms_min               = sorted.ms[0];
    r.tps                  = 1e3 * per_call / r.ms_median;
    r.last_floor           = out->n_floors - 1;
    out->runs[out->n++]    = r;
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

bool measure_time_left(const measure_plan *p, double share)
{
    return (double)(clock_ns() - p->start) * 1e-9 < share * p->budget;
}

weir_status measure_machine(const measure_plan *p, measure_report *out, weir_error *err)
{
    note_memory(out);
    if (out->n_floors == MEASURE_MAX_FLOORS) return WEIR_OK;
    measure_floor *f = &out->floors[out->n_floors];
    TRY(weir_measure_floor(p->threads, p->isa, &f->read_gbps, &f->fma_gflops, err));
    out->n_floors++;
    return terminal_interrupted() ? status_fail(err, WEIR_CANCELLED, "interrupted") : WEIR_OK;
}

void measure_finish(measure_report *report, measure_floor *floors)
{
    double read[MEASURE_MAX_FLOORS], fma[MEASURE_MAX_FLOORS];
    for (size_t i = 0; i < report->n; i++) {
        measure_run *r    = &report->runs[i];
        double       gbps = 0, gflops = 0;
        const double n = (double)(r->last_floor - r->first_floor + 1);
        for (size_t j = r->first_floor; j <= r->last_floor; j++) {
            gbps += report->floors[j].read_gbps / n;
            gflops += report->floors[j].fma_gflops / n;
        }
        const double bytes_ms = r->least_bytes / (gbps * 1e6), macs_ms = 2.0 * r->least_macs / (gflops * 1e6);
        r->floor_fraction = (bytes_ms > macs_ms ? bytes_ms : macs_ms) / r->ms_median;
    }
    for (size_t i = 0; i < report->n_floors; i++) {
        read[i] = report->floors[i].read_gbps;
        fma[i]  = report->floors[i].fma_gflops;
    }
    *floors = (measure_floor){measure_median(read, report->n_floors), measure_median(fma, report->n_floors)};
}

weir_status measure_load(const measure_plan *p, double seconds, measure_report *out, weir_error *err)
{
    const measure_samples s = {.ms = {seconds * 1e3}, .n = 1};
    TRY(measure_machine(p, out, err)); /* the load is over: one measurement stands for both sides */
    measure_add(out, (measure_run){.kind = "load", .batch = 1, .least_bytes = (double)p->fit.weights_bytes}, 0, &s);
    return WEIR_OK;
}

uint32_t measure_token(const measure_plan *p, uint32_t i)
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

/* Appends the next n tokens of the text; adds the time to `s` unless NULL. */
static weir_status append_timed(const measure_plan *p, weir_sequence *seq, uint32_t n, measure_samples *s,
                                weir_error *err)
{
    uint32_t *ids = mem_alloc(n, sizeof *ids);
    if (ids == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    for (uint32_t i = 0; i < n; i++) ids[i] = measure_token(p, weir_sequence_length(seq) + i);
    const uint64_t    start = clock_ns();
    const weir_status st    = weir_sequence_append(seq, ids, n, go_on, NULL, err);
    if (s != NULL && s->n < MEASURE_MAX_SAMPLES) s->ms[s->n++] = (double)(clock_ns() - start) * 1e-6;
    mem_free(ids);
    if (st == WEIR_OK && terminal_interrupted()) return status_fail(err, WEIR_CANCELLED, "interrupted");
    return st;
}

/* Prompts of n tokens, again and again; leaves the last in the sequence. */
static weir_status measure_prefill(const measure_plan *p, weir_sequence *seq, uint32_t n, measure_report *out,
                                   weir_error *err)
{
    measure_samples s = {0};
    measure_run     r = measure_least(p, 1, n, 0, 1);
    r.kind            = "prefill";
    r.tokens          = n;
    r.batch           = 1;
    r.first_floor     = out->n_floors - 1;
    for (uint32_t i = 0; i < p->repeats && (i == 0 || measure_time_left(p, prefill_share)); i++) {
        weir_sequence_reset(seq);
        TRY(append_timed(p, seq, n, &s, err));
    }
    TRY(measure_machine(p, out, err));
    measure_add(out, r, n, &s);
    return WEIR_OK;
}

/* Single tokens behind `depth` of them. */
static weir_status measure_decode(const measure_plan *p, weir_sequence *seq, uint32_t depth, measure_report *out,
                                  weir_error *err)
{
    measure_samples s           = {0};
    const size_t    first_floor = out->n_floors - 1;
    weir_sequence_reset(seq);
    TRY(append_timed(p, seq, depth, NULL, err));
    for (uint32_t i = 0; i < MEASURE_DECODE && (i < 2 || measure_time_left(p, 1.0)); i++)
        TRY(append_timed(p, seq, 1, &s, err));
    measure_run r = measure_least(p, 1, 1, depth + (uint32_t)s.n / 2, 1);
    r.kind        = "decode";
    r.tokens      = (uint32_t)s.n;
    r.depth       = depth;
    r.batch       = 1;
    r.first_floor = first_floor;
    TRY(measure_machine(p, out, err));
    measure_add(out, r, 1, &s);
    return WEIR_OK;
}

static weir_status measure_with(const measure_plan *p, weir_sequence *seq, measure_report *out, weir_error *err)
{
    weir_engine_info info;
    weir_engine_get_info(p->engine, &info);
    const uint32_t room    = info.max_context;
    const uint32_t prefill = room > MEASURE_PREFILL + MEASURE_DECODE ? MEASURE_PREFILL : room / 2;
    TRY(append_timed(p, seq, prefill < WARM_UP ? prefill : WARM_UP, NULL, err));
    TRY(measure_prefill(p, seq, prefill, out, err));
    TRY(measure_steps(p, seq, out, err));
    return measure_decode(p, seq, 1, out, err);
}

static weir_status sequence_of(const measure_plan *p, weir_sequence **out, weir_error *err)
{
    TRY(weir_sequence_new(out, p->engine, err));
    const weir_status st = weir_sequence_set_adapters(*out, p->adapters, p->n_adapters, err);
    if (st != WEIR_OK) weir_sequence_free(*out);
    return st;
}

weir_status measure_all(const measure_plan *p, measure_report *out, weir_error *err)
{
    weir_sequence *seq;
    TRY(sequence_of(p, &seq, err));
    const weir_status st = measure_with(p, seq, out, err);
    weir_sequence_free(seq);
    return st;
}

weir_status measure_depth(const measure_plan *p, uint32_t depth, measure_report *out, weir_error *err)
{
    weir_sequence *seq;
    TRY(sequence_of(p, &seq, err));
    const weir_status st = measure_decode(p, seq, depth, out, err);
    weir_sequence_free(seq);
    return st;
}
