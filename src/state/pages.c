/* state/pages.c - the pool of key/value pages: reference counts, promises, copies.
 *
 * A sequence is promised pages when it is made, and never more are promised
 * than there are.  What is kept besides (the prefix cache) is given up when a
 * promise falls due, so a sequence never finds the pool empty. */
#include "state/state_parts.h"

uint64_t page_bytes(const state_limits *l, k_kv_form form)
{
    return (uint64_t)l->kv_heads * K_PAGE * k_kv_row_bytes(form, l->head_dim);
}

uint64_t state_page_bytes(const state_limits *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->attention_layers; i++)
        sum += page_bytes(l, l->kv[i].keys) + page_bytes(l, l->kv[i].values);
    return sum;
}

/* The part of one page in one layer: its keys, or its values. */
typedef struct piece {
    k_buf   *buf;
    uint64_t bytes;
} piece;

/* Piece i of a page's 2 * attention_layers. */
static piece piece_of(const state *s, uint32_t i)
{
    const k_cache *c = &s->caches[i / 2];
    return i % 2 == 0 ? (piece){c->keys, page_bytes(&s->limits, c->form.keys)}
                      : (piece){c->values, page_bytes(&s->limits, c->form.values)};
}

uint32_t state_free_positions(const state *s)
{
    return (s->limits.pages - s->n_promised) * K_PAGE;
}

void state_on_dry(state *s, state_reclaim_fn *fn, void *user)
{
    s->reclaim      = fn;
    s->reclaim_user = user;
}

static void zero_page(state *s, uint32_t page)
{
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, i);
        s->k->buf_zero(s->k, p.buf, page * p.bytes, p.bytes);
    }
}

/* Something that is kept besides is given up; false: there is nothing. */
static bool reclaim(state *s)
{
    return s->reclaim != NULL && s->reclaim(s->reclaim_user);
}

/* A free page, with the last holder's bytes still in it. */
static uint32_t take(state *s)
{
    while (s->n_free_pages == 0)
        if (!reclaim(s)) return UINT32_MAX;
    const uint32_t page = s->free_pages[--s->n_free_pages];
    s->page_refs[page]  = 1;
    return page;
}

uint32_t page_take(state *s)
{
    const uint32_t page = take(s);
    if (page != UINT32_MAX) zero_page(s, page);
    return page;
}

void page_hold(state *s, uint32_t page)
{
    s->page_refs[page]++;
}

void page_release(state *s, uint32_t page)
{
    if (--s->page_refs[page] == 0) s->free_pages[s->n_free_pages++] = page;
}

void page_own(state *s, uint32_t *page)
{
    /* Never more pages are promised than there are.  So if none can be made free, sequences hold
     * them all, this one once, and what keeps it besides has let go of it. */
    while (s->page_refs[*page] > 1 && s->n_free_pages == 0)
        if (!reclaim(s)) return;
    if (s->page_refs[*page] == 1) return;
    const uint32_t copy = take(s);
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, i);
        s->k->buf_copy(s->k, p.buf, copy * p.bytes, p.buf, *page * p.bytes, p.bytes);
    }
    page_release(s, *page);
    *page = copy;
}

void page_read(const state *s, uint32_t page, void *to)
{
    uint8_t *at = to;
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, i);
        s->k->buf_read(s->k, p.buf, page * p.bytes, at, p.bytes);
        at += p.bytes;
    }
}

void page_write(state *s, uint32_t page, const void *from)
{
    const uint8_t *at = from;
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, i);
        s->k->buf_write(s->k, p.buf, page * p.bytes, at, p.bytes);
        at += p.bytes;
    }
}
