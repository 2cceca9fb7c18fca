/* state/prefix_tree.h - what was read once need not be read again: the pages and
 * recurrent states of past sequences, found by their tokens.
 *
 * Keys and values can be cut anywhere, the recurrent state cannot: a prefix can be
 * continued only from an anchor, a position whose state was saved.  So a search
 * has two results, how far the tokens agree and the deepest anchor up to there.
 *
 * The tree has blocks of PREFIX_BLOCK tokens.  Each holds its pages by reference,
 * as the sequence that stored it does; nothing but snapshots is ever copied here.
 * A shorter block stands only where an anchor is, and is a leaf.
 *
 * Using the tree changes no bits: what an anchor holds is what reading its tokens
 * gives.  One exception that only drafts see: the MTP layer's row of a block's last
 * position depends on the token after it, and is the one of whoever stored the block.
 *
 * With a directory, anchors also go to disk, behind the steps, and are found there when
 * memory has given them up or the process is another one (prefix_disk.h).  Then adopting
 * one waits for the disk; nothing else does.
 *
 * Under one engine a state also depends on the adapters of its sequence.  They are its
 * origin, a key of STORE_KEY_BYTES, all zero (or NULL) without any: what has another origin is
 * never found, as if each had a tree of its own.
 *
 * All memory is taken when the tree is made, physical memory only as it is touched.
 * A tree serves one state and one identity of the model, and shares its thread. */
#ifndef STATE_PREFIX_TREE_H
#define STATE_PREFIX_TREE_H

#include "state/state.h"
#include "state/store_format.h"

#include <stdbool.h>

enum { PREFIX_BLOCK = 256 };

typedef struct prefix_tree   prefix_tree;
typedef struct prefix_anchor prefix_anchor;
struct disk_entry;

/* Found by prefix_tree_find. */
typedef struct prefix_hit {
    uint32_t           matched; /* tokens at the start that something in the tree shares */
    uint32_t           other;   /* the newest token in memory that was there instead of the next; UINT32_MAX: none */
    uint32_t           length;  /* position of the deepest anchor among these; 0: none */
    prefix_anchor     *anchor;  /* the deepest in memory; with what follows, for prefix_tree_adopt */
    uint64_t           stored;
    struct disk_entry *disk; /* one on disk that is deeper; NULL: none */
    uint64_t           added;
} prefix_hit;

typedef struct prefix_stats {
    uint32_t anchors, blocks;
    uint32_t disk_anchors, disk_entries; /* entries: anchors and blocks */
    uint64_t snapshot_bytes;             /* in use by anchors */
    uint64_t page_bytes;                 /* of all pages held, each counted once, whoever else holds it */
    uint64_t disk_bytes, disk_budget;    /* of all files in the directory */
} prefix_stats;

/* Bytes that a tree with so many snapshots takes, at most; disk_budget: of
 * prefix_tree_open_disk, 0 without.  The part of it that the disk takes. */
uint64_t prefix_tree_bytes(const state_limits *l, uint32_t snapshots, uint64_t disk_budget);
uint64_t prefix_tree_disk_bytes(const state_limits *l, uint64_t disk_budget);

/* An empty tree with room for `snapshots` anchors (0: it will never store), which
 * gives up pages when the state runs dry (state_on_dry). */
weir_status prefix_tree_new(prefix_tree **out, state *s, uint32_t snapshots, weir_error *err);
/* NULL is allowed.  Before the state; sequences that adopted from it may live on.  What
 * waits for the disk is written, what was not handed over by then is not. */
void prefix_tree_free(prefix_tree *t);

/* Keeps the tree also in `dir`, which is made when it is missing, in at most `budget` bytes,
 * and finds what is there.  Once, before anything is stored.  `namespace`: what the state
 * depends on besides the tokens.  WEIR_IO: a directory that cannot be used. */
weir_status prefix_tree_open_disk(prefix_tree *t, const char *dir, const uint8_t namespace[STORE_KEY_BYTES],
                                  uint64_t budget, weir_error *err);
/* Hands some of what is yet to be written over to the writer, a few megabytes or one entry;
 * never waits.  Between steps; nothing without a disk. */
void prefix_tree_write(prefix_tree *t);
/* Writes all of it and waits; false when the disk did not take something (the log says why). */
bool prefix_tree_flush(prefix_tree *t);

/* Looks for ids[0..n) of an origin.  To have a token left to read, n is the prompt's length - 1.  Nothing
 * grows old by it, however often those look who wait. */
void prefix_tree_find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n, prefix_hit *out);

/* Makes the empty sequence q one of hit->length tokens, and counts that as a use.  Once for each
 * request, also with an empty hit: the clock by which things grow old counts these calls and
 * those of prefix_tree_store.
 * Returns the length; 0, with q untouched, when there is no anchor, when it was
 * given up since, or when q has no room for so many.  An anchor on disk comes into
 * memory first; when it cannot be read, the next shallower one takes its place. */
uint32_t prefix_tree_adopt(prefix_tree *t, const prefix_hit *hit, sequence *q);

/* Keeps q's present memory, of that origin, as an anchor, or counts a use where one is already.
 * What q committed must have been run, replays included.  May give up less
 * valuable anchors for it; when there is no room, nothing is stored. */
void prefix_tree_store(prefix_tree *t, const uint8_t *origin, const sequence *q);

prefix_stats prefix_tree_stats(const prefix_tree *t);

#endif
