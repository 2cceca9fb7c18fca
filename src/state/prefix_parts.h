/* state/prefix_parts.h - the structs behind prefix_tree.h, for this room. */
#ifndef STATE_PREFIX_PARTS_H
#define STATE_PREFIX_PARTS_H

#include "state/prefix_tree.h"
#include "state/state_parts.h"

enum { BLOCK_PAGES = PREFIX_BLOCK / K_PAGE };

/* Some tokens behind those of `parent`, and the pages they stand in. */
typedef struct prefix_node prefix_node;
struct prefix_node {
    prefix_node   *parent, *children;
    prefix_node   *next;   /* child of the same parent; free node */
    prefix_anchor *anchor; /* at `end`; NULL: none */
    uint32_t       end;    /* position behind the last token */
    uint32_t       n;      /* tokens: PREFIX_BLOCK, or fewer in a leaf with an anchor */
    uint32_t       pages[BLOCK_PAGES];
    uint32_t       tokens[PREFIX_BLOCK];
    uint8_t        origin[STORE_KEY_BYTES]; /* of all that begins with it */
};

/* A position to continue from.  Its state is anchor_snapshot's. */
struct prefix_anchor {
    prefix_node *at; /* NULL: not in use */
    prefix_anchor
            *shallower; /* the next one on the way to the root, also in a shorter block beside `at`; free anchor */
    uint64_t stored;    /* when; no two alike */
    uint64_t used;      /* when something on its path was last stored or adopted here or deeper */
    double   below;     /* while values are compared: recency of the anchors right below */
    bool     written;   /* on disk or on the way there, or not to be */
};

typedef struct prefix_disk prefix_disk;

struct prefix_tree {
    state         *s;
    prefix_disk   *disk; /* prefix_disk.h; NULL: none */
    uint64_t       now;  /* counts adoptions and stores */
    prefix_node    root;
    prefix_node   *nodes, *free_nodes; /* [n_nodes]; those from `fresh` on were never used */
    uint32_t       n_nodes, fresh, n_blocks;
    prefix_anchor *anchors, *free_anchors; /* [n_snapshots] */
    uint32_t       n_snapshots, n_anchors;
    prefix_anchor *pinned;           /* goes last */
    uint8_t       *snapshots;        /* [n_snapshots][state_size] */
    uint32_t      *holds;            /* [pages of the state] nodes that hold each */
    uint32_t       n_pages, n_early; /* held by any node; of them early ones */
    uint32_t      *ids, *page_ids;   /* [max_positions], [its pages]: an adopter's, put together */
};

/* ---- prefix_tree.c ---- */

/* Tokens that a and b have in common at the start, at most n. */
uint32_t prefix_common(const uint32_t *a, const uint32_t *b, uint32_t n);
/* The origin that NULL stands for. */
extern const uint8_t prefix_no_origin[STORE_KEY_BYTES];
/* The child of `at` of that origin with exactly these n tokens; NULL: none. */
prefix_node *prefix_child(const prefix_node *at, const uint8_t *origin, const uint32_t *ids, uint32_t n);
/* Tokens and pages of the path to the end of `node` into t->ids and t->page_ids. */
void prefix_gather(const prefix_tree *t, const prefix_node *node);
/* Places an anchor that was taken behind n tokens of that origin in these pages; false, and it is free
 * again, when the nodes are used up. */
bool prefix_insert(prefix_tree *t, prefix_anchor *a, const uint8_t *origin, const uint32_t *ids, const uint32_t *pages,
                   uint32_t n);
/* Removes `node` and those above it while nothing needs them: no child, no anchor. */
void prefix_prune(prefix_tree *t, prefix_node *node);

/* ---- prefix_anchor.c ---- */

/* A free anchor, for which a less valuable one may have to go; NULL without snapshots. */
prefix_anchor *anchor_take(prefix_tree *t);
/* An anchor that was taken and not placed is free again. */
void anchor_return(prefix_tree *t, prefix_anchor *a);
/* At the end of `node`, right below `shallower` (NULL: none). */
void anchor_place(prefix_tree *t, prefix_anchor *a, prefix_node *node, prefix_anchor *shallower);
/* Gives up an anchor and the nodes that only it needed. */
void anchor_drop(prefix_tree *t, prefix_anchor *a);
/* The path to it was used now. */
void anchor_touch(const prefix_tree *t, prefix_anchor *a);
/* 2^(-age / half-life), in straight lines between the powers of two; age in adoptions and stores. */
double prefix_recency(uint64_t age);
/* Where its state is, state_size bytes. */
void *anchor_snapshot(const prefix_tree *t, const prefix_anchor *a);
/* state_reclaim_fn of a tree. */
bool anchor_reclaim(void *tree);

#endif
