/* base/json.c - jansson with limits and typed getters. */
#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Jansson allows a depth of 2048 and recurses, and a value of two bytes costs
 * it dozens: this scan bounds both before any of that.  Strings are skipped,
 * everything else is left to the parser. */
static bool within_limits(const char *s, size_t n, unsigned max_depth, unsigned *depth_found, size_t *values)
{
    unsigned depth     = 0;
    bool     in_string = false;
    *values            = 1;
    *depth_found       = 0;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '{' || s[i] == '[') {
            ++*values;
            if (++depth > *depth_found) *depth_found = depth;
            if (depth > max_depth) return false;
        } else if ((s[i] == '}' || s[i] == ']') && depth > 0) {
            depth--;
        } else if (s[i] == ',') {
            if (++*values > JSON_MAX_VALUES) return false;
        }
    }
    return true;
}

weir_status json_parse(json_doc *out, const char *text, size_t len, const char *name, unsigned depth, weir_error *err)
{
    *out = (json_doc){0};
    if (!utf8_valid(text, len)) return status_fail(err, WEIR_FORMAT, "%s: expected UTF-8 text", name);
    unsigned deepest;
    size_t   values;
    if (!within_limits(text, len, depth, &deepest, &values))
        return deepest > depth
                   ? status_fail(err, WEIR_FORMAT, "%s: JSON nested deeper than %u levels", name, depth)
                   : status_fail(err, WEIR_FORMAT, "%s: JSON of more than %d values", name, JSON_MAX_VALUES);
    json_error_t je;
    json_t      *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (root == NULL)
        return status_fail(err, WEIR_FORMAT, "%s: not valid JSON: %s (line %d, column %d)", name, je.text, je.line,
                           je.column);
    char *copy = mem_strdup(name);
    if (copy == NULL) {
        json_decref(root);
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name);
    }
    *out = (json_doc){.name = copy, .root = root};
    return WEIR_OK;
}

weir_status json_load(json_doc *out, const char *path, size_t max_bytes, unsigned depth, weir_error *err)
{
    *out = (json_doc){0};
    char  *text;
    size_t len;
    TRY(file_read(&text, &len, path, max_bytes, err));
    const weir_status st = json_parse(out, text, len, path, depth, err);
    mem_free(text);
    return st;
}

void json_doc_free(json_doc *d)
{
    json_decref(d->root);
    mem_free(d->name);
    *d = (json_doc){0};
}

const char *json_kind(const json_t *v)
{
    if (v == NULL) return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "something else";
}

static weir_status wrong(const json_at *at, const char *key, const char *expected, const json_t *found, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s%s%s: expected %s, found %s", at->file, at->where,
                       at->where[0] != '\0' ? "." : "", key, expected, json_kind(found));
}

/* The member, or NULL when absent or null. */
static const json_t *member(const json_at *at, const char *key)
{
    const json_t *v = json_object_get(at->obj, key);
    return v == NULL || json_is_null(v) ? NULL : v;
}

weir_status json_get_u32(const json_at *at, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *out,
                         weir_error *err)
{
    const json_t *v = member(at, key);
    if (v == NULL) return required ? wrong(at, key, "an integer", v, err) : WEIR_OK;
    if (!json_is_integer(v)) return wrong(at, key, "an integer", v, err);
    const json_int_t n = json_integer_value(v);
    if (n < (json_int_t)min || n > (json_int_t)max)
        return status_fail(err, WEIR_FORMAT,
                           "%s: %s%s%s: expected %" PRIu32 "..%" PRIu32 ", found %" JSON_INTEGER_FORMAT, at->file,
                           at->where, at->where[0] != '\0' ? "." : "", key, min, max, n);
    *out = (uint32_t)n;
    return WEIR_OK;
}

weir_status json_get_double(const json_at *at, const char *key, bool required, double *out, weir_error *err)
{
    const json_t *v = member(at, key);
    if (v == NULL) return required ? wrong(at, key, "a number", v, err) : WEIR_OK;
    if (!json_is_number(v) || !isfinite(json_number_value(v))) return wrong(at, key, "a finite number", v, err);
    *out = json_number_value(v);
    return WEIR_OK;
}

weir_status json_get_bool(const json_at *at, const char *key, bool required, bool *out, weir_error *err)
{
    const json_t *v = member(at, key);
    if (v == NULL) return required ? wrong(at, key, "true or false", v, err) : WEIR_OK;
    if (!json_is_boolean(v)) return wrong(at, key, "true or false", v, err);
    *out = json_is_true(v);
    return WEIR_OK;
}

weir_status json_get_string(const json_at *at, const char *key, bool required, const char **out, weir_error *err)
{
    const json_t *v = member(at, key);
    if (v == NULL) return required ? wrong(at, key, "a string", v, err) : WEIR_OK;
    if (!json_is_string(v)) return wrong(at, key, "a string", v, err);
    *out = json_string_value(v);
    return WEIR_OK;
}

weir_status json_get_object(const json_at *at, const char *key, bool required, const json_t **out, weir_error *err)
{
    const json_t *v = member(at, key);
    *out            = NULL;
    if (v == NULL) return required ? wrong(at, key, "an object", v, err) : WEIR_OK;
    if (!json_is_object(v)) return wrong(at, key, "an object", v, err);
    *out = v;
    return WEIR_OK;
}

weir_status json_get_array(const json_at *at, const char *key, bool required, const json_t **out, weir_error *err)
{
    const json_t *v = member(at, key);
    *out            = NULL;
    if (v == NULL) return required ? wrong(at, key, "an array", v, err) : WEIR_OK;
    if (!json_is_array(v)) return wrong(at, key, "an array", v, err);
    *out = v;
    return WEIR_OK;
}
