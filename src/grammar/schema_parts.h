/* grammar/schema_parts.h - a schema on its way to an automaton; for the schema_* files. */
#ifndef GRAMMAR_SCHEMA_PARTS_H
#define GRAMMAR_SCHEMA_PARTS_H

#include "base/json.h"
#include "grammar/char_dfa.h"
#include "grammar/schema.h"

enum { RULE_NONE = UINT32_MAX, SCHEMA_JOINED_MOST = 1 << 15, SCHEMA_NESTED_MOST = 200, SCHEMA_LIST_MOST = 1 << 12 };

#define SCHEMA_WORK_MOST (1u << 25)

/* A schema's rule, found by the value's address. */
typedef struct schema_rule {
    const json_t *schema;
    uint32_t      rule;
} schema_rule;

typedef struct schema_compiler {
    automaton     *a;
    const json_t  *root;
    schema_options opt;
    json_t        *made;               /* owns the schemas that were made on the way */
    schema_rule   *memo;               /* [2 * SCHEMA_VALUES_MOST] */
    uint32_t       n_values, n_joined; /* rules of schemas; schemas joined into others, again and again */
    unsigned       depth, nested;      /* of choices in choices; of rules in rules */
    uint64_t       work;               /* comparisons of list entries */
    /* Rules that many share; RULE_NONE until they are asked for. */
    uint32_t any, string, number, space, colon;
} schema_compiler;

/* schema_check.c: every keyword is known and of the right shape, each $ref leads to something. */
weir_status schema_check(const json_t *root, weir_error *err);
/* What a $ref points to; NULL: nothing. */
const json_t *schema_target(const json_t *root, const char *ref);

/* schema_flat.c: a schema with its $ref and allOf resolved, as one object:
 *   type      list of names, each allowed            enum       list of values
 *   objects   list of {properties, additionalProperties}, all of which hold
 *   arrays    list of {prefixItems, items}, all of which hold
 *   choices   list of lists of schemas: one of each list holds
 *   pattern, format   lists                          required   list
 *   bounds as they are, the tightest; never: true where nothing is allowed */
weir_status schema_flatten(schema_compiler *c, const json_t *schema, json_t *flat, unsigned depth, weir_error *err);
json_t     *schema_flat_copy(const json_t *flat); /* NULL without memory */

/* schema.c: the rule of a schema; and what all of `parts` (a list) allow. */
weir_status schema_rule_of(schema_compiler *c, const json_t *schema, uint32_t *rule, weir_error *err);
weir_status schema_rule_of_all(schema_compiler *c, json_t *parts, uint32_t *rule, weir_error *err);

/* from --a value as `flat` has it, of any type--> to. */
weir_status schema_put_value(schema_compiler *c, json_t *flat, uint32_t from, uint32_t to, weir_error *err);

/* from --, and white space--> to; from --white space and the bracket--> to. */
weir_status schema_comma(schema_compiler *c, uint32_t from, uint32_t to, weir_error *err);
weir_status schema_close(schema_compiler *c, uint32_t from, char bracket, uint32_t to, weir_error *err);

/* schema_values.c: what is the same in all schemas. */
uint32_t schema_any(schema_compiler *c);
uint32_t schema_space(schema_compiler *c);
uint32_t schema_colon(schema_compiler *c); /* with the colon */
void     schema_call_space(schema_compiler *c, uint32_t from, uint32_t to);
uint32_t schema_string(schema_compiler *c); /* counts its characters */
uint32_t schema_number(schema_compiler *c);

/* from --a value as `flat` has it--> to. */
weir_status schema_put_string(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err);
weir_status schema_put_integer(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err);
weir_status schema_put_object(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err);
weir_status schema_put_array(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err);
weir_status schema_put_enum(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err);

/* The expression of a known format, or NULL. */
const char *schema_format(const char *name);

/* True when nothing fits the rule: known of rules that are complete. */
static inline bool schema_is_never(const schema_compiler *c, uint32_t id)
{
    return c->a->nodes[c->a->rules[id].start].first == NO_EDGE;
}

/* A member that is a count, or `none`. */
uint32_t schema_count(const json_t *flat, const char *key, uint32_t none);

static inline weir_status schema_no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "schema: out of memory");
}

#endif
