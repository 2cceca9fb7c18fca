/* grammar/automaton.c - building, and what must hold before use. */
#include "grammar/automaton.h"

#include "base/mem.h"

#include <string.h>

void automaton_free(automaton *a)
{
    mem_free(a->nodes);
    mem_free(a->edges);
    mem_free(a->rules);
    *a = (automaton){0};
}

size_t automaton_bytes(const automaton *a)
{
    return (size_t)a->cap_nodes * sizeof *a->nodes + (size_t)a->cap_edges * sizeof *a->edges +
           (size_t)a->cap_rules * sizeof *a->rules;
}

/* Room for one more in an array of at most `max`. */
static bool grow(automaton *a, void **array, uint32_t n, uint32_t *cap, uint32_t max, size_t size)
{
    if (a->failed) return false;
    if (n < *cap) return true;
    const uint32_t more = *cap == 0 ? 256 : *cap * 2;
    void          *p    = more > max ? NULL : mem_realloc(*array, more, size);
    if (p == NULL) {
        a->failed    = true;
        a->too_large = more > max;
        return false;
    }
    *array = p;
    *cap   = more;
    return true;
}

uint32_t automaton_node(automaton *a, uint32_t rule_id)
{
    void *p = a->nodes;
    if (!grow(a, &p, a->n_nodes, &a->cap_nodes, MAX_NODES, sizeof *a->nodes)) return 0;
    a->nodes             = p;
    a->nodes[a->n_nodes] = (node){.first = NO_EDGE, .rule = rule_id};
    return a->n_nodes++;
}

uint32_t automaton_rule(automaton *a, bool known)
{
    void *p = a->rules;
    if (!grow(a, &p, a->n_rules, &a->cap_rules, MAX_RULES, sizeof *a->rules)) return 0;
    a->rules            = p;
    const uint32_t id   = a->n_rules++;
    a->rules[id]        = (rule){.known = known};
    a->rules[id].start  = automaton_node(a, id);
    const uint32_t last = automaton_node(a, id);
    a->rules[id].end    = last;
    if (!a->failed) a->nodes[last].end = true;
    return id;
}

/* The newest edge comes first. */
static void add_edge(automaton *a, uint32_t from, edge e)
{
    void *p = a->edges;
    if (!grow(a, &p, a->n_edges, &a->cap_edges, MAX_EDGES, sizeof *a->edges)) return;
    a->edges             = p;
    e.next               = a->nodes[from].first;
    a->edges[a->n_edges] = e;
    a->nodes[from].first = a->n_edges++;
    if (e.kind == EDGE_BYTES) a->nodes[from].reads = true;
}

void automaton_bytes_edge(automaton *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_edge(a, from, (edge){.kind = EDGE_BYTES, .lo = lo, .hi = hi, .to = to});
}

void automaton_free_edge(automaton *a, uint32_t from, uint32_t to)
{
    add_edge(a, from, (edge){.kind = EDGE_FREE, .to = to});
}

void automaton_call(automaton *a, uint32_t from, uint32_t rule_id, uint64_t data, uint32_t to)
{
    add_edge(a, from, (edge){.kind = EDGE_CALL, .rule = rule_id, .data = data, .to = to});
}

void automaton_guard(automaton *a, uint32_t from, edge_kind kind, uint64_t data, uint32_t to)
{
    add_edge(a, from, (edge){.kind = (uint8_t)kind, .data = data, .to = to});
}

void automaton_text(automaton *a, uint32_t from, const char *text, size_t n, uint32_t to)
{
    if (a->failed) return;
    if (n == 0) automaton_free_edge(a, from, to);
    for (size_t i = 0; i < n && !a->failed; i++) {
        const uint32_t next = i + 1 == n ? to : automaton_node(a, a->nodes[from].rule);
        automaton_bytes_edge(a, from, (uint8_t)text[i], (uint8_t)text[i], next);
        from = next;
    }
}

weir_status automaton_status(const automaton *a, weir_error *err)
{
    if (!a->failed) return WEIR_OK;
    if (a->too_large)
        return status_fail(err, WEIR_INVALID, "grammar: expected at most %d states, %d edges and %d rules", MAX_NODES,
                           MAX_EDGES, MAX_RULES);
    return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
}
