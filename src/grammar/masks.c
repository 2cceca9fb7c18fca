/* grammar/masks.c - which tokens may come next. */
#include "grammar/masks.h"

#include "base/mem.h"

#include <string.h>

enum {
    ENTRIES_MOST  = 4096,
    ENTRY_HEADS   = 1024,
    DENSE_MOST    = 160,
    SPARSE_MOST   = 1024, /* tokens: more are kept as bits */
    IDS_MOST      = 1 << 19,
    ASKS_MOST     = 1 << 20,
    MASK_SPARSE   = UINT32_MAX,
    FRAMES_BELOW  = 1 << 14,
    WORK_MOST     = 1 << 22, /* places closed for one mask: about half a second */
    NODES_OF_WORK = 16,      /* trie nodes that take as long as a place */
    NEAR          = 8,       /* with fewer left to come, a walk from nothing is short */
    WARM_MOST     = 8,
    WIDE          = 64, /* bytes a place must read to be warmed */
};

/* ---- memory ---- */

typedef struct region {
    char  *at;
    size_t size;
} region;

static void *take(region *r, size_t n, size_t size)
{
    void *p = r->at == NULL ? NULL : r->at + r->size;
    r->size += (n * size + 63) & ~(size_t)63; /* all are constants but the words of a vocabulary */
    return p;
}

static void take_table(region *r, place_table *t)
{
    t->pool = take(r, SETS_POOL, sizeof *t->pool);
    t->sets = take(r, SETS_MOST, sizeof *t->sets);
    t->step = take(r, SETS_MOST, sizeof *t->step);
}

static void lay_out(masks *m, region *r)
{
    m->list = take(r, 1, sizeof *m->list);
    take_table(r, &m->below);
    take_table(r, &m->here);
    m->below_frames.f = take(r, FRAMES_BELOW, sizeof *m->below_frames.f);
    m->entries        = take(r, ENTRIES_MOST, sizeof *m->entries);
    m->heads          = take(r, ENTRY_HEADS, sizeof *m->heads);
    m->bits           = take(r, m->words, sizeof *m->bits);
    m->ids            = take(r, IDS_MOST, sizeof *m->ids);
    m->asks           = take(r, ASKS_MOST, sizeof *m->asks);
    m->raw            = take(r, ASKS_MOST, sizeof *m->raw);
    m->as             = take(r, m->t->n, sizeof *m->as);
    m->dense          = take(r, (size_t)DENSE_MOST * m->words, sizeof *m->dense);
}

/* Forgets all that was found. */
static void forget(masks *m)
{
    frames_init(&m->below_frames, m->below_frames.f, FRAMES_BELOW);
    place_table_clear(&m->below);
    memset(m->heads, 0xFF, ENTRY_HEADS * sizeof *m->heads);
    m->n_entries = m->n_dense = m->n_ids = m->n_asks = 0;
}

weir_status masks_init(masks *m, const automaton *a, const trie *t, weir_error *err)
{
    region r = {0};
    *m       = (masks){.a = a, .t = t, .words = (t->n_ids + 63) / 64};
    lay_out(m, &r);
    m->memory_bytes = r.size;
    m->memory       = mem_pages(r.size);
    if (m->memory == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    r = (region){.at = m->memory};
    lay_out(m, &r);
    m->below.a = m->here.a = a;
    m->below.list = m->here.list = m->list;
    m->below.f                   = &m->below_frames;
    m->below.keeps_limited       = true;
    forget(m);
    return WEIR_OK;
}

void masks_free(masks *m)
{
    if (m->memory != NULL) mem_pages_free(m->memory, m->memory_bytes);
    *m = (masks){0};
}

static size_t table_bytes(const place_table *t)
{
    return t->n * (sizeof *t->step + sizeof *t->sets) + t->pool_n * sizeof *t->pool;
}

size_t masks_bytes(const masks *m)
{
    return sizeof *m->list + table_bytes(&m->below) + table_bytes(&m->here) +
           (size_t)m->n_entries * sizeof *m->entries + m->n_ids * sizeof *m->ids + m->n_asks * sizeof *m->asks +
           (size_t)(m->n_dense + 1) * m->words * sizeof *m->dense;
}

/* ---- one place, with the calls below unknown ---- */

/* Equal for all data that no token of the vocabulary can tell apart. */
static uint64_t known_data(const masks *m, uint32_t at, uint64_t data)
{
    if (!m->a->rules[m->a->nodes[at].rule].known) return DATA_UNKNOWN;
    const uint32_t most = (uint32_t)data, least = (uint32_t)(data >> 32), far = m->t->longest;
    return data_count(least < far ? least : far, most < far ? most : DATA_MANY);
}

static void set_bit(uint64_t *bits, uint32_t id)
{
    bits[id / 64] |= 1ull << id % 64;
}

static void clear_below(masks *m, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const uint32_t id = m->t->nodes[i].id;
        if (id != TRIE_NO_TOKEN) m->bits[id / 64] &= ~(1ull << id % 64);
    }
}

/* A walk of the vocabulary, and what it starts from: nothing, or the mask of the same
 * place when any number may come. */
typedef struct walk {
    const mask_entry *like; /* NULL: nothing */
    uint32_t          sets[TRIE_DEPTH_MOST + 2];
} walk;

static bool note(masks *m, uint32_t at, uint32_t what)
{
    if (m->n_raw == ASKS_MOST) return false;
    m->raw[m->n_raw++] = (mask_ask){at, what};
    return true;
}

/* All that follows node `at` is to be asked of the places of s that ask. */
static bool note_asks(masks *m, const place_set *s, uint32_t at)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const place *p = &m->below.pool[s->first + i];
        if (!(p->node & PLACE_ASK) || p->node == PLACE_LIMITED) continue;
        for (uint32_t c = at + 1; c < m->t->nodes[at].skip; c = m->t->nodes[c].skip)
            if (!note(m, c, p->node)) return false;
    }
    return true;
}

/* True when no token below, of `height` more bytes, can tell that the number is limited. */
static bool as_if_unlimited(const masks *m, const place_set *s, uint32_t height)
{
    if (s->asks) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const place *p = &m->below.pool[s->first + i];
        if (p->node == PLACE_LIMITED || p->frame != FRAME_BOTTOM || p->data >> 32 != 0 || (uint32_t)p->data < height)
            return false;
    }
    return true;
}

/* Walks on from trie node *i, whose bytes are read.  False: out of room. */
static bool visit(masks *m, walk *w, uint32_t *i, uint32_t set)
{
    const trie_node *n = &m->t->nodes[*i];
    const place_set *s = &m->below.sets[set];
    if (n->id != TRIE_NO_TOKEN) set_bit(m->bits, n->id);
    if (w->like != NULL && n->height > 0 && as_if_unlimited(m, s, n->height)) {
        m->as[m->n_as++] = (mask_range){*i + 1, n->skip};
        *i               = n->skip;
        return true;
    }
    if (s->asks && n->height > 0 && !note_asks(m, s, *i)) return false;
    w->sets[n->depth + 1] = set;
    ++*i;
    return true;
}

/* What is asked where the walk was as without a limit. */
static bool note_alike(masks *m, const mask_entry *like)
{
    for (uint32_t i = 0; i < like->n_asks; i++) {
        const mask_ask a  = m->asks[like->asks + i];
        uint32_t       lo = 0, hi = m->n_as; /* the first range that ends behind it */
        while (lo < hi) {
            const uint32_t mid = (lo + hi) / 2;
            if (m->as[mid].end > a.at)
                hi = mid;
            else
                lo = mid + 1;
        }
        if (lo < m->n_as && m->as[lo].first <= a.at && !note(m, a.at, a.place)) return false;
    }
    return true;
}

static void add_entry(const masks *m, const mask_entry *e, uint64_t *bits)
{
    for (uint32_t i = 0; i < e->n_ids; i++) set_bit(bits, m->ids[e->ids + i]);
    if (e->dense == MASK_SPARSE) return;
    const uint64_t *from = m->dense + (size_t)e->dense * m->words;
    for (uint32_t i = 0; i < m->words; i++) bits[i] |= from[i];
}

/* Finds the bits and the asks of a place.  False: out of room, or the work is too much. */
static bool walk_all(masks *m, walk *w, const place *p)
{
    m->list->work   = 0;
    m->list->failed = false;
    m->n_raw = m->n_as = 0;
    w->sets[0]         = place_table_set(&m->below, p, 1);
    if (w->sets[0] == SET_NONE) return false;
    memset(m->bits, 0, m->words * sizeof *m->bits);
    if (w->like != NULL) add_entry(m, w->like, m->bits);
    uint32_t visited = 0;
    for (uint32_t i = 0; i < m->t->n;) {
        const trie_node *n = &m->t->nodes[i];
        m->list->work += ++visited % NODES_OF_WORK == 0;
        const uint32_t set = place_table_step(&m->below, w->sets[n->depth], n->byte);
        if (set == SET_NONE || m->list->work > WORK_MOST) return false;
        if (set != SET_DEAD) {
            if (!visit(m, w, &i, set)) return false;
            continue;
        }
        if (w->like != NULL) clear_below(m, i, n->skip);
        i = n->skip;
    }
    return w->like == NULL || note_alike(m, w->like);
}

static uint32_t count_bits(const masks *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->words; i++) n += (uint32_t)__builtin_popcountll(m->bits[i]);
    return n;
}

/* Puts the asks of a walk where they stay, by their bytes.  False: out of room. */
static bool store_asks(masks *m, mask_entry *e)
{
    const trie_node *nodes = m->t->nodes;
    if (m->n_raw == 0) return true;
    if (IDS_MOST - m->n_ids < 257 || ASKS_MOST - m->n_asks < m->n_raw) return false;
    uint32_t *first = m->ids + m->n_ids, at[256];
    e->asks         = m->n_asks;
    e->n_asks       = m->n_raw;
    e->by_byte      = m->n_ids;
    e->one_place    = m->raw[0].place;
    memset(first, 0, 257 * sizeof *first);
    for (uint32_t i = 0; i < m->n_raw; i++) {
        first[nodes[m->raw[i].at].byte + 1]++;
        if (m->raw[i].place != m->raw[0].place) e->one_place = 0;
    }
    for (uint32_t b = 0; b < 256; b++) {
        first[b + 1] += first[b];
        at[b] = m->n_asks + first[b];
    }
    for (uint32_t i = 0; i < m->n_raw; i++) m->asks[at[nodes[m->raw[i].at].byte]++] = m->raw[i];
    m->n_ids += 257;
    m->n_asks += m->n_raw;
    return true;
}

/* Puts the tokens of a walk where they stay.  False: out of room. */
static bool store(masks *m, mask_entry *e)
{
    const uint32_t n = count_bits(m);
    if (n > SPARSE_MOST) {
        if (m->n_dense == DENSE_MOST) return false;
        e->dense = m->n_dense++;
        memcpy(m->dense + (size_t)e->dense * m->words, m->bits, m->words * sizeof *m->bits);
        return true;
    }
    if (n > IDS_MOST - m->n_ids) return false;
    e->ids   = m->n_ids;
    e->n_ids = n;
    for (uint32_t i = 0; i < m->words; i++)
        for (uint64_t w = m->bits[i]; w != 0; w &= w - 1) m->ids[m->n_ids++] = i * 64 + (uint32_t)__builtin_ctzll(w);
    return true;
}

static uint32_t *entry_head(const masks *m, uint32_t at, uint64_t data)
{
    const uint64_t h = (at ^ data * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return &m->heads[h >> 40 & (ENTRY_HEADS - 1)];
}

static mask_entry *entry_make(masks *m, const place *p, const mask_entry *like)
{
    if (m->n_entries == ENTRIES_MOST) return NULL;
    walk       w = {.like = like};
    mask_entry e = {.data = p->data, .node = p->node, .dense = MASK_SPARSE};
    if (!walk_all(m, &w, p) || !store(m, &e) || !store_asks(m, &e)) return NULL;
    uint32_t *head           = entry_head(m, p->node, p->data);
    e.next                   = *head;
    *head                    = m->n_entries;
    m->entries[m->n_entries] = e;
    return &m->entries[m->n_entries++];
}

static mask_entry *entry_find(masks *m, uint32_t at, uint64_t data)
{
    for (uint32_t i = *entry_head(m, at, data); i != UINT32_MAX; i = m->entries[i].next)
        if (m->entries[i].node == at && m->entries[i].data == data) return &m->entries[i];
    return NULL;
}

/* The mask of the same place when any number may come, where that is of use. */
static mask_entry *entry_like(masks *m, const place *p)
{
    const uint32_t most = (uint32_t)p->data;
    if (p->data == DATA_UNKNOWN || p->data >> 32 != 0 || most == DATA_MANY || most < NEAR) return NULL;
    const place any = {.node = p->node, .data = DATA_NONE};
    mask_entry *e   = entry_find(m, p->node, DATA_NONE);
    return e != NULL ? e : entry_make(m, &any, NULL);
}

static weir_status entry_of(masks *m, const place *p, mask_entry **out, weir_error *err)
{
    const place base = {.node = p->node, .data = known_data(m, p->node, p->data), .frame = FRAME_BOTTOM};
    *out             = entry_find(m, base.node, base.data);
    if (*out == NULL) *out = entry_make(m, &base, entry_like(m, &base));
    if (*out == NULL) { /* once more, with all the room there is */
        forget(m);
        *out = entry_make(m, &base, NULL);
    }
    if (*out != NULL) return WEIR_OK;
    forget(m);
    return status_fail(err, WEIR_INVALID, "grammar: too ambiguous: one text can be read in too many ways");
}

/* ---- with the calls as they are ---- */

/* What follows `what` in the place p: a set of `here`. */
static uint32_t resume(masks *m, const place *p, uint32_t what, frames *f)
{
    place_list *l = m->list;
    place_list_start(l);
    if (what != PLACE_POPPED) {
        place_list_add(l, what & ~PLACE_ASK, p->data, p->frame);
    } else if (p->frame != FRAME_BOTTOM) {
        const frame *up = &f->f[p->frame];
        place_list_add(l, up->back, up->data, up->below);
    }
    place_list_close(l, m->a, f);
    return l->failed ? SET_NONE : place_table_set(&m->here, l->kept, l->kept_n);
}

/* The tokens below trie node `at`, whose bytes lead to `set`, and its own. */
static bool walk_below(masks *m, uint32_t at, uint32_t set, uint64_t *bits)
{
    const trie_node *top = &m->t->nodes[at];
    uint32_t         sets[TRIE_DEPTH_MOST + 2];
    sets[top->depth + 1] = set;
    if (top->id != TRIE_NO_TOKEN) set_bit(bits, top->id);
    for (uint32_t i = at + 1; i < top->skip;) {
        const trie_node *n  = &m->t->nodes[i];
        const uint32_t   to = place_table_step(&m->here, sets[n->depth], n->byte);
        if (to == SET_NONE || m->list->work > WORK_MOST) return false;
        if (to == SET_DEAD) {
            i = n->skip;
            continue;
        }
        if (n->id != TRIE_NO_TOKEN) set_bit(bits, n->id);
        sets[n->depth + 1] = to;
        i++;
    }
    return true;
}

/* The sets of `here` that asked places became, the latest few. */
typedef struct resumed {
    uint32_t what[8], set[8], n;
} resumed;

static uint32_t resume_once(masks *m, resumed *r, const place *p, uint32_t what, frames *f)
{
    enum { MOST = sizeof r->what / sizeof *r->what };
    for (uint32_t i = 0; i < r->n; i++)
        if (r->what[i] == what) return r->set[i];
    if (r->n == MOST) r->n = 0;
    r->what[r->n]         = what;
    return r->set[r->n++] = resume(m, p, what, f);
}

static bool settle_byte(masks *m, resumed *r, const mask_entry *e, uint8_t byte, const place *p, frames *f,
                        uint64_t *bits)
{
    const uint32_t *first = m->ids + e->by_byte + byte;
    for (uint32_t i = first[0]; i < first[1]; i++) {
        const mask_ask a   = m->asks[e->asks + i];
        const uint32_t set = resume_once(m, r, p, a.place, f);
        if (set == SET_NONE) return false;
        const uint32_t to = place_table_step(&m->here, set, byte);
        if (to == SET_NONE) return false;
        if (to == SET_DEAD && e->one_place != 0) return true;
        if (to != SET_DEAD && !walk_below(m, a.at, to, bits)) return false;
    }
    return true;
}

static bool settle_asks(masks *m, const mask_entry *e, const place *p, frames *f, uint64_t *bits)
{
    resumed r = {.n = 0};
    for (unsigned byte = 0; byte < 256 && e->n_asks > 0; byte++)
        if (!settle_byte(m, &r, e, (uint8_t)byte, p, f, bits)) return false;
    return true;
}

weir_status masks_add(masks *m, const place *p, uint32_t n, frames *f, uint64_t *bits, weir_error *err)
{
    const uint32_t kept  = f->n;
    uint64_t       spent = 0;
    weir_status    st    = WEIR_OK;
    m->here.f            = f;
    place_table_clear(&m->here);
    for (uint32_t i = 0; i < n && st == WEIR_OK; i++) {
        mask_entry *e;
        if (place_is_end(&p[i])) continue;
        m->list->work = 0;
        st            = entry_of(m, &p[i], &e, err);
        if (st != WEIR_OK) break;
        add_entry(m, e, bits);
        spent += m->list->work;
        m->list->work      = 0;
        m->list->failed    = false;
        const bool settled = settle_asks(m, e, &p[i], f, bits);
        spent += m->list->work;
        if (!settled || spent > 2 * WORK_MOST)
            st = status_fail(err, WEIR_INVALID, "grammar: too ambiguous: one text can be read in too many ways");
    }
    frames_cut(f, kept);
    f->full = false;
    return st;
}

/* Bytes that a node reads. */
static uint32_t width(const automaton *a, uint32_t at)
{
    uint32_t n = 0;
    for (uint32_t j = a->nodes[at].first; j != NO_EDGE; j = a->edges[j].next)
        if (a->edges[j].kind == EDGE_BYTES) n += 1u + a->edges[j].hi - a->edges[j].lo;
    return n;
}

weir_status masks_warm(masks *m, weir_error *err)
{
    uint32_t left = WARM_MOST;
    for (uint32_t i = 0; i < m->a->n_nodes && left > 0; i++) {
        if (!m->a->nodes[i].reads || width(m->a, i) <= WIDE) continue;
        mask_entry *e;
        const place p = {.node = i, .data = DATA_NONE};
        TRY(entry_of(m, &p, &e, err));
        left--;
    }
    return WEIR_OK;
}
