/* serve/metrics.h - counters, gauges and histograms, in Prometheus' text form.
 *
 * Names and buckets are those that dashboards for vLLM and llama.cpp ask for, where weir has
 * what they mean; every series is there from the start, with 0.  Any thread. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "base/str.h"
#include "weir/request.h"
#include "weir/toolcall.h"

typedef struct metrics metrics;

/* `model` labels the series (borrowed); NULL without memory. */
metrics *metrics_new(const char *model, uint32_t max_context);
void     metrics_free(metrics *m);

typedef enum metrics_finish {
    METRICS_STOP,
    METRICS_LENGTH,
    METRICS_ABORT,
    METRICS_ERROR,
    METRICS_FINISHES
} metrics_finish;

/* A request that is over; times in seconds. */
typedef struct metrics_request {
    metrics_finish finish;
    bool           began; /* it was read at all: what follows means something */
    uint32_t       prompt, cached, completion, max_tokens, n;
    uint32_t       drafted, accepted;
    double         queued, reading, replying, total; /* reading: until the first token */
} metrics_request;

void metrics_request_over(metrics *m, const metrics_request *r);
/* What a reply to a request with tools had of calls. */
void metrics_calls(metrics *m, const weir_toolcall_info *i);
/* Seconds from one token of a reply to its next. */
void metrics_gap(metrics *m, double seconds);

/* A step of the engine: tokens read and sampled in it. */
void metrics_step(metrics *m, double seconds, uint32_t read, uint32_t sampled);

/* How things stand now. */
typedef struct metrics_state {
    uint32_t        running, waiting;
    uint64_t        positions, pool; /* that running requests have, of the pool's */
    weir_cache_info cache;
} metrics_state;

void metrics_set_state(metrics *m, const metrics_state *s);
void metrics_get_state(metrics *m, metrics_state *out);
/* Seconds that a request took lately, on average; 0: none was over yet. */
double metrics_mean_seconds(metrics *m);

/* An answer went out; `path` is static: a route's, not the client's. */
void metrics_http(metrics *m, const char *path, unsigned status);

void metrics_text(metrics *m, str *out);

#endif
