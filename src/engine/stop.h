/* engine/stop.h - finds stop strings in a stream of bytes.
 *
 * Text goes in as it is made, in pieces of any size, and comes out again as soon
 * as it is certain not to belong to a stop string: a tail that could still
 * become one is held back.  The match that ends earliest wins, the longest of
 * those that end together.  How the text was cut into pieces does not change
 * the sum of what comes out.
 *
 * One matcher serves one stream on one thread. */
#ifndef ENGINE_STOP_H
#define ENGINE_STOP_H

#include "weir/base.h"

#include <stdbool.h>

enum { STOP_MAX_STRINGS = 16, STOP_MAX_BYTES = 1024 };

typedef struct stop_string {
    const char *bytes;
    size_t      len;
} stop_string;

typedef struct stop_pattern {
    const uint8_t  *bytes;
    const uint16_t *border; /* [len + 1] */
    uint16_t        len, matched;
    uint32_t        index; /* in the caller's list */
} stop_pattern;

typedef struct stop_matcher {
    stop_pattern pattern[STOP_MAX_STRINGS];
    uint32_t     n;
    bool         include; /* the match itself is text too */
    bool         stopped;
    void        *memory;
} stop_matcher;

/* What may be shown now: first `held`, bytes that an earlier call kept back,
 * then the first n_piece bytes of the piece just given.  `held` lies in the
 * matcher and stays valid as long as it. */
typedef struct stop_output {
    const char *held;
    size_t      n_held, n_piece;
    bool        stopped; /* a stop string was found; nothing more will come out */
    uint32_t    which;   /* its index in the list given to stop_init */
} stop_output;

/* Copies n strings; empty ones are dropped.  WEIR_INVALID for more than 16, or
 * one of more than 1024 bytes.  `include`: also give out the match itself. */
weir_status stop_init(stop_matcher *m, const stop_string *strings, size_t n, bool include, weir_error *err);
void        stop_free(stop_matcher *m); /* all zero is allowed */

/* Takes the next n bytes.  After a match everything is swallowed. */
stop_output stop_push(stop_matcher *m, const char *piece, size_t n);

/* The stream ended without a match: gives out what is held back. */
stop_output stop_finish(stop_matcher *m);

/* Ready for a new stream with the same strings. */
void stop_reset(stop_matcher *m);

#endif
