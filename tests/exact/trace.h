/* tests/exact/trace.h - the dullest run of a list of tokens, to compare others with.
 *
 * One sequence, one token at a time, one thread, scalar code: the logits at
 * every position, and at some lengths ("stops") all that the sequence
 * remembers.  Comparisons are memcmp; a difference fails the test. */
#ifndef EXACT_TRACE_H
#define EXACT_TRACE_H

#include "support/cmocka.h"
#include "support/engines.h"
#include "support/rng.h"

enum { MAX_STOPS = 16 };

typedef struct trace {
    const weir_model *m;
    const char       *kv;
    uint32_t          kv_start;
    uint32_t          n, vocab;
    uint32_t         *ids;    /* [n] */
    float            *logits; /* [n, vocab]: row i after tokens 0 .. i */
    uint32_t          n_stops, stops[MAX_STOPS];
    uint8_t          *remembered[MAX_STOPS];
} trace;

/* Random tokens from the seed.  `stops` ascending, at most n; the last one is where the run ends. */
void trace_make(trace *t, const weir_model *m, const char *kv, uint64_t seed, const uint32_t *stops, uint32_t n_stops);
/* The same with a kv_start. */
void trace_make_from(trace *t, const weir_model *m, const char *kv, uint32_t kv_start, uint64_t seed,
                     const uint32_t *stops, uint32_t n_stops);
void trace_free(trace *t);

/* `what` describes the run compared, for the message. */
void trace_check_logits(const trace *t, uint32_t position, const float *logits, const char *what);
/* Convolution tails, recurrent states, keys and values of `q` at its length;
 * nothing when that is not a stop. */
void trace_check_state(const trace *t, const weir_engine *e, const sequence *q, const char *what);
/* Both, for a public sequence that is not empty. */
void trace_check(const trace *t, const weir_sequence *s, const char *what);

/* A comparison of the logits of weir_sequence_score; counts rows in *rows. */
typedef struct trace_rows {
    const trace *t;
    const char  *what;
    uint32_t     rows;
} trace_rows;
bool trace_check_rows(void *user, const weir_rows *rows);

/* The next n tokens of the trace into s, in one append or one score, compared. */
void trace_read(const trace *t, weir_sequence *s, uint32_t n, bool score, const char *what);

#endif
