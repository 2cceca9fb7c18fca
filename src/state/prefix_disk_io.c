/* state/prefix_disk_io.c - anchors to the disk and back.
 *
 * Writing goes one entry at a time, the oldest anchor first, the blocks that lead to
 * it before itself: whatever is on disk can be used, whenever the process ends. */
#include "state/prefix_disk.h"

#include <string.h>

/* In one call of prefix_tree_write: after this many bytes no further entry is begun. */
static const uint64_t write_bytes = 8 << 20;

static uint32_t pages_of(uint32_t positions)
{
    return (positions + K_PAGE - 1) / K_PAGE;
}

/* ---- to the disk ---- */

typedef enum put_result { PUT_DONE, PUT_BUSY, PUT_NEVER } put_result;

/* Puts an entry of n tokens of t->ids, of that origin, behind `at`, in pages of t->page_ids; what is worth
 * less goes for it.  anchor: whose state it has; NULL for a block. */
static put_result put(prefix_tree *t, disk_entry *at, const uint8_t *origin, uint32_t n, const prefix_anchor *anchor,
                      uint64_t *bytes)
{
    prefix_disk   *d     = t->disk;
    const uint32_t start = at->end, shown = n > 0 ? start : start - 1; /* at a block's end: its last token */
    store_entry    e = {.kind     = anchor == NULL ? STORE_BLOCK : STORE_SNAPSHOT,
                        .position = shown,
                        .n_tokens = start + n - shown,
                        .tokens   = t->ids + shown};
    memcpy(e.parent, prefix_disk_parent(at, origin), STORE_KEY_BYTES);
    if (store_key(e.key, e.parent, t->ids + start, n, NULL) != WEIR_OK) return PUT_NEVER;
    const uint64_t page = prefix_disk_page(d, start);
    for (uint32_t i = 0; i < pages_of(n); i++) page_read(t->s, t->page_ids[start / K_PAGE + i], d->kv + i * page);
    if (anchor != NULL)
        e.sections[e.n_sections++] = (store_section){DISK_STATE, d->state_bytes, anchor_snapshot(t, anchor)};
    if (n > 0) e.sections[e.n_sections++] = (store_section){DISK_KV, pages_of(n) * page, d->kv};

    uint64_t         file_bytes;
    store_put_status st = STORE_FULL;
    if (store_file_bytes(&e, &file_bytes, NULL) != WEIR_OK) return PUT_NEVER;
    d->writing = at;
    do {
        if (prefix_disk_has_room(d)) st = store_put(d->store, &e);
    } while (st == STORE_FULL && prefix_disk_give_up(d, t->now));
    d->writing = NULL;
    *bytes += file_bytes;
    if (st == STORE_BUSY) return PUT_BUSY;
    if (st != STORE_QUEUED) return PUT_NEVER;
    prefix_disk_add(d, at, &e, file_bytes, anchor != NULL ? anchor->used : t->now);
    return PUT_DONE;
}

/* The oldest anchor that is yet to be written; NULL: none. */
static prefix_anchor *pending(const prefix_tree *t)
{
    prefix_anchor *oldest = NULL;
    for (uint32_t i = 0; i < t->n_snapshots; i++) {
        prefix_anchor *a = &t->anchors[i];
        if (a->at != NULL && !a->written && (oldest == NULL || a->stored < oldest->stored)) oldest = a;
    }
    return oldest;
}

/* Whether anchor a and the blocks that lead to it fit at all.  If not, none is begun: everything
 * else would go for it, and then itself. */
static bool can_fit(const prefix_tree *t, const prefix_anchor *a)
{
    const prefix_disk *d     = t->disk;
    const uint32_t     pages = pages_of(a->at->end);
    uint64_t           bytes = d->state_bytes;
    for (uint32_t i = 0; i < pages; i++) bytes += prefix_disk_page(d, i * K_PAGE);
    return bytes <= store_budget(d->store);
}

/* One entry more for anchor a, or it is written. */
static put_result write_next(prefix_tree *t, prefix_anchor *a, uint64_t *bytes)
{
    const uint32_t end    = a->at->end;
    const uint8_t *origin = a->at->origin;
    disk_entry    *at     = &t->disk->root;
    if (!can_fit(t, a)) {
        a->written = true;
        return PUT_NEVER;
    }
    prefix_gather(t, a->at);
    while (end - at->end >= PREFIX_BLOCK) {
        disk_entry *next = prefix_disk_child(at, origin, t->ids + at->end, PREFIX_BLOCK);
        if (next == NULL) break;
        at = next;
    }
    const uint32_t n = end - at->end;
    put_result     r = PUT_DONE;
    if (n >= PREFIX_BLOCK)
        r = put(t, at, origin, PREFIX_BLOCK, NULL, bytes);
    else if (prefix_disk_child(at, origin, t->ids + at->end, n) == NULL)
        r = put(t, at, origin, n, a, bytes);
    /* What the disk has no room for it will not have later; and the next anchors are newer. */
    if (r == PUT_NEVER || (r == PUT_DONE && n < PREFIX_BLOCK)) a->written = true;
    return r;
}

void prefix_tree_write(prefix_tree *t)
{
    prefix_anchor *a;
    if (t->disk == NULL) return;
    prefix_disk_poll(t->disk);
    for (uint64_t bytes = 0; bytes < write_bytes && (a = pending(t)) != NULL;)
        if (write_next(t, a, &bytes) == PUT_BUSY) return;
}

bool prefix_tree_flush(prefix_tree *t)
{
    prefix_anchor *a;
    if (t->disk == NULL) return true;
    prefix_disk   *d      = t->disk;
    const uint64_t failed = d->n_failed;
    uint64_t       bytes  = 0;
    while ((a = pending(t)) != NULL) {
        if (write_next(t, a, &bytes) == PUT_BUSY) store_flush(d->store);
        prefix_disk_poll(d);
    }
    store_flush(d->store);
    prefix_disk_poll(d);
    return d->n_failed == failed;
}

/* ---- and back ---- */

/* What is damaged or gone is forgotten with all that hangs on it.  Memory has none of these:
 * what it has, with the path to it, is not read. */
static bool read_section(prefix_tree *t, disk_entry *e, uint32_t type, void *to, uint64_t bytes)
{
    const store_get_status st = store_get(t->disk->store, e->key, type, to, bytes);
    if (st == STORE_GONE || st == STORE_DAMAGED) prefix_disk_forget(t->disk, e);
    return st == STORE_OK;
}

/* The pages of e's tokens into new ones. */
static bool read_pages(prefix_tree *t, disk_entry *e)
{
    const prefix_disk *d = t->disk;
    const uint32_t     n = pages_of(e->n), first = (e->end - e->n) / K_PAGE;
    const uint64_t     page = prefix_disk_page(d, first * K_PAGE);
    uint32_t          *to   = t->page_ids + first;
    if (n > 0 && !read_section(t, e, DISK_KV, d->kv, n * page)) return false;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = page_take(t->s, first + i);
        if (to[i] == UINT32_MAX) return false;
        page_write(t->s, to[i], d->kv + i * page);
    }
    return true;
}

/* Holds the pages that the tree has of the first `end` tokens of t->ids of that origin, in whole blocks;
 * how many tokens these are. */
static uint32_t hold_known(prefix_tree *t, const uint8_t *origin, uint32_t end)
{
    const prefix_node *at = &t->root, *next;
    for (; end - at->end >= PREFIX_BLOCK; at = next) {
        next = prefix_child(at, origin, t->ids + at->end, PREFIX_BLOCK);
        if (next == NULL) break;
        for (uint32_t i = 0; i < BLOCK_PAGES; i++) {
            page_hold(t->s, next->pages[i]);
            t->page_ids[at->end / K_PAGE + i] = next->pages[i];
        }
    }
    return at->end;
}

/* Pages of all e->end tokens into t->page_ids, each held once; UINT32_MAX where it did not
 * come so far.  The holds keep what the tree has when room for the rest must be made. */
static bool read_path(prefix_tree *t, disk_entry *e, const uint8_t *origin)
{
    for (uint32_t i = 0; i < pages_of(e->end); i++) t->page_ids[i] = UINT32_MAX;
    const uint32_t known = hold_known(t, origin, e->end);
    for (disk_entry *up; e->end > known; e = up) {
        up = e->parent;
        if (!read_pages(t, e)) return false;
    }
    return true;
}

prefix_anchor *prefix_disk_load(prefix_tree *t, disk_entry *e, const uint8_t *origin)
{
    const uint32_t end = e->end;
    prefix_anchor *a   = anchor_take(t);
    if (a == NULL) return NULL;
    if (!read_section(t, e, DISK_STATE, anchor_snapshot(t, a), t->disk->state_bytes)) {
        anchor_return(t, a);
        return NULL;
    }
    if (read_path(t, e, origin)) {
        t->now++;
        if (!prefix_insert(t, a, origin, t->ids, t->page_ids, end)) a = NULL;
    } else {
        anchor_return(t, a);
        a = NULL;
    }
    if (a != NULL) a->written = true;
    for (uint32_t i = 0; i < pages_of(end); i++)
        if (t->page_ids[i] != UINT32_MAX) page_release(t->s, t->page_ids[i]);
    return a;
}
