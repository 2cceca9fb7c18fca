/* state/prefix_disk.c - the entries on disk as a tree of blocks with anchors for leaves.
 *
 * An anchor is worth the tokens it saves times the recency of its path, as in memory
 * (prefix_anchor.c), for each byte that giving it up sets free. */
#include "state/prefix_disk.h"

#include "base/mem.h"

#include <string.h>

/* An entry known takes little over 1 kB: with more than this many, files are so small
 * that the memory would be better spent on the cache itself. */
enum { MOST_ENTRIES = 1 << 15 };
/* Of entries that wait to be written, besides the largest. */
static const uint64_t queue_spare = 32 << 20;

/* ---- sizes ---- */

static uint64_t block_bytes(const state_limits *l)
{
    return BLOCK_PAGES * state_page_bytes_at(l, 0); /* no page is larger than an early one */
}

static uint64_t queue_bytes(const state_limits *l)
{
    return block_bytes(l) + state_bytes_per_sequence(l) + PREFIX_BLOCK * sizeof(uint32_t) + queue_spare;
}

static uint32_t entries_for(const state_limits *l, uint64_t budget)
{
    const uint64_t block = BLOCK_PAGES * state_page_bytes(l), anchor = state_bytes_per_sequence(l);
    const uint64_t least = (block < anchor ? block : anchor) + STORE_FIXED_BYTES, n = budget / least;
    return n > MOST_ENTRIES ? MOST_ENTRIES : n < 1 ? 1 : (uint32_t)n;
}

uint64_t prefix_disk_bytes(const state_limits *l, uint64_t budget)
{
    return sizeof(prefix_disk) + entries_for(l, budget) * (uint64_t)(sizeof(disk_entry) + sizeof(disk_entry *)) +
           block_bytes(l) + queue_bytes(l);
}

/* ---- entries ---- */

static disk_entry **bucket(const prefix_disk *d, const uint8_t *key)
{
    uint32_t h;
    memcpy(&h, key, sizeof h);
    return &d->buckets[h % d->n_entries];
}

static disk_entry *by_key(const prefix_disk *d, const uint8_t *key)
{
    disk_entry *e = *bucket(d, key);
    while (e != NULL && memcmp(e->key, key, STORE_KEY_BYTES) != 0) e = e->chain;
    return e;
}

static void link_to(disk_entry *e, disk_entry *parent)
{
    e->parent        = parent;
    e->next          = parent->children;
    parent->children = e;
}

/* An unused entry, known by its key. */
static disk_entry *entry_new(prefix_disk *d, const uint32_t *tokens, uint32_t n, const uint8_t *key)
{
    disk_entry *e = d->unused;
    if (e != NULL)
        d->unused = e->next;
    else
        e = &d->entries[d->fresh++];
    disk_entry **first = bucket(d, key);
    e->parent = e->children = e->next = NULL;
    e->chain                          = *first;
    *first                            = e;
    e->added                          = ++d->n_added;
    e->n                              = n;
    memcpy(e->key, key, STORE_KEY_BYTES);
    memset(e->origin, 0, STORE_KEY_BYTES);
    memcpy(e->tokens, tokens, n * sizeof *tokens);
    d->n_used++;
    d->n_anchors += n < PREFIX_BLOCK;
    return e;
}

static void entry_free(prefix_disk *d, disk_entry *e)
{
    disk_entry **at = &e->parent->children;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    at  = bucket(d, e->key);
    while (*at != e) at = &(*at)->chain;
    *at = e->chain;
    d->n_used--;
    d->n_anchors -= e->n < PREFIX_BLOCK;
    e->parent = NULL;
    e->added  = 0;
    e->next   = d->unused;
    d->unused = e;
}

bool prefix_disk_has_room(const prefix_disk *d)
{
    return d->n_used < d->n_entries;
}

void prefix_disk_add(prefix_disk *d, disk_entry *parent, const store_entry *f, uint64_t bytes, uint64_t now)
{
    const uint32_t shown = parent->end - f->position; /* of its tokens, those before it */
    disk_entry    *e     = entry_new(d, f->tokens + shown, f->n_tokens - shown, f->key);
    e->end               = parent->end + e->n;
    e->bytes             = bytes;
    e->used              = now;
    e->durable           = false;
    if (parent == &d->root) memcpy(e->origin, f->parent, STORE_KEY_BYTES);
    link_to(e, parent);
}

void prefix_disk_forget(prefix_disk *d, disk_entry *e)
{
    for (disk_entry *at = e, *up; at != NULL; at = up) {
        while (at->children != NULL) at = at->children;
        up = at == e ? NULL : at->parent;
        store_drop(d->store, at->key);
        entry_free(d, at);
    }
}

const uint8_t *prefix_disk_parent(const disk_entry *at, const uint8_t *origin)
{
    return at->parent == NULL ? origin : at->key;
}

static void written(void *user, const uint8_t *key, bool durable)
{
    prefix_disk *d = user;
    disk_entry  *e = by_key(d, key);
    if (!durable) d->n_failed++;
    if (e == NULL) return; /* its parent could not be written */
    if (durable)
        e->durable = true;
    else
        prefix_disk_forget(d, e);
}

void prefix_disk_poll(prefix_disk *d)
{
    store_poll(d->store, written, d);
}

/* ---- finding ---- */

/* Whether a path of that origin may lead to e, as far as e itself can tell. */
static bool may_have(const disk_entry *e, const uint8_t *origin)
{
    return e->end > e->n || memcmp(e->origin, origin, STORE_KEY_BYTES) == 0;
}

disk_entry *prefix_disk_child(const disk_entry *at, const uint8_t *origin, const uint32_t *ids, uint32_t n)
{
    disk_entry *c = at->children;
    while (c != NULL && (c->n != n || prefix_common(c->tokens, ids, n) < n || !may_have(c, origin))) c = c->next;
    return c;
}

disk_entry *prefix_disk_find(const prefix_disk *d, const uint8_t *origin, const uint32_t *ids, uint32_t n,
                             uint32_t *matched)
{
    disk_entry *best = NULL;
    *matched         = 0;
    for (const disk_entry *at = &d->root, *whole; at != NULL; at = whole) {
        whole = NULL;
        for (disk_entry *c = at->children; c != NULL; c = c->next) {
            const uint32_t left = n - at->end, m = prefix_common(c->tokens, ids + at->end, c->n < left ? c->n : left);
            if (!c->durable || !may_have(c, origin)) continue;
            if (at->end + m > *matched) *matched = at->end + m;
            if (m < c->n) continue;
            if (c->n == PREFIX_BLOCK)
                whole = c;
            else if (best == NULL || c->end > best->end)
                best = c;
        }
    }
    return best;
}

void prefix_disk_touch(prefix_disk *d, const uint8_t *origin, const uint32_t *ids, uint32_t n, uint64_t now)
{
    for (disk_entry *at = &d->root, *whole; at != NULL; at = whole) {
        whole = NULL;
        for (disk_entry *c = at->children; c != NULL; c = c->next) {
            if (c->n > n - at->end || prefix_common(c->tokens, ids + at->end, c->n) < c->n || !may_have(c, origin))
                continue;
            if (c->n == PREFIX_BLOCK) whole = c;
            c->used = now;
        }
    }
}

/* ---- value ---- */

/* The next anchor on the way from anchor `a` to the root. */
static disk_entry *shallower_of(const disk_entry *a)
{
    for (const disk_entry *from = a, *at; (at = from->parent) != NULL; from = at) {
        disk_entry *best = NULL;
        for (disk_entry *c = at->children; c != NULL; c = c->next)
            if (c->n < from->n && memcmp(c->origin, from->origin, sizeof c->origin) == 0 &&
                prefix_common(c->tokens, from->tokens, c->n) == c->n && (best == NULL || c->n > best->n))
                best = c;
        if (best != NULL) return best;
    }
    return NULL;
}

static bool is_anchor(const disk_entry *e)
{
    return e->parent != NULL && e->n < PREFIX_BLOCK;
}

static void sum_below(prefix_disk *d, uint64_t now)
{
    for (uint32_t i = 0; i < d->fresh; i++) d->entries[i].below = 0;
    for (uint32_t i = 0; i < d->fresh; i++) {
        disk_entry *e = &d->entries[i];
        if (!is_anchor(e)) continue;
        e->shallower = shallower_of(e);
        if (e->shallower != NULL) e->shallower->below += prefix_recency(now - e->used);
    }
}

/* Tokens that an anchor can be expected to save, for each byte that only it needs. */
static double value(const prefix_disk *d, const disk_entry *a, uint64_t now)
{
    const uint32_t from  = a->shallower == NULL ? 0 : a->shallower->end;
    const double   self  = prefix_recency(now - a->used);
    uint64_t       bytes = a->bytes;
    for (const disk_entry *e = a; e->parent != &d->root; e = e->parent) {
        if (e->parent->children != e || e->next != NULL) break;
        bytes += e->parent->bytes;
    }
    return (a->end - from) * (a->below > self ? a->below : self) / (double)bytes;
}

bool prefix_disk_give_up(prefix_disk *d, uint64_t now)
{
    disk_entry *least = NULL;
    double      low   = 0;
    sum_below(d, now);
    for (uint32_t i = 0; i < d->fresh; i++) {
        disk_entry *e = &d->entries[i];
        if (e->parent == NULL || e->children != NULL || e == d->writing) continue;
        const double v = e->n == PREFIX_BLOCK ? -1 : value(d, e, now);
        if (least != NULL && (v > low || (v == low && e->end >= least->end))) continue;
        least = e;
        low   = v;
    }
    if (least == NULL) return false;
    for (disk_entry *up; least != &d->root && least->children == NULL && least != d->writing; least = up) {
        up = least->parent;
        prefix_disk_forget(d, least);
    }
    return true;
}

/* ---- opening ---- */

/* What the directory showed, before it is put together. */
typedef struct opening {
    prefix_disk *d;
    uint8_t (*parents)[STORE_KEY_BYTES]; /* [n_entries] */
    uint8_t (*strays)[STORE_KEY_BYTES];  /* not a part of this tree, to be removed */
    size_t  n_strays, strays_capacity;
    int64_t latest;
} opening;

static void add_stray(opening *o, const uint8_t *key)
{
    if (o->n_strays == o->strays_capacity) {
        const size_t capacity = o->strays_capacity != 0 ? 2 * o->strays_capacity : 64;
        void        *grown    = mem_realloc(o->strays, capacity, sizeof *o->strays);
        if (grown == NULL) return; /* it stays, unknown, until the next opening */
        o->strays          = grown;
        o->strays_capacity = capacity;
    }
    memcpy(o->strays[o->n_strays++], key, STORE_KEY_BYTES);
}

static bool has_section(const store_entry *e, uint32_t type, uint64_t bytes)
{
    for (uint32_t i = 0; i < e->n_sections; i++)
        if (e->sections[i].type == type) return e->sections[i].bytes == bytes;
    return false;
}

/* Tokens that the entry has behind its parent, in *n; false when it is none of ours. */
static bool read_form(const prefix_disk *d, const store_entry *e, uint32_t *n)
{
    const uint32_t start = e->position % PREFIX_BLOCK, pages = (e->n_tokens + K_PAGE - 1) / K_PAGE;
    const bool     at_end = e->kind == STORE_SNAPSHOT && start == PREFIX_BLOCK - 1 && e->n_tokens == 1;
    *n                    = at_end ? 0 : e->n_tokens;
    if (e->kind == STORE_SNAPSHOT && !has_section(e, DISK_STATE, d->state_bytes)) return false;
    if (at_end) return e->n_sections == 1;
    if (start != 0 || pages > BLOCK_PAGES || !has_section(e, DISK_KV, pages * prefix_disk_page(d, e->position)))
        return false;
    if (e->kind == STORE_BLOCK) return e->n_tokens == PREFIX_BLOCK && e->n_sections == 1;
    return e->kind == STORE_SNAPSHOT && e->n_tokens < PREFIX_BLOCK && e->n_sections == 2;
}

static void visit(void *user, const store_found *found)
{
    opening           *o = user;
    prefix_disk       *d = o->d;
    const store_entry *f = found->entry;
    uint32_t           n;
    uint8_t            key[STORE_KEY_BYTES];
    if (!prefix_disk_has_room(d) || !read_form(d, f, &n) || store_key(key, f->parent, f->tokens, n, NULL) != WEIR_OK ||
        memcmp(key, f->key, sizeof key) != 0) {
        add_stray(o, f->key);
        return;
    }
    disk_entry *e = entry_new(d, f->tokens, n, key);
    e->end        = f->position + f->n_tokens;
    e->bytes      = found->file_bytes;
    e->used       = (uint64_t)(found->used > 0 ? found->used : 0);
    e->durable    = true;
    memcpy(o->parents[e - d->entries], f->parent, STORE_KEY_BYTES);
    if (found->used > o->latest) o->latest = found->used;
}

/* Entries under their parents; those that the root does not lead to are removed. */
static void put_together(opening *o)
{
    prefix_disk *d    = o->d;
    disk_entry   lost = {0};
    for (uint32_t i = 0; i < d->fresh; i++) {
        disk_entry *e   = &d->entries[i];
        disk_entry *p   = e->end == e->n ? &d->root : by_key(d, o->parents[i]);
        const bool fits = p != NULL && (p == &d->root || p->n == PREFIX_BLOCK) && p->end == e->end - e->n && e->end > 0;
        if (p == &d->root) memcpy(e->origin, o->parents[i], STORE_KEY_BYTES);
        link_to(e, fits ? p : &lost);
    }
    while (lost.children != NULL) prefix_disk_forget(d, lost.children);
    for (size_t i = 0; i < o->n_strays; i++) store_drop(d->store, o->strays[i]);
}

/* Seconds become ticks of the tree's clock, one a minute: half of the value is lost in about
 * half an hour.  A path is as recent as anything below it. */
static void set_ages(const opening *o, uint64_t now)
{
    enum { SECONDS_PER_TICK = 60 };
    prefix_disk *d = o->d;
    for (uint32_t i = 0; i < d->fresh; i++) {
        const uint64_t age = ((uint64_t)o->latest - d->entries[i].used) / SECONDS_PER_TICK;
        d->entries[i].used = age < now ? now - age : 0;
    }
    for (uint32_t i = 0; i < d->fresh; i++) {
        const disk_entry *e = &d->entries[i];
        if (!is_anchor(e)) continue;
        for (disk_entry *s = shallower_of(e); s != NULL && s->used < e->used; s = shallower_of(s)) s->used = e->used;
    }
}

static weir_status take_memory(prefix_disk *d, opening *o, const state_limits *l, weir_error *err)
{
    d->entries = mem_pages(d->n_entries * sizeof *d->entries);
    d->buckets = mem_zalloc(d->n_entries, sizeof(disk_entry *));
    d->kv      = mem_alloc(block_bytes(l), 1);
    o->parents = mem_alloc(d->n_entries, sizeof *o->parents);
    if (d->entries != NULL && d->buckets != NULL && d->kv != NULL && o->parents != NULL) return WEIR_OK;
    return status_fail(err, WEIR_NO_MEMORY, "prefix cache: no memory for %u entries on disk", d->n_entries);
}

weir_status prefix_disk_open(prefix_disk **out, const state *s, const char *dir,
                             const uint8_t namespace[STORE_KEY_BYTES], uint64_t budget, uint64_t now, weir_error *err)
{
    *out           = NULL;
    prefix_disk *d = mem_zalloc(1, sizeof *d);
    if (d == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    d->limits                   = &s->limits;
    d->state_bytes              = state_size(s);
    d->n_entries                = entries_for(&s->limits, budget);
    opening             o       = {.d = d};
    const store_options options = {.dir          = dir,
                                   .namespace    = namespace,
                                   .budget_bytes = budget,
                                   .queue_bytes  = queue_bytes(&s->limits),
                                   .visit        = visit,
                                   .user         = &o};
    weir_status         st      = take_memory(d, &o, &s->limits, err);
    if (st == WEIR_OK) st = store_open(&d->store, &options, err);
    if (st == WEIR_OK) {
        put_together(&o);
        set_ages(&o, now);
        while (store_bytes(d->store) > budget && prefix_disk_give_up(d, now)) continue;
        *out = d;
    } else {
        prefix_disk_close(d);
    }
    mem_free(o.parents);
    mem_free(o.strays);
    return st;
}

void prefix_disk_close(prefix_disk *d)
{
    if (d == NULL) return;
    store_close(d->store);
    mem_pages_free(d->entries, d->n_entries * sizeof *d->entries);
    mem_free(d->buckets);
    mem_free(d->kv);
    mem_free(d);
}
