/* tests/unit/text_tokenizer/golden.c - access to tests/data/tokenizer/. */
#include "support/cmocka.h"

#include "golden.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void full_path(char *out, size_t n, const char *path)
{
    (void)snprintf(out, n, "%s/%s", WEIR_SOURCE_DIR, path);
}

tokenizer *golden_tokenizer(const char *path)
{
    char       full[1024];
    tokenizer *t;
    weir_error err;
    full_path(full, sizeof full, path);
    if (tokenizer_open(&t, full, &err) != WEIR_OK) fail_msg("%s", err.text);
    return t;
}

json_doc golden_load(const char *path)
{
    char       full[1024];
    json_doc   doc;
    weir_error err;
    full_path(full, sizeof full, path);
    if (json_load(&doc, full, 1 << 24, JSON_MAX_DEPTH, &err) != WEIR_OK) fail_msg("%s", err.text);
    return doc;
}

const char *golden_text(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));
    if (s == NULL) fail_msg("expected the string '%s'", key);
    return s;
}

size_t golden_size(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v)) fail_msg("expected the number '%s'", key);
    return (size_t)json_integer_value(v);
}

void golden_ids_equal(const char *what, const token_ids *got, const json_t *expected)
{
    const size_t n = json_array_size(expected);
    for (size_t i = 0; i < n && i < got->n; i++) {
        const uint32_t want = (uint32_t)json_integer_value(json_array_get(expected, i));
        if (got->ids[i] != want)
            fail_msg("%s: id %zu: expected %" PRIu32 ", found %" PRIu32, what, i, want, got->ids[i]);
    }
    if (got->n != n) fail_msg("%s: expected %zu ids, found %zu", what, n, got->n);
}

uint64_t golden_hash(const token_ids *ids)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < ids->n; i++) h = (h ^ ids->ids[i]) * 0x100000001B3u;
    return h;
}
