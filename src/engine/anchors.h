/* engine/anchors.h - where a prompt leaves snapshots in the prefix cache.
 *
 * A recurrent state can be continued, not cut, so a later request gains from
 * the cache only what comes before a snapshot.  Conversations branch where
 * messages begin: above all before the assistant's turn, which the next request
 * renders without its thinking.  Inside long messages an anchor every
 * ANCHOR_STRIDE tokens bounds what an edit costs; where two prompts were seen
 * to part, others will part as well.  What is worth its memory is decided
 * later, by eviction (state/prefix_tree.h). */
#ifndef ENGINE_ANCHORS_H
#define ENGINE_ANCHORS_H

#include "weir/base.h"

#include <stdbool.h>

enum {
    ANCHOR_STRIDE  = 256,
    ANCHOR_SPACING = 64 /* message boundaries nearer than this to the last anchor get none, but the last one */
};

/* Lengths at which the sequence is to be stored, ascending. */
typedef struct anchors {
    uint32_t *at;
    uint32_t  n, next, capacity; /* next: the first not yet reached */
} anchors;

/* The prompt's anchors after the first `from` tokens.  message_start: the id that
 * begins a message (UINT32_MAX: none); parted: where the prompt left what the
 * cache knows. */
weir_status anchors_plan(anchors *a, const uint32_t *prompt, uint32_t n_prompt, uint32_t from, uint32_t parted,
                         uint32_t message_start, weir_error *err);
/* One more; lost when there is no memory for it. */
void anchors_add(anchors *a, uint32_t at);
void anchors_free(anchors *a); /* all zero is allowed */

/* How many tokens may be read at `length` before the next anchor; UINT32_MAX: no more anchors. */
uint32_t anchors_distance(const anchors *a, uint32_t length);
/* True when `length` is an anchor; moves on. */
bool anchors_reached(anchors *a, uint32_t length);

#endif
