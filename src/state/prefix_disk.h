/* state/prefix_disk.h - what of the prefix cache is on disk, for this room.
 *
 * One entry of the store (store.h) for a whole block, PREFIX_BLOCK tokens and their
 * pages, and one for an anchor: its state, and with less than a block behind the last
 * whole one also these tokens and pages.  `parent` keys lead from each to the block
 * before it, so that the tree below is known again when the directory is opened.
 *
 * The first entries of a path have no block before them: their `parent` is the origin
 * (prefix_tree.h), which so is a part of all keys behind it.
 *
 *   block    kind 1, PREFIX_BLOCK tokens, section DISK_KV; key: store_key of its tokens
 *   anchor   kind 2, section DISK_STATE
 *            in a block:      its 1 .. PREFIX_BLOCK - 1 tokens, also DISK_KV; key: store_key of these
 *            at a block's end: the last token of its parent, the block;
 *                             key: store_key of no tokens behind the block
 *
 * DISK_KV: page_read of its pages, in order; slots behind the end hold anything.
 * DISK_STATE: sequence_save.
 *
 * This tree knows entries, the other one (prefix_parts.h) memory; what is in both is in
 * both, and neither points into the other. */
#ifndef STATE_PREFIX_DISK_H
#define STATE_PREFIX_DISK_H

#include "state/prefix_parts.h"
#include "state/store.h"

enum { DISK_STATE = 1, DISK_KV = 2 };

typedef struct disk_entry disk_entry;
struct disk_entry {
    disk_entry *parent, *children;
    disk_entry *next;      /* child of the same parent; unused entry */
    disk_entry *chain;     /* in the same bucket */
    disk_entry *shallower; /* while values are compared: the next anchor on the way to the root */
    double      below;     /* the same: recency of the anchors right below */
    uint64_t    bytes;     /* of the file */
    uint64_t    used;      /* of an anchor: when its path was last used, by the tree's clock */
    uint64_t    added;     /* no two alike */
    uint32_t    end;       /* position behind the last token */
    uint32_t    n;         /* tokens behind the parent: PREFIX_BLOCK in a block, fewer in an anchor */
    bool        durable;   /* on the disk; else queued */
    uint8_t     key[STORE_KEY_BYTES];
    uint32_t    tokens[PREFIX_BLOCK];
    uint8_t     origin[STORE_KEY_BYTES]; /* of those without an entry before them; else all zero */
};

struct prefix_disk {
    store              *store;
    const state_limits *limits;
    uint64_t            state_bytes;
    disk_entry          root;
    disk_entry         *entries, *unused; /* [n_entries]; those from `fresh` on were never used */
    uint32_t            n_entries, fresh, n_used, n_anchors;
    disk_entry        **buckets;           /* [n_entries] by key */
    uint64_t            n_added, n_failed; /* failed: writes */
    disk_entry         *writing;           /* the block behind which something is being put: it stays */
    uint8_t            *kv;                /* [BLOCK_PAGES] pages on their way */
};

/* Bytes of a page in the block or short block that begins at `start`. */
static inline uint64_t prefix_disk_page(const prefix_disk *d, uint32_t start)
{
    return state_page_bytes_at(d->limits, start / K_PAGE);
}

/* ---- prefix_disk.c: which entries there are ---- */

/* Bytes that it takes, at most; the store's queue is among them. */
uint64_t prefix_disk_bytes(const state_limits *l, uint64_t budget);

/* Opens the directory; what was last used at the latest counts as used `now`. */
weir_status prefix_disk_open(prefix_disk **out, const state *s, const char *dir,
                             const uint8_t namespace[STORE_KEY_BYTES], uint64_t budget, uint64_t now, weir_error *err);
/* Writes what is queued.  NULL is allowed. */
void prefix_disk_close(prefix_disk *d);

/* The deepest durable anchor of that origin whose tokens begin ids[0..n) (NULL: none), and how many
 * of these tokens something durable shares. */
disk_entry *prefix_disk_find(const prefix_disk *d, const uint8_t *origin, const uint32_t *ids, uint32_t n,
                             uint32_t *matched);
/* All anchors of that origin whose tokens begin ids[0..n) were used now. */
void prefix_disk_touch(prefix_disk *d, const uint8_t *origin, const uint32_t *ids, uint32_t n, uint64_t now);
/* The child of `at` of that origin with exactly these n tokens; NULL: none. */
disk_entry *prefix_disk_child(const disk_entry *at, const uint8_t *origin, const uint32_t *ids, uint32_t n);

/* The parent's key of what stands behind `at`: its own, or behind the root the origin. */
const uint8_t *prefix_disk_parent(const disk_entry *at, const uint8_t *origin);
/* A new entry behind `parent`, queued; prefix_disk_has_room says whether there is one. */
bool prefix_disk_has_room(const prefix_disk *d);
void prefix_disk_add(prefix_disk *d, disk_entry *parent, const store_entry *e, uint64_t bytes, uint64_t now);
/* Takes in what the store has written by now. */
void prefix_disk_poll(prefix_disk *d);
/* Removes an entry and all below it, here and on disk. */
void prefix_disk_forget(prefix_disk *d, disk_entry *e);
/* Removes the entry that is worth least for its bytes: first a block without anything below
 * it, then an anchor with the blocks that only it needs.  False: there is none but `writing`. */
bool prefix_disk_give_up(prefix_disk *d, uint64_t now);

/* ---- prefix_disk_io.c: to the disk and back ---- */

/* The anchor `e` of that origin, whose tokens are in t->ids, in memory from now on.  NULL when it cannot be
 * had: it was damaged or gone, and is forgotten, or memory is short. */
prefix_anchor *prefix_disk_load(prefix_tree *t, disk_entry *e, const uint8_t *origin);

#endif
