/* grammar/regex_dfa.c - regular expressions: tree to deterministic automaton.
 *
 * Thompson's construction, then sets of its states.  Both are limited: an expression
 * that asks for more than that is refused, however short it is. */
#include "base/mem.h"
#include "grammar/regex_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    NFA_MOST  = 1 << 15,
    POOL_MOST = 1 << 21, /* states in all sets together */
    WORK_MOST = 1 << 26, /* steps: a fraction of a second */
    NO_SET    = UINT32_MAX,
};

/* Leads to `to` by a character of `set`; without one to `to` and `also` by nothing. */
typedef struct nfa_state {
    uint32_t set, to, also;
} nfa_state;

typedef struct nfa {
    const regex_tree *t;
    nfa_state        *s;
    uint32_t          n;
} nfa;

static weir_status too_large(weir_error *err)
{
    return status_fail(err, WEIR_INVALID, "regex: it needs too many states: expected less repetition");
}

static weir_status add(nfa *a, uint32_t *id, weir_error *err)
{
    if (a->n == NFA_MOST) return too_large(err);
    a->s[a->n] = (nfa_state){NO_SET, CHAR_DFA_NONE, CHAR_DFA_NONE};
    *id        = a->n++;
    return WEIR_OK;
}

static void join(nfa *a, uint32_t from, uint32_t to)
{
    if (a->s[from].to == CHAR_DFA_NONE)
        a->s[from].to = to;
    else
        a->s[from].also = to;
}

static weir_status build(nfa *a, uint32_t part, uint32_t from, uint32_t *to, weir_error *err);

/* (((x)?x)?x)? behind the copies that must come; or a circle. */
static weir_status build_repeat(nfa *a, const regex_part *p, uint32_t from, uint32_t *to, weir_error *err)
{
    uint32_t end = 0, next = 0;
    for (uint32_t i = 0; i < p->least; i++) TRY(build(a, p->child, from, &from, err));
    TRY(add(a, &end, err));
    if (p->most == DATA_MANY) {
        uint32_t loop = 0;
        TRY(add(a, &loop, err));
        join(a, from, loop);
        TRY(add(a, &next, err));
        join(a, loop, next);
        join(a, loop, end);
        TRY(build(a, p->child, next, &next, err));
        join(a, next, loop);
    } else {
        for (uint32_t i = p->least; i < p->most; i++) {
            TRY(add(a, &next, err));
            join(a, from, next);
            join(a, from, end);
            TRY(build(a, p->child, next, &from, err));
        }
        join(a, from, end);
    }
    *to = end;
    return WEIR_OK;
}

static weir_status build_any(nfa *a, const regex_part *p, uint32_t from, uint32_t *to, weir_error *err)
{
    TRY(add(a, to, err));
    for (uint32_t c = p->child; c != PART_NONE; c = a->t->parts[c].next) {
        uint32_t fork = from, branch = 0, end = 0;
        TRY(add(a, &branch, err));
        join(a, fork, branch);
        if (a->t->parts[c].next != PART_NONE) {
            TRY(add(a, &from, err));
            join(a, fork, from);
        }
        TRY(build(a, c, branch, &end, err));
        join(a, end, *to);
    }
    return WEIR_OK;
}

/* `from` has nothing behind it yet, and so has *to. */
static weir_status build(nfa *a, uint32_t part, uint32_t from, uint32_t *to, weir_error *err)
{
    const regex_part *p = &a->t->parts[part];
    switch (p->kind) {
    case PART_SET:
        TRY(add(a, to, err));
        a->s[from].set = p->set;
        a->s[from].to  = *to;
        return WEIR_OK;
    case PART_ALL:
        for (uint32_t c = p->child; c != PART_NONE; c = a->t->parts[c].next) TRY(build(a, c, from, &from, err));
        *to = from;
        return WEIR_OK;
    case PART_ANY: return build_any(a, p, from, to, err);
    case PART_REPEAT: return build_repeat(a, p, from, to, err);
    }
    return WEIR_OK;
}

/* ---- sets of states ---- */

typedef struct span {
    uint32_t lo, hi, to;
} span;

typedef struct subsets {
    const nfa *a;
    uint32_t   accept;
    char_dfa  *out;
    uint32_t  *pool, pool_n;         /* the sets, one behind the other */
    uint32_t  *first, *size, *slots; /* [CHAR_DFA_STATES_MOST]; slots twice as many */
    uint32_t  *stack, *mark, now;    /* [NFA_MOST] */
    uint32_t  *next, next_n;         /* [NFA_MOST] the set that is being made */
    span      *spans;
    uint32_t  *cuts, n_spans, n_cuts, cap;
    uint64_t   work;
} subsets;

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Adds a state and all it leads to by nothing; only those that read, and the last, are kept. */
static void close_over(subsets *s, uint32_t state)
{
    uint32_t n = 0;
    if (s->mark[state] == s->now) return;
    s->mark[state] = s->now;
    s->stack[n++]  = state;
    while (n > 0) {
        const uint32_t   i = s->stack[--n];
        const nfa_state *x = &s->a->s[i];
        s->work++;
        if (x->set != NO_SET || i == s->accept) s->next[s->next_n++] = i;
        if (x->set != NO_SET) continue;
        const uint32_t to[2] = {x->to, x->also};
        for (int j = 0; j < 2; j++) {
            if (to[j] == CHAR_DFA_NONE || s->mark[to[j]] == s->now) continue;
            s->mark[to[j]] = s->now;
            s->stack[n++]  = to[j];
        }
    }
}

/* The number of the set in s->next, a new one where it is met first. */
static weir_status number(subsets *s, uint32_t *id, weir_error *err)
{
    enum { MASK = 2 * CHAR_DFA_STATES_MOST - 1 };
    qsort(s->next, s->next_n, sizeof *s->next, by_value);
    uint64_t h = s->next_n;
    for (uint32_t i = 0; i < s->next_n; i++) h = (h ^ s->next[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 31;
    uint32_t i = (uint32_t)(h >> 20) & MASK;
    for (; s->slots[i] != CHAR_DFA_NONE; i = (i + 1) & MASK) {
        *id = s->slots[i];
        if (s->size[*id] == s->next_n && memcmp(s->pool + s->first[*id], s->next, s->next_n * sizeof *s->next) == 0)
            return WEIR_OK;
    }
    if (s->next_n > POOL_MOST - s->pool_n) return too_large(err);
    TRY(char_dfa_state(s->out, err));
    *id           = s->out->n_states - 1;
    s->slots[i]   = *id;
    s->first[*id] = s->pool_n;
    s->size[*id]  = s->next_n;
    memcpy(s->pool + s->pool_n, s->next, s->next_n * sizeof *s->next);
    s->pool_n += s->next_n;
    for (uint32_t j = 0; j < s->next_n; j++) s->out->states[*id].accepts |= s->next[j] == s->accept;
    return WEIR_OK;
}

/* The ranges that the states of a set read, and where they begin and end. */
static weir_status collect(subsets *s, uint32_t id, weir_error *err)
{
    s->n_spans = s->n_cuts = 0;
    for (uint32_t i = 0; i < s->size[id]; i++) {
        const nfa_state *x = &s->a->s[s->pool[s->first[id] + i]];
        if (x->set == NO_SET) continue;
        const char_set *c = &s->a->t->sets[x->set];
        if (c->n > s->cap - s->n_spans) return too_large(err);
        for (uint32_t j = 0; j < c->n; j++) {
            s->spans[s->n_spans++] = (span){c->r[j].lo, c->r[j].hi, x->to};
            s->cuts[s->n_cuts++]   = c->r[j].lo;
            s->cuts[s->n_cuts++]   = c->r[j].hi + 1;
        }
    }
    qsort(s->cuts, s->n_cuts, sizeof *s->cuts, by_value);
    return WEIR_OK;
}

static weir_status expand(subsets *s, uint32_t id, weir_error *err)
{
    TRY(collect(s, id, err));
    char_dfa_begin(s->out, id);
    for (uint32_t i = 0; i + 1 < s->n_cuts; i++) {
        const uint32_t lo = s->cuts[i], end = s->cuts[i + 1];
        if (lo == end) continue;
        s->next_n = 0;
        s->now++;
        for (uint32_t j = 0; j < s->n_spans; j++)
            if (s->spans[j].lo <= lo && lo <= s->spans[j].hi) close_over(s, s->spans[j].to);
        s->work += s->n_spans;
        if (s->work > WORK_MOST) return too_large(err);
        if (s->next_n == 0) continue;
        char_range r = {.lo = lo, .hi = end - 1};
        TRY(number(s, &r.to, err));
        TRY(char_dfa_range(s->out, id, r, err));
    }
    return WEIR_OK;
}

static weir_status run(subsets *s, weir_error *err)
{
    uint32_t id;
    s->now = 1;
    close_over(s, 0);
    TRY(number(s, &id, err));
    for (uint32_t i = 0; i < s->out->n_states; i++) TRY(expand(s, i, err));
    return WEIR_OK;
}

static weir_status make_subsets(char_dfa *out, const nfa *a, uint32_t accept, weir_error *err)
{
    enum { SPANS = 1 << 16 };
    subsets     s = {.a      = a,
                     .accept = accept,
                     .out    = out,
                     .cap    = SPANS,
                     .pool   = mem_alloc(POOL_MOST, sizeof *s.pool),
                     .first  = mem_alloc(CHAR_DFA_STATES_MOST, sizeof *s.first),
                     .size   = mem_alloc(CHAR_DFA_STATES_MOST, sizeof *s.size),
                     .slots  = mem_alloc(2 * CHAR_DFA_STATES_MOST, sizeof *s.slots),
                     .stack  = mem_alloc(a->n, sizeof *s.stack),
                     .mark   = mem_zalloc(a->n, sizeof *s.mark),
                     .next   = mem_alloc(a->n, sizeof *s.next),
                     .spans  = mem_alloc(SPANS, sizeof *s.spans),
                     .cuts   = mem_alloc(2 * SPANS, sizeof *s.cuts)};
    weir_status st;
    if (s.pool == NULL || s.first == NULL || s.size == NULL || s.slots == NULL || s.stack == NULL || s.mark == NULL ||
        s.next == NULL || s.spans == NULL || s.cuts == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "regex: out of memory");
    } else {
        memset(s.slots, 0xFF, 2 * CHAR_DFA_STATES_MOST * sizeof *s.slots);
        st = run(&s, err);
    }
    mem_free(s.pool);
    mem_free(s.first);
    mem_free(s.size);
    mem_free(s.slots);
    mem_free(s.stack);
    mem_free(s.mark);
    mem_free(s.next);
    mem_free(s.spans);
    mem_free(s.cuts);
    return st;
}

weir_status regex_tree_dfa(char_dfa *out, const regex_tree *t, weir_error *err)
{
    nfa a = {.t = t, .s = mem_alloc(NFA_MOST, sizeof *a.s)};
    if (a.s == NULL) return status_fail(err, WEIR_NO_MEMORY, "regex: out of memory");
    uint32_t    start = 0, end = 0;
    weir_status st = add(&a, &start, err);
    if (st == WEIR_OK) st = build(&a, t->root, start, &end, err);
    if (st == WEIR_OK) st = make_subsets(out, &a, end, err);
    mem_free(a.s);
    return st;
}
