/* grammar/schema_check.c - is this a schema that is known here?
 *
 * All complaints about keywords are made before anything is built, so that they name
 * the place in the schema as it was written. */
#include "base/mem.h"
#include "grammar/regex.h"
#include "grammar/schema_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTER_LENGTH = 400, COUNT_LARGEST = 1 << 30, SEEN_SLOTS = 2 * SCHEMA_VALUES_MOST };

/* Where in the document, as a JSON pointer; and which schemas are still to be looked at, because a
 * $ref leads to them. */
typedef struct place_in {
    const json_t  *root;
    char           pointer[POINTER_LENGTH];
    size_t         len;
    const char   **refs; /* [SCHEMA_VALUES_MOST] */
    const json_t **seen; /* [SEEN_SLOTS] their goals */
    uint32_t       n_refs;
} place_in;

/* Appends "/key"; what is too long ends in "...". */
static size_t enter(place_in *p, const char *key)
{
    const size_t before = p->len;
    char         step[100];
    size_t       n = 0;
    step[n++]      = '/';
    for (; *key != '\0' && n < sizeof step - 3; key++) {
        if (*key == '~' || *key == '/') {
            step[n++] = '~';
            step[n++] = *key == '~' ? '0' : '1';
        } else {
            step[n++] = *key;
        }
    }
    step[n]         = '\0';
    const int wrote = snprintf(p->pointer + p->len, POINTER_LENGTH - p->len, "%s", step);
    p->len += (size_t)wrote < POINTER_LENGTH - p->len ? (size_t)wrote : POINTER_LENGTH - p->len - 1;
    return before;
}

static size_t enter_index(place_in *p, size_t i)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%zu", i);
    return enter(p, text);
}

static void leave(place_in *p, size_t before)
{
    p->len             = before;
    p->pointer[before] = '\0';
}

static weir_status bad(const place_in *p, weir_status st, const char *what, weir_error *err)
{
    return status_fail(err, st, "schema: #%s: %s", p->pointer, what);
}

static weir_status check(place_in *p, const json_t *schema, weir_error *err);

static weir_status check_schema(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    return check(p, v, err);
}

static weir_status check_schemas(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    if (!json_is_object(v) || json_object_size(v) > SCHEMA_LIST_MOST)
        return bad(p, WEIR_INVALID, "expected an object of at most 4096 schemas", err);
    const char *key;
    json_t     *one;
    json_object_foreach((json_t *)(uintptr_t)v, key, one)
    {
        const size_t at = enter(p, key);
        TRY(check(p, one, err));
        leave(p, at);
    }
    return WEIR_OK;
}

static weir_status check_list(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return bad(p, WEIR_INVALID, "expected an array of at least one schema", err);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const size_t at = enter_index(p, i);
        TRY(check(p, json_array_get(v, i), err));
        leave(p, at);
    }
    return WEIR_OK;
}

static bool is_type(const json_t *v)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (size_t i = 0; json_is_string(v) && i < sizeof names / sizeof *names; i++)
        if (strcmp(json_string_value(v), names[i]) == 0) return true;
    return false;
}

static weir_status check_type(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    bool good = is_type(v) || (json_is_array(v) && json_array_size(v) > 0 && json_array_size(v) <= 8);
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++) good &= is_type(json_array_get(v, i));
    return good ? WEIR_OK
                : bad(p, WEIR_INVALID,
                      "expected null, boolean, integer, number, string, array or object, or a list of these", err);
}

static weir_status check_names(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    bool good = json_is_array(v) && json_array_size(v) <= SCHEMA_LIST_MOST;
    for (size_t i = 0; good && i < json_array_size(v); i++) good = json_is_string(json_array_get(v, i));
    return good ? WEIR_OK : bad(p, WEIR_INVALID, "expected an array of at most 4096 strings", err);
}

static weir_status check_enum(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    return json_is_array(v) && json_array_size(v) > 0 && json_array_size(v) <= SCHEMA_LIST_MOST
               ? WEIR_OK
               : bad(p, WEIR_INVALID, "expected an array of 1 to 4096 values", err);
}

static weir_status check_anything(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)p, (void)schema, (void)v, (void)err;
    return WEIR_OK;
}

static weir_status check_count(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    const json_int_t n = json_integer_value(v);
    return json_is_integer(v) && n >= 0 && n <= COUNT_LARGEST
               ? WEIR_OK
               : bad(p, WEIR_INVALID, "expected an integer from 0 to 1073741824", err);
}

static bool says(const json_t *type, const char *name)
{
    if (json_is_string(type)) return strcmp(json_string_value(type), name) == 0;
    for (size_t i = 0; i < json_array_size(type); i++)
        if (says(json_array_get(type, i), name)) return true;
    return false;
}

static weir_status check_bound(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    if (!json_is_number(v)) return bad(p, WEIR_INVALID, "expected a number", err);
    if (json_is_real(v) && !(fabs(json_real_value(v)) <= 0x1p53))
        return bad(p, WEIR_UNSUPPORTED, "expected a number up to 2^53, or an integer", err);
    if (type == NULL || says(type, "number"))
        return bad(p, WEIR_UNSUPPORTED, "supported for integers only: expected \"type\": \"integer\" beside it", err);
    return WEIR_OK;
}

static weir_status check_pattern(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    if (!json_is_string(v)) return bad(p, WEIR_INVALID, "expected a regular expression", err);
    char_dfa          d;
    const weir_status st = regex_parse(&d, json_string_value(v), json_string_length(v), true, err);
    char_dfa_free(&d);
    return st == WEIR_OK ? st : status_prefix(err, st, "schema: #%s", p->pointer);
}

static weir_status check_format(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    if (!json_is_string(v)) return bad(p, WEIR_INVALID, "expected a string", err);
    if (schema_format(json_string_value(v)) != NULL) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED,
                       "schema: #%s: format \"%.60s\" is not supported (date, time, date-time, uuid, email, ipv4 are)",
                       p->pointer, json_string_value(v));
}

static weir_status check_boolean(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    return json_is_boolean(v) ? WEIR_OK : bad(p, WEIR_INVALID, "expected true or false", err);
}

static weir_status check_ref(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    if (!json_is_string(v) || json_string_value(v)[0] != '#')
        return bad(p, WEIR_UNSUPPORTED, "expected a place in this document: \"#\" or \"#/...\"", err);
    const json_t *to = schema_target(p->root, json_string_value(v));
    if (to == NULL)
        return status_fail(err, WEIR_INVALID, "schema: #%s: \"%.200s\" leads to no schema", p->pointer,
                           json_string_value(v));
    size_t i = ((uintptr_t)to >> 4) % SEEN_SLOTS;
    while (p->seen[i] != NULL && p->seen[i] != to) i = (i + 1) % SEEN_SLOTS;
    if (p->seen[i] == to) return WEIR_OK;
    if (p->n_refs == SCHEMA_VALUES_MOST) return bad(p, WEIR_INVALID, "the schema has too many parts", err);
    p->seen[i]           = to;
    p->refs[p->n_refs++] = json_string_value(v);
    return WEIR_OK;
}

/* Known only where it asks for nothing. */
static weir_status check_unique(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema;
    return json_is_false(v) ? WEIR_OK : bad(p, WEIR_UNSUPPORTED, "this keyword is not supported", err);
}

static weir_status refuse(place_in *p, const json_t *schema, const json_t *v, weir_error *err)
{
    (void)schema, (void)v;
    return bad(p, WEIR_UNSUPPORTED, "this keyword is not supported", err);
}

typedef struct keyword {
    const char *name;
    weir_status (*check)(place_in *p, const json_t *schema, const json_t *v, weir_error *err);
} keyword;

/* What is not here constrains nothing. */
static const keyword keywords[] = {
    {"type", check_type},
    {"nullable", check_boolean},
    {"properties", check_schemas},
    {"required", check_names},
    {"additionalProperties", check_schema},
    {"enum", check_enum},
    {"const", check_anything},
    {"items", check_schema},
    {"prefixItems", check_list},
    {"minItems", check_count},
    {"maxItems", check_count},
    {"minLength", check_count},
    {"maxLength", check_count},
    {"pattern", check_pattern},
    {"format", check_format},
    {"minimum", check_bound},
    {"maximum", check_bound},
    {"exclusiveMinimum", check_bound},
    {"exclusiveMaximum", check_bound},
    {"anyOf", check_list},
    {"oneOf", check_list},
    {"allOf", check_list},
    {"$ref", check_ref},
    {"$defs", check_schemas},
    {"definitions", check_schemas},
    {"uniqueItems", check_unique},
    {"not", refuse},
    {"if", refuse},
    {"then", refuse},
    {"else", refuse},
    {"patternProperties", refuse},
    {"propertyNames", refuse},
    {"minProperties", refuse},
    {"maxProperties", refuse},
    {"multipleOf", refuse},
    {"contains", refuse},
    {"minContains", refuse},
    {"maxContains", refuse},
    {"additionalItems", refuse},
    {"dependencies", refuse},
    {"dependentRequired", refuse},
    {"dependentSchemas", refuse},
    {"unevaluatedItems", refuse},
    {"unevaluatedProperties", refuse},
    {"$dynamicRef", refuse},
    {"$recursiveRef", refuse},
};

static weir_status check(place_in *p, const json_t *schema, weir_error *err)
{
    if (json_is_boolean(schema)) return WEIR_OK;
    if (!json_is_object(schema)) return bad(p, WEIR_INVALID, "expected a schema: an object, true or false", err);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const json_t *v = json_object_get(schema, keywords[i].name);
        if (v == NULL) continue;
        const size_t at = enter(p, keywords[i].name);
        TRY(keywords[i].check(p, schema, v, err));
        leave(p, at);
    }
    return WEIR_OK;
}

static weir_status check_all(place_in *p, weir_error *err)
{
    TRY(check(p, p->root, err));
    for (uint32_t i = 0; i < p->n_refs; i++) {
        p->len = (size_t)snprintf(p->pointer, POINTER_LENGTH / 2, "%s", p->refs[i] + 1);
        if (p->len >= POINTER_LENGTH / 2) p->len = POINTER_LENGTH / 2 - 1;
        TRY(check(p, schema_target(p->root, p->refs[i]), err));
    }
    return WEIR_OK;
}

weir_status schema_check(const json_t *root, weir_error *err)
{
    place_in          p  = {.root = root,
                            .refs = mem_alloc(SCHEMA_VALUES_MOST, sizeof *p.refs),
                            .seen = mem_zalloc(SEEN_SLOTS, sizeof *p.seen)};
    const weir_status st = p.refs == NULL || p.seen == NULL ? schema_no_memory(err) : check_all(&p, err);
    mem_free(p.refs);
    mem_free(p.seen);
    return st;
}

/* One step of a pointer: text up to the next '/', with ~0, ~1 and %XX read. */
static bool read_step(const char **at, char *step, size_t size)
{
    size_t n = 0;
    for (; **at != '\0' && **at != '/'; (*at)++) {
        unsigned c = (uint8_t) * *at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = (*at)[1] == '0' ? '~' : '/';
            (*at)++;
        } else if (c == '%' && sscanf(*at + 1, "%2x", &c) == 1 && (*at)[2] != '\0') {
            *at += 2;
        }
        if (n + 1 == size) return false;
        step[n++] = (char)c;
    }
    step[n] = '\0';
    return true;
}

const json_t *schema_target(const json_t *root, const char *ref)
{
    char          step[256];
    const json_t *at = root;
    for (ref++; *ref == '/' && at != NULL;) {
        ref++;
        if (!read_step(&ref, step, sizeof step)) return NULL;
        char               *end;
        const unsigned long i = json_is_array(at) ? strtoul(step, &end, 10) : 0;
        at                    = json_is_array(at) ? (*end == '\0' && step[0] != '\0' ? json_array_get(at, i) : NULL)
                                                  : json_object_get(at, step);
    }
    return *ref == '\0' && (json_is_object(at) || json_is_boolean(at)) ? at : NULL;
}
