/* base/json.h - jansson with limits, and typed getters whose messages name the
 * file and the field, what was expected and what was found.
 *
 * A json_doc owns the tree and the name used in messages ("config.json").
 * Values are plain jansson values, borrowed from the document. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct json_doc {
    char   *name; /* owned */
    json_t *root;
} json_doc;

enum { JSON_MAX_DEPTH = 64, JSON_MAX_VALUES = 1000000 };

/* Parses text (no NUL needed behind it): one JSON value of nesting depth at
 * most `depth` and at most JSON_MAX_VALUES values, valid UTF-8, no duplicate keys.  `name` is for messages. */
weir_status json_parse(json_doc *out, const char *text, size_t len, const char *name, unsigned depth, weir_error *err);
/* Reads and parses a file of at most max_bytes. */
weir_status json_load(json_doc *out, const char *path, size_t max_bytes, unsigned depth, weir_error *err);
void        json_doc_free(json_doc *d); /* all zero is allowed */

/* Getters.  `obj` is an object of `doc`, `where` its path for messages ("" at
 * the top).  A missing or null member leaves *out as it is and gives WEIR_OK
 * unless `required`; a member of another type or range is WEIR_FORMAT. */
typedef struct json_at {
    const char   *file;  /* for messages */
    const char   *where; /* path of obj, "" at the top */
    const json_t *obj;
} json_at;

weir_status json_get_u32(const json_at *at, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *out,
                         weir_error *err);
weir_status json_get_double(const json_at *at, const char *key, bool required, double *out, weir_error *err);
weir_status json_get_bool(const json_at *at, const char *key, bool required, bool *out, weir_error *err);
/* Borrowed from the document. */
weir_status json_get_string(const json_at *at, const char *key, bool required, const char **out, weir_error *err);
/* *out is NULL when absent. */
weir_status json_get_object(const json_at *at, const char *key, bool required, const json_t **out, weir_error *err);
weir_status json_get_array(const json_at *at, const char *key, bool required, const json_t **out, weir_error *err);

/* "an object", "a string", ... for messages. */
const char *json_kind(const json_t *v);

#endif
