/* grammar/schema_flat.c - a schema with its $ref and allOf resolved.
 *
 * Keywords that speak of one value are joined at once; those that speak of members and
 * elements are kept side by side, and joined for each member when it is built. */
#include "grammar/schema_parts.h"

#include <string.h>

/* The list `key` of flat, made where it is missing; borrowed. */
static json_t *list_of(json_t *flat, const char *key)
{
    json_t *list = json_object_get(flat, key);
    if (list != NULL) return list;
    list = json_array();
    return json_object_set_new(flat, key, list) == 0 ? list : NULL;
}

static weir_status push(json_t *flat, const char *key, const json_t *v, weir_error *err)
{
    json_t *list = list_of(flat, key);
    /* jansson counts references in the value itself. */
    return json_array_append(list, (json_t *)(uintptr_t)v) == 0 ? WEIR_OK : schema_no_memory(err);
}

static bool has_equal(schema_compiler *c, const json_t *list, const json_t *v)
{
    c->work += json_array_size(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), (json_t *)(uintptr_t)v)) return true;
    return false;
}

/* flat[key] becomes what is in it and in `also`; all of `also` where there was nothing. */
static weir_status narrow(schema_compiler *c, json_t *flat, const char *key, json_t *also, weir_error *err)
{
    const json_t *old  = json_object_get(flat, key);
    json_t       *both = json_array();
    for (size_t i = 0; i < json_array_size(also); i++) {
        json_t *v = json_array_get(also, i);
        if (old == NULL || has_equal(c, old, v)) (void)json_array_append(both, v);
    }
    return json_object_set_new(flat, key, both) == 0 ? WEIR_OK : schema_no_memory(err);
}

/* A list of the types a schema allows; integers are numbers.  New reference. */
static json_t *types_of(schema_compiler *c, const json_t *type, bool null_too)
{
    json_t *list = json_array();
    if (json_is_string(type)) (void)json_array_append(list, (json_t *)(uintptr_t)type);
    for (size_t i = 0; i < json_array_size(type); i++) (void)json_array_append(list, json_array_get(type, i));
    if (null_too) (void)json_array_append_new(list, json_string("null"));
    json_t *integer = json_string("integer"), *number = json_string("number");
    if (has_equal(c, list, number) && !has_equal(c, list, integer)) (void)json_array_append(list, integer);
    json_decref(integer);
    json_decref(number);
    return list;
}

static weir_status join_type(schema_compiler *c, json_t *flat, const json_t *schema, weir_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    if (type == NULL) return WEIR_OK;
    json_t           *list = types_of(c, type, json_is_true(json_object_get(schema, "nullable")));
    const weir_status st   = list == NULL ? schema_no_memory(err) : narrow(c, flat, "type", list, err);
    json_decref(list);
    return st;
}

static weir_status join_enum(schema_compiler *c, json_t *flat, const json_t *schema, weir_error *err)
{
    json_t *values = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    if (values != NULL) TRY(narrow(c, flat, "enum", values, err));
    if (one == NULL) return WEIR_OK;
    json_t *list = json_array();
    (void)json_array_append(list, one);
    const weir_status st = narrow(c, flat, "enum", list, err);
    json_decref(list);
    return st;
}

/* Keeps the larger (sign > 0) or the smaller of two numbers. */
static weir_status tighten(json_t *flat, const json_t *schema, const char *key, int sign, weir_error *err)
{
    json_t *v = json_object_get(schema, key), *old = json_object_get(flat, key);
    if (v == NULL) return WEIR_OK;
    if (old != NULL) {
        const bool both = json_is_integer(v) && json_is_integer(old);
        const bool more =
            both ? json_integer_value(v) > json_integer_value(old) : json_number_value(v) > json_number_value(old);
        if (more != (sign > 0)) return WEIR_OK;
    }
    return json_object_set(flat, key, v) == 0 ? WEIR_OK : schema_no_memory(err);
}

/* The members `keys` of a schema as one entry of a list, if it has any of them. */
static weir_status join_part(json_t *flat, const json_t *schema, const char *list, const char *const keys[2],
                             weir_error *err)
{
    json_t *part = json_object();
    for (int i = 0; i < 2; i++) {
        json_t *v = json_object_get(schema, keys[i]);
        if (v != NULL) (void)json_object_set(part, keys[i], v);
    }
    const weir_status st = json_object_size(part) == 0 ? WEIR_OK : push(flat, list, part, err);
    json_decref(part);
    return st;
}

static weir_status join_values(schema_compiler *c, json_t *flat, const json_t *schema, weir_error *err)
{
    static const struct {
        const char *key;
        int         sign;
    } bounds[]                         = {{"minItems", 1}, {"maxItems", -1}, {"minLength", 1},        {"maxLength", -1},
                                          {"minimum", 1},  {"maximum", -1},  {"exclusiveMinimum", 1}, {"exclusiveMaximum", -1}};
    static const char *const object[2] = {"properties", "additionalProperties"}, *const array[2] = {"prefixItems",
                                                                                                    "items"};
    TRY(join_type(c, flat, schema, err));
    TRY(join_enum(c, flat, schema, err));
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        TRY(tighten(flat, schema, bounds[i].key, bounds[i].sign, err));
    TRY(join_part(flat, schema, "objects", object, err));
    TRY(join_part(flat, schema, "arrays", array, err));
    const json_t *v = json_object_get(schema, "pattern");
    if (v != NULL) TRY(push(flat, "pattern", v, err));
    v = json_object_get(schema, "format");
    if (v != NULL) TRY(push(flat, "format", v, err));
    v = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!has_equal(c, json_object_get(flat, "required"), json_array_get(v, i)))
            TRY(push(flat, "required", json_array_get(v, i), err));
    v = json_object_get(schema, "anyOf");
    if (v != NULL) TRY(push(flat, "choices", v, err));
    v = json_object_get(schema, "oneOf");
    return v != NULL ? push(flat, "choices", v, err) : WEIR_OK;
}

weir_status schema_flatten(schema_compiler *c, const json_t *schema, json_t *flat, unsigned depth, weir_error *err)
{
    if (json_is_true(schema)) return WEIR_OK;
    if (json_is_false(schema))
        return json_object_set_new(flat, "never", json_true()) == 0 ? WEIR_OK : schema_no_memory(err);
    if (depth > SCHEMA_DEPTH_MOST) return status_fail(err, WEIR_INVALID, "schema: $ref and allOf lead in a circle");
    if (++c->n_joined > SCHEMA_JOINED_MOST || c->work > SCHEMA_WORK_MOST)
        return status_fail(err, WEIR_INVALID, "schema: too many combinations");
    const json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf");
    if (ref != NULL) TRY(schema_flatten(c, schema_target(c->root, json_string_value(ref)), flat, depth + 1, err));
    for (size_t i = 0; i < json_array_size(all); i++)
        TRY(schema_flatten(c, json_array_get(all, i), flat, depth + 1, err));
    return join_values(c, flat, schema, err);
}

json_t *schema_flat_copy(const json_t *flat)
{
    json_t     *copy = json_object();
    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)flat, key, v)
    {
        json_t *mine = json_is_array(v) ? json_copy(v) : json_incref(v);
        if (json_object_set_new(copy, key, mine) != 0) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}
