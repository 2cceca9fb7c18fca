/* cli/measure.h - times an engine's work and compares it with what the machine
 * could do at most. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include "base/status.h"
#include "weir/experimental.h"
#include "weir/sequence.h"

enum { MEASURE_PREFILL = 512, MEASURE_DECODE = 128, MEASURE_MAX_RUNS = 12 };

/* One line of the report. */
typedef struct measure_run {
    const char *kind;              /* "load", "prefill", "decode", "window" */
    uint32_t    tokens;            /* per call; of a decode run, how many calls of one token */
    uint32_t    depth, batch;      /* tokens read before; sequences at once */
    double      tps;               /* tokens per second, by the median */
    double      ms_median, ms_min; /* of a call */
    double      least_bytes;       /* memory a call must read and write */
    double      least_macs;        /* multiply-adds it must do */
    double      floor_fraction;    /* least possible time / median; set by measure_finish */
} measure_run;

/* What the machine can do at most, at one moment. */
typedef struct measure_floor {
    double read_gbps, fma_gflops;
} measure_floor;

/* What to measure and what it costs at least. */
typedef struct measure_plan {
    const weir_model *model;
    weir_engine      *engine;
    weir_sequence    *sequence;
    weir_fit          fit;
    uint32_t          repeats, depth; /* depth: one more place for decode, 0: none */
    uint64_t          deadline;       /* clock_ns; then the rest is cut short */
    uint32_t          threads;        /* for the floors, as the engine has them */
    const char       *isa;
} measure_plan;

typedef struct measure_report {
    measure_run   runs[MEASURE_MAX_RUNS];
    size_t        n;
    measure_floor floors[MEASURE_MAX_RUNS + 1]; /* floors[i] before line i, floors[i + 1] behind it */
    size_t        n_floors;
    uint64_t      peak_rss_bytes; /* of the measured work; measuring a floor takes memory of its own */
} measure_report;

/* Sets every line's floor_fraction, by the floors beside it, and *floors to
 * the medians of all. */
void measure_finish(measure_report *report, measure_floor *floors);

/* Adds the line of one load that took `seconds`, and the first floors. */
weir_status measure_load(const measure_plan *p, double seconds, measure_report *out, weir_error *err);
/* Adds prefill, decode and window lines.  WEIR_CANCELLED after Ctrl-C. */
weir_status measure_all(const measure_plan *p, measure_report *out, weir_error *err);

#endif
