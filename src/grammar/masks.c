/* grammar/masks.c - which tokens may come next. */
#include "grammar/masks.h"

#include "base/mem.h"

#include <string.h>

enum {
    ENTRIES_MOST = 4096,
    ENTRY_HEADS  = 1024,
    DENSE_MOST   = 160,
    SPARSE_MOST  = 1024, /* tokens: more are kept as bits */
    IDS_MOST     = 1 << 19,
    ASKS_MOST    = 1 << 20,
    MASK_SPARSE  = UINT32_MAX,
    FRAMES_BELOW = 1 << 14,
    WORK_MOST    = 1 << 22, /* places closed in one walk: about half a second */
    NEAR         = 8,       /* with fewer left to come, a walk from nothing is short */
    WARM_MOST    = 8,
    WIDE         = 64, /* bytes a place must read to be warmed */
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
    const mask_entry *like;      /* NULL: nothing */
    uint32_t          like_next; /* of its asks */
    uint32_t          first_ask;
    uint32_t          sets[TRIE_DEPTH_MOST + 2];
} walk;

static bool note(masks *m, uint32_t at, uint32_t place_node)
{
    if (m->n_asks == ASKS_MOST) return false;
    m->asks[m->n_asks++] = (mask_ask){at, place_node};
    return true;
}

static bool note_asks(masks *m, const place_set *s, uint32_t at)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const place *p = &m->below.pool[s->first + i];
        if ((p->node & PLACE_ASK) && !note(m, at, p->node)) return false;
    }
    return true;
}

/* True when no token below, of `height` more bytes, can tell that the number is limited. */
static bool as_if_unlimited(const masks *m, const place_set *s, uint32_t height)
{
    if (s->asks) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const place *p = &m->below.pool[s->first + i];
        if (p->frame != FRAME_BOTTOM || p->data >> 32 != 0 || (uint32_t)p->data < height) return false;
    }
    return true;
}

/* The asks of `like` before trie node `to` are passed over, or taken too. */
static bool take_asks(masks *m, walk *w, uint32_t to, bool too)
{
    while (w->like_next < w->like->n_asks) {
        const mask_ask a = m->asks[w->like->asks + w->like_next];
        if (a.at >= to) break;
        w->like_next++;
        if (too && !note(m, a.at, a.place)) return false;
    }
    return true;
}

/* Walks on from trie node *i, whose bytes are read.  False: out of room. */
static bool visit(masks *m, walk *w, uint32_t *i, uint32_t set)
{
    const trie_node *n = &m->t->nodes[*i];
    const place_set *s = &m->below.sets[set];
    if (n->id != TRIE_NO_TOKEN) set_bit(m->bits, n->id);
    if (w->like != NULL) {
        if (!take_asks(m, w, *i + 1, false)) return false;
        if (n->height > 0 && as_if_unlimited(m, s, n->height)) {
            *i = n->skip;
            return take_asks(m, w, n->skip, true);
        }
    }
    if (s->asks && n->skip > *i + 1 && !note_asks(m, s, *i)) return false;
    w->sets[n->depth + 1] = set;
    ++*i;
    return true;
}

/* Finds the bits and the asks of a place.  False: out of room, or the work is too much. */
static bool walk_all(masks *m, walk *w, const place *p)
{
    m->list->work   = 0;
    m->list->failed = false;
    w->sets[0]      = place_table_set(&m->below, p, 1);
    if (w->sets[0] == SET_NONE) return false;
    if (w->like == NULL)
        memset(m->bits, 0, m->words * sizeof *m->bits);
    else
        memcpy(m->bits, m->dense + (size_t)w->like->dense * m->words, m->words * sizeof *m->bits);
    for (uint32_t i = 0; i < m->t->n;) {
        const trie_node *n   = &m->t->nodes[i];
        const uint32_t   set = place_table_step(&m->below, w->sets[n->depth], n->byte);
        if (set == SET_NONE || m->list->work > WORK_MOST) return false;
        if (set != SET_DEAD) {
            if (!visit(m, w, &i, set)) return false;
            continue;
        }
        if (w->like != NULL) {
            clear_below(m, i, n->skip);
            if (!take_asks(m, w, n->skip, false)) return false;
        }
        i = n->skip;
    }
    return true;
}

static uint32_t count_bits(const masks *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->words; i++) n += (uint32_t)__builtin_popcountll(m->bits[i]);
    return n;
}

/* Puts what a walk found where it stays.  False: out of room. */
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
        for (uint64_t w = m->bits[i]; w != 0; w &= w - 1)
            m->ids[m->n_ids++] = i * 64 + (uint32_t)__builtin_ctzll(w);
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
    walk       w = {.like = like != NULL && like->dense != MASK_SPARSE ? like : NULL};
    mask_entry e = {.data = p->data, .node = p->node, .dense = MASK_SPARSE, .asks = m->n_asks};
    if (!walk_all(m, &w, p)) return NULL;
    e.n_asks = m->n_asks - e.asks;
    if (!store(m, &e)) return NULL;
    uint32_t *head = entry_head(m, p->node, p->data);
    e.next         = *head;
    *head          = m->n_entries;
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

/* The tokens below trie node `at` that go on from `set`. */
static bool walk_below(masks *m, uint32_t at, uint32_t set, uint64_t *bits)
{
    const trie_node *top = &m->t->nodes[at];
    uint32_t         sets[TRIE_DEPTH_MOST + 2];
    sets[top->depth + 1] = set;
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

static bool settle_asks(masks *m, const mask_entry *e, const place *p, frames *f, uint64_t *bits)
{
    enum { MEMO = 8 };
    uint32_t what[MEMO], set[MEMO], n = 0;
    for (uint32_t i = 0; i < e->n_asks; i++) {
        const mask_ask a = m->asks[e->asks + i];
        uint32_t       j = 0;
        while (j < n && what[j] != a.place) j++;
        if (j == n) {
            if (n == MEMO) j = n = 0;
            what[j] = a.place;
            set[j]  = resume(m, p, a.place, f);
            n++;
        }
        if (set[j] == SET_NONE || !walk_below(m, a.at, set[j], bits)) return false;
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

weir_status masks_add(masks *m, const place *p, uint32_t n, frames *f, uint64_t *bits, weir_error *err)
{
    const uint32_t kept = f->n;
    weir_status    st   = WEIR_OK;
    m->here.f           = f;
    place_table_clear(&m->here);
    for (uint32_t i = 0; i < n && st == WEIR_OK; i++) {
        mask_entry *e;
        if (place_is_end(&p[i])) continue;
        st = entry_of(m, &p[i], &e, err);
        if (st != WEIR_OK) break;
        add_entry(m, e, bits);
        m->list->work   = 0;
        m->list->failed = false;
        if (!settle_asks(m, e, &p[i], f, bits))
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
