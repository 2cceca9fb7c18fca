/* grammar/automaton.h - what a text may look like, as states and edges over bytes.
 *
 * A grammar is a set of rules.  A rule is a small automaton with one start and one
 * end; an edge reads a byte, reads nothing, or calls a rule and goes on where that
 * one ends: together a pushdown automaton.  Beside the state a call has one word of
 * data, so that "at most 500 characters" and "each property once" are a number and
 * not 500 copies:
 *
 *   counts    low 32 bits: how many may still come (DATA_MANY: any number), high 32
 *             bits: how many must
 *   sets      bit i: property i has been written
 *
 * An automaton is filled by the front ends (regex.h, ebnf.h, schema.h), checked and
 * trimmed once by automaton_finish, and then read-only. */
#ifndef GRAMMAR_AUTOMATON_H
#define GRAMMAR_AUTOMATON_H

#include "base/status.h"

#include <stdbool.h>

typedef enum edge_kind {
    EDGE_BYTES,  /* lo .. hi */
    EDGE_FREE,   /* nothing */
    EDGE_CALL,   /* rule, with `data` for it */
    EDGE_COUNT,  /* one more may come: counts it */
    EDGE_ENOUGH, /* as many have come as must; ends the counting */
    EDGE_FIRST,  /* bits of `data` are not in the set: adds them */
    EDGE_ALL,    /* all bits of `data` are in the set; ends it */
    EDGE_LEFT    /* some bit of `data` is not in the set */
} edge_kind;

enum { NO_EDGE = UINT32_MAX, MAX_PROPERTIES = 63 };

#define DATA_MANY UINT32_MAX
/* Nothing is counted.  The same word as "any number may come, none must". */
#define DATA_NONE ((uint64_t)DATA_MANY)
/* Stands for data that is not known; no count and no set has this value. */
#define DATA_UNKNOWN UINT64_MAX

typedef struct edge {
    uint64_t data;
    uint32_t to, rule;
    uint32_t next; /* of the same state; NO_EDGE: the last */
    uint8_t  kind, lo, hi;
} edge;

typedef struct node {
    uint32_t first; /* edge */
    uint32_t rule;
    bool     end, reads; /* it is the rule's end; it has edges that read bytes */
} node;

typedef struct rule {
    uint32_t start, end;
    /* What its data says is known wherever a mask is made (mask.h): it counts bytes
     * or nothing at all.  Otherwise it is taken to be unknown. */
    bool known;
} rule;

typedef struct automaton {
    node    *nodes;
    edge    *edges;
    rule    *rules;
    uint32_t n_nodes, n_edges, n_rules, cap_nodes, cap_edges, cap_rules;
    uint32_t root;
    bool     failed; /* no memory, or over the limits; sticks */
    bool     too_large;
} automaton;

enum { MAX_NODES = 1 << 17, MAX_EDGES = 1 << 18, MAX_RULES = 1 << 14 };

void   automaton_free(automaton *a); /* all zero is allowed, and is an empty one */
size_t automaton_bytes(const automaton *a);

/* Builders.  After a failure they do nothing and return 0; automaton_status tells. */
uint32_t automaton_rule(automaton *a, bool known);
uint32_t automaton_node(automaton *a, uint32_t rule);
void     automaton_bytes_edge(automaton *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void     automaton_free_edge(automaton *a, uint32_t from, uint32_t to);
void     automaton_call(automaton *a, uint32_t from, uint32_t rule, uint64_t data, uint32_t to);
void     automaton_guard(automaton *a, uint32_t from, edge_kind kind, uint64_t data, uint32_t to);
/* A chain of bytes; n >= 0. */
void automaton_text(automaton *a, uint32_t from, const char *text, size_t n, uint32_t to);

/* Data of a rule that counts: least..most, DATA_MANY for no upper bound. */
static inline uint64_t data_count(uint32_t least, uint32_t most)
{
    return (uint64_t)least << 32 | most;
}

weir_status automaton_status(const automaton *a, weir_error *err);

/* Drops what leads nowhere and shortens what can be.  WEIR_INVALID: no text fits; a
 * rule calls itself before it has read anything; something counted may be empty.
 * `name` (may be NULL) tells a rule's name for messages. */
typedef const char *rule_name_fn(const void *user, uint32_t rule);
weir_status         automaton_finish(automaton *a, rule_name_fn *name, const void *user, weir_error *err);

#endif
