/* text/toolcall_schema.c - tools of a request, and the types in their schemas.
 *
 * Of JSON Schema only what tells a value's type is read; a schema that cannot be
 * read so says nothing, and is no error. */
#include "text/toolcall_parts.h"

#include <string.h>

enum { MAX_TOOLS_BYTES = 64 << 20, MAX_SCHEMA_DEPTH = 16 };

static const json_t *function_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return json_is_object(f) ? f : tool;
}

static weir_status check_tools(tool_set *t, weir_error *err)
{
    if (!json_is_array(t->doc.root))
        return status_fail(err, WEIR_INVALID, "tools: expected an array, found %s", json_kind(t->doc.root));
    t->n = json_array_size(t->doc.root);
    for (size_t i = 0; i < t->n; i++) {
        const json_t *name = json_object_get(function_of(json_array_get(t->doc.root, i)), "name");
        if (!json_is_string(name) || json_string_length(name) == 0)
            return status_fail(err, WEIR_INVALID, "tools[%zu].function.name: expected a string, found %s", i,
                               name == NULL ? "nothing" : json_kind(name));
    }
    return WEIR_OK;
}

weir_status tools_parse(tool_set *t, const char *text, weir_error *err)
{
    *t = (tool_set){0};
    if (text == NULL) return WEIR_OK;
    const size_t len = strlen(text);
    if (len > MAX_TOOLS_BYTES)
        return status_fail(err, WEIR_INVALID, "tools: expected at most %d bytes, found %zu", MAX_TOOLS_BYTES, len);
    weir_status st = json_parse(&t->doc, text, len, "tools", JSON_MAX_DEPTH, err);
    if (st == WEIR_OK) st = check_tools(t, err);
    if (st == WEIR_OK) return WEIR_OK;
    tools_free(t);
    if (st != WEIR_FORMAT) return st;
    if (err != NULL) err->status = WEIR_INVALID; /* the text is an argument and no file */
    return WEIR_INVALID;
}

void tools_free(tool_set *t)
{
    json_doc_free(&t->doc);
    *t = (tool_set){0};
}

const json_t *tools_find(const tool_set *t, name_span name)
{
    for (size_t i = 0; i < t->n; i++) {
        const json_t *f = function_of(json_array_get(t->doc.root, i)), *n = json_object_get(f, "name");
        if (json_string_length(n) == name.len && memcmp(json_string_value(n), name.s, name.len) == 0) return f;
    }
    return NULL;
}

static unsigned type_named(const json_t *name)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "array", "object", "string"};
    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++)
        if (strcmp(json_string_value(name), names[i]) == 0) return 1u << i;
    return TYPE_ANY;
}

static unsigned type_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL: return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return TYPE_BOOLEAN;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER;
    case JSON_ARRAY: return TYPE_ARRAY;
    case JSON_OBJECT: return TYPE_OBJECT;
    case JSON_STRING: return TYPE_STRING;
    }
    return TYPE_ANY;
}

/* What "#/a/b" points to, or NULL.  ~0 and ~1 are the pointer's escapes (RFC 6901). */
static const json_t *resolve(const json_t *root, const char *ref)
{
    if (*ref++ != '#') return NULL;
    const json_t *at = root;
    while (at != NULL && *ref == '/') {
        char   step[256];
        size_t n = 0;
        for (ref++; *ref != '\0' && *ref != '/'; ref++) {
            if (n + 1 == sizeof step) return NULL;
            char c = *ref;
            if (c == '~' && (ref[1] == '0' || ref[1] == '1')) c = *++ref == '0' ? '~' : '/';
            step[n++] = c;
        }
        step[n] = '\0';
        at      = json_is_array(at) ? NULL : json_object_get(at, step);
    }
    return *ref == '\0' ? at : NULL;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth);

/* Any of the schemas may hold: one that says nothing leaves nothing said. */
static unsigned any_of(const json_t *root, const json_t *list, int depth)
{
    unsigned types = 0;
    size_t   n     = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const unsigned one = types_of(root, json_array_get(list, i), depth);
        if (one == TYPE_ANY) return TYPE_ANY;
        types |= one;
    }
    return types;
}

/* All of the schemas hold: those that say nothing do not count. */
static unsigned all_of(const json_t *root, const json_t *list, int depth)
{
    unsigned types = TYPE_ANY;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const unsigned one = types_of(root, json_array_get(list, i), depth);
        if (one != TYPE_ANY) types = types == TYPE_ANY || (types & one) == 0 ? one : types & one;
    }
    return types;
}

static unsigned own_types(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"),
                 *value = json_object_get(schema, "const");
    unsigned types      = type_named(type);
    for (size_t i = 0; i < json_array_size(type); i++) types |= type_named(json_array_get(type, i));
    if (types == TYPE_ANY && value != NULL) types = type_of_value(value);
    if (types == TYPE_ANY)
        for (size_t i = 0; i < json_array_size(list); i++) types |= type_of_value(json_array_get(list, i));
    if (types == TYPE_ANY && json_object_get(schema, "properties") != NULL) types = TYPE_OBJECT;
    if (types == TYPE_ANY && json_object_get(schema, "items") != NULL) types = TYPE_ARRAY;
    return types;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth)
{
    if (!json_is_object(schema) || depth == MAX_SCHEMA_DEPTH) return TYPE_ANY;
    const json_t *ref   = json_object_get(schema, "$ref");
    unsigned      types = own_types(schema);
    if (types == TYPE_ANY && json_is_string(ref))
        types = types_of(root, resolve(root, json_string_value(ref)), depth + 1);
    if (types == TYPE_ANY) types = any_of(root, json_object_get(schema, "anyOf"), depth + 1);
    if (types == TYPE_ANY) types = any_of(root, json_object_get(schema, "oneOf"), depth + 1);
    if (types == TYPE_ANY) types = all_of(root, json_object_get(schema, "allOf"), depth + 1);
    if (types != TYPE_ANY && json_is_true(json_object_get(schema, "nullable"))) types |= TYPE_NULL;
    return types;
}

/* A member of an object, by a name that need not end in NUL. */
static const json_t *member(const json_t *object, name_span key)
{
    json_t *o = (json_t *)(uintptr_t)object; /* iterators change nothing, but say so nowhere */
    for (void *i = json_object_iter(o); i != NULL; i = json_object_iter_next(o, i)) {
        const char *name = json_object_iter_key(i);
        if (strlen(name) == key.len && memcmp(name, key.s, key.len) == 0) return json_object_iter_value(i);
    }
    return NULL;
}

/* The schema of the parameters; other dialects call it input_schema. */
static const json_t *parameters_of(const json_t *tool)
{
    const json_t *p = json_object_get(tool, "parameters");
    return p != NULL ? p : json_object_get(tool, "input_schema");
}

unsigned tool_types(const json_t *tool, name_span key)
{
    const json_t *root = parameters_of(tool), *own = member(json_object_get(root, "properties"), key);
    return types_of(root, own != NULL ? own : json_object_get(root, "additionalProperties"), 0);
}

bool tool_has_parameter(const json_t *tool, name_span key)
{
    const json_t *properties = json_object_get(parameters_of(tool), "properties");
    return json_object_size(properties) == 0 || member(properties, key) != NULL;
}
