/* serve/fields.c - see fields.h. */
#include "serve/fields.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const json_t *field(const fields *f, const char *key)
{
    const json_t *v = f->failed ? NULL : json_object_get(f->object, key);
    return json_is_null(v) ? NULL : v;
}

bool field_wrong(fields *f, const char *key, const char *fmt, ...)
{
    char    name[96], text[800];
    va_list ap;
    if (f->failed) return false;
    f->failed = true;
    (void)snprintf(name, sizeof name, "%s%s%s", f->where, f->where[0] != '\0' ? "." : "", key);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return api_fail(f->err, API_INVALID, name, "%s: %s", name, text);
}

bool field_bool(fields *f, const char *key, bool *out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    if (!json_is_boolean(v)) return field_wrong(f, key, "expected true or false, found %s", json_kind(v));
    *out = json_is_true(v);
    return true;
}

bool field_whole(fields *f, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    int64_t n;
    if (json_is_integer(v)) {
        n = json_integer_value(v);
    } else if (json_is_real(v) && fabs(json_real_value(v)) < 0x1p53 &&
               json_real_value(v) == floor(json_real_value(v))) { /* 5.0 is 5 */
        n = (int64_t)json_real_value(v);
    } else {
        return field_wrong(f, key, "expected an integer, found %s", json_kind(v));
    }
    if (n < min || n > max)
        return field_wrong(f, key, "expected %" PRId64 " to %" PRId64 ", found %" PRId64, min, max, n);
    *out = n;
    return true;
}

bool field_real(fields *f, const char *key, double min, double max, double *out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    if (!json_is_number(v)) return field_wrong(f, key, "expected a number, found %s", json_kind(v));
    const double n = json_number_value(v);
    if (!(n >= min && n <= max)) return field_wrong(f, key, "expected %g to %g, found %g", min, max, n);
    *out = n;
    return true;
}

bool field_string(fields *f, const char *key, const char **out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    if (!json_is_string(v)) return field_wrong(f, key, "expected a string, found %s", json_kind(v));
    *out = json_string_value(v);
    return true;
}

bool field_object(fields *f, const char *key, const json_t **out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    if (!json_is_object(v)) return field_wrong(f, key, "expected an object, found %s", json_kind(v));
    *out = v;
    return true;
}

bool field_array(fields *f, const char *key, size_t most, const json_t **out)
{
    const json_t *v = field(f, key);
    if (v == NULL) return false;
    if (!json_is_array(v)) return field_wrong(f, key, "expected an array, found %s", json_kind(v));
    if (json_array_size(v) > most)
        return field_wrong(f, key, "expected at most %zu elements, found %zu", most, json_array_size(v));
    *out = v;
    return true;
}
