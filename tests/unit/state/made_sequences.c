/* tests/unit/state/made_sequences.c - see the header. */
#include "made_sequences.h"

#include "base/mem.h"
#include "kernels/open.h"
#include "support/cmocka.h"

#include <string.h>

/* A page: K_PAGE rows of one number, which is made of the tokens up to there. */
typedef uint64_t row;
enum { ROW = sizeof(row), TAIL = 2 * ROW, RECURRENT = 3 * ROW };

static row fold(row h, uint32_t id)
{
    h = (h ^ (id + 1)) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static void ok(const world *w, weir_status st)
{
    if (st != WEIR_OK) fail_msg("%s", w->err.text);
}

void world_open(world *w, uint32_t pages, uint32_t snapshots, bool carry)
{
    static const k_kv_layer forms[2] = {0}; /* bf16 */
    const state_limits      l        = {.delta_layers     = 1,
                                        .attention_layers = 2,
                                        .tail_bytes       = TAIL,
                                        .recurrent_bytes  = RECURRENT,
                                        .kv_heads         = 1,
                                        .head_dim         = ROW / 2,
                                        .kv               = forms,
                                        .carry_bytes      = carry ? ROW : 0,
                                        .max_sequences    = MOST_SEQUENCES,
                                        .max_positions    = MOST_POSITIONS,
                                        .pages            = pages};
    assert_true(pages <= MOST_PAGES);
    memset(w, 0, sizeof *w);
    ok(w, kernels_open(&w->k, "cpu", 1, "scalar", &w->err));
    ok(w, state_new(&w->s, w->k, &l, &w->err));
    ok(w, prefix_tree_new(&w->t, w->s, snapshots, &w->err));
}

void world_close(world *w)
{
    for (int i = 0; i < MOST_SEQUENCES; i++) world_drop(w, i);
    world_audit(w);
    prefix_tree_free(w->t);
    assert_int_equal(w->s->n_free_pages, w->s->limits.pages);
    for (uint32_t p = 0; p < w->s->limits.pages; p++) assert_int_equal(w->s->page_refs[p], 0);
    assert_null(w->s->reclaim);
    state_free(w->s);
    w->k->close(w->k);
}

void world_make(world *w, int i, uint32_t positions)
{
    assert_null(w->q[i]);
    ok(w, sequence_new(&w->q[i], w->s, positions, &w->err));
}

void world_drop(world *w, int i)
{
    sequence_free(w->q[i]);
    w->q[i] = NULL;
}

/* ---- bytes ---- */

static uint64_t place_of(const sequence *q, uint32_t position)
{
    return ((uint64_t)sequence_pages(q)[position / K_PAGE] * K_PAGE + position % K_PAGE) * ROW;
}

static void put(world *w, const sequence *q, uint32_t layer, uint32_t position, row h)
{
    const row value = ~h;
    w->k->buf_write(w->k, state_cache(w->s, layer)->keys, place_of(q, position), &h, ROW);
    w->k->buf_write(w->k, state_cache(w->s, layer)->values, place_of(q, position), &value, ROW);
}

static bool has(world *w, const sequence *q, uint32_t layer, uint32_t position, row h)
{
    row key, value;
    w->k->buf_read(w->k, state_cache(w->s, layer)->keys, place_of(q, position), &key, ROW);
    w->k->buf_read(w->k, state_cache(w->s, layer)->values, place_of(q, position), &value, ROW);
    return key == h && value == ~h;
}

/* The state behind tokens that fold to h. */
static void state_of(const state *s, row h, row *out)
{
    for (uint32_t i = 0; i < state_size(s) / ROW; i++) out[i] = fold(h, i);
}

void world_run(world *w, int i, const uint32_t *ids, uint32_t n)
{
    sequence *q = w->q[i];
    k_span    span;
    row       h = 0, all[6];
    ok(w, sequence_span(q, ids, n, 0, &span, &w->err));
    for (uint32_t p = 0; p < sequence_length(q) + n; p++) {
        h = fold(h, sequence_tokens(q)[p]);
        if (p < sequence_length(q)) continue;
        put(w, q, 0, p, h);
        if (w->s->carry == NULL)
            put(w, q, 1, p, h + 1);
        else if (p > 0)
            put(w, q, 1, p - 1, h + 1); /* known now that its next token is */
    }
    sequence_commit(q, n);
    state_of(w->s, h, all);
    slot_write(w->s, sequence_slot(q), all);
}

/* MTP's row of a position is the one with its next token; that of a block's end is the storer's. */
static bool mtp_is_known(uint32_t position, uint32_t length)
{
    return position + 1 < length && position % PREFIX_BLOCK != PREFIX_BLOCK - 1;
}

void world_check(world *w, int i)
{
    const sequence *q = w->q[i];
    const uint32_t *t = sequence_tokens(q), n = sequence_length(q);
    row             h = 0, want[6] = {0}, got[6] = {0};
    for (uint32_t p = 0; p < n; p++) {
        h = fold(h, t[p]);
        if (!has(w, q, 0, p, h)) fail_msg("position %u of %u has other bytes", p, n);
        if (w->s->carry == NULL)
            assert_true(has(w, q, 1, p, h + 1));
        else if (mtp_is_known(p, n) && !has(w, q, 1, p, fold(h, t[p + 1]) + 1))
            fail_msg("MTP's position %u of %u has other bytes", p, n);
    }
    if (n == 0) return;
    state_of(w->s, h, want);
    sequence_save(q, got);
    assert_memory_equal(got, want, state_size(w->s));
}

uint32_t world_read(world *w, int i, const text *x, uint32_t positions)
{
    prefix_hit hit;
    world_make(w, i, positions);
    prefix_tree_find(w->t, NULL, x->ids, x->n - 1, &hit);
    const uint32_t from = prefix_tree_adopt(w->t, &hit, w->q[i]);
    assert_int_equal(from, hit.length);
    assert_int_equal(sequence_length(w->q[i]), from);
    assert_memory_equal(sequence_tokens(w->q[i]), x->ids, from * sizeof *x->ids);
    world_check(w, i);
    world_run(w, i, x->ids + from, x->n - from);
    return from;
}

/* ---- the tree ---- */

static void text_of(const prefix_tree *t, const prefix_node *node, text *out)
{
    out->n = node->end;
    for (; node != &t->root; node = node->parent)
        memcpy(out->ids + node->end - node->n, node->tokens, node->n * sizeof *node->tokens);
}

static bool begins_with(const text *x, const text *y)
{
    return x->n >= y->n && memcmp(x->ids, y->ids, y->n * sizeof *y->ids) == 0;
}

uint32_t world_texts(const world *w, text *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->t->n_snapshots; i++)
        if (w->t->anchors[i].at != NULL) text_of(w->t, w->t->anchors[i].at, &out[n++]);
    assert_int_equal(n, w->t->n_anchors);
    return n;
}

bool world_has(const world *w, const text *x)
{
    text at;
    for (uint32_t i = 0; i < w->t->n_snapshots; i++) {
        if (w->t->anchors[i].at == NULL || w->t->anchors[i].at->end != x->n) continue;
        text_of(w->t, w->t->anchors[i].at, &at);
        if (begins_with(&at, x)) return true;
    }
    return false;
}

/* Blocks at or below `node`, whose pages are counted in `holds`. */
static uint32_t audit_node(const world *w, const prefix_node *node, uint32_t *holds)
{
    uint32_t n = 1;
    assert_true(node->n > 0 && node->n <= PREFIX_BLOCK);
    assert_int_equal(node->end, node->parent->end + node->n);
    if (node->n < PREFIX_BLOCK) assert_null(node->children);
    if (node->children == NULL) assert_non_null(node->anchor);
    if (node->anchor != NULL) assert_ptr_equal(node->anchor->at, node);
    for (uint32_t i = 0; i * K_PAGE < node->n; i++) holds[node->pages[i]]++;
    for (const prefix_node *c = node->children; c != NULL; c = c->next) {
        assert_ptr_equal(c->parent, node);
        for (const prefix_node *d = c->next; d != NULL; d = d->next)
            assert_false(c->n == d->n && memcmp(c->tokens, d->tokens, c->n * sizeof *c->tokens) == 0);
        n += audit_node(w, c, holds);
    }
    return n;
}

/* `shallower` of each anchor, by comparing all with all. */
static void audit_anchors(const world *w)
{
    static text        x, y;
    const prefix_tree *t = w->t;
    for (uint32_t i = 0; i < t->n_snapshots; i++) {
        const prefix_anchor *a = &t->anchors[i], *best = NULL;
        if (a->at == NULL) continue;
        assert_ptr_equal(a->at->anchor, a);
        text_of(t, a->at, &x);
        for (uint32_t j = 0; j < t->n_snapshots; j++) {
            const prefix_anchor *b = &t->anchors[j];
            if (b->at == NULL || b == a || b->at->end >= a->at->end) continue;
            if (best != NULL && best->at->end >= b->at->end) continue;
            text_of(t, b->at, &y);
            if (begins_with(&x, &y)) best = b;
        }
        assert_ptr_equal(a->shallower, best);
        if (best != NULL) assert_true(best->used >= a->used);
    }
}

void world_audit(world *w)
{
    static uint32_t    holds[MOST_PAGES];
    const prefix_tree *t     = w->t;
    uint32_t           nodes = 0, pages = 0, unused = 0, anchors = 0;
    memset(holds, 0, sizeof holds);
    for (const prefix_node *c = t->root.children; c != NULL; c = c->next) nodes += audit_node(w, c, holds);
    for (const prefix_node *c = t->free_nodes; c != NULL; c = c->next) unused++;
    assert_int_equal(nodes + unused, t->fresh);
    for (uint32_t p = 0; p < w->s->limits.pages; p++) {
        assert_int_equal(holds[p], t->holds[p]);
        pages += holds[p] > 0;
        for (int i = 0; i < MOST_SEQUENCES; i++)
            for (uint32_t j = 0; w->q[i] != NULL && j < w->q[i]->n_pages; j++) holds[p] += w->q[i]->pages[j] == p;
        assert_int_equal(holds[p], w->s->page_refs[p]);
    }
    for (uint32_t i = 0; i < t->n_snapshots; i++) anchors += t->anchors[i].at != NULL;
    audit_anchors(w);
    const prefix_stats s = prefix_tree_stats(t);
    assert_int_equal(s.blocks, nodes);
    assert_int_equal(s.anchors, anchors);
    assert_int_equal(s.snapshot_bytes, anchors * state_size(w->s));
    assert_int_equal(s.page_bytes, pages * state_page_bytes(&w->s->limits));
}
