/* grammar/char_dfa.c - deterministic automata over characters. */
#include "grammar/char_dfa.h"

#include "base/mem.h"

#include <string.h>

void char_dfa_free(char_dfa *d)
{
    mem_free(d->states);
    mem_free(d->ranges);
    *d = (char_dfa){0};
}

static weir_status grow(void **array, uint32_t n, uint32_t *cap, uint32_t most, size_t size, weir_error *err)
{
    if (n < *cap) return WEIR_OK;
    const uint32_t more = *cap == 0 ? 64 : *cap * 2;
    if (more > most)
        return status_fail(err, WEIR_INVALID, "pattern: expected at most %d states and %d transitions",
                           CHAR_DFA_STATES_MOST, CHAR_DFA_RANGES_MOST);
    void *p = mem_realloc(*array, more, size);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    *array = p;
    *cap   = more;
    return WEIR_OK;
}

weir_status char_dfa_state(char_dfa *d, weir_error *err)
{
    void *p = d->states;
    TRY(grow(&p, d->n_states, &d->cap_states, CHAR_DFA_STATES_MOST, sizeof *d->states, err));
    d->states                = p;
    d->states[d->n_states++] = (char_state){0};
    return WEIR_OK;
}

void char_dfa_begin(char_dfa *d, uint32_t state)
{
    d->states[state].first = d->n_ranges;
}

weir_status char_dfa_range(char_dfa *d, uint32_t state, char_range r, weir_error *err)
{
    char_state *s = &d->states[state];
    if (s->n > 0) { /* neighbours with one goal are one */
        char_range *last = &d->ranges[s->first + s->n - 1];
        if (last->to == r.to && last->hi + 1 == r.lo) {
            last->hi = r.hi;
            return WEIR_OK;
        }
    }
    void *p = d->ranges;
    TRY(grow(&p, d->n_ranges, &d->cap_ranges, CHAR_DFA_RANGES_MOST, sizeof *d->ranges, err));
    d->ranges                = p;
    d->ranges[d->n_ranges++] = r;
    s->n++;
    return WEIR_OK;
}

/* ---- products ---- */

/* Numbers for pairs of states, in the order they are met: the work list at once. */
typedef struct pairs {
    uint32_t (*pair)[2]; /* by number */
    uint32_t *slots, n, mask;
} pairs;

static void pairs_free(pairs *p)
{
    mem_free(p->pair);
    mem_free(p->slots);
}

static weir_status pairs_init(pairs *p, weir_error *err)
{
    enum { SLOTS = 2 * CHAR_DFA_STATES_MOST };
    *p = (pairs){.pair  = mem_alloc(CHAR_DFA_STATES_MOST, sizeof *p->pair),
                 .slots = mem_alloc(SLOTS, sizeof *p->slots),
                 .mask  = SLOTS - 1};
    if (p->pair == NULL || p->slots == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    memset(p->slots, 0xFF, SLOTS * sizeof *p->slots);
    return WEIR_OK;
}

/* The state of `out` for (x, y), a new one where it is met first. */
static weir_status pair_state(pairs *p, char_dfa *out, uint32_t x, uint32_t y, uint32_t *id, weir_error *err)
{
    const uint64_t h = ((uint64_t)x << 32 | y) * 0x9E3779B97F4A7C15u;
    uint32_t       i = (uint32_t)(h >> 40) & p->mask;
    for (; p->slots[i] != CHAR_DFA_NONE; i = (i + 1) & p->mask) {
        *id = p->slots[i];
        if (p->pair[*id][0] == x && p->pair[*id][1] == y) return WEIR_OK;
    }
    TRY(char_dfa_state(out, err));
    *id             = p->n++;
    p->slots[i]     = *id;
    p->pair[*id][0] = x;
    p->pair[*id][1] = y;
    return WEIR_OK;
}

static weir_status meet(char_dfa *out, pairs *p, uint32_t id, const char_dfa *a, const char_dfa *b, weir_error *err)
{
    const char_state *s = &a->states[p->pair[id][0]], *t = &b->states[p->pair[id][1]];
    char_dfa_begin(out, id);
    out->states[id].accepts = s->accepts && t->accepts;
    for (uint32_t i = 0, j = 0; i < s->n && j < t->n;) {
        const char_range *r = &a->ranges[s->first + i], *q = &b->ranges[t->first + j];
        char_range        both = {.lo = r->lo > q->lo ? r->lo : q->lo, .hi = r->hi < q->hi ? r->hi : q->hi};
        if (both.lo <= both.hi) {
            TRY(pair_state(p, out, r->to, q->to, &both.to, err));
            TRY(char_dfa_range(out, id, both, err));
        }
        if (r->hi < q->hi)
            i++;
        else
            j++;
    }
    return WEIR_OK;
}

weir_status char_dfa_and(char_dfa *out, const char_dfa *a, const char_dfa *b, weir_error *err)
{
    pairs p;
    *out = (char_dfa){0};
    uint32_t    id;
    weir_status st = pairs_init(&p, err);
    if (st == WEIR_OK) st = pair_state(&p, out, 0, 0, &id, err);
    for (uint32_t i = 0; st == WEIR_OK && i < p.n; i++) st = meet(out, &p, i, a, b, err);
    pairs_free(&p);
    return st;
}

/* State (s, n): n characters have been read; more than is asked for are not told apart. */
static weir_status measure(char_dfa *out, pairs *p, uint32_t id, const char_dfa *d, uint32_t least, uint32_t most,
                           weir_error *err)
{
    const char_state *s = &d->states[p->pair[id][0]];
    const uint32_t    n = p->pair[id][1], next = most == DATA_MANY && n == least ? n : n + 1;
    char_dfa_begin(out, id);
    out->states[id].accepts = s->accepts && n >= least;
    if (n == most) return WEIR_OK;
    for (uint32_t i = 0; i < s->n; i++) {
        char_range r = d->ranges[s->first + i];
        TRY(pair_state(p, out, r.to, next, &r.to, err));
        TRY(char_dfa_range(out, id, r, err));
    }
    return WEIR_OK;
}

weir_status char_dfa_length(char_dfa *out, const char_dfa *d, uint32_t least, uint32_t most, weir_error *err)
{
    pairs p;
    *out = (char_dfa){0};
    uint32_t    id;
    weir_status st = pairs_init(&p, err);
    if (st == WEIR_OK) st = pair_state(&p, out, 0, 0, &id, err);
    for (uint32_t i = 0; st == WEIR_OK && i < p.n; i++) st = measure(out, &p, i, d, least, most, err);
    pairs_free(&p);
    return st;
}

/* ---- all but some ---- */

/* A tree of the texts; a character that goes on with none of them leads to state 1. */
typedef struct but_node {
    uint32_t cp, child, beside; /* 0: none */
    bool     text;
} but_node;

static weir_status but_add(but_node *tree, uint32_t *n, const char *text, weir_error *err)
{
    uint32_t     at  = 0;
    const size_t len = strlen(text);
    for (size_t i = 0, step; i < len; i += step) {
        const uint32_t cp   = utf8_decode(text + i, len - i, &step);
        uint32_t      *link = &tree[at].child; /* children in order */
        while (*link != 0 && tree[*link].cp < cp) link = &tree[*link].beside;
        if (*link == 0 || tree[*link].cp != cp) {
            if (*n == CHAR_DFA_STATES_MOST - 2)
                return status_fail(err, WEIR_INVALID, "properties: expected shorter names, or fewer");
            tree[*n] = (but_node){.cp = cp, .beside = *link};
            *link    = (*n)++;
        }
        at = *link;
    }
    tree[at].text = true;
    return WEIR_OK;
}

/* Tree node i is state i, or i + 1 behind the one that goes on with no text. */
static weir_status but_state(char_dfa *out, const but_node *tree, uint32_t i, weir_error *err)
{
    const uint32_t state = i == 0 ? 0 : i + 1;
    uint32_t       next  = 0;
    char_dfa_begin(out, state);
    out->states[state].accepts = !tree[i].text;
    for (uint32_t c = tree[i].child; c != 0; c = tree[c].beside) {
        const uint32_t cp = tree[c].cp;
        if (cp > next) TRY(char_dfa_range(out, state, (char_range){next, cp - 1, 1}, err));
        TRY(char_dfa_range(out, state, (char_range){cp, cp, c + 1}, err));
        next = cp + 1;
    }
    return next > CODE_POINT_MOST ? WEIR_OK : char_dfa_range(out, state, (char_range){next, CODE_POINT_MOST, 1}, err);
}

weir_status char_dfa_but(char_dfa *out, const char *const *texts, size_t n, weir_error *err)
{
    *out             = (char_dfa){0};
    but_node   *tree = mem_zalloc(CHAR_DFA_STATES_MOST, sizeof *tree);
    uint32_t    size = 1;
    weir_status st   = tree == NULL ? status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory") : WEIR_OK;
    for (size_t i = 0; st == WEIR_OK && i < n; i++) st = but_add(tree, &size, texts[i], err);
    for (uint32_t i = 0; st == WEIR_OK && i <= size; i++) st = char_dfa_state(out, err);
    for (uint32_t i = 0; st == WEIR_OK && i < size; i++) {
        st = but_state(out, tree, i, err);
        if (i > 0 || st != WEIR_OK) continue;
        char_dfa_begin(out, 1);
        out->states[1].accepts = true;
        st                     = char_dfa_range(out, 1, (char_range){0, CODE_POINT_MOST, 1}, err);
    }
    mem_free(tree);
    return st;
}

/* ---- to bytes ---- */

weir_status char_dfa_emit(const char_dfa *d, automaton *a, uint32_t from, encoding e, uint32_t to, weir_error *err)
{
    TRY(automaton_status(a, err));
    uint32_t *nodes = mem_alloc(d->n_states, sizeof *nodes);
    if (nodes == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    const uint32_t rule_id = a->nodes[from].rule;
    for (uint32_t i = 0; i < d->n_states; i++) nodes[i] = automaton_node(a, rule_id);
    automaton_free_edge(a, from, nodes[0]);
    for (uint32_t i = 0; i < d->n_states && !a->failed; i++) {
        const char_state *s = &d->states[i];
        if (s->accepts) automaton_free_edge(a, nodes[i], to);
        for (uint32_t j = 0; j < s->n && !a->failed; j++) {
            const char_range r = d->ranges[s->first + j];
            encode_range(a, nodes[i], r.lo, r.hi, e, nodes[r.to]);
        }
    }
    mem_free(nodes);
    return automaton_status(a, err);
}
