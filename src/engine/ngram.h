/* engine/ngram.h - drafts by looking up what followed the last time.
 *
 * Prompt lookup: the last tokens of a sequence are searched for in the sequence
 * itself, and what followed them there is proposed as a draft.  Of all earlier
 * occurrences the one that agrees furthest back counts, over at least 3 and at
 * most 12 tokens; among equals the most recent.
 *
 * A token is appended in constant time and a draft found in constant time,
 * whatever the input.  The price: of the earlier occurrences of the last 8
 * tokens only the most recent 64 are compared, and when there are none, the most
 * recent 64 of the last 3 tokens.
 *
 * Everything is compared token by token, a hash only says where to look; but a
 * draft is a guess and verified by the model in any case.
 *
 * One index serves one sequence on one thread. */
#ifndef ENGINE_NGRAM_H
#define ENGINE_NGRAM_H

#include "weir/base.h"

#include <stdbool.h>

enum {
    NGRAM_SHORTEST   = 3,  /* tokens that must agree */
    NGRAM_LONG       = 8,  /* from here on a match is found among a match's own occurrences */
    NGRAM_LONGEST    = 12, /* agreeing further back does not make a match better */
    NGRAM_CANDIDATES = 64,
    NGRAM_LEVELS     = 2,
};

typedef struct ngram_index {
    uint32_t  n, capacity;
    uint32_t *tokens;                /* [capacity]: the sequence */
    uint32_t *earlier[NGRAM_LEVELS]; /* [capacity]: see ngram.c */
    uint32_t *latest[NGRAM_LEVELS];  /* [2 * capacity] */
    uint64_t  steps;                 /* slots probed, candidates taken and tokens compared so far: the work */
} ngram_index;

typedef struct ngram_match {
    uint32_t length; /* tokens that agree, 3..12; 0: there is no match */
    uint32_t next;   /* where the token after the earlier occurrence stands */
} ngram_match;

/* What an index for `capacity` tokens takes: 28 bytes a token. */
size_t ngram_bytes(uint32_t capacity);

/* An empty index that can hold 1 <= capacity <= 2^30 tokens (else
 * WEIR_INVALID).  Its memory is taken here and becomes resident as it fills. */
weir_status ngram_init(ngram_index *x, uint32_t capacity, weir_error *err);
void        ngram_free(ngram_index *x); /* all zero is allowed */

/* Appends a token.  False, and nothing happens, when the index is full. */
bool ngram_push(ngram_index *x, uint32_t id);

/* The best earlier occurrence of the last tokens pushed. */
ngram_match ngram_find(ngram_index *x);

/* Writes what followed that occurrence to out[0..max) and returns how many
 * tokens: max, or 0 without a match.  Where the text ends before the draft does
 * it is continued with the draft, so that a period goes on. */
uint32_t ngram_draft(ngram_index *x, uint32_t *out, uint32_t max);

#endif
