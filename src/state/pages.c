/* state/pages.c - the pool of key/value pages: reference counts, promises, copies.
 *
 * A sequence is promised pages when it is made, and never more are promised
 * than there are.  Early pages (state.h) are a pool of their own, with enough of
 * them for every sequence there can be.  What is kept besides (the prefix cache) is given up when a
 * promise falls due, so a sequence never finds the pool empty. */
#include "state/state_parts.h"

/* Bytes of the keys (or values) of one page in a layer of that form. */
static uint64_t page_bytes(const state_limits *l, k_kv_form form)
{
    return (uint64_t)l->kv_heads * K_PAGE * k_kv_row_bytes(form, l->head_dim);
}

uint64_t plane_bytes(const state_limits *l, k_kv_form form)
{
    return page_bytes(l, k_kv_early(form)) * l->early_pages + page_bytes(l, form) * (l->pages - l->early_pages);
}

static uint64_t all_layers(const state_limits *l, bool early)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->attention_layers; i++) {
        const k_kv_form k = l->kv[i].keys, v = l->kv[i].values;
        sum += page_bytes(l, early ? k_kv_early(k) : k) + page_bytes(l, early ? k_kv_early(v) : v);
    }
    return sum;
}

uint64_t state_page_bytes_at(const state_limits *l, uint32_t index)
{
    return all_layers(l, index < l->early);
}

uint64_t state_page_bytes(const state_limits *l)
{
    return all_layers(l, false);
}

uint32_t late_pages(const state_limits *l, uint32_t positions)
{
    const uint32_t pages = (positions + K_PAGE - 1) / K_PAGE;
    return pages > l->early ? pages - l->early : 0;
}

/* The part of one page in one layer: its keys, or its values. */
typedef struct piece {
    k_buf   *buf;
    uint64_t at, bytes;
} piece;

/* Piece i of a page's 2 * attention_layers. */
static piece piece_of(const state *s, uint32_t page, uint32_t i)
{
    const state_limits *l     = &s->limits;
    const k_cache      *c     = &s->caches[i / 2];
    const k_kv_form     form  = i % 2 == 0 ? c->form.keys : c->form.values;
    const uint64_t      early = page_bytes(l, k_kv_early(form)), late = page_bytes(l, form);
    k_buf              *buf = i % 2 == 0 ? c->keys : c->values;
    if (page < l->early_pages) return (piece){buf, page * early, early};
    return (piece){buf, l->early_pages * early + (page - l->early_pages) * late, late};
}

uint32_t state_free_positions(const state *s)
{
    const state_limits *l    = &s->limits;
    const uint64_t      most = (uint64_t)(l->pages - l->early_pages - s->n_promised + l->early) * K_PAGE;
    return most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

void state_on_dry(state *s, state_reclaim_fn *fn, void *user)
{
    s->reclaim      = fn;
    s->reclaim_user = user;
}

static void zero_page(state *s, uint32_t page)
{
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, page, i);
        s->k->buf_zero(s->k, p.buf, p.at, p.bytes);
    }
}

/* Something that is kept besides is given up; false: there is nothing. */
static bool reclaim(state *s)
{
    return s->reclaim != NULL && s->reclaim(s->reclaim_user);
}

/* A free page of one kind, with the last holder's bytes still in it. */
static uint32_t take(state *s, bool early)
{
    uint32_t *n = early ? &s->n_free_early : &s->n_free_pages;
    while (*n == 0)
        if (!reclaim(s)) return UINT32_MAX;
    const uint32_t page = (early ? s->free_early : s->free_pages)[--*n];
    s->page_refs[page]  = 1;
    return page;
}

uint32_t page_take(state *s, uint32_t index)
{
    const uint32_t page = take(s, index < s->limits.early);
    if (page != UINT32_MAX) zero_page(s, page);
    return page;
}

void page_hold(state *s, uint32_t page)
{
    s->page_refs[page]++;
}

void page_release(state *s, uint32_t page)
{
    if (--s->page_refs[page] > 0) return;
    if (page < s->limits.early_pages)
        s->free_early[s->n_free_early++] = page;
    else
        s->free_pages[s->n_free_pages++] = page;
}

void page_own(state *s, uint32_t *page)
{
    const bool      early = *page < s->limits.early_pages;
    const uint32_t *n     = early ? &s->n_free_early : &s->n_free_pages;
    /* Never more pages of a kind are promised than there are.  So if none can be made free, sequences
     * hold them all, this one once, and what keeps it besides has let go of it. */
    while (s->page_refs[*page] > 1 && *n == 0)
        if (!reclaim(s)) return;
    if (s->page_refs[*page] == 1) return;
    const uint32_t copy = take(s, early);
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece to = piece_of(s, copy, i), from = piece_of(s, *page, i);
        s->k->buf_copy(s->k, to.buf, to.at, from.buf, from.at, from.bytes);
    }
    page_release(s, *page);
    *page = copy;
}

void page_read(const state *s, uint32_t page, void *to)
{
    uint8_t *at = to;
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, page, i);
        s->k->buf_read(s->k, p.buf, p.at, at, p.bytes);
        at += p.bytes;
    }
}

void page_write(state *s, uint32_t page, const void *from)
{
    const uint8_t *at = from;
    for (uint32_t i = 0; i < 2 * s->limits.attention_layers; i++) {
        const piece p = piece_of(s, page, i);
        s->k->buf_write(s->k, p.buf, p.at, at, p.bytes);
        at += p.bytes;
    }
}
