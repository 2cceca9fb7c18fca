/* tests/unit/state/made_sequences.h - sequences whose bytes are a function of their
 * tokens, so that a wrong page or a wrong state is seen, and a tree that is checked
 * against what it should be. */
#ifndef STATE_MADE_SEQUENCES_H
#define STATE_MADE_SEQUENCES_H

#include "state/prefix_parts.h"

enum { MOST_SEQUENCES = 6, MOST_POSITIONS = 2048, MOST_PAGES = 4096 };

typedef struct world {
    kernels     *k;
    state       *s;
    prefix_tree *t;
    sequence    *q[MOST_SEQUENCES];
    weir_error   err;
} world;

/* The tokens of an anchor. */
typedef struct text {
    uint32_t n, ids[MOST_POSITIONS];
} text;

/* With carry, the last attention layer is MTP's. */
void world_open(world *w, uint32_t pages, uint32_t snapshots, bool carry);
/* Everything was given back. */
void world_close(world *w);

void world_make(world *w, int i, uint32_t positions);
void world_drop(world *w, int i);
/* Reads n ids as a step would: pages, then state. */
void world_run(world *w, int i, const uint32_t *ids, uint32_t n);
/* Sequence i has the bytes that its tokens give. */
void world_check(world *w, int i);

/* Makes sequence i, continues it from what the tree has of the text and reads the
 * rest; the positions that came from the tree. */
uint32_t world_read(world *w, int i, const text *x, uint32_t positions);

/* Every block, anchor, page and count of the tree is as it should be. */
void world_audit(world *w);
/* The anchors' tokens; n of them. */
uint32_t world_texts(const world *w, text *out);
bool     world_has(const world *w, const text *x);

#endif
