/* checkpoint/gguf.c - the GGUF header, every number of it checked.
 *
 * As strict as GGML where it is strict (alignment, whole blocks, no nested
 * arrays) and where it is not: repeated keys and names, bools other than 0
 * and 1, and tensors that overlap are refused.  Holes between tensors are not:
 * writers differ in what they pad.
 *
 * Two passes: the first checks lengths and adds up the names, the second
 * fills the tables, whose sizes are known by then. */
#include "checkpoint/gguf.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_ITEMS         = 1000000, /* entries; tensors */
    MAX_KEY           = 65535,
    MAX_NAME          = 63,
    MAX_STRING        = 64 << 20,
    MAX_ALIGNMENT     = 1 << 20,
    DEFAULT_ALIGNMENT = 32,
    MIN_ENTRY         = 8 + 1 + 4 + 1,         /* bytes an entry takes at least: key of one byte, type, value of one */
    MIN_TENSOR        = 8 + 1 + 4 + 8 + 4 + 8, /* a tensor: name, dimensions, ne, type, offset */
};

#define MAX_ELEMENTS ((uint64_t)1 << 48)

typedef struct ggml_type {
    uint32_t    id;
    dtype       type; /* DTYPE_COUNT: no use here */
    const char *name;
    uint32_t    elements, bytes; /* of a block */
} ggml_type;

#define OURS(id, name) \
    { \
        id, DTYPE_##name, #name, 0, 0 \
    }
/* Ids 4, 5, 31-33 and 36-38 have been removed; 9 and 15 are never stored. */
static const ggml_type ggml_types[] = {
    OURS(0, F32),
    OURS(1, F16),
    OURS(30, BF16),
    OURS(2, Q4_0),
    OURS(3, Q4_1),
    OURS(6, Q5_0),
    OURS(7, Q5_1),
    OURS(8, Q8_0),
    OURS(10, Q2_K),
    OURS(11, Q3_K),
    OURS(12, Q4_K),
    OURS(13, Q5_K),
    OURS(14, Q6_K),
    OURS(20, IQ4_NL),
    OURS(23, IQ4_XS),
    OURS(39, MXFP4),
    {16, DTYPE_COUNT, "IQ2_XXS", 256, 66},
    {17, DTYPE_COUNT, "IQ2_XS", 256, 74},
    {18, DTYPE_COUNT, "IQ3_XXS", 256, 98},
    {19, DTYPE_COUNT, "IQ1_S", 256, 50},
    {21, DTYPE_COUNT, "IQ3_S", 256, 110},
    {22, DTYPE_COUNT, "IQ2_S", 256, 82},
    {24, DTYPE_COUNT, "I8", 1, 1},
    {25, DTYPE_COUNT, "I16", 1, 2},
    {26, DTYPE_COUNT, "I32", 1, 4},
    {27, DTYPE_COUNT, "I64", 1, 8},
    {28, DTYPE_COUNT, "F64", 1, 8},
    {29, DTYPE_COUNT, "IQ1_M", 256, 56},
    {34, DTYPE_COUNT, "TQ1_0", 256, 54},
    {35, DTYPE_COUNT, "TQ2_0", 256, 66},
    {40, DTYPE_COUNT, "NVFP4", 64, 36},
    {41, DTYPE_COUNT, "Q1_0", 128, 18},
    {42, DTYPE_COUNT, "Q2_0", 64, 18},
};
#undef OURS

const char *gguf_usable_types(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS or MXFP4";
}

/* False for a type without a known size. */
static bool find_type(uint32_t id, ggml_type *out)
{
    for (size_t i = 0; i < sizeof ggml_types / sizeof ggml_types[0]; i++) {
        if (ggml_types[i].id != id) continue;
        *out = ggml_types[i];
        if (out->type == DTYPE_COUNT) return true;
        out->elements = dtype_table[out->type].elements;
        out->bytes    = dtype_table[out->type].bytes;
        return true;
    }
    return false;
}

/* ---- the header as a stream ---- */

typedef struct cursor {
    const char    *path;
    const uint8_t *at;
    uint64_t       left;
} cursor;

/* What is being read, for messages: a key, a tensor, or NULL for the header itself. */
static weir_status truncated(const cursor *c, const char *what, uint64_t expected, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected %" PRIu64 " bytes, found %" PRIu64, c->path, what, expected,
                       c->left);
}

static weir_status take(cursor *c, const char *what, uint64_t n, const uint8_t **out, weir_error *err)
{
    if (n > c->left) return truncated(c, what, n, err);
    *out = c->at;
    c->at += n;
    c->left -= n;
    return WEIR_OK;
}

static weir_status take_u32(cursor *c, const char *what, uint32_t *out, weir_error *err)
{
    const uint8_t *p = NULL;
    TRY(take(c, what, 4, &p, err));
    *out = load_u32(p);
    return WEIR_OK;
}

static weir_status take_u64(cursor *c, const char *what, uint64_t *out, weir_error *err)
{
    const uint8_t *p = NULL;
    TRY(take(c, what, 8, &p, err));
    *out = load_u64(p);
    return WEIR_OK;
}

static weir_status take_string(cursor *c, const char *what, uint64_t max, gguf_string *out, weir_error *err)
{
    uint64_t       n = 0;
    const uint8_t *p = NULL;
    TRY(take_u64(c, what, &n, err));
    if (n > max)
        return status_fail(err, WEIR_FORMAT, "%s: %s: length: expected at most %" PRIu64 " bytes, found %" PRIu64,
                           c->path, what, max, n);
    TRY(take(c, what, n, &p, err));
    *out = (gguf_string){(const char *)p, (size_t)n};
    return WEIR_OK;
}

/* A key or a tensor's name: text without control characters. */
static weir_status take_name(cursor *c, const char *what, uint64_t max, gguf_string *out, weir_error *err)
{
    TRY(take_string(c, what, max, out, err));
    bool clean = out->len > 0 && utf8_valid(out->text, out->len);
    for (size_t i = 0; i < out->len && clean; i++)
        clean = (unsigned char)out->text[i] >= 0x20 && (unsigned char)out->text[i] != 0x7F;
    if (clean) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected UTF-8 text without control characters, found \"%.*s\"",
                       c->path, what, (int)(out->len < 40 ? out->len : 40), out->text);
}

/* ---- entries ---- */

/* Bytes of one value; 0 for a string, which varies. */
static uint32_t value_bytes(gguf_type t)
{
    switch (t) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64: return 8;
    default: return 0;
    }
}

static weir_status take_type(cursor *c, const char *key, bool element, gguf_type *out, weir_error *err)
{
    uint32_t type = 0;
    TRY(take_u32(c, key, &type, err));
    if (type >= GGUF_TYPES || (element && type == GGUF_ARRAY))
        return status_fail(err, WEIR_FORMAT, "%s: %s: expected a type of %s, found %u", c->path, key,
                           element ? "0..8 or 10..12 (no arrays in arrays)" : "0..12", type);
    *out = (gguf_type)type;
    return WEIR_OK;
}

static weir_status take_values(cursor *c, gguf_entry *e, weir_error *err)
{
    const uint32_t size = value_bytes(e->type);
    const uint8_t *p    = NULL;
    e->data             = c->at;
    /* A string takes eight bytes at least. */
    if (e->n > c->left / (size != 0 ? size : 8)) return truncated(c, e->key, e->n, err);
    if (size != 0) TRY(take(c, e->key, e->n * size, &p, err));
    for (uint64_t i = 0; e->type == GGUF_BOOL && i < e->n; i++)
        if (p[i] > 1)
            return status_fail(err, WEIR_FORMAT, "%s: %s: expected a bool of 0 or 1, found %u", c->path, e->key, p[i]);
    for (uint64_t i = 0; e->type == GGUF_STRING && i < e->n; i++) {
        gguf_string s;
        TRY(take_string(c, e->key, MAX_STRING, &s, err));
    }
    return WEIR_OK;
}

/* The entry at the cursor; e->key is its text for messages, without what is behind. */
static weir_status take_entry(cursor *c, gguf_entry *e, weir_error *err)
{
    TRY(take_type(c, e->key, false, &e->type, err));
    e->array = e->type == GGUF_ARRAY;
    e->n     = 1;
    if (e->array) {
        TRY(take_type(c, e->key, true, &e->type, err));
        TRY(take_u64(c, e->key, &e->n, err));
    }
    return take_values(c, e, err);
}

/* ---- tensors ---- */

static weir_status take_shape(cursor *c, gguf_tensor *t, uint64_t *elements, weir_error *err)
{
    uint32_t rank = 0;
    TRY(take_u32(c, t->name, &rank, err));
    if (rank == 0 || rank > GGUF_MAX_RANK)
        return status_fail(err, WEIR_FORMAT, "%s: %s: expected 1..%d dimensions, found %u", c->path, t->name,
                           GGUF_MAX_RANK, rank);
    t->rank   = rank;
    *elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t *ne = &t->shape[rank - 1 - i];
        TRY(take_u64(c, t->name, ne, err));
        if (*ne == 0 || *ne > MAX_ELEMENTS || *elements > MAX_ELEMENTS / *ne)
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s: expected at most 2^48 elements and no empty dimension, found %" PRIu64
                               " in dimension %u",
                               c->path, t->name, *ne, i);
        *elements *= *ne;
    }
    return WEIR_OK;
}

static weir_status take_tensor(cursor *c, gguf_tensor *t, weir_error *err)
{
    uint64_t  elements = 0;
    uint32_t  id       = 0;
    ggml_type type;
    TRY(take_shape(c, t, &elements, err));
    TRY(take_u32(c, t->name, &id, err));
    if (!find_type(id, &type))
        return status_fail(err, WEIR_FORMAT, "%s: %s: type: expected one that GGML stores, found number %u", c->path,
                           t->name, id);
    const uint64_t row = t->shape[t->rank - 1];
    if (row % type.elements != 0)
        return status_fail(err, WEIR_FORMAT,
                           "%s: %s: expected rows of whole %s blocks of %u elements, found rows of %" PRIu64, c->path,
                           t->name, type.name, type.elements, row);
    t->type      = type.type;
    t->type_name = type.name;
    t->bytes     = elements / type.elements * type.bytes; /* below 2^56 */
    return take_u64(c, t->name, &t->begin, err);
}

/* ---- the whole ---- */

typedef struct counts {
    uint64_t tensors, entries;
} counts;

static weir_status take_counts(cursor *c, counts *n, weir_error *err)
{
    const uint8_t *magic   = NULL;
    uint32_t       version = 0;
    TRY(take(c, "header", 4, &magic, err));
    if (memcmp(magic, "GGUF", 4) != 0)
        return status_fail(err, WEIR_FORMAT, "%s: expected a file that begins with \"GGUF\"", c->path);
    TRY(take_u32(c, "version", &version, err));
    if (version != 2 && version != 3)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: version: expected 2 or 3, found %u%s", c->path, version,
                           version == 3u << 24 || version == 2u << 24 ? " (a big-endian file)" : "");
    TRY(take_u64(c, "number of tensors", &n->tensors, err));
    TRY(take_u64(c, "number of metadata entries", &n->entries, err));
    const uint64_t most_entries = c->left / MIN_ENTRY, most_tensors = c->left / MIN_TENSOR;
    if (n->entries > MAX_ITEMS || n->entries > most_entries)
        return status_fail(err, WEIR_FORMAT, "%s: metadata entries: expected at most %" PRIu64 ", found %" PRIu64,
                           c->path, most_entries < MAX_ITEMS ? most_entries : (uint64_t)MAX_ITEMS, n->entries);
    if (n->tensors > MAX_ITEMS || n->tensors > most_tensors)
        return status_fail(err, WEIR_FORMAT, "%s: tensors: expected at most %" PRIu64 ", found %" PRIu64, c->path,
                           most_tensors < MAX_ITEMS ? most_tensors : (uint64_t)MAX_ITEMS, n->tensors);
    return WEIR_OK;
}

/* Appends a name to g->names, which is large enough. */
static const char *put_name(char **names, gguf_string s)
{
    char *name = *names;
    memcpy(name, s.text, s.len);
    name[s.len] = '\0';
    *names += s.len + 1;
    return name;
}

/* Walks over all entries and tensors.  With g->names NULL it only adds up how
 * many bytes names take; then the text of errors says where, not what. */
static weir_status walk(gguf *g, cursor *c, const counts *n, size_t *name_bytes, weir_error *err)
{
    char *names = g->names;
    for (uint64_t i = 0; i < n->entries; i++) {
        char        where[48];
        gguf_string key;
        gguf_entry  e = {.key = where};
        (void)snprintf(where, sizeof where, "metadata entry %" PRIu64, i);
        TRY(take_name(c, where, MAX_KEY, &key, err));
        if (names != NULL) e.key = put_name(&names, key);
        *name_bytes += key.len + 1;
        TRY(take_entry(c, &e, err));
        if (names != NULL) g->entries[g->n_entries++] = e;
    }
    for (uint64_t i = 0; i < n->tensors; i++) {
        char        where[48];
        gguf_string name;
        gguf_tensor t = {.name = where};
        (void)snprintf(where, sizeof where, "tensor %" PRIu64, i);
        TRY(take_name(c, where, MAX_NAME, &name, err));
        if (names != NULL) t.name = put_name(&names, name);
        *name_bytes += name.len + 1;
        TRY(take_tensor(c, &t, err));
        if (names != NULL) g->tensors[g->n_tensors++] = t;
    }
    return WEIR_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const gguf_entry *)a)->key, ((const gguf_entry *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gguf_tensor *)a)->name, ((const gguf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const gguf_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return strcmp(x->name, y->name);
}

static weir_status check_unique(gguf *g, weir_error *err)
{
    qsort(g->entries, g->n_entries, sizeof g->entries[0], by_key);
    for (size_t i = 1; i < g->n_entries; i++)
        if (strcmp(g->entries[i - 1].key, g->entries[i].key) == 0)
            return status_fail(err, WEIR_FORMAT, "%s: %.200s: expected the key once, found it twice", g->path,
                               g->entries[i].key);
    qsort(g->tensors, g->n_tensors, sizeof g->tensors[0], by_name);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i - 1].name, g->tensors[i].name) == 0)
            return status_fail(err, WEIR_FORMAT, "%s: %s: expected the tensor once, found it twice", g->path,
                               g->tensors[i].name);
    return WEIR_OK;
}

/* Where the data begins, and that every tensor lies in it. */
static weir_status check_layout(gguf *g, const uint8_t *file, uint64_t size, uint64_t header, weir_error *err)
{
    uint32_t alignment = DEFAULT_ALIGNMENT;
    uint64_t end       = 0;
    TRY(gguf_get_u32(g, "general.alignment", false, 1, MAX_ALIGNMENT, &alignment, err));
    if ((alignment & (alignment - 1)) != 0)
        return status_fail(err, WEIR_FORMAT, "%s: general.alignment: expected a power of two, found %u", g->path,
                           alignment);
    const uint64_t start = (header + alignment - 1) / alignment * alignment;
    g->data              = start < size ? file + start : file + size;
    g->data_size         = start < size ? size - start : 0;
    qsort(g->tensors, g->n_tensors, sizeof g->tensors[0], by_place);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        if (t->begin % alignment != 0)
            return status_fail(err, WEIR_FORMAT, "%s: %s: offset: expected a multiple of %u, found %" PRIu64, g->path,
                               t->name, alignment, t->begin);
        if (t->begin < end)
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s: offset: expected at least %" PRIu64 ", found %" PRIu64 ": overlaps %s", g->path,
                               t->name, end, t->begin, g->tensors[i - 1].name);
        if (t->begin > g->data_size || t->bytes > g->data_size - t->begin)
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s: expected %" PRIu64 " bytes of data at %" PRIu64 ", found a file with %" PRIu64
                               " of them: is it cut short?",
                               g->path, t->name, t->bytes, t->begin, g->data_size);
        end = t->begin + t->bytes;
    }
    return WEIR_OK;
}

static weir_status read_file(gguf *g, const uint8_t *file, uint64_t size, weir_error *err)
{
    cursor c = {g->path, file, size};
    counts n;
    size_t name_bytes = 0;
    TRY(take_counts(&c, &n, err));
    const cursor start = c;
    TRY(walk(g, &c, &n, &name_bytes, err));
    g->entries = mem_zalloc((size_t)n.entries, sizeof g->entries[0]);
    g->tensors = mem_zalloc((size_t)n.tensors, sizeof g->tensors[0]);
    g->names   = mem_alloc(name_bytes, 1);
    if (g->entries == NULL || g->tensors == NULL || g->names == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", g->path);
    c          = start;
    name_bytes = 0;
    TRY(walk(g, &c, &n, &name_bytes, err));
    TRY(check_unique(g, err));
    return check_layout(g, file, size, size - c.left, err);
}

weir_status gguf_open_memory(gguf *out, const char *path, const void *bytes, uint64_t size, weir_error *err)
{
    *out      = (gguf){0};
    out->path = mem_strdup(path);
    if (out->path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = read_file(out, bytes, size, err);
    if (st != WEIR_OK) gguf_close(out);
    return st;
}

weir_status gguf_open(gguf *out, const char *path, weir_error *err)
{
    file_map map;
    *out = (gguf){0};
    TRY(file_map_open(&map, path, err));
    const weir_status st = gguf_open_memory(out, path, map.data, map.size, err);
    if (st == WEIR_OK)
        out->map = map;
    else
        file_map_close(&map);
    return st;
}

void gguf_close(gguf *g)
{
    file_map_close(&g->map);
    mem_free(g->entries);
    mem_free(g->tensors);
    mem_free(g->names);
    mem_free(g->path);
    *g = (gguf){0};
}

bool gguf_recognise(const char *path)
{
    char  magic[4];
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    const bool found = fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
    (void)fclose(f);
    return found;
}
