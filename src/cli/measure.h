/* cli/measure.h - times an engine's work and compares it with what the machine
 * could do at most. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include "base/status.h"
#include "cli/args.h"
#include "weir/experimental.h"
#include "weir/sequence.h"

enum {
    MEASURE_PREFILL    = 512,
    MEASURE_DECODE     = 128, /* most tokens read behind a depth */
    MEASURE_MAX_RUNS   = 2 * ARG_LIST_MAX + 5,
    MEASURE_MAX_FLOORS = 16
};

/* One line of the report. */
typedef struct measure_run {
    const char *kind;               /* "load", "prefill", "decode", "window" */
    uint32_t    tokens;             /* per call; of a decode run, how many steps */
    uint32_t    depth, batch;       /* tokens read before; sequences at once */
    double      tps;                /* tokens per second, by the median */
    double      ms_median, ms_min;  /* of a call */
    double      ratio;              /* of a batch: tokens a second over those of batch 1; of a window: time over
                                       that of one step; 0 elsewhere.  The median over rounds */
    double least_bytes;             /* memory a call must read and write */
    double least_macs;              /* multiply-adds it must do */
    size_t first_floor, last_floor; /* measured beside it */
    double floor_fraction;          /* least possible time / median; set by measure_finish */
} measure_run;

/* What the machine can do at most, at one moment. */
typedef struct measure_floor {
    double read_gbps, fma_gflops;
} measure_floor;

/* What to measure and what it costs at least. */
typedef struct measure_plan {
    const weir_model          *model;
    weir_engine               *engine;
    weir_fit                   fit;
    uint32_t                   repeats;
    const weir_adapter_choice *adapters; /* n_adapters of the engine's, for all sequences */
    size_t                     n_adapters;
    const arg_numbers         *batches, *windows; /* of measure_all; batch 1 is measured in any case */
    uint64_t                   start;             /* clock_ns, of the budget */
    double                     budget;            /* seconds; then the rest is cut short */
    uint32_t                   threads;           /* for the floors, as the engine has them */
    const char                *isa;
} measure_plan;

typedef struct measure_report {
    measure_run   runs[MEASURE_MAX_RUNS];
    size_t        n;
    measure_floor floors[MEASURE_MAX_FLOORS];
    size_t        n_floors;
    uint64_t      peak_rss_bytes; /* of the measured work; measuring a floor takes memory of its own */
} measure_report;

/* Sets every line's floor_fraction, by the floors beside it, and *floors to
 * the medians of all. */
void measure_finish(measure_report *report, measure_floor *floors);

/* Adds the line of one load that took `seconds`, and the first floors. */
weir_status measure_load(const measure_plan *p, double seconds, measure_report *out, weir_error *err);
/* Adds prefill, batches, windows, and decoding from the beginning.  The engine
 * has room for the largest batch, and a draft source for the windows.
 * WEIR_CANCELLED after Ctrl-C. */
weir_status measure_all(const measure_plan *p, measure_report *out, weir_error *err);
/* Adds decoding behind `depth` tokens. */
weir_status measure_depth(const measure_plan *p, uint32_t depth, measure_report *out, weir_error *err);

/* ---- for measure_steps.c ---- */

/* Times of one kind of call, in milliseconds. */
enum { MEASURE_MAX_SAMPLES = 256 };
typedef struct measure_samples {
    double ms[MEASURE_MAX_SAMPLES];
    size_t n;
} measure_samples;

/* Adds a line: kind, tokens, depth, batch and the least work are in `r`; a call
 * gives `per_call` tokens; floors are those from r.first_floor to the latest. */
void measure_add(measure_report *out, measure_run r, uint32_t per_call, const measure_samples *s);
/* What a step of `sequences` times `tokens` tokens at `depth` cannot do without;
 * `heads` rows have their logits made. */
measure_run measure_least(const measure_plan *p, uint32_t sequences, uint32_t tokens, uint32_t depth, uint32_t heads);
/* True until this share (0 to 1) of the budget is spent. */
bool measure_time_left(const measure_plan *p, double share);
/* Measures the floors now. */
weir_status measure_machine(const measure_plan *p, measure_report *out, weir_error *err);
/* Token `i` of the measured text: spread over the vocabulary, always the same. */
uint32_t measure_token(const measure_plan *p, uint32_t i);
/* The middle one of n >= 1 numbers; sorts them. */
double measure_median(double *x, size_t n);
/* Interleaved steps of batches and windows from where `s` is. */
weir_status measure_steps(const measure_plan *p, weir_sequence *s, measure_report *out, weir_error *err);

#endif
