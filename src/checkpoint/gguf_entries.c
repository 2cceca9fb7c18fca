/* checkpoint/gguf_entries.c - the metadata of a GGUF file, by key and kind. */
#include "base/bytes.h"
#include "checkpoint/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const type_names[GGUF_TYPES] = {
    [GGUF_U8] = "a u8",         [GGUF_I8] = "an i8",       [GGUF_U16] = "a u16",  [GGUF_I16] = "an i16",
    [GGUF_U32] = "a u32",       [GGUF_I32] = "an i32",     [GGUF_F32] = "an f32", [GGUF_BOOL] = "a bool",
    [GGUF_STRING] = "a string", [GGUF_ARRAY] = "an array", [GGUF_U64] = "a u64",  [GGUF_I64] = "an i64",
    [GGUF_F64] = "an f64",
};

static int compare_key(const void *key, const void *entry)
{
    return strcmp(key, ((const gguf_entry *)entry)->key);
}

const gguf_entry *gguf_find(const gguf *g, const char *key)
{
    if (g->n_entries == 0) return NULL;
    return bsearch(key, g->entries, g->n_entries, sizeof g->entries[0], compare_key);
}

weir_status gguf_wrong(const gguf *g, const char *key, const char *expected, const char *found, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected %s, found %s", g->path, key, expected, found);
}

static bool is_integer(gguf_type t)
{
    return t != GGUF_F32 && t != GGUF_F64 && t != GGUF_BOOL && t != GGUF_STRING && t != GGUF_ARRAY;
}

static const char *kind_of(const gguf_entry *e)
{
    return e->array ? "an array" : type_names[e->type];
}

/* *out NULL when the key is absent and may be. */
static weir_status find(const gguf *g, const char *key, bool required, const char *expected, const gguf_entry **out,
                        weir_error *err)
{
    *out = gguf_find(g, key);
    return *out != NULL || !required ? WEIR_OK : gguf_wrong(g, key, expected, "nothing", err);
}

int64_t gguf_integer(const gguf_entry *e, uint64_t i)
{
    const uint8_t *p = e->data;
    switch (e->type) {
    case GGUF_U8:
    case GGUF_BOOL: return p[i];
    case GGUF_I8: return (int8_t)p[i];
    case GGUF_U16: return load_u16(p + 2 * i);
    case GGUF_I16: return (int16_t)load_u16(p + 2 * i);
    case GGUF_U32: return load_u32(p + 4 * i);
    case GGUF_I32: return (int32_t)load_u32(p + 4 * i);
    case GGUF_U64: {
        const uint64_t v = load_u64(p + 8 * i);
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case GGUF_I64: return (int64_t)load_u64(p + 8 * i);
    default: return 0;
    }
}

weir_status gguf_get_u32(const gguf *g, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *out,
                         weir_error *err)
{
    const gguf_entry *e;
    char              expected[48], found[24];
    (void)snprintf(expected, sizeof expected, "a whole number of %u..%u", min, max);
    TRY(find(g, key, required, expected, &e, err));
    if (e == NULL) return WEIR_OK;
    if (e->array || !is_integer(e->type)) return gguf_wrong(g, key, expected, kind_of(e), err);
    const int64_t v = gguf_integer(e, 0);
    if (v < min || v > max) {
        (void)snprintf(found, sizeof found, "%" PRId64, v);
        return gguf_wrong(g, key, expected, found, err);
    }
    *out = (uint32_t)v;
    return WEIR_OK;
}

weir_status gguf_get_double(const gguf *g, const char *key, bool required, double min, double max, double *out,
                            weir_error *err)
{
    const gguf_entry *e;
    char              expected[64], found[32];
    (void)snprintf(expected, sizeof expected, "a number of %g..%g", min, max);
    TRY(find(g, key, required, expected, &e, err));
    if (e == NULL) return WEIR_OK;
    if (e->array || (e->type != GGUF_F32 && e->type != GGUF_F64)) return gguf_wrong(g, key, expected, kind_of(e), err);
    double v = 0.0;
    if (e->type == GGUF_F32)
        v = (double)load_f32(e->data);
    else
        memcpy(&v, e->data, sizeof v);
    if (!(v >= min && v <= max)) { /* a NaN is in no range */
        (void)snprintf(found, sizeof found, "%g", v);
        return gguf_wrong(g, key, expected, found, err);
    }
    *out = v;
    return WEIR_OK;
}

weir_status gguf_get_bool(const gguf *g, const char *key, bool required, bool *out, weir_error *err)
{
    const gguf_entry *e;
    TRY(find(g, key, required, "a bool", &e, err));
    if (e == NULL) return WEIR_OK;
    if (e->array || e->type != GGUF_BOOL) return gguf_wrong(g, key, "a bool", kind_of(e), err);
    *out = e->data[0] != 0;
    return WEIR_OK;
}

weir_status gguf_get_string(const gguf *g, const char *key, bool required, gguf_string *out, weir_error *err)
{
    const gguf_entry *e;
    TRY(find(g, key, required, "a string", &e, err));
    if (e == NULL) return WEIR_OK;
    if (e->array || e->type != GGUF_STRING) return gguf_wrong(g, key, "a string", kind_of(e), err);
    const uint8_t *at = e->data;
    *out              = gguf_next_string(&at);
    return WEIR_OK;
}

weir_status gguf_get_array(const gguf *g, const char *key, bool required, gguf_type type, const gguf_entry **out,
                           weir_error *err)
{
    const gguf_entry *e;
    const char       *expected = type == GGUF_STRING ? "an array of strings"
                                 : type == GGUF_BOOL ? "an array of bools"
                                                     : "an array of whole numbers";
    TRY(find(g, key, required, expected, &e, err));
    if (e == NULL) return WEIR_OK;
    if (!e->array) return gguf_wrong(g, key, expected, kind_of(e), err);
    if (type == GGUF_U32 ? !is_integer(e->type) : e->type != type) {
        char found[40];
        (void)snprintf(found, sizeof found, "an array, each %s", type_names[e->type]);
        return gguf_wrong(g, key, expected, found, err);
    }
    *out = e;
    return WEIR_OK;
}

gguf_string gguf_next_string(const uint8_t **at)
{
    const size_t      len = (size_t)load_u64(*at);
    const gguf_string s   = {(const char *)*at + 8, len};
    *at += 8 + len;
    return s;
}
