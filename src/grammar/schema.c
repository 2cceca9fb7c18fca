/* grammar/schema.c - a schema's rule: which values, in which of their forms. */
#include "grammar/schema.h"

#include "base/mem.h"
#include "grammar/schema_parts.h"

#include <string.h>

static bool says(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0) return true;
    return false;
}

/* Nothing said of types allows all. */
static bool allows(const json_t *flat, const char *type)
{
    const json_t *list = json_object_get(flat, "type");
    return list == NULL || says(list, type);
}

/* One of the first list of choices, with all the rest. */
static weir_status put_choices(schema_compiler *c, json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    json_t *choices = json_object_get(flat, "choices"), *list = json_incref(json_array_get(choices, 0));
    (void)json_array_remove(choices, 0);
    if (json_array_size(choices) == 0) (void)json_object_del(flat, "choices");
    const bool  alone = json_object_size(flat) == 0;
    weir_status st    = WEIR_OK;
    for (size_t i = 0; i < json_array_size(list) && st == WEIR_OK; i++) {
        const json_t *one = json_array_get(list, i);
        if (alone) { /* its rule may serve others, too */
            uint32_t id;
            st = schema_rule_of(c, one, &id, err);
            if (st == WEIR_OK) automaton_call(c->a, from, id, DATA_NONE, to);
            continue;
        }
        json_t *copy = schema_flat_copy(flat);
        st           = copy == NULL ? schema_no_memory(err) : schema_flatten(c, one, copy, 0, err);
        if (st == WEIR_OK) st = schema_put_value(c, copy, from, to, err);
        json_decref(copy);
    }
    json_decref(list);
    return st;
}

static weir_status put_types(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    automaton *a = c->a;
    if (allows(flat, "null")) automaton_text(a, from, "null", 4, to);
    if (allows(flat, "boolean")) {
        automaton_text(a, from, "true", 4, to);
        automaton_text(a, from, "false", 5, to);
    }
    if (allows(flat, "number")) {
        const uint32_t number = schema_number(c);
        automaton_call(a, from, number, DATA_NONE, to);
    } else if (allows(flat, "integer")) {
        TRY(schema_put_integer(c, flat, from, to, err));
    }
    if (allows(flat, "string")) TRY(schema_put_string(c, flat, from, to, err));
    if (allows(flat, "object")) TRY(schema_put_object(c, flat, from, to, err));
    if (allows(flat, "array")) TRY(schema_put_array(c, flat, from, to, err));
    return automaton_status(a, err);
}

weir_status schema_put_value(schema_compiler *c, json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    TRY(automaton_status(c->a, err));
    if (json_object_get(flat, "never") != NULL) return WEIR_OK;
    if (json_object_get(flat, "choices") == NULL)
        return json_object_get(flat, "enum") != NULL ? schema_put_enum(c, flat, from, to, err)
                                                     : put_types(c, flat, from, to, err);
    if (++c->depth > SCHEMA_DEPTH_MOST) return status_fail(err, WEIR_INVALID, "schema: anyOf and oneOf nest too deep");
    const weir_status st = put_choices(c, flat, from, to, err);
    c->depth--;
    return st;
}

/* Fills rule `id`.  A rule for which nothing fits has no edge at its start. */
static weir_status fill(schema_compiler *c, const json_t *schema, uint32_t id, weir_error *err)
{
    automaton     *a    = c->a;
    const uint32_t body = automaton_node(a, id);
    TRY(automaton_status(a, err));
    const rule r = a->rules[id];
    automaton_free_edge(a, r.start, body);
    json_t     *flat = json_object();
    weir_status st   = flat == NULL ? schema_no_memory(err) : schema_flatten(c, schema, flat, 0, err);
    if (st == WEIR_OK && json_object_size(flat) == 0) {
        const uint32_t any = schema_any(c);
        automaton_call(a, body, any, DATA_NONE, r.end);
    } else if (st == WEIR_OK) {
        st = schema_put_value(c, flat, body, r.end, err);
    }
    json_decref(flat);
    TRY(st);
    TRY(automaton_status(a, err));
    if (a->nodes[body].first == NO_EDGE) a->nodes[r.start].first = NO_EDGE;
    return WEIR_OK;
}

/* A schema that is nothing but a reference stands for its goal. */
static const json_t *follow(const schema_compiler *c, const json_t *schema)
{
    for (int i = 0; i < SCHEMA_DEPTH_MOST; i++) {
        const json_t *ref = json_object_get(schema, "$ref");
        if (ref == NULL || json_object_size(schema) != 1) break;
        schema = schema_target(c->root, json_string_value(ref));
    }
    return schema;
}

weir_status schema_rule_of(schema_compiler *c, const json_t *schema, uint32_t *id, weir_error *err)
{
    enum { SLOTS = 2 * SCHEMA_VALUES_MOST };
    schema   = follow(c, schema);
    size_t i = ((uintptr_t)schema >> 4) % SLOTS;
    while (c->memo[i].schema != NULL && c->memo[i].schema != schema) i = (i + 1) % SLOTS;
    *id = c->memo[i].rule;
    if (c->memo[i].schema == schema) return WEIR_OK;
    if (++c->n_values > SCHEMA_VALUES_MOST) return status_fail(err, WEIR_INVALID, "schema: it has too many parts");
    if (++c->nested > SCHEMA_NESTED_MOST) return status_fail(err, WEIR_INVALID, "schema: it nests too deep");
    *id        = automaton_rule(c->a, true);
    c->memo[i] = (schema_rule){schema, *id};
    TRY(automaton_status(c->a, err));
    TRY(fill(c, schema, *id, err));
    c->nested--;
    return WEIR_OK;
}

weir_status schema_rule_of_all(schema_compiler *c, json_t *parts, uint32_t *id, weir_error *err)
{
    if (json_array_size(parts) == 0) {
        *id = schema_any(c);
        return automaton_status(c->a, err);
    }
    if (json_array_size(parts) == 1) return schema_rule_of(c, json_array_get(parts, 0), id, err);
    json_t *all = json_object();
    if (json_object_set(all, "allOf", parts) != 0 || json_array_append(c->made, all) != 0) {
        json_decref(all);
        return schema_no_memory(err);
    }
    json_decref(all); /* c->made has it */
    return schema_rule_of(c, all, id, err);
}

/* ---- the whole ---- */

static weir_status compile(schema_compiler *c, weir_error *err)
{
    TRY(schema_check(c->root, err));
    c->made = json_array();
    c->memo = mem_zalloc(2 * SCHEMA_VALUES_MOST, sizeof *c->memo);
    if (c->made == NULL || c->memo == NULL) return schema_no_memory(err);
    TRY(schema_rule_of(c, c->root, &c->a->root, err));
    return automaton_finish(c->a, NULL, NULL, err);
}

weir_status schema_compile(automaton *a, const char *text, size_t len, const schema_options *o, weir_error *err)
{
    if (len > SCHEMA_BYTES_MOST)
        return status_fail(err, WEIR_INVALID, "schema: expected at most %d bytes, found %zu", SCHEMA_BYTES_MOST, len);
    json_doc    doc = {0};
    weir_status st  = json_parse(&doc, text, len, "schema", JSON_MAX_DEPTH, err);
    if (st == WEIR_FORMAT) { /* it is an argument and no file */
        if (err != NULL) err->status = WEIR_INVALID;
        st = WEIR_INVALID;
    }
    schema_compiler c = {.a      = a,
                         .root   = doc.root,
                         .opt    = *o,
                         .any    = RULE_NONE,
                         .string = RULE_NONE,
                         .number = RULE_NONE,
                         .space  = RULE_NONE,
                         .colon  = RULE_NONE};
    if (st == WEIR_OK) st = compile(&c, err);
    json_decref(c.made);
    mem_free(c.memo);
    json_doc_free(&doc);
    return st;
}
