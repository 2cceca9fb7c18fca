/* serve/fields.h - reading the fields of a request.
 *
 * The first failure sticks in `err` and names its field; later reads do nothing.  An absent
 * field and a null one are the same: *out stays as it is. */
#ifndef SERVE_FIELDS_H
#define SERVE_FIELDS_H

#include "serve/api_error.h"

#include <jansson.h>

typedef struct fields {
    const json_t *object;
    const char   *where; /* path of the object for messages, "" at the top */
    api_error    *err;
    bool          failed;
} fields;

/* The member, or NULL when it is absent or null. */
const json_t *field(const fields *f, const char *key);
/* Fails by this field's name; returns false. */
__attribute__((cold, format(printf, 3, 4))) bool field_wrong(fields *f, const char *key, const char *fmt, ...);

/* Each returns true when the field was there and right. */
bool field_bool(fields *f, const char *key, bool *out);
bool field_whole(fields *f, const char *key, int64_t min, int64_t max, int64_t *out);
bool field_real(fields *f, const char *key, double min, double max, double *out);
bool field_string(fields *f, const char *key, const char **out); /* borrowed */
bool field_object(fields *f, const char *key, const json_t **out);
bool field_array(fields *f, const char *key, size_t most, const json_t **out);

#endif
