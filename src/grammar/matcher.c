/* grammar/matcher.c - a text on its way through a grammar. */
#include "base/mem.h"
#include "grammar/grammar.h"
#include "grammar/grammar_parts.h"

#include <string.h>

enum { MATCHER_FRAMES = 4096, TIDY_AT = MATCHER_FRAMES / 2 };

struct matcher {
    grammar *g;
    frames   f;
    uint32_t n;
    place    now[PLACES_MOST];
    frame    memory[MATCHER_FRAMES];
    uint32_t moved[MATCHER_FRAMES]; /* of tidy */
};

static void lock(const matcher *m)
{
    (void)pthread_mutex_lock(&m->g->lock);
}

static void unlock(const matcher *m)
{
    (void)pthread_mutex_unlock(&m->g->lock);
}

weir_status matcher_new(matcher **out, grammar *g, weir_error *err)
{
    matcher *m = mem_zalloc(1, sizeof *m);
    *out       = m;
    if (m == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    grammar_hold(g);
    m->g = g;
    frames_init(&m->f, m->memory, MATCHER_FRAMES);
    lock(m);
    place_list *l = g->masks.list;
    l->failed     = false;
    place_list_start(l);
    place_list_add(l, g->a.rules[g->a.root].start, DATA_NONE, FRAME_BOTTOM);
    place_list_close(l, &g->a, &m->f);
    m->n = l->kept_n;
    memcpy(m->now, l->kept, m->n * sizeof *m->now);
    const bool failed = l->failed;
    unlock(m);
    if (!failed) return WEIR_OK;
    matcher_free(m);
    *out = NULL;
    return status_fail(err, WEIR_INVALID, "grammar: it begins in too many ways");
}

void matcher_free(matcher *m)
{
    if (m == NULL) return;
    grammar_release(m->g);
    mem_free(m);
}

void matcher_copy(matcher *to, const matcher *from)
{
    to->n = from->n;
    memcpy(to->now, from->now, from->n * sizeof *from->now);
    frames_copy(&to->f, &from->f);
}

/* Forgets frames that no place needs.  What is below a frame is older than it. */
static void tidy(matcher *m)
{
    frames *f = &m->f;
    memset(m->moved, 0, f->n * sizeof *m->moved);
    for (uint32_t i = 0; i < m->n; i++) m->moved[m->now[i].frame] = 1;
    for (uint32_t i = f->n - 1; i > 0; i--)
        if (m->moved[i] != 0) m->moved[f->f[i].below] = 1;
    const uint32_t n = f->n;
    frames_init(f, m->memory, MATCHER_FRAMES);
    m->moved[FRAME_BOTTOM] = FRAME_BOTTOM;
    for (uint32_t i = 1; i < n; i++) {
        if (m->moved[i] == 0) continue;
        const frame old = f->f[i]; /* new frames are never behind old ones */
        m->moved[i]     = frames_push(f, old.back, old.data, m->moved[old.below]);
    }
    for (uint32_t i = 0; i < m->n; i++) m->now[i].frame = m->moved[m->now[i].frame];
}

/* The places after the bytes, in the list; false: they do not fit. */
static bool run(matcher *m, const uint8_t *bytes, size_t n)
{
    const automaton *a     = &m->g->a;
    place_list      *l     = m->g->masks.list;
    place           *now   = m->g->masks.here.pool; /* is free between masks */
    uint32_t         n_now = m->n;
    memcpy(now, m->now, n_now * sizeof *now);
    l->failed = false;
    for (size_t i = 0; i < n; i++) {
        place_list_step(l, a, now, n_now, bytes[i]);
        place_list_close(l, a, &m->f);
        if (l->failed || l->kept_n == 0) return false;
        n_now = l->kept_n;
        memcpy(now, l->kept, n_now * sizeof *now);
    }
    return true;
}

weir_status matcher_bytes(matcher *m, const uint8_t *bytes, size_t n, weir_error *err)
{
    if (n == 0) return WEIR_OK;
    lock(m);
    const uint32_t    kept = m->f.n;
    const place_list *l    = m->g->masks.list;
    const bool        fits = run(m, bytes, n), failed = l->failed;
    if (fits) {
        m->n = l->kept_n;
        memcpy(m->now, l->kept, m->n * sizeof *m->now);
        if (m->f.n > TIDY_AT) tidy(m);
    } else {
        frames_cut(&m->f, kept);
        m->f.full = false;
    }
    unlock(m);
    if (fits) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s",
                       failed ? "grammar: too ambiguous: one text can be read in too many ways"
                              : "grammar: this token is not allowed here");
}

weir_status matcher_mask(matcher *m, uint64_t *bits, weir_error *err)
{
    memset(bits, 0, m->g->masks.words * sizeof *bits);
    lock(m);
    const weir_status st = masks_add(&m->g->masks, m->now, m->n, &m->f, bits, err);
    unlock(m);
    return st;
}

bool matcher_may_end(const matcher *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (place_is_end(&m->now[i])) return true;
    return false;
}

bool matcher_must_end(const matcher *m)
{
    return m->n == 1 && place_is_end(&m->now[0]);
}

/* The one byte that all places read; -1: there are several, or none. */
static int only_byte(const automaton *a, const place *p, uint32_t n)
{
    int byte = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (place_is_end(&p[i])) return -1;
        for (uint32_t j = a->nodes[p[i].node].first; j != NO_EDGE; j = a->edges[j].next) {
            const edge *e = &a->edges[j];
            if (e->kind != EDGE_BYTES) continue;
            if (e->lo != e->hi || (byte >= 0 && byte != e->lo)) return -1;
            byte = e->lo;
        }
    }
    return byte;
}

size_t matcher_forced(const matcher *m, uint8_t *bytes, size_t size)
{
    matcher *ahead = mem_alloc(1, sizeof *ahead);
    size_t   n     = 0;
    if (ahead == NULL) return 0;
    ahead->g = m->g;
    frames_init(&ahead->f, ahead->memory, MATCHER_FRAMES);
    matcher_copy(ahead, m);
    for (int byte; n < size && (byte = only_byte(&m->g->a, ahead->now, ahead->n)) >= 0; n++) {
        bytes[n] = (uint8_t)byte;
        if (matcher_bytes(ahead, &bytes[n], 1, NULL) != WEIR_OK) break;
    }
    mem_free(ahead);
    return n;
}
