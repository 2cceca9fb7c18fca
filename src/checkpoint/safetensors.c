/* checkpoint/safetensors.c - the safetensors header, every number of it checked.
 *
 * Stricter than the common readers where they are silent: repeated names,
 * unknown fields, signs and exponents are refused.  As strict as they are
 * elsewhere: data without holes, overlaps or a tail. */
#include "checkpoint/safetensors.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 8, MAX_HEADER = 100000000, MAX_DEPTH = 8, MAX_TENSORS = 1000000, MAX_NAME = 1024 };

#define MAX_DIM ((uint64_t)1 << 48)
#define MAX_INTEGER (((json_int_t)1 << 53) - 1) /* what every JSON writer keeps exact */

/* Types whose size is known although no tensor of them can be used here. */
static const struct {
    const char *name;
    uint32_t    bits;
} foreign_types[] = {{"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"C64", 64}};

/* Bits of one element; 0 for a type of unknown size. */
static uint32_t type_bits(const char *name, dtype *type)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (dtype_table[i].elements == 1 && strcmp(name, dtype_table[i].name) == 0) {
            *type = (dtype)i;
            return 8u * dtype_table[i].bytes;
        }
    *type = DTYPE_COUNT;
    for (size_t i = 0; i < sizeof foreign_types / sizeof foreign_types[0]; i++)
        if (strcmp(name, foreign_types[i].name) == 0) return foreign_types[i].bits;
    return 0;
}

/* The header's text, which lies inside the file. */
static weir_status find_header(safetensors *s, const uint8_t *file, uint64_t size, const char **text, size_t *len,
                               weir_error *err)
{
    if (size < PREFIX_BYTES)
        return status_fail(err, WEIR_FORMAT, "%s: header length: expected 8 bytes, found a file of %" PRIu64, s->path,
                           size);
    if (memcmp(file, "GGUF", 4) == 0)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: expected a safetensors file, found GGUF", s->path);
    const uint64_t n = load_u64(file), room = size - PREFIX_BYTES;
    if (n == 0 || n > MAX_HEADER || n > room)
        return status_fail(err, WEIR_FORMAT, "%s: header length: expected 1..%" PRIu64 " bytes, found %" PRIu64,
                           s->path, room < MAX_HEADER ? room : (uint64_t)MAX_HEADER, n);
    *text        = (const char *)file + PREFIX_BYTES;
    *len         = (size_t)n;
    s->data      = file + PREFIX_BYTES + n;
    s->data_size = room - n;
    return WEIR_OK;
}

/* What the JSON parser would let pass: NUL bytes behind the text, a minus sign before a zero. */
static weir_status check_text(const char *path, const char *text, size_t len, weir_error *err)
{
    if (text[0] != '{') return status_fail(err, WEIR_FORMAT, "%s: header: expected '{' at its start", path);
    if (memchr(text, '\0', len) != NULL)
        return status_fail(err, WEIR_FORMAT, "%s: header: expected text, found a zero byte", path);
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && text[i] == '-')
            return status_fail(err, WEIR_FORMAT, "%s: header: expected no negative number, found one at byte %zu", path,
                               i);
    }
    return WEIR_OK;
}

/* Where a record stands, for messages. */
typedef struct record_at {
    const char *path, *name;
} record_at;

static weir_status wrong_kind(const record_at *at, const char *field, const char *expected, const json_t *v,
                              weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s: %s: expected %s, found %s", at->path, at->name, field, expected,
                       json_kind(v));
}

static weir_status get_integer(const record_at *at, const char *field, const json_t *v, uint64_t max, uint64_t *out,
                               weir_error *err)
{
    if (!json_is_integer(v)) return wrong_kind(at, field, "a whole number", v, err);
    const json_int_t n = json_integer_value(v);
    if (n < 0 || (uint64_t)n > max)
        return status_fail(err, WEIR_FORMAT, "%s: %s: %s: expected 0..%" PRIu64 ", found %" JSON_INTEGER_FORMAT,
                           at->path, at->name, field, max, n);
    *out = (uint64_t)n;
    return WEIR_OK;
}

static weir_status read_shape(const record_at *at, safetensors_tensor *t, const json_t *shape, uint64_t *elements,
                              weir_error *err)
{
    if (!json_is_array(shape)) return wrong_kind(at, "shape", "an array", shape, err);
    const size_t rank = json_array_size(shape);
    if (rank > CHECKPOINT_MAX_RANK)
        return status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected at most %d dimensions, found %zu", at->path,
                           at->name, CHECKPOINT_MAX_RANK, rank);
    t->rank   = (uint32_t)rank;
    *elements = 1;
    for (size_t i = 0; i < rank; i++) {
        TRY(get_integer(at, "shape", json_array_get(shape, i), MAX_DIM, &t->shape[i], err));
        if (__builtin_mul_overflow(*elements, t->shape[i], elements))
            return status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected fewer than 2^64 elements", at->path,
                               at->name);
    }
    return WEIR_OK;
}

static weir_status read_offsets(const record_at *at, safetensors_tensor *t, const json_t *offsets, uint64_t size,
                                weir_error *err)
{
    uint64_t end = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return wrong_kind(at, "data_offsets", "an array of two", offsets, err);
    TRY(get_integer(at, "data_offsets", json_array_get(offsets, 0), MAX_INTEGER, &t->begin, err));
    TRY(get_integer(at, "data_offsets", json_array_get(offsets, 1), MAX_INTEGER, &end, err));
    if (t->begin > end || end > size)
        return status_fail(err, WEIR_FORMAT,
                           "%s: %s: data_offsets: expected begin <= end <= %" PRIu64 ", found [%" PRIu64 ", %" PRIu64
                           "]",
                           at->path, at->name, size, t->begin, end);
    t->bytes = end - t->begin;
    return WEIR_OK;
}

static weir_status check_size(const record_at *at, const safetensors_tensor *t, uint64_t elements, uint32_t bits,
                              weir_error *err)
{
    uint64_t total;
    if (bits == 0) return WEIR_OK; /* refused when it is asked for */
    if (__builtin_mul_overflow(elements, (uint64_t)bits, &total)) {
        /* More than 2^64 bits may still be fewer than 2^64 bytes, never fewer than the file has. */
        return status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected fewer than 2^64 bits of %s", at->path, at->name,
                           t->type_name);
    }
    if (total % 8 != 0 || total / 8 != t->bytes)
        return status_fail(err, WEIR_FORMAT,
                           "%s: %s: data_offsets: expected %" PRIu64 " bytes (shape times %s), found %" PRIu64,
                           at->path, at->name, total / 8, t->type_name, t->bytes);
    return WEIR_OK;
}

static weir_status read_record(const record_at *at, safetensors_tensor *t, const json_t *v, uint64_t data_size,
                               weir_error *err)
{
    if (!json_is_object(v)) return wrong_kind(at, "record", "an object", v, err);
    const json_t *type = json_object_get(v, "dtype"), *shape = json_object_get(v, "shape"),
                 *offsets = json_object_get(v, "data_offsets");
    if (!json_is_string(type)) return wrong_kind(at, "dtype", "a string", type, err);
    if (shape == NULL || offsets == NULL)
        return wrong_kind(at, shape == NULL ? "shape" : "data_offsets", "an array", NULL, err);
    if (json_object_size(v) != 3)
        return status_fail(err, WEIR_FORMAT, "%s: %s: record: expected dtype, shape, data_offsets, found %zu fields",
                           at->path, at->name, json_object_size(v));
    if (json_string_length(type) == 0 || json_string_length(type) >= sizeof t->type_name)
        return status_fail(err, WEIR_FORMAT, "%s: %s: dtype: expected the name of a type, found \"%.40s\"", at->path,
                           at->name, json_string_value(type));
    memcpy(t->type_name, json_string_value(type), json_string_length(type) + 1);
    const uint32_t bits     = type_bits(t->type_name, &t->type);
    uint64_t       elements = 0;
    TRY(read_shape(at, t, shape, &elements, err));
    TRY(read_offsets(at, t, offsets, data_size, err));
    return check_size(at, t, elements, bits, err);
}

static weir_status check_name(const char *path, const char *name, weir_error *err)
{
    const size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME)
        return status_fail(err, WEIR_FORMAT, "%s: tensor name: expected 1..%d bytes, found %zu: \"%.40s\"", path,
                           MAX_NAME, n, name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return status_fail(err, WEIR_FORMAT, "%s: tensor name: expected no control characters, found 0x%02x", path,
                               (unsigned)(unsigned char)name[i]);
    return WEIR_OK;
}

static weir_status check_metadata(const char *path, const json_t *v, weir_error *err)
{
    if (json_is_null(v)) return WEIR_OK; /* one writer puts it where it has none */
    const record_at at = {path, "__metadata__"};
    if (!json_is_object(v)) return wrong_kind(&at, "record", "an object", v, err);
    const char *key;
    json_t     *member;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        if (!json_is_string(member)) return wrong_kind(&at, key, "a string", member, err);
    }
    return WEIR_OK;
}

static bool is_metadata(const char *key)
{
    return strcmp(key, "__metadata__") == 0;
}

/* Memory for as many tensors and as long names as the header has. */
static weir_status reserve(safetensors *s, const json_t *root, weir_error *err)
{
    const char *path  = s->path, *key;
    size_t      bytes = 0, n = 0;
    json_t     *v;
    if (json_object_size(root) > MAX_TENSORS)
        return status_fail(err, WEIR_FORMAT, "%s: header: expected at most %d tensors, found %zu", path, MAX_TENSORS,
                           json_object_size(root));
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (is_metadata(key)) continue;
        TRY(check_name(path, key, err));
        bytes += strlen(key) + 1;
        n++;
    }
    s->tensors = mem_zalloc(n, sizeof s->tensors[0]);
    s->names   = mem_alloc(bytes, 1);
    if (s->tensors == NULL || s->names == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    return WEIR_OK;
}

static weir_status read_records(safetensors *s, const json_t *root, weir_error *err)
{
    TRY(reserve(s, root, err));
    char       *names = s->names;
    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (is_metadata(key)) {
            TRY(check_metadata(s->path, v, err));
            continue;
        }
        const size_t len = strlen(key) + 1;
        memcpy(names, key, len);
        safetensors_tensor *t  = &s->tensors[s->n];
        const record_at     at = {s->path, names};
        TRY(read_record(&at, t, v, s->data_size, err));
        t->name = names;
        names += len;
        s->n++;
    }
    return WEIR_OK;
}

static int by_place(const void *a, const void *b)
{
    const safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Data must follow on data: an overlap would let one tensor lie about another, and bytes that
 * belong to none are as a rule the sign of a damaged header. */
static weir_status check_layout(safetensors *s, weir_error *err)
{
    uint64_t end = 0;
    qsort(s->tensors, s->n, sizeof s->tensors[0], by_place);
    for (size_t i = 0; i < s->n; i++) {
        const safetensors_tensor *t = &s->tensors[i];
        if (t->begin < end)
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s: data_offsets: expected begin %" PRIu64 ", found %" PRIu64 ": overlaps %s",
                               s->path, t->name, end, t->begin, s->tensors[i - 1].name);
        if (t->begin > end)
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s: data_offsets: expected begin %" PRIu64 ", found %" PRIu64 ": a hole before it",
                               s->path, t->name, end, t->begin);
        end = t->begin + t->bytes;
    }
    if (end != s->data_size)
        return status_fail(err, WEIR_FORMAT,
                           "%s: file size: expected %" PRIu64
                           " bytes of data (the end of the last tensor), found %" PRIu64,
                           s->path, end, s->data_size);
    return WEIR_OK;
}

static weir_status read_file(safetensors *s, const uint8_t *file, uint64_t size, weir_error *err)
{
    const char *text = NULL;
    size_t      len  = 0;
    json_doc    doc  = {0};
    TRY(find_header(s, file, size, &text, &len, err));
    TRY(check_text(s->path, text, len, err));
    TRY(json_parse(&doc, text, len, s->path, MAX_DEPTH, err));
    const weir_status st =
        json_is_object(doc.root)
            ? read_records(s, doc.root, err)
            : status_fail(err, WEIR_FORMAT, "%s: header: expected an object, found %s", s->path, json_kind(doc.root));
    json_doc_free(&doc);
    return st == WEIR_OK ? check_layout(s, err) : st;
}

weir_status safetensors_open_memory(safetensors *out, const char *path, const void *bytes, uint64_t size,
                                    weir_error *err)
{
    *out      = (safetensors){0};
    out->path = mem_strdup(path);
    if (out->path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = read_file(out, bytes, size, err);
    if (st != WEIR_OK) safetensors_close(out);
    return st;
}

weir_status safetensors_open(safetensors *out, const char *path, weir_error *err)
{
    file_map map;
    *out = (safetensors){0};
    TRY(file_map_open(&map, path, err));
    const weir_status st = safetensors_open_memory(out, path, map.data, map.size, err);
    if (st == WEIR_OK)
        out->map = map;
    else
        file_map_close(&map);
    return st;
}

void safetensors_close(safetensors *s)
{
    file_map_close(&s->map);
    mem_free(s->tensors);
    mem_free(s->names);
    mem_free(s->path);
    *s = (safetensors){0};
}
