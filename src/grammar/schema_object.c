/* grammar/schema_object.c - objects and arrays.
 *
 * An object's data are the set of its properties that have been written, so they may
 * come in any order without an automaton of all orders.  An array's data count its
 * elements. */
#include "base/mem.h"
#include "base/str.h"
#include "grammar/schema_parts.h"

#include <string.h>

typedef struct property {
    const char *name;
    uint32_t    rule;
    bool        required, never; /* never: no value fits */
} property;

typedef struct properties {
    property *p;
    size_t    n;
    bool      never; /* one is required and never */
    uint32_t  more;  /* the rule of values whose names are not given; RULE_NONE: there are none */
} properties;

static bool has_name(const properties *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->p[i].name, name) == 0) return true;
    return false;
}

static bool is_required(const json_t *flat, const char *name)
{
    const json_t *list = json_object_get(flat, "required");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0) return true;
    return false;
}

/* All that is said of the member `name` (NULL: of those that are not named).  New reference. */
static json_t *sayings(const json_t *flat, const char *name)
{
    json_t       *list    = json_array();
    const json_t *objects = json_object_get(flat, "objects");
    for (size_t i = 0; i < json_array_size(objects); i++) {
        const json_t *o = json_array_get(objects, i);
        json_t       *v = name == NULL ? NULL : json_object_get(json_object_get(o, "properties"), name);
        if (v == NULL) v = json_object_get(o, "additionalProperties");
        if (v != NULL) (void)json_array_append(list, v);
    }
    return list;
}

/* Where nothing is said about more members, there may be some only if none is named. */
static bool closed(const json_t *flat, const properties *o)
{
    const json_t *objects = json_object_get(flat, "objects");
    for (size_t i = 0; i < json_array_size(objects); i++)
        if (json_object_get(json_array_get(objects, i), "additionalProperties") != NULL) return false;
    return o->n > 0;
}

static weir_status add_property(schema_compiler *c, const json_t *flat, properties *o, const char *name,
                                weir_error *err)
{
    if (has_name(o, name)) return WEIR_OK;
    json_t     *list = sayings(flat, name);
    uint32_t    id   = RULE_NONE;
    weir_status st   = list == NULL ? schema_no_memory(err) : schema_rule_of_all(c, list, &id, err);
    json_decref(list);
    TRY(st);
    const property p = {.name = name, .rule = id, .required = is_required(flat, name), .never = schema_is_never(c, id)};
    o->p[o->n++]     = p;
    o->never |= p.required && p.never;
    return WEIR_OK;
}

static size_t count_names(const json_t *flat)
{
    size_t        n       = json_array_size(json_object_get(flat, "required"));
    const json_t *objects = json_object_get(flat, "objects");
    for (size_t i = 0; i < json_array_size(objects); i++)
        n += json_object_size(json_object_get(json_array_get(objects, i), "properties"));
    return n;
}

static weir_status collect(schema_compiler *c, const json_t *flat, properties *o, weir_error *err)
{
    const json_t *objects = json_object_get(flat, "objects"), *list = json_object_get(flat, "required");
    if (count_names(flat) > SCHEMA_LIST_MOST)
        return status_fail(err, WEIR_INVALID, "schema: properties: expected at most %d of an object", SCHEMA_LIST_MOST);
    o->p = mem_alloc(count_names(flat), sizeof *o->p);
    if (o->p == NULL) return schema_no_memory(err);
    for (size_t i = 0; i < json_array_size(objects); i++) {
        json_t     *named = json_object_get(json_array_get(objects, i), "properties"), *v;
        const char *name;
        json_object_foreach(named, name, v) TRY(add_property(c, flat, o, name, err));
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(add_property(c, flat, o, json_string_value(json_array_get(list, i)), err));
    o->more = RULE_NONE;
    if (closed(flat, o)) return WEIR_OK;
    json_t           *rest = sayings(flat, NULL);
    const weir_status st   = rest == NULL ? schema_no_memory(err) : schema_rule_of_all(c, rest, &o->more, err);
    json_decref(rest);
    TRY(st);
    if (schema_is_never(c, o->more)) o->more = RULE_NONE;
    return WEIR_OK;
}

/* from --"name": value--> to */
static weir_status put_member(schema_compiler *c, const property *p, uint32_t from, uint32_t to, weir_error *err)
{
    automaton     *a       = c->a;
    const uint32_t rule_id = a->nodes[from].rule, colon = schema_colon(c);
    const uint32_t open = automaton_node(a, rule_id), close = automaton_node(a, rule_id);
    const uint32_t before = automaton_node(a, rule_id), value = automaton_node(a, rule_id);
    TRY(automaton_status(a, err));
    automaton_bytes_edge(a, from, '"', '"', open);
    encode_text(a, open, p->name, strlen(p->name), ENCODE_JSON, close);
    automaton_bytes_edge(a, close, '"', '"', before);
    automaton_call(a, before, colon, DATA_NONE, value);
    automaton_call(a, value, p->rule, DATA_NONE, to);
    return automaton_status(a, err);
}

/* A rule for names that are none of the given. */
static weir_status other_names(schema_compiler *c, const properties *o, uint32_t *id, weir_error *err)
{
    const char **names = mem_alloc(o->n, sizeof *names);
    if (names == NULL) return schema_no_memory(err);
    for (size_t i = 0; i < o->n; i++) names[i] = o->p[i].name;
    char_dfa    d;
    weir_status st = char_dfa_but(&d, names, o->n, err);
    mem_free(names);
    *id                 = automaton_rule(c->a, true);
    const uint32_t open = automaton_node(c->a, *id), close = automaton_node(c->a, *id);
    if (st == WEIR_OK) st = automaton_status(c->a, err);
    if (st == WEIR_OK) {
        automaton_bytes_edge(c->a, c->a->rules[*id].start, '"', '"', open);
        automaton_bytes_edge(c->a, close, '"', '"', c->a->rules[*id].end);
        st = char_dfa_emit(&d, c->a, open, ENCODE_JSON, close, err);
    }
    char_dfa_free(&d);
    return st;
}

/* from --a member that is not named--> to */
static weir_status put_more(schema_compiler *c, const properties *o, uint32_t from, uint32_t to, weir_error *err)
{
    automaton *a    = c->a;
    uint32_t   name = 0;
    if (o->n == 0) {
        name = schema_string(c);
    } else {
        TRY(other_names(c, o, &name, err));
    }
    const uint32_t rule_id = a->nodes[from].rule, colon = schema_colon(c);
    const uint32_t before = automaton_node(a, rule_id), value = automaton_node(a, rule_id);
    TRY(automaton_status(a, err));
    automaton_call(a, from, name, DATA_NONE, before);
    automaton_call(a, before, colon, DATA_NONE, value);
    automaton_call(a, value, o->more, DATA_NONE, to);
    return automaton_status(a, err);
}

/* Members in any order: `from` stands before one, `to` behind it. */
static weir_status put_in_any_order(schema_compiler *c, const properties *o, uint32_t from, uint32_t to,
                                    weir_error *err)
{
    automaton *a = c->a;
    for (size_t i = 0; i < o->n; i++) {
        if (o->p[i].never) continue;
        const uint32_t one = automaton_node(a, a->nodes[from].rule);
        TRY(automaton_status(a, err));
        automaton_guard(a, from, EDGE_FIRST, 1ull << i, one);
        TRY(put_member(c, &o->p[i], one, to, err));
    }
    if (o->more == RULE_NONE) return WEIR_OK;
    const uint32_t one = automaton_node(a, a->nodes[from].rule);
    TRY(automaton_status(a, err));
    automaton_free_edge(a, from, one);
    return put_more(c, o, one, to, err);
}

/* from --, and white space--> to */
weir_status schema_comma(schema_compiler *c, uint32_t from, uint32_t to, weir_error *err)
{
    const uint32_t behind = automaton_node(c->a, c->a->nodes[from].rule);
    const uint32_t before = c->opt.any_space ? automaton_node(c->a, c->a->nodes[from].rule) : from;
    TRY(automaton_status(c->a, err));
    if (c->opt.any_space) schema_call_space(c, from, before);
    automaton_bytes_edge(c->a, before, ',', ',', behind);
    schema_call_space(c, behind, to);
    return automaton_status(c->a, err);
}

/* from --white space and the bracket--> to */
weir_status schema_close(schema_compiler *c, uint32_t from, char bracket, uint32_t to, weir_error *err)
{
    const uint32_t before = automaton_node(c->a, c->a->nodes[from].rule);
    TRY(automaton_status(c->a, err));
    schema_call_space(c, from, before);
    automaton_bytes_edge(c->a, before, (uint8_t)bracket, (uint8_t)bracket, to);
    return automaton_status(c->a, err);
}

static weir_status put_unordered(schema_compiler *c, const properties *o, uint32_t id, weir_error *err)
{
    automaton *a = c->a;
    uint32_t   n[6];
    uint64_t   required = 0, all = 0;
    for (int i = 0; i < 6; i++) n[i] = automaton_node(a, id);
    TRY(automaton_status(a, err));
    const uint32_t open = n[0], next = n[1], behind = n[2], comma = n[3], done = n[4], empty = n[5];
    for (size_t i = 0; i < o->n; i++) {
        required |= o->p[i].required ? 1ull << i : 0;
        all |= o->p[i].never ? 0 : 1ull << i;
    }
    const uint32_t end = a->rules[id].end;
    automaton_bytes_edge(a, a->rules[id].start, '{', '{', open);
    schema_call_space(c, open, empty);
    automaton_free_edge(a, empty, next);
    TRY(put_in_any_order(c, o, next, behind, err));
    if (o->more == RULE_NONE)
        automaton_guard(a, behind, EDGE_LEFT, all, comma);
    else
        automaton_free_edge(a, behind, comma);
    TRY(schema_comma(c, comma, next, err));
    automaton_guard(a, behind, EDGE_ALL, required, done);
    TRY(schema_close(c, done, '}', end, err));
    /* The same white space serves an object without members. */
    if (required == 0) automaton_bytes_edge(a, empty, '}', '}', end);
    return automaton_status(a, err);
}

/* Property i in the schema's order: none before it has been written (`first`), one has
 * (`behind`), or one has and a comma (`must`): a member has to follow. */
typedef struct stage {
    uint32_t first, behind, must;
} stage;

static weir_status put_stage(schema_compiler *c, const properties *o, size_t i, const stage *now, const stage *next,
                             weir_error *err)
{
    automaton     *a   = c->a;
    const uint32_t one = automaton_node(a, a->nodes[now->first].rule);
    TRY(automaton_status(a, err));
    TRY(schema_comma(c, now->behind, now->must, err));
    automaton_free_edge(a, now->first, one);
    automaton_free_edge(a, now->must, one);
    TRY(put_member(c, &o->p[i], one, next->behind, err));
    if (o->p[i].required) return WEIR_OK;
    automaton_free_edge(a, now->first, next->first);
    automaton_free_edge(a, now->must, next->must);
    return automaton_status(a, err);
}

static weir_status new_stage(automaton *a, uint32_t id, stage *s, weir_error *err)
{
    s->first  = automaton_node(a, id);
    s->behind = automaton_node(a, id);
    s->must   = automaton_node(a, id);
    return automaton_status(a, err);
}

static weir_status put_ordered(schema_compiler *c, const properties *o, uint32_t id, weir_error *err)
{
    automaton     *a    = c->a;
    const uint32_t open = automaton_node(a, id);
    stage          now, next;
    TRY(new_stage(a, id, &now, err));
    const uint32_t end = a->rules[id].end;
    automaton_bytes_edge(a, a->rules[id].start, '{', '{', open);
    schema_call_space(c, open, now.first);
    size_t last = 0; /* what is behind the last required one may be left out */
    for (size_t i = 0; i < o->n; i++) last = o->p[i].required ? i + 1 : last;
    for (size_t i = 0; i <= o->n; i++) {
        if (i >= last) TRY(schema_close(c, now.behind, '}', end, err));
        if (i == o->n) break;
        TRY(new_stage(a, id, &next, err));
        TRY(put_stage(c, o, i, &now, &next, err));
        now = next;
    }
    automaton_bytes_edge(a, now.first, '}', '}', end);
    if (o->more == RULE_NONE) return automaton_status(a, err);
    TRY(schema_comma(c, now.behind, now.must, err));
    const uint32_t one = automaton_node(a, id);
    TRY(automaton_status(a, err));
    automaton_free_edge(a, now.first, one);
    automaton_free_edge(a, now.must, one);
    return put_more(c, o, one, now.behind, err);
}

weir_status schema_put_object(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    properties     o  = {0};
    const uint32_t id = automaton_rule(c->a, false);
    weir_status    st = automaton_status(c->a, err);
    if (st == WEIR_OK) st = collect(c, flat, &o, err);
    const bool ordered = c->opt.ordered || o.n > MAX_PROPERTIES, never = o.never;
    if (st == WEIR_OK && !never) st = ordered ? put_ordered(c, &o, id, err) : put_unordered(c, &o, id, err);
    mem_free(o.p);
    TRY(st);
    if (never) return WEIR_OK;
    automaton_call(c->a, from, id, 0, to);
    return automaton_status(c->a, err);
}

/* ---- arrays ---- */

/* The rule of element i.  *named: it has a schema of its own. */
static weir_status element(schema_compiler *c, const json_t *flat, size_t i, bool *named, uint32_t *id, weir_error *err)
{
    json_t       *list   = json_array();
    const json_t *arrays = json_object_get(flat, "arrays");
    *named               = false;
    for (size_t j = 0; j < json_array_size(arrays); j++) {
        const json_t *a = json_array_get(arrays, j), *prefix = json_object_get(a, "prefixItems");
        json_t       *v = i < json_array_size(prefix) ? json_array_get(prefix, i) : json_object_get(a, "items");
        *named |= i < json_array_size(prefix);
        if (v != NULL) (void)json_array_append(list, v);
    }
    const weir_status st = list == NULL ? schema_no_memory(err) : schema_rule_of_all(c, list, id, err);
    json_decref(list);
    return st;
}

/* Elements there can be: up to the first for which no value fits. */
static weir_status most_elements(schema_compiler *c, const json_t *flat, uint32_t *most, weir_error *err)
{
    for (uint32_t i = 0;; i++) {
        bool     named;
        uint32_t id;
        TRY(element(c, flat, i, &named, &id, err));
        if (schema_is_never(c, id) && i < *most) *most = i;
        if (!named || i >= *most) return WEIR_OK;
    }
}

/* One element after the other: `at` is before an element, `behind` after it. */
static weir_status put_elements(schema_compiler *c, const json_t *flat, uint32_t at, uint32_t done, weir_error *err)
{
    automaton     *a       = c->a;
    const uint32_t rule_id = a->nodes[at].rule;
    for (size_t i = 0;; i++) {
        bool     named;
        uint32_t id;
        TRY(element(c, flat, i, &named, &id, err));
        const uint32_t value = automaton_node(a, rule_id), behind = automaton_node(a, rule_id);
        const uint32_t more = automaton_node(a, rule_id), next = automaton_node(a, rule_id);
        TRY(automaton_status(a, err));
        automaton_free_edge(a, at, value);
        automaton_call(a, value, id, DATA_NONE, behind);
        automaton_guard(a, behind, EDGE_ENOUGH, 0, done);
        automaton_guard(a, behind, EDGE_COUNT, 0, more);
        if (!named) return schema_comma(c, more, at, err);
        TRY(schema_comma(c, more, next, err));
        at = next;
    }
}

weir_status schema_put_array(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    automaton     *a     = c->a;
    const uint32_t least = schema_count(flat, "minItems", 0);
    uint32_t       most  = schema_count(flat, "maxItems", DATA_MANY);
    TRY(most_elements(c, flat, &most, err));
    if (least > most) return WEIR_OK;
    const uint32_t id = automaton_rule(a, false), open = automaton_node(a, id), empty = automaton_node(a, id);
    const uint32_t first = automaton_node(a, id), done = automaton_node(a, id), bracket = automaton_node(a, id);
    TRY(automaton_status(a, err));
    const uint32_t end = a->rules[id].end;
    automaton_bytes_edge(a, a->rules[id].start, '[', '[', open);
    schema_call_space(c, open, empty);
    if (least == 0) automaton_free_edge(a, empty, bracket);
    automaton_guard(a, empty, EDGE_COUNT, 0, first);
    automaton_bytes_edge(a, bracket, ']', ']', end);
    TRY(put_elements(c, flat, first, done, err));
    TRY(schema_close(c, done, ']', end, err));
    automaton_call(a, from, id, data_count(least, most), to);
    return automaton_status(a, err);
}
