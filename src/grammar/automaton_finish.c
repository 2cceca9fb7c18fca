/* grammar/automaton_finish.c - what must hold of an automaton before it is used.
 *
 * Everything here takes time in proportion to the automaton, whatever it looks like:
 * it may come from somebody who means harm. */
#include "base/mem.h"
#include "grammar/automaton.h"

/* Edges by where they lead, and scratch for the walks. */
typedef struct reverse {
    const automaton *a;
    uint32_t        *from;      /* [edges] the node an edge belongs to */
    uint32_t        *into;      /* [nodes] the first edge that leads here, */
    uint32_t        *next_into; /* [edges] and the next one */
    uint32_t        *calls;     /* [rules] the same for edges that call the rule */
    uint32_t        *next_call; /* [edges] */
    uint32_t        *work;      /* [nodes] */
    uint8_t         *good, *empty;
} reverse;

static void reverse_free(reverse *r)
{
    mem_free(r->from);
    mem_free(r->into);
    mem_free(r->next_into);
    mem_free(r->calls);
    mem_free(r->next_call);
    mem_free(r->work);
    mem_free(r->good);
    mem_free(r->empty);
}

static weir_status reverse_make(reverse *r, const automaton *a, weir_error *err)
{
    *r = (reverse){.a         = a,
                   .from      = mem_alloc(a->n_edges, sizeof *r->from),
                   .into      = mem_alloc(a->n_nodes, sizeof *r->into),
                   .next_into = mem_alloc(a->n_edges, sizeof *r->next_into),
                   .calls     = mem_alloc(a->n_rules, sizeof *r->calls),
                   .next_call = mem_alloc(a->n_edges, sizeof *r->next_call),
                   .work      = mem_alloc(a->n_nodes, sizeof *r->work),
                   .good      = mem_zalloc(a->n_nodes, 1),
                   .empty     = mem_zalloc(a->n_nodes, 1)};
    if (r->from == NULL || r->into == NULL || r->next_into == NULL || r->calls == NULL || r->next_call == NULL ||
        r->work == NULL || r->good == NULL || r->empty == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    for (uint32_t i = 0; i < a->n_nodes; i++) r->into[i] = NO_EDGE;
    for (uint32_t i = 0; i < a->n_rules; i++) r->calls[i] = NO_EDGE;
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        for (uint32_t j = a->nodes[i].first; j != NO_EDGE; j = a->edges[j].next) {
            const edge *e   = &a->edges[j];
            r->from[j]      = i;
            r->next_into[j] = r->into[e->to];
            r->into[e->to]  = j;
            if (e->kind != EDGE_CALL) continue;
            r->next_call[j]   = r->calls[e->rule];
            r->calls[e->rule] = j;
        }
    }
    return WEIR_OK;
}

/* A call that must count something reads something: what is counted is never empty. */
static bool must_count(const automaton *a, const edge *call)
{
    if (call->data >> 32 == 0) return false;
    for (uint32_t j = a->nodes[a->rules[call->rule].start].first; j != NO_EDGE; j = a->edges[j].next)
        if (a->edges[j].kind == EDGE_COUNT) return true;
    return false;
}

static bool edge_holds(const reverse *r, uint32_t j, const uint8_t *mark, bool silent)
{
    const edge *e = &r->a->edges[j];
    if (!mark[e->to] || (silent && e->kind == EDGE_BYTES)) return false;
    return e->kind != EDGE_CALL || (mark[r->a->rules[e->rule].start] && !(silent && must_count(r->a, e)));
}

/* Marks the nodes from which the end of their rule can be reached; `silent`: without a byte. */
static void mark_backwards(const reverse *r, uint8_t *mark, bool silent)
{
    const automaton *a = r->a;
    uint32_t         n = 0;
    for (uint32_t i = 0; i < a->n_rules; i++) {
        mark[a->rules[i].end] = 1;
        r->work[n++]          = a->rules[i].end;
    }
    while (n > 0) {
        const uint32_t i = r->work[--n];
        for (uint32_t j = r->into[i]; j != NO_EDGE; j = r->next_into[j]) {
            if (mark[r->from[j]] || !edge_holds(r, j, mark, silent)) continue;
            mark[r->from[j]] = 1;
            r->work[n++]     = r->from[j];
        }
        const uint32_t rule_id = a->nodes[i].rule;
        if (a->rules[rule_id].start != i) continue;
        for (uint32_t j = r->calls[rule_id]; j != NO_EDGE; j = r->next_call[j]) {
            if (mark[r->from[j]] || !edge_holds(r, j, mark, silent)) continue;
            mark[r->from[j]] = 1;
            r->work[n++]     = r->from[j];
        }
    }
}

static void drop_unproductive(automaton *a, const uint8_t *good)
{
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        a->nodes[i].reads = false;
        for (uint32_t *at = &a->nodes[i].first; *at != NO_EDGE;) {
            const edge *e    = &a->edges[*at];
            const bool  keep = good[e->to] && (e->kind != EDGE_CALL || good[a->rules[e->rule].start]);
            if (keep && e->kind == EDGE_BYTES) a->nodes[i].reads = true;
            if (keep)
                at = &a->edges[*at].next;
            else
                *at = e->next;
        }
    }
}

/* Where node i only passes on to; so a call in last place is seen to be one, and remembers nothing. */
static uint32_t passes_on(const automaton *a, uint32_t i)
{
    for (int steps = 0; steps < 64; steps++) {
        const uint32_t j = a->nodes[i].first;
        if (a->nodes[i].end || j == NO_EDGE || a->edges[j].next != NO_EDGE || a->edges[j].kind != EDGE_FREE) break;
        i = a->edges[j].to;
    }
    return i;
}

/* ---- circles without a byte ----
 *
 * Tarjan's strongly connected components over what can be reached without reading: a
 * call leads into the rule, and past it where the rule may be empty.  A circle that
 * goes through a call is left recursion, one through a count counts nothing. */

typedef struct circles {
    const reverse *r;
    uint32_t      *index, *low; /* [nodes]; 0: not met */
    uint32_t      *stack, *way, *at, n_stack, n_way, counter;
    uint8_t       *on;
    uint32_t      *part; /* [nodes] the component */
    uint32_t       n_parts;
} circles;

static uint32_t first_arc(const circles *c, uint32_t i)
{
    const uint32_t j = c->r->a->nodes[i].first;
    return j == NO_EDGE ? NO_EDGE : j * 2;
}

/* Arc `arc` (edge * 2, and + 1 for the way past a call): its goal, NO_EDGE where it has none; *next the next arc. */
static uint32_t follow(const circles *c, uint32_t arc, uint32_t *next)
{
    const automaton *a = c->r->a;
    const edge      *e = &a->edges[arc / 2];
    *next              = e->next == NO_EDGE ? NO_EDGE : e->next * 2;
    if (e->kind == EDGE_BYTES) return NO_EDGE;
    if (e->kind != EDGE_CALL) return e->to;
    if (arc % 2 != 0) return c->r->empty[a->rules[e->rule].start] && !must_count(a, e) ? e->to : NO_EDGE;
    *next = arc + 1;
    return a->rules[e->rule].start;
}

static void enter(circles *c, uint32_t i)
{
    c->index[i] = c->low[i] = ++c->counter;
    c->on[i]                = 1;
    c->stack[c->n_stack++]  = i;
    c->at[c->n_way]         = first_arc(c, i);
    c->way[c->n_way++]      = i;
}

static void leave(circles *c)
{
    const uint32_t i = c->way[--c->n_way];
    if (c->n_way > 0) {
        const uint32_t up = c->way[c->n_way - 1];
        if (c->low[i] < c->low[up]) c->low[up] = c->low[i];
    }
    if (c->low[i] != c->index[i]) return;
    for (uint32_t j = UINT32_MAX; j != i;) {
        j          = c->stack[--c->n_stack];
        c->on[j]   = 0;
        c->part[j] = c->n_parts;
    }
    c->n_parts++;
}

static void find_parts(circles *c)
{
    for (uint32_t start = 0; start < c->r->a->n_nodes; start++) {
        if (c->index[start] != 0) continue;
        enter(c, start);
        while (c->n_way > 0) {
            uint32_t      *at = &c->at[c->n_way - 1];
            const uint32_t i  = c->way[c->n_way - 1];
            if (*at == NO_EDGE) {
                leave(c);
                continue;
            }
            const uint32_t to = follow(c, *at, at);
            if (to == NO_EDGE) continue;
            if (c->index[to] == 0)
                enter(c, to);
            else if (c->on[to] && c->index[to] < c->low[i])
                c->low[i] = c->index[to];
        }
    }
}

static weir_status complain(const circles *c, rule_name_fn *name, const void *user, weir_error *err)
{
    const automaton *a = c->r->a;
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        for (uint32_t j = a->nodes[i].first; j != NO_EDGE; j = a->edges[j].next) {
            const edge    *e  = &a->edges[j];
            const uint32_t to = e->kind == EDGE_CALL ? a->rules[e->rule].start : e->to;
            if ((e->kind != EDGE_CALL && e->kind != EDGE_COUNT) || c->part[i] != c->part[to]) continue;
            const char *who = name == NULL ? NULL : name(user, a->nodes[i].rule);
            if (who == NULL) who = "a part";
            if (e->kind == EDGE_CALL)
                return status_fail(err, WEIR_INVALID, "grammar: %s: it begins with itself (left recursion)", who);
            return status_fail(err, WEIR_INVALID, "grammar: %s: what is repeated {m,n} times may be empty", who);
        }
    }
    return WEIR_OK;
}

static weir_status check_circles(const reverse *r, rule_name_fn *name, const void *user, weir_error *err)
{
    const uint32_t n = r->a->n_nodes;
    circles        c = {.r     = r,
                        .index = mem_zalloc(n, sizeof *c.index),
                        .low   = mem_alloc(n, sizeof *c.low),
                        .stack = mem_alloc(n, sizeof *c.stack),
                        .way   = mem_alloc(n, sizeof *c.way),
                        .at    = mem_alloc(n, sizeof *c.at),
                        .on    = mem_zalloc(n, 1),
                        .part  = mem_alloc(n, sizeof *c.part)};
    weir_status    st;
    if (c.index == NULL || c.low == NULL || c.stack == NULL || c.way == NULL || c.at == NULL || c.on == NULL ||
        c.part == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    } else {
        find_parts(&c);
        st = complain(&c, name, user, err);
    }
    mem_free(c.index);
    mem_free(c.low);
    mem_free(c.stack);
    mem_free(c.way);
    mem_free(c.at);
    mem_free(c.on);
    mem_free(c.part);
    return st;
}

weir_status automaton_finish(automaton *a, rule_name_fn *name, const void *user, weir_error *err)
{
    TRY(automaton_status(a, err));
    reverse     r;
    weir_status st = reverse_make(&r, a, err);
    if (st == WEIR_OK) {
        mark_backwards(&r, r.good, false);
        mark_backwards(&r, r.empty, true);
        if (!r.good[a->rules[a->root].start])
            st = status_fail(err, WEIR_INVALID, "grammar: expected that some finite text fits, found that none does");
    }
    if (st == WEIR_OK) {
        drop_unproductive(a, r.good);
        st = check_circles(&r, name, user, err);
    }
    for (uint32_t j = 0; st == WEIR_OK && j < a->n_edges; j++) a->edges[j].to = passes_on(a, a->edges[j].to);
    reverse_free(&r);
    return st;
}
