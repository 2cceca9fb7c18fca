/* grammar/places.c - sets of places, and one byte further. */
#include "grammar/places.h"

#include <string.h>

static uint32_t place_hash(const place *p)
{
    uint64_t h = (p->data ^ ((uint64_t)p->node << 32 | p->frame)) * 0x9E3779B97F4A7C15u;
    h          = (h ^ h >> 32 ^ p->frame) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

static bool same(const place *a, const place *b)
{
    return a->node == b->node && a->frame == b->frame && a->data == b->data;
}

void place_list_start(place_list *l)
{
    l->n = l->kept_n = 0;
    l->ended = l->limited = false;
    if (++l->now == 0) {
        memset(l->stamp, 0, sizeof l->stamp);
        l->now = 1;
    }
}

void place_list_add(place_list *l, uint32_t at, uint64_t data, uint32_t top)
{
    const place p = {.node = at, .data = data, .frame = top};
    uint32_t    i = place_hash(&p) % PLACES_SLOTS;
    for (; l->stamp[i] == l->now; i = (i + 1) % PLACES_SLOTS)
        if (same(&l->all[l->slot[i]], &p)) return;
    if (l->n == PLACES_MOST) {
        l->failed = true;
        return;
    }
    l->stamp[i]    = l->now;
    l->slot[i]     = l->n;
    l->all[l->n++] = p;
}

static void keep(place_list *l, uint32_t at, uint64_t data, uint32_t top)
{
    if (l->kept_n == PLACES_MOST)
        l->failed = true;
    else
        l->kept[l->kept_n++] = (place){.node = at, .data = data, .frame = top};
}

static void call(place_list *l, const automaton *a, frames *f, const edge *e, const place *p)
{
    uint32_t top = p->frame;
    if (!a->nodes[e->to].end) top = frames_push(f, e->to, p->data, p->frame);
    /* Too deep: that way is closed, others may be open. */
    if (top != FRAME_NONE) place_list_add(l, a->rules[e->rule].start, e->data, top);
    l->failed |= f->full;
}

/* True when the edge asks for data that are not known. */
static bool pass(place_list *l, const edge *e, const place *p)
{
    const uint32_t most = (uint32_t)p->data, least = (uint32_t)(p->data >> 32);
    if (p->data == DATA_UNKNOWN) return true;
    switch ((edge_kind)e->kind) {
    case EDGE_COUNT:
        if (most > 0)
            place_list_add(l, e->to, data_count(least - (least > 0), most == DATA_MANY ? most : most - 1), p->frame);
        else
            l->limited = true;
        break;
    case EDGE_ENOUGH:
        if (least == 0) place_list_add(l, e->to, DATA_NONE, p->frame);
        break;
    case EDGE_FIRST:
        if ((p->data & e->data) == 0) place_list_add(l, e->to, p->data | e->data, p->frame);
        break;
    case EDGE_ALL:
        if ((p->data & e->data) == e->data) place_list_add(l, e->to, DATA_NONE, p->frame);
        break;
    case EDGE_LEFT:
        if ((p->data & e->data) != e->data) place_list_add(l, e->to, p->data, p->frame);
        break;
    case EDGE_BYTES:
    case EDGE_FREE:
    case EDGE_CALL: break;
    }
    return false;
}

static void leave(place_list *l, const frames *f, const place *p)
{
    if (p->frame != FRAME_BOTTOM)
        place_list_add(l, f->f[p->frame].back, f->f[p->frame].data, f->f[p->frame].below);
    else if (!l->ended)
        keep(l, PLACE_POPPED, 0, FRAME_BOTTOM);
    l->ended |= p->frame == FRAME_BOTTOM;
}

void place_list_close(place_list *l, const automaton *a, frames *f)
{
    for (uint32_t i = 0; i < l->n && !l->failed; i++) {
        const place p    = l->all[i];
        const node *at   = &a->nodes[p.node];
        bool        asks = false;
        if (at->reads) keep(l, p.node, p.data, p.frame);
        if (at->end) leave(l, f, &p);
        for (uint32_t j = at->first; j != NO_EDGE; j = a->edges[j].next) {
            const edge *e = &a->edges[j];
            if (e->kind == EDGE_FREE)
                place_list_add(l, e->to, p.data, p.frame);
            else if (e->kind == EDGE_CALL)
                call(l, a, f, e, &p);
            else if (e->kind != EDGE_BYTES)
                asks |= pass(l, e, &p);
        }
        if (asks) keep(l, PLACE_ASK | p.node, p.data, p.frame);
    }
    l->work += l->n;
}

void place_list_step(place_list *l, const automaton *a, const place *p, uint32_t n, uint8_t byte)
{
    place_list_start(l);
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].node == PLACE_LIMITED) l->limited = true;
        if (p[i].node & PLACE_ASK) continue;
        for (uint32_t j = a->nodes[p[i].node].first; j != NO_EDGE; j = a->edges[j].next) {
            const edge *e = &a->edges[j];
            if (e->kind == EDGE_BYTES && e->lo <= byte && byte <= e->hi)
                place_list_add(l, e->to, p[i].data, p[i].frame);
        }
    }
}

/* ---- numbers for sets ---- */

void place_table_clear(place_table *t)
{
    memset(t->heads, 0xFF, sizeof t->heads);
    t->pool_n         = 0;
    t->n              = 1;
    t->sets[SET_DEAD] = (place_set){.next = SET_NONE};
    memset(t->step[SET_DEAD], 0, sizeof t->step[SET_DEAD]);
}

/* Bytes that no place reads lead nowhere, and need not be asked. */
static void fill_row(const automaton *a, const place *p, uint32_t n, uint32_t row[256])
{
    memset(row, 0, 256 * sizeof *row);
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].node & PLACE_ASK) continue;
        for (uint32_t j = a->nodes[p[i].node].first; j != NO_EDGE; j = a->edges[j].next) {
            const edge *e = &a->edges[j];
            if (e->kind == EDGE_BYTES) memset(row + e->lo, 0xFF, (size_t)(e->hi - e->lo + 1) * sizeof *row);
        }
    }
}

uint32_t place_table_set(place_table *t, const place *p, uint32_t n)
{
    if (n == 0) return SET_DEAD;
    uint32_t h    = n;
    bool     asks = false;
    for (uint32_t i = 0; i < n; i++) {
        h = h * 31 + place_hash(&p[i]);
        asks |= (p[i].node & PLACE_ASK) != 0 && p[i].node != PLACE_LIMITED;
    }
    uint32_t *head = &t->heads[(h ^ h >> 16) % SETS_HEADS];
    for (uint32_t i = *head; i != SET_NONE; i = t->sets[i].next) {
        const place_set *s = &t->sets[i];
        uint32_t         j = 0;
        while (s->n == n && j < n && same(&t->pool[s->first + j], &p[j])) j++;
        if (s->n == n && j == n) return i;
    }
    if (t->n == SETS_MOST || n > SETS_POOL - t->pool_n) return SET_NONE;
    memcpy(t->pool + t->pool_n, p, n * sizeof *p);
    t->sets[t->n] = (place_set){.first = t->pool_n, .n = n, .next = *head, .asks = asks};
    fill_row(t->a, p, n, t->step[t->n]);
    t->pool_n += n;
    *head = t->n;
    return t->n++;
}

uint32_t place_table_miss(place_table *t, uint32_t set, uint8_t byte)
{
    const place_set *s = &t->sets[set];
    place_list_step(t->list, t->a, t->pool + s->first, s->n, byte);
    place_list_close(t->list, t->a, t->f);
    if (t->keeps_limited && t->list->limited && t->list->kept_n > 0) keep(t->list, PLACE_LIMITED, 0, FRAME_BOTTOM);
    if (t->list->failed) return SET_NONE;
    const uint32_t to         = place_table_set(t, t->list->kept, t->list->kept_n);
    return t->step[set][byte] = to;
}
