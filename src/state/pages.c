/* state/pages.c - the pool of key/value pages: reference counts, promises, copies.
 *
 * A sequence is promised pages when it is made, and never more are promised
 * than there are.  What is kept besides (the prefix cache) is given up when a
 * promise falls due, so a sequence never finds the pool empty. */
#include "state/state_parts.h"

uint64_t state_page_bytes(const state_limits *l)
{
    return 2 * l->page_bytes * l->attention_layers;
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
    const uint64_t bytes = s->limits.page_bytes;
    for (uint32_t i = 0; i < s->limits.attention_layers; i++) {
        s->k->buf_zero(s->k, s->keys[i], page * bytes, bytes);
        s->k->buf_zero(s->k, s->values[i], page * bytes, bytes);
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
    const uint32_t copy  = take(s);
    const uint64_t bytes = s->limits.page_bytes;
    for (uint32_t i = 0; i < s->limits.attention_layers; i++) {
        s->k->buf_copy(s->k, s->keys[i], copy * bytes, s->keys[i], *page * bytes, bytes);
        s->k->buf_copy(s->k, s->values[i], copy * bytes, s->values[i], *page * bytes, bytes);
    }
    page_release(s, *page);
    *page = copy;
}

void page_read(const state *s, uint32_t page, void *to)
{
    const uint64_t bytes = s->limits.page_bytes;
    uint8_t       *p     = to;
    for (uint32_t i = 0; i < s->limits.attention_layers; i++, p += 2 * bytes) {
        s->k->buf_read(s->k, s->keys[i], page * bytes, p, bytes);
        s->k->buf_read(s->k, s->values[i], page * bytes, p + bytes, bytes);
    }
}

void page_write(state *s, uint32_t page, const void *from)
{
    const uint64_t bytes = s->limits.page_bytes;
    const uint8_t *p     = from;
    for (uint32_t i = 0; i < s->limits.attention_layers; i++, p += 2 * bytes) {
        s->k->buf_write(s->k, s->keys[i], page * bytes, p, bytes);
        s->k->buf_write(s->k, s->values[i], page * bytes, p + bytes, bytes);
    }
}
