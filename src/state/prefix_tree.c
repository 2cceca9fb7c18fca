/* state/prefix_tree.c - blocks of tokens: found, shared, added, removed.
 *
 * Invariant: below or at the end of every block there is an anchor.  So a leaf has
 * one, and there are no more leaves than snapshots. */
#include "state/prefix_tree.h"

#include "base/mem.h"
#include "state/prefix_disk.h"
#include "state/prefix_parts.h"

#include <string.h>

const uint8_t prefix_no_origin[STORE_KEY_BYTES] = {0};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t pages_of(uint32_t positions)
{
    return (positions + K_PAGE - 1) / K_PAGE;
}

/* ---- making and freeing ---- */

/* Nodes that can be needed.  A whole block has BLOCK_PAGES pages of its own, or one with
 * siblings at least its last page, and siblings need a leaf each, hence an anchor; and
 * for every anchor there may be a short block. */
static uint64_t nodes_for(const state_limits *l, uint32_t snapshots)
{
    return l->pages / BLOCK_PAGES + 2 * (uint64_t)snapshots;
}

uint64_t prefix_tree_disk_bytes(const state_limits *l, uint64_t disk_budget)
{
    return disk_budget == 0 ? 0 : prefix_disk_bytes(l, disk_budget);
}

uint64_t prefix_tree_bytes(const state_limits *l, uint32_t snapshots, uint64_t disk_budget)
{
    return prefix_tree_disk_bytes(l, disk_budget) + sizeof(prefix_tree) +
           nodes_for(l, snapshots) * sizeof(prefix_node) +
           snapshots * (sizeof(prefix_anchor) + state_bytes_per_sequence(l)) +
           (l->pages + (uint64_t)l->max_positions + pages_of(l->max_positions)) * sizeof(uint32_t);
}

/* mem_pages of n * size bytes. */
static void *pages_new(uint64_t n, uint64_t size)
{
    size_t bytes;
    return size_mul(&bytes, n, size) ? mem_pages(bytes) : NULL;
}

static weir_status fill(prefix_tree *t, weir_error *err)
{
    const state_limits *l     = &t->s->limits;
    const uint64_t      nodes = nodes_for(l, t->n_snapshots);
    if (nodes > UINT32_MAX)
        return status_fail(err, WEIR_INVALID, "prefix cache: %u snapshots are too many", t->n_snapshots);
    t->n_nodes   = (uint32_t)nodes;
    t->nodes     = pages_new(t->n_nodes, sizeof *t->nodes);
    t->anchors   = mem_zalloc(t->n_snapshots, sizeof *t->anchors);
    t->snapshots = pages_new(t->n_snapshots, state_size(t->s));
    t->holds     = mem_zalloc(l->pages, sizeof *t->holds);
    t->ids       = mem_alloc(l->max_positions, sizeof *t->ids);
    t->page_ids  = mem_alloc(pages_of(l->max_positions), sizeof *t->page_ids);
    if (t->nodes == NULL || t->anchors == NULL || t->snapshots == NULL || t->holds == NULL || t->ids == NULL ||
        t->page_ids == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "prefix cache: no memory for %u snapshots of %llu bytes",
                           t->n_snapshots, (unsigned long long)state_size(t->s));
    for (uint32_t i = t->n_snapshots; i-- > 0;) anchor_return(t, &t->anchors[i]);
    return WEIR_OK;
}

weir_status prefix_tree_new(prefix_tree **out, state *s, uint32_t snapshots, weir_error *err)
{
    *out           = NULL;
    prefix_tree *t = mem_zalloc(1, sizeof *t);
    if (t == NULL) return status_fail(err, WEIR_NO_MEMORY, "prefix cache: out of memory");
    t->s                 = s;
    t->n_snapshots       = snapshots;
    const weir_status st = fill(t, err);
    if (st != WEIR_OK) {
        prefix_tree_free(t);
        return st;
    }
    state_on_dry(s, anchor_reclaim, t);
    *out = t;
    return WEIR_OK;
}

weir_status prefix_tree_open_disk(prefix_tree *t, const char *dir, const uint8_t namespace[STORE_KEY_BYTES],
                                  uint64_t budget, weir_error *err)
{
    t->now = 1 << 20; /* what was used before has an age */
    return prefix_disk_open(&t->disk, t->s, dir, namespace, budget, t->now, err);
}

void prefix_tree_free(prefix_tree *t)
{
    if (t == NULL) return;
    prefix_disk_close(t->disk);
    for (uint32_t i = 0; t->n_anchors > 0; i++)
        if (t->anchors[i].at != NULL) anchor_drop(t, &t->anchors[i]);
    if (t->s->reclaim_user == t) state_on_dry(t->s, NULL, NULL); /* else it was never finished */
    mem_pages_free(t->nodes, t->n_nodes * sizeof *t->nodes);
    mem_pages_free(t->snapshots, t->n_snapshots * (size_t)state_size(t->s));
    mem_free(t->anchors);
    mem_free(t->holds);
    mem_free(t->ids);
    mem_free(t->page_ids);
    mem_free(t);
}

prefix_stats prefix_tree_stats(const prefix_tree *t)
{
    prefix_stats out = {.anchors        = t->n_anchors,
                        .blocks         = t->n_blocks,
                        .snapshot_bytes = t->n_anchors * state_size(t->s),
                        .page_bytes     = (t->n_pages - t->n_early) * state_page_bytes(&t->s->limits) +
                                      t->n_early * state_page_bytes_at(&t->s->limits, 0)};
    if (t->disk == NULL) return out;
    out.disk_anchors = t->disk->n_anchors;
    out.disk_entries = t->disk->n_used;
    out.disk_bytes   = store_bytes(t->disk->store);
    out.disk_budget  = store_budget(t->disk->store);
    return out;
}

/* ---- nodes ---- */

uint32_t prefix_common(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static bool same_origin(const prefix_node *node, const uint8_t *origin)
{
    return memcmp(node->origin, origin, sizeof node->origin) == 0;
}

/* One page more, or one less, that is held by any node. */
static void count_page(prefix_tree *t, uint32_t page, int by)
{
    t->n_pages += (uint32_t)by;
    if (page < t->s->limits.early_pages) t->n_early += (uint32_t)by;
}

/* A node for n of `ids` behind `parent`, in `pages` (both counted from the root); NULL when
 * all are in use. */
static prefix_node *node_new(prefix_tree *t, prefix_node *parent, const uint8_t *origin, const uint32_t *ids,
                             const uint32_t *pages, uint32_t n)
{
    prefix_node *node = t->free_nodes;
    if (node != NULL)
        t->free_nodes = node->next;
    else if (t->fresh < t->n_nodes)
        node = &t->nodes[t->fresh++];
    else
        return NULL;
    const uint32_t start = parent->end;
    node->parent         = parent;
    node->children       = NULL;
    node->next           = parent->children;
    node->anchor         = NULL;
    node->end            = start + n;
    node->n              = n;
    memcpy(node->tokens, ids + start, n * sizeof *node->tokens);
    memcpy(node->origin, origin, sizeof node->origin);
    for (uint32_t i = 0; i < pages_of(n); i++) {
        const uint32_t page = pages[start / K_PAGE + i];
        page_hold(t->s, page);
        if (t->holds[page]++ == 0) count_page(t, page, 1);
        node->pages[i] = page;
    }
    parent->children = node;
    t->n_blocks++;
    return node;
}

static void node_free(prefix_tree *t, prefix_node *node)
{
    prefix_node **at = &node->parent->children;
    while (*at != node) at = &(*at)->next;
    *at = node->next;
    for (uint32_t i = 0; i < pages_of(node->n); i++) {
        if (--t->holds[node->pages[i]] == 0) count_page(t, node->pages[i], -1);
        page_release(t->s, node->pages[i]);
    }
    node->next    = t->free_nodes;
    t->free_nodes = node;
    t->n_blocks--;
}

void prefix_prune(prefix_tree *t, prefix_node *node)
{
    while (node != &t->root && node->children == NULL && node->anchor == NULL) {
        prefix_node *parent = node->parent;
        node_free(t, node);
        node = parent;
    }
}

prefix_node *prefix_child(const prefix_node *at, const uint8_t *origin, const uint32_t *ids, uint32_t n)
{
    prefix_node *c = at->children;
    while (c != NULL && (c->n != n || prefix_common(c->tokens, ids, n) < n || !same_origin(c, origin))) c = c->next;
    return c;
}

/* ---- finding ---- */

/* m tokens of c, which begins at `start`, are as they should be. */
static void note_match(prefix_hit *out, const prefix_node *c, uint32_t start, uint32_t m)
{
    const uint32_t next = m < c->n ? c->tokens[m] : UINT32_MAX;
    if (start + m > out->matched)
        out->other = next;
    else if (start + m == out->matched && out->other == UINT32_MAX)
        out->other = next;
    if (start + m > out->matched) out->matched = start + m;
}

static void find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n, prefix_hit *out)
{
    *out = (prefix_hit){.other = UINT32_MAX};
    for (const prefix_node *at = &t->root, *whole; at != NULL; at = whole) {
        whole = NULL;
        for (const prefix_node *c = at->children; c != NULL; c = c->next) {
            if (!same_origin(c, origin)) continue;
            const uint32_t m = prefix_common(c->tokens, ids + at->end, min_u32(c->n, n - at->end));
            note_match(out, c, at->end, m);
            if (m < c->n) continue;
            if (c->n == PREFIX_BLOCK) whole = c;
            if (c->anchor == NULL || c->end <= out->length) continue;
            out->length = c->end;
            out->anchor = c->anchor;
            out->stored = c->anchor->stored;
        }
    }
}

void prefix_tree_find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n, prefix_hit *out)
{
    if (origin == NULL) origin = prefix_no_origin;
    find(t, origin, ids, n, out);
    if (t->disk == NULL) return;
    uint32_t          matched;
    disk_entry *const deepest = prefix_disk_find(t->disk, origin, ids, n, &matched);
    if (matched > out->matched) {
        out->matched = matched;
        out->other   = UINT32_MAX;
    }
    if (deepest == NULL || deepest->end <= out->length) return;
    out->length = deepest->end;
    out->disk   = deepest;
    out->added  = deepest->added;
}

/* ---- sharing ---- */

void prefix_gather(const prefix_tree *t, const prefix_node *node)
{
    for (; node != &t->root; node = node->parent) {
        const uint32_t start = node->end - node->n;
        memcpy(t->ids + start, node->tokens, node->n * sizeof *t->ids);
        memcpy(t->page_ids + start / K_PAGE, node->pages, pages_of(node->n) * sizeof *t->page_ids);
    }
}

/* The deepest anchor that can be had of those whose tokens `deepest` begins with, in memory
 * from now on; NULL: none. */
static prefix_anchor *bring_in(prefix_tree *t, disk_entry *deepest)
{
    uint32_t   n = deepest->end, matched;
    uint8_t    origin[STORE_KEY_BYTES];
    prefix_hit known;
    for (const disk_entry *e = deepest; e->parent != NULL; e = e->parent) {
        memcpy(t->ids + e->end - e->n, e->tokens, e->n * sizeof *t->ids);
        memcpy(origin, e->origin, sizeof origin);
    }
    for (;; n--) {
        disk_entry *e = prefix_disk_find(t->disk, origin, t->ids, n, &matched);
        find(t, origin, t->ids, n, &known);
        if (e == NULL || e->end <= known.length) return known.anchor;
        n                = e->end;
        prefix_anchor *a = prefix_disk_load(t, e, origin);
        if (a != NULL) return a;
    }
}

static void touch(const prefix_tree *t, prefix_anchor *a, const uint8_t *origin, const uint32_t *ids, uint32_t n)
{
    anchor_touch(t, a);
    if (t->disk != NULL) prefix_disk_touch(t->disk, origin, ids, n, t->now);
}

uint32_t prefix_tree_adopt(prefix_tree *t, const prefix_hit *hit, sequence *q)
{
    prefix_anchor *a = hit->anchor;
    t->now++;
    if (a != NULL && (a->at == NULL || a->stored != hit->stored)) a = NULL;
    if (hit->length > sequence_room(q)) return 0;
    if (hit->disk != NULL && hit->disk->added == hit->added) a = bring_in(t, hit->disk);
    if (a == NULL) return 0;
    const uint32_t length = a->at->end;
    prefix_gather(t, a->at);
    touch(t, a, a->at->origin, t->ids, length);
    /* The copy of a page may need one that the tree holds: not this anchor's, while there are others. */
    t->pinned = a;
    sequence_adopt(q, t->ids, length, t->page_ids, anchor_snapshot(t, a));
    t->pinned = NULL;
    return length;
}

/* ---- storing ---- */

/* The node behind n tokens, made where there is none; NULL when the nodes are used up. */
static prefix_node *path_of(prefix_tree *t, const uint8_t *origin, const uint32_t *ids, const uint32_t *pages,
                            uint32_t n)
{
    prefix_node *at = &t->root;
    while (at->end < n) {
        const uint32_t more = min_u32(PREFIX_BLOCK, n - at->end);
        prefix_node   *next = prefix_child(at, origin, ids + at->end, more);
        if (next == NULL) next = node_new(t, at, origin, ids, pages, more);
        if (next == NULL) {
            prefix_prune(t, at);
            return NULL;
        }
        at = next;
    }
    return at;
}

bool prefix_insert(prefix_tree *t, prefix_anchor *a, const uint8_t *origin, const uint32_t *ids, const uint32_t *pages,
                   uint32_t n)
{
    prefix_hit hit;
    find(t, origin, ids, n, &hit);
    prefix_node *node = path_of(t, origin, ids, pages, n);
    if (node == NULL)
        anchor_return(t, a);
    else
        anchor_place(t, a, node, hit.anchor);
    return node != NULL;
}

void prefix_tree_store(prefix_tree *t, const uint8_t *origin, const sequence *q)
{
    const uint32_t *ids = sequence_tokens(q), n = sequence_length(q);
    prefix_hit      hit;
    if (origin == NULL) origin = prefix_no_origin;
    t->now++;
    find(t, origin, ids, n, &hit);
    touch(t, hit.anchor, origin, ids, n);
    if (hit.length == n) return;       /* also the empty sequence */
    prefix_anchor *a = anchor_take(t); /* for which the one that was found may go */
    if (a != NULL && prefix_insert(t, a, origin, ids, sequence_pages(q), n)) sequence_save(q, anchor_snapshot(t, a));
}
