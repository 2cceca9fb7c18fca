/* grammar/grammar.c - compiling one. */
#include "grammar/grammar.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "grammar/ebnf.h"
#include "grammar/grammar_parts.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

#include <string.h>

enum { CHOICES_MOST = 1 << 14, CHOICE_BYTES_MOST = 1 << 20 };

/* The whole text matches. */
static weir_status compile_regex(automaton *a, const char *text, size_t len, weir_error *err)
{
    char_dfa    d;
    weir_status st = regex_parse(&d, text, len, false, err);
    a->root        = automaton_rule(a, true);
    if (st == WEIR_OK) st = automaton_status(a, err);
    if (st == WEIR_OK) st = char_dfa_emit(&d, a, a->rules[a->root].start, ENCODE_PLAIN, a->rules[a->root].end, err);
    char_dfa_free(&d);
    return st == WEIR_OK ? automaton_finish(a, NULL, NULL, err) : st;
}

/* The edge of `from` that reads this byte and no other; NO_EDGE: none. */
static uint32_t edge_of(const automaton *a, uint32_t from, uint8_t byte)
{
    uint32_t j = a->nodes[from].first;
    while (j != NO_EDGE && (a->edges[j].kind != EDGE_BYTES || a->edges[j].lo != byte)) j = a->edges[j].next;
    return j;
}

/* Choices that begin alike share their nodes. */
static weir_status add_choice(automaton *a, const char *text, size_t len, weir_error *err)
{
    uint32_t at = a->rules[a->root].start;
    for (size_t i = 0; i < len; i++) {
        const uint32_t j = edge_of(a, at, (uint8_t)text[i]);
        uint32_t       to;
        if (j != NO_EDGE) {
            to = a->edges[j].to;
        } else {
            to = automaton_node(a, a->root);
            TRY(automaton_status(a, err));
            automaton_bytes_edge(a, at, (uint8_t)text[i], (uint8_t)text[i], to);
        }
        at = to;
    }
    automaton_free_edge(a, at, a->rules[a->root].end);
    return automaton_status(a, err);
}

static weir_status add_choices(automaton *a, const json_t *list, weir_error *err)
{
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > CHOICES_MOST)
        return status_fail(err, WEIR_INVALID, "choice: expected an array of 1 to %d strings", CHOICES_MOST);
    a->root = automaton_rule(a, true);
    TRY(automaton_status(a, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v)) return status_fail(err, WEIR_INVALID, "choice: expected a string at index %zu", i);
        TRY(add_choice(a, json_string_value(v), json_string_length(v), err));
    }
    return automaton_finish(a, NULL, NULL, err);
}

static weir_status compile_choice(automaton *a, const char *text, size_t len, weir_error *err)
{
    json_doc doc;
    if (len > CHOICE_BYTES_MOST)
        return status_fail(err, WEIR_INVALID, "choice: expected at most %d bytes, found %zu", CHOICE_BYTES_MOST, len);
    const weir_status parsed = json_parse(&doc, text, len, "choice", 2, err);
    if (parsed != WEIR_OK) return parsed == WEIR_FORMAT ? status_prefix(err, WEIR_INVALID, "grammar") : parsed;
    const weir_status st = add_choices(a, doc.root, err);
    json_doc_free(&doc);
    return st;
}

static weir_status compile(automaton *a, weir_grammar_kind kind, const char *text, size_t len,
                           const weir_grammar_options *opt, weir_error *err)
{
    static const char    object[] = "{\"type\": \"object\"}";
    const schema_options s        = {.ordered = opt->ordered, .any_space = opt->any_space};
    switch (kind) {
    case WEIR_GRAMMAR_JSON_SCHEMA: return schema_compile(a, text, len, &s, err);
    case WEIR_GRAMMAR_JSON_OBJECT: return schema_compile(a, object, sizeof object - 1, &s, err);
    case WEIR_GRAMMAR_REGEX: return compile_regex(a, text, len, err);
    case WEIR_GRAMMAR_EBNF: return ebnf_compile(a, text, len, err);
    case WEIR_GRAMMAR_CHOICE: return compile_choice(a, text, len, err);
    }
    return status_fail(err, WEIR_INVALID, "grammar: kind %d is not known", (int)kind);
}

weir_status grammar_compile(grammar **out, const trie *t, weir_grammar_kind kind, const char *text, size_t len,
                            const weir_grammar_options *opt, weir_error *err)
{
    *out       = NULL;
    grammar *g = mem_zalloc(1, sizeof *g);
    if (g == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    g->t      = t;
    g->owners = 1;
    (void)pthread_mutex_init(&g->lock, NULL);
    weir_status st = compile(&g->a, kind, text, len, opt, err);
    if (st == WEIR_OK) st = masks_init(&g->masks, &g->a, t, err);
    if (st == WEIR_OK) st = masks_warm(&g->masks, err);
    if (st != WEIR_OK)
        grammar_release(g);
    else
        *out = g;
    return st;
}

void grammar_hold(grammar *g)
{
    (void)pthread_mutex_lock(&g->lock);
    g->owners++;
    (void)pthread_mutex_unlock(&g->lock);
}

void grammar_release(grammar *g)
{
    if (g == NULL) return;
    (void)pthread_mutex_lock(&g->lock);
    const bool last = --g->owners == 0;
    (void)pthread_mutex_unlock(&g->lock);
    if (!last) return;
    masks_free(&g->masks);
    automaton_free(&g->a);
    (void)pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

size_t grammar_bytes(grammar *g)
{
    (void)pthread_mutex_lock(&g->lock);
    const size_t n = sizeof *g + automaton_bytes(&g->a) + masks_bytes(&g->masks);
    (void)pthread_mutex_unlock(&g->lock);
    return n;
}
