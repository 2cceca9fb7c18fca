/* grammar/schema_enum.c - enum and const: values that are written out. */
#include "base/mem.h"
#include "grammar/places.h"
#include "grammar/schema_parts.h"

#include <stdlib.h>
#include <string.h>

/* True when rule `id` alone accepts the text; asked of an automaton that is not finished. */
static weir_status fits(const automaton *a, uint32_t id, const char *text, size_t len, bool *yes, weir_error *err)
{
    enum { FRAMES = 4096 };
    place_list *l      = mem_zalloc(1, sizeof *l);
    frame      *memory = mem_alloc(FRAMES, sizeof *memory);
    place      *now    = mem_alloc(PLACES_MOST, sizeof *now);
    frames      f;
    *yes = false;
    if (l == NULL || memory == NULL || now == NULL) {
        mem_free(l);
        mem_free(memory);
        mem_free(now);
        return schema_no_memory(err);
    }
    frames_init(&f, memory, FRAMES);
    place_list_start(l);
    place_list_add(l, a->rules[id].start, DATA_NONE, FRAME_BOTTOM);
    place_list_close(l, a, &f);
    for (size_t i = 0; i < len && !l->failed; i++) {
        const uint32_t n = l->kept_n;
        memcpy(now, l->kept, n * sizeof *now);
        place_list_step(l, a, now, n, (uint8_t)text[i]);
        place_list_close(l, a, &f);
    }
    *yes              = l->ended;
    const bool failed = l->failed;
    mem_free(l);
    mem_free(memory);
    mem_free(now);
    return failed ? status_fail(err, WEIR_INVALID, "schema: enum: too much stands beside it") : WEIR_OK;
}

/* What the schema says apart from enum, as a rule; RULE_NONE: nothing. */
static weir_status rest_of(schema_compiler *c, const json_t *flat, uint32_t *id, weir_error *err)
{
    *id          = RULE_NONE;
    json_t *rest = schema_flat_copy(flat);
    if (rest == NULL) return schema_no_memory(err);
    (void)json_object_del(rest, "enum");
    weir_status st = WEIR_OK;
    if (json_object_size(rest) > 0) {
        *id = automaton_rule(c->a, true);
        st  = automaton_status(c->a, err);
        if (st == WEIR_OK) st = schema_put_value(c, rest, c->a->rules[*id].start, c->a->rules[*id].end, err);
    }
    json_decref(rest);
    return st;
}

/* The value as JSON without white space, its numbers as short as they can be; free(). */
static char *shortest(const json_t *v)
{
    for (size_t precision = 15;; precision++) {
        char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(precision));
        if (text == NULL || precision == 17) return text;
        json_t    *back = json_loads(text, JSON_DECODE_ANY, NULL);
        const bool same = back != NULL && json_equal(back, (json_t *)(uintptr_t)v);
        json_decref(back);
        if (same) return text;
        free(text); /* jansson's */
    }
}

static weir_status put_literal(schema_compiler *c, const json_t *v, uint32_t from, uint32_t to, weir_error *err);

static weir_status put_scalar(schema_compiler *c, const json_t *v, uint32_t from, uint32_t to, weir_error *err)
{
    char *text = shortest(v);
    if (text == NULL) return schema_no_memory(err);
    automaton_text(c->a, from, text, strlen(text), to);
    free(text); /* jansson's */
    return automaton_status(c->a, err);
}

/* from --"name": value--> to */
static weir_status put_entry(schema_compiler *c, const char *name, const json_t *v, uint32_t from, uint32_t to,
                             weir_error *err)
{
    const uint32_t rule_id = c->a->nodes[from].rule, colon = schema_colon(c);
    const uint32_t before = automaton_node(c->a, rule_id), value = automaton_node(c->a, rule_id);
    json_t        *key = json_string(name);
    weir_status    st  = automaton_status(c->a, err);
    if (st == WEIR_OK) st = key == NULL ? schema_no_memory(err) : put_scalar(c, key, from, before, err);
    json_decref(key);
    TRY(st);
    automaton_call(c->a, before, colon, DATA_NONE, value);
    return put_literal(c, v, value, to, err);
}

/* Members in the order they are written in, elements one after the other. */
static weir_status put_members(schema_compiler *c, const json_t *v, uint32_t at, uint32_t to, weir_error *err)
{
    const bool     object  = json_is_object(v);
    const uint32_t rule_id = c->a->nodes[at].rule;
    const size_t   n       = object ? json_object_size(v) : json_array_size(v);
    void          *it      = object ? json_object_iter((json_t *)(uintptr_t)v) : NULL;
    for (size_t i = 0; i < n; i++) {
        const uint32_t next = automaton_node(c->a, rule_id), behind = automaton_node(c->a, rule_id);
        TRY(automaton_status(c->a, err));
        if (object) {
            TRY(put_entry(c, json_object_iter_key(it), json_object_iter_value(it), at, behind, err));
            it = json_object_iter_next((json_t *)(uintptr_t)v, it);
        } else {
            TRY(put_literal(c, json_array_get(v, i), at, behind, err));
        }
        if (i + 1 == n) return schema_close(c, behind, object ? '}' : ']', to, err);
        TRY(schema_comma(c, behind, next, err));
        at = next;
    }
    automaton_bytes_edge(c->a, at, object ? '}' : ']', object ? '}' : ']', to);
    return automaton_status(c->a, err);
}

/* from --the value, with white space as everywhere--> to.  The depth is that of the document. */
static weir_status put_literal(schema_compiler *c, const json_t *v, uint32_t from, uint32_t to, weir_error *err)
{
    if (!json_is_object(v) && !json_is_array(v)) return put_scalar(c, v, from, to, err);
    const uint8_t  bracket = json_is_object(v) ? '{' : '[';
    const uint32_t open    = automaton_node(c->a, c->a->nodes[from].rule),
                   at      = automaton_node(c->a, c->a->nodes[from].rule);
    TRY(automaton_status(c->a, err));
    automaton_bytes_edge(c->a, from, bracket, bracket, open);
    schema_call_space(c, open, at);
    return put_members(c, v, at, to, err);
}

weir_status schema_put_enum(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    const json_t *values = json_object_get(flat, "enum");
    uint32_t      rest;
    TRY(rest_of(c, flat, &rest, err));
    for (size_t i = 0; i < json_array_size(values); i++) {
        char *text = shortest(json_array_get(values, i));
        if (text == NULL) return schema_no_memory(err);
        bool        good = true;
        weir_status st   = rest == RULE_NONE ? WEIR_OK : fits(c->a, rest, text, strlen(text), &good, err);
        free(text);
        if (st == WEIR_OK && good) st = put_literal(c, json_array_get(values, i), from, to, err);
        TRY(st);
    }
    return automaton_status(c->a, err);
}
