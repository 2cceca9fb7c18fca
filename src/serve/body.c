/* serve/body.c - see body.h. */
#include "serve/body.h"

#include "base/json.h"

#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The unit of the escape \uXXXX at s, of which n bytes are there; -1: none. */
static int unit_at(const char *s, size_t n)
{
    int unit = 0;
    if (n < 6 || s[0] != '\\' || s[1] != 'u') return -1;
    for (size_t i = 2; i < 6; i++) {
        const int digit = hex(s[i]);
        if (digit < 0) return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high(int unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low(int unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* Handles the escape at s; returns its length.  Half a pair becomes \uFFFD, which is as long. */
static size_t mend_escape(char *s, size_t n)
{
    const int unit = unit_at(s, n);
    if (unit < 0) return 2;
    if (is_high(unit) && is_low(unit_at(s + 6, n - 6))) return 12;
    if (is_high(unit) || is_low(unit)) memcpy(s + 2, "FFFD", 4);
    return 6;
}

/* Jansson recurses, and takes dozens of bytes for a value of two: both are bounded before. */
static bool scan(char *s, size_t n, api_error *err)
{
    size_t depth = 0, values = 1;
    bool   in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i += mend_escape(s + i, n - i) - 1;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '{' || s[i] == '[') {
            values++;
            if (++depth > BODY_DEPTH)
                return api_fail(err, API_INVALID, NULL, "body: JSON nested deeper than %d levels at byte %zu",
                                BODY_DEPTH, i);
        } else if ((s[i] == '}' || s[i] == ']') && depth > 0) {
            depth--;
        } else if (s[i] == ',' && ++values > BODY_VALUES) {
            return api_fail(err, API_INVALID, NULL, "body: JSON of more than %d values", BODY_VALUES);
        }
    }
    return true;
}

bool body_parse(char *text, size_t n, json_t **out, api_error *err)
{
    *out = NULL;
    if (n == 0) return api_fail(err, API_INVALID, NULL, "body: expected a JSON object, found nothing");
    size_t valid = 0;
    for (size_t len; valid < n && (len = utf8_sequence(text + valid, n - valid)) > 0;) valid += len;
    if (valid < n)
        return api_fail(err, API_INVALID, NULL, "body: expected UTF-8, found other bytes at byte %zu", valid);
    if (!scan(text, n, err)) return false;
    json_error_t je;
    json_t      *root = json_loadb(text, n, JSON_DECODE_ANY, &je);
    if (root == NULL)
        return api_fail(err, API_INVALID, NULL, "body: not valid JSON before byte %d: %s", je.position, je.text);
    if (!json_is_object(root)) {
        (void)api_fail(err, API_INVALID, NULL, "body: expected a JSON object, found %s", json_kind(root));
        json_decref(root);
        return false;
    }
    *out = root;
    return true;
}
