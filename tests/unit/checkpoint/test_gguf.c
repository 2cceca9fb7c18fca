/* tests/unit/checkpoint/test_gguf.c - the container's rules, each with a file that breaks it. */
#include "support/cmocka.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "checkpoint/gguf.h"
#include "made_files.h"
#include "made_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILE_NAME "x.gguf"

/* Where the fields of the example stand. */
enum {
    VERSION   = 4,
    N_TENSORS = 8,
    N_ENTRIES = 16,
    KEY1      = 24, /* "k", u32 */
    TYPE1     = KEY1 + 9,
    KEY2      = TYPE1 + 8, /* "b", bool */
    TYPE2     = KEY2 + 9,
    BOOL2     = TYPE2 + 4,
    KEY3      = BOOL2 + 1, /* "a", an array of two u16 */
    TYPE3     = KEY3 + 9,
    ELEMENT3  = TYPE3 + 4,
    COUNT3    = ELEMENT3 + 4,
    KEY4      = COUNT3 + 12, /* "s", the text "ab" */
    LENGTH4   = KEY4 + 9 + 4,
    NAME1     = LENGTH4 + 10, /* "x", f32, ne {4, 2} */
    RANK1     = NAME1 + 9,
    NE1       = RANK1 + 4,
    KIND1     = NE1 + 16,
    OFFSET1   = KIND1 + 4,
    NAME2     = OFFSET1 + 8, /* "y", Q8_0, ne {32} */
    RANK2     = NAME2 + 9,
    NE2       = RANK2 + 4,
    KIND2     = NE2 + 8,
    OFFSET2   = KIND2 + 4,
    HEADER    = OFFSET2 + 8,
    DATA      = (HEADER + 31) / 32 * 32,
    SIZE      = DATA + 32 + 34
};

static void example(str *file)
{
    made_gguf      m;
    const uint16_t two[2] = {258, 65535};
    const float    x[8]   = {0, 1, 2, 3, 4, 5, 6, 7};
    uint8_t        y[34];
    for (size_t i = 0; i < sizeof y; i++) y[i] = (uint8_t)(100 + i);
    made_gguf_begin(&m);
    made_gguf_u32(&m, "k", 7);
    made_gguf_bool(&m, "b", true);
    made_gguf_array(&m, "a", GGUF_U16, 2, two, sizeof two);
    made_gguf_text(&m, "s", "ab");
    made_gguf_tensor(&m, "x", 2, (const uint64_t[]){4, 2}, 0, x, sizeof x);
    made_gguf_tensor(&m, "y", 1, (const uint64_t[]){32}, 8, y, sizeof y);
    made_gguf_end(&m, file);
    assert_int_equal(file->len, SIZE);
}

/* Opens a heap copy of exactly its size. */
static weir_status open_bytes(gguf *g, uint8_t **keep, const void *bytes, size_t n, weir_error *err)
{
    uint8_t *b = malloc(n != 0 ? n : 1);
    assert_non_null(b);
    if (n != 0) memcpy(b, bytes, n);
    *keep = b;
    return gguf_open_memory(g, FILE_NAME, b, n, err);
}

static void must_open(gguf *g, uint8_t **keep, const str *file)
{
    weir_error err;
    if (open_bytes(g, keep, file->data, file->len, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static void the_example_reads_back(void **state)
{
    (void)state;
    str      file;
    gguf     g;
    uint8_t *b;
    example(&file);
    must_open(&g, &b, &file);
    assert_int_equal(g.n_entries, 4);
    uint32_t          k    = 0;
    bool              flag = false;
    gguf_string       s    = {0};
    const gguf_entry *a    = NULL;
    assert_int_equal(gguf_get_u32(&g, "k", true, 0, 7, &k, NULL), WEIR_OK);
    assert_int_equal(gguf_get_bool(&g, "b", true, &flag, NULL), WEIR_OK);
    assert_int_equal(gguf_get_string(&g, "s", true, &s, NULL), WEIR_OK);
    assert_int_equal(gguf_get_array(&g, "a", true, GGUF_U32, &a, NULL), WEIR_OK);
    assert_int_equal(k, 7);
    assert_true(flag);
    assert_true(s.len == 2 && memcmp(s.text, "ab", 2) == 0);
    assert_int_equal(a->n, 2);
    assert_true(gguf_integer(a, 0) == 258 && gguf_integer(a, 1) == 65535);
    assert_null(gguf_find(&g, "none"));

    assert_int_equal(g.n_tensors, 2);
    const gguf_tensor *x = &g.tensors[0], *y = &g.tensors[1];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->type, DTYPE_F32);
    assert_true(x->rank == 2 && x->shape[0] == 2 && x->shape[1] == 4);
    assert_true(x->begin == 0 && x->bytes == 32);
    assert_ptr_equal(g.data, b + DATA);
    assert_true(load_f32(g.data + 4 * 7) == 7.0f);
    assert_string_equal(y->name, "y");
    assert_int_equal(y->type, DTYPE_Q8_0);
    assert_true(y->rank == 1 && y->shape[0] == 32 && y->begin == 32 && y->bytes == 34);
    assert_int_equal(g.data[y->begin], 100);
    gguf_close(&g);
    str_free(&file);
    free(b);
}

static void an_empty_file_and_version_2_are_read(void **state)
{
    (void)state;
    made_gguf m;
    str       file;
    gguf      g;
    uint8_t  *b;
    made_gguf_begin(&m);
    made_gguf_end(&m, &file);
    file.data[VERSION] = 2;
    must_open(&g, &b, &file);
    assert_true(g.n_entries == 0 && g.n_tensors == 0);
    assert_null(gguf_find(&g, "k"));
    gguf_close(&g);
    str_free(&file);
    free(b);
}

/* One field of the example with another value. */
typedef struct patch {
    const char *what;
    size_t      at, bytes;
    uint64_t    value;
    weir_status status;
    const char *field; /* in the message, beside the file's name */
} patch;

static const patch patches[] = {
    {"another magic", 0, 1, 'g', WEIR_FORMAT, "GGUF"},
    {"version 1", VERSION, 4, 1, WEIR_UNSUPPORTED, "version"},
    {"version 4", VERSION, 4, 4, WEIR_UNSUPPORTED, "version"},
    {"big-endian", VERSION, 4, 3u << 24, WEIR_UNSUPPORTED, "big-endian"},
    {"more tensors than fit", N_TENSORS, 8, 20, WEIR_FORMAT, "tensors: expected at most"},
    {"2^63 tensors", N_TENSORS, 8, 1ull << 63, WEIR_FORMAT, "tensors: expected at most"},
    {"one tensor too many", N_TENSORS, 8, 3, WEIR_FORMAT, "tensor 2"},
    {"2^64 - 1 entries", N_ENTRIES, 8, UINT64_MAX, WEIR_FORMAT, "metadata entries: expected at most"},
    {"one entry too many", N_ENTRIES, 8, 5, WEIR_FORMAT, "tensor 0"},
    {"one entry too few", N_ENTRIES, 8, 3, WEIR_FORMAT, "tensor 0"},
    {"a key past the end", KEY1, 8, SIZE, WEIR_FORMAT, "metadata entry 0"},
    {"a key length that wraps", KEY1, 8, UINT64_MAX - 7, WEIR_FORMAT, "metadata entry 0: length"},
    {"a key too long", KEY1, 8, 65536, WEIR_FORMAT, "metadata entry 0: length: expected at most 65535"},
    {"an empty key", KEY1, 8, 0, WEIR_FORMAT, "metadata entry 0: expected UTF-8"},
    {"a key with a zero", KEY1 + 8, 1, 0, WEIR_FORMAT, "metadata entry 0: expected UTF-8"},
    {"a key that is not UTF-8", KEY1 + 8, 1, 0xFF, WEIR_FORMAT, "metadata entry 0: expected UTF-8"},
    {"the same key twice", KEY1 + 8, 1, 'b', WEIR_FORMAT, "b: expected the key once"},
    {"type 13", TYPE1, 4, 13, WEIR_FORMAT, "0..12"},
    {"a bool of 2", BOOL2, 1, 2, WEIR_FORMAT, "0 or 1"},
    {"an array in an array", ELEMENT3, 4, 9, WEIR_FORMAT, "arrays in arrays"},
    {"an array that is too long", COUNT3, 8, SIZE, WEIR_FORMAT, "metadata entry 2"},
    {"an array whose size wraps", COUNT3, 8, 1ull << 63, WEIR_FORMAT, "metadata entry 2"},
    {"an array of too many texts", ELEMENT3, 4, 8, WEIR_FORMAT, "metadata entry 2"},
    {"a text past the end", LENGTH4, 8, SIZE, WEIR_FORMAT, "metadata entry 3"},
    {"a text over the limit", LENGTH4, 8, (64u << 20) + 1, WEIR_FORMAT, "metadata entry 3: length"},
    {"a tensor's name too long", NAME1, 8, 64, WEIR_FORMAT, "tensor 0: length: expected at most 63"},
    {"a tensor's name with a newline", NAME1 + 8, 1, '\n', WEIR_FORMAT, "tensor 0: expected UTF-8"},
    {"the same name twice", NAME1 + 8, 1, 'y', WEIR_FORMAT, "y: expected the tensor once"},
    {"no dimension", RANK1, 4, 0, WEIR_FORMAT, "tensor 0: expected 1..4 dimensions"},
    {"five dimensions", RANK1, 4, 5, WEIR_FORMAT, "tensor 0: expected 1..4 dimensions"},
    {"a dimension of none", NE1, 8, 0, WEIR_FORMAT, "tensor 0: expected at most 2^48"},
    {"a dimension of 2^64 - 1", NE1, 8, UINT64_MAX, WEIR_FORMAT, "tensor 0: expected at most 2^48"},
    {"a product of 2^64", NE1, 8, 1ull << 63, WEIR_FORMAT, "tensor 0: expected at most 2^48"},
    {"a product over 2^48", NE1, 8, (1ull << 47) + 1, WEIR_FORMAT, "tensor 0: expected at most 2^48"},
    {"2^48 elements of none", NE1, 8, 1ull << 47, WEIR_FORMAT, "cut short"},
    {"type 4, removed", KIND1, 4, 4, WEIR_FORMAT, "tensor 0: type"},
    {"type 9, never stored", KIND1, 4, 9, WEIR_FORMAT, "tensor 0: type"},
    {"type 43", KIND1, 4, 43, WEIR_FORMAT, "tensor 0: type"},
    {"rows of half a block", KIND1, 4, 8, WEIR_FORMAT, "whole Q8_0 blocks of 32"},
    {"an offset between the steps", OFFSET2, 8, 33, WEIR_FORMAT, "y: offset: expected a multiple of 32"},
    {"overlap", OFFSET2, 8, 0, WEIR_FORMAT, "y: offset: expected at least 32"},
    {"an offset past the end", OFFSET2, 8, 64, WEIR_FORMAT, "y: expected 34 bytes of data at 64"},
    {"an offset that wraps", OFFSET2, 8, UINT64_MAX - 31, WEIR_FORMAT, "y: expected 34 bytes"},
};

static void every_broken_rule_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        const patch *p = &patches[i];
        str          file;
        gguf         g;
        uint8_t     *b;
        weir_error   err;
        example(&file);
        memcpy(file.data + p->at, &p->value, p->bytes);
        check_failure(open_bytes(&g, &b, file.data, file.len, &err), p->status, &err, p->what,
                      (const char *[]){FILE_NAME, p->field, NULL});
        assert_null(g.tensors);
        str_free(&file);
        free(b);
    }
}

/* What the patches must leave alone: the example with the same value is sound. */
static void a_type_without_a_use_is_kept_by_name(void **state)
{
    (void)state;
    str      file;
    gguf     g;
    uint8_t *b;
    example(&file);
    file.data[KIND1] = 26;
    must_open(&g, &b, &file);
    assert_int_equal(g.tensors[0].type, DTYPE_COUNT);
    assert_string_equal(g.tensors[0].type_name, "I32");
    gguf_close(&g);
    str_free(&file);
    free(b);
}

/* Each cut of a sound file is refused: no prefix of it is sound. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    str file;
    example(&file);
    for (size_t n = 0; n < file.len; n++) {
        gguf       g;
        uint8_t   *b;
        weir_error err;
        check_failure(open_bytes(&g, &b, file.data, n, &err), WEIR_FORMAT, &err, "a cut",
                      (const char *[]){FILE_NAME, NULL});
        free(b);
    }
    str_free(&file);
}

static void the_alignment_of_the_file_holds(void **state)
{
    (void)state;
    static const struct {
        uint32_t    value;
        const char *field; /* NULL: sound */
    } cases[] = {{8, NULL},
                 {32, NULL},
                 {0, "general.alignment"},
                 {24, "power of two"},
                 {(1u << 20) + 1, "1048576"},
                 {64, "y: offset: expected a multiple of 64"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_gguf   m;
        str         file;
        gguf        g;
        uint8_t    *b;
        weir_error  err;
        const float x[8] = {0};
        made_gguf_begin(&m);
        made_gguf_u32(&m, "general.alignment", cases[i].value);
        made_gguf_tensor(&m, "x", 1, (const uint64_t[]){8}, 0, x, sizeof x);
        made_gguf_tensor(&m, "y", 1, (const uint64_t[]){8}, 0, x, sizeof x);
        made_gguf_end(&m, &file);
        const weir_status st = open_bytes(&g, &b, file.data, file.len, &err);
        if (cases[i].field == NULL)
            assert_int_equal(st, WEIR_OK);
        else
            check_failure(st, WEIR_FORMAT, &err, "alignment", (const char *[]){FILE_NAME, cases[i].field, NULL});
        gguf_close(&g);
        str_free(&file);
        free(b);
    }
}

/* One value of every type, asked for as what it is not. */
static void values_of_another_kind_are_named(void **state)
{
    (void)state;
    made_gguf         m;
    str               file;
    gguf              g;
    uint8_t          *b;
    weir_error        err;
    uint32_t          u = 0;
    double            d = 0;
    bool              f = false;
    gguf_string       s;
    const gguf_entry *a;
    const int64_t     minus = -1;
    const uint64_t    large = UINT64_MAX;
    const double      half  = 0.5;
    const uint32_t    nan   = 0x7FC00000;
    made_gguf_begin(&m);
    made_gguf_u32(&m, "u32", 9);
    made_gguf_entry(&m, "i64", GGUF_I64, &minus, 8);
    made_gguf_entry(&m, "i8", GGUF_I8, &minus, 1);
    made_gguf_entry(&m, "u64", GGUF_U64, &large, 8);
    made_gguf_entry(&m, "f64", GGUF_F64, &half, 8);
    made_gguf_entry(&m, "nan", GGUF_F32, &nan, 4);
    made_gguf_f32(&m, "f32", 0.25f);
    made_gguf_bool(&m, "bool", false);
    made_gguf_text(&m, "text", "t");
    made_gguf_array(&m, "list", GGUF_U32, 1, &minus, 4);
    made_gguf_end(&m, &file);
    must_open(&g, &b, &file);

    assert_int_equal(gguf_get_double(&g, "f64", true, 0, 1, &d, &err), WEIR_OK);
    assert_true(d == 0.5);
    assert_int_equal(gguf_get_double(&g, "f32", true, 0, 1, &d, &err), WEIR_OK);
    assert_true(d == 0.25);
    assert_int_equal(gguf_get_u32(&g, "none", false, 0, 1, &u, &err), WEIR_OK);
    assert_int_equal(u, 0);
#define WRONG(call, ...) check_failure(call, WEIR_FORMAT, &err, #call, (const char *[]){FILE_NAME, __VA_ARGS__, NULL})
    WRONG(gguf_get_u32(&g, "none", true, 0, 1, &u, &err), "none: expected a whole number of 0..1", "nothing");
    WRONG(gguf_get_u32(&g, "u32", true, 0, 8, &u, &err), "u32: expected", "0..8", "found 9");
    WRONG(gguf_get_u32(&g, "u32", true, 10, 11, &u, &err), "found 9");
    WRONG(gguf_get_u32(&g, "i64", true, 0, UINT32_MAX, &u, &err), "found -1");
    WRONG(gguf_get_u32(&g, "i8", true, 0, UINT32_MAX, &u, &err), "found -1");
    WRONG(gguf_get_u32(&g, "u64", true, 0, UINT32_MAX, &u, &err), "found 9223372036854775807");
    WRONG(gguf_get_u32(&g, "f32", true, 0, 8, &u, &err), "found an f32");
    WRONG(gguf_get_u32(&g, "bool", true, 0, 8, &u, &err), "found a bool");
    WRONG(gguf_get_u32(&g, "list", true, 0, 8, &u, &err), "found an array");
    WRONG(gguf_get_double(&g, "u32", true, 0, 99, &d, &err), "found a u32");
    WRONG(gguf_get_double(&g, "f64", true, 1, 2, &d, &err), "found 0.5");
    WRONG(gguf_get_double(&g, "nan", true, -1e30, 1e30, &d, &err), "nan: expected");
    WRONG(gguf_get_bool(&g, "u32", true, &f, &err), "expected a bool, found a u32");
    WRONG(gguf_get_string(&g, "u32", true, &s, &err), "expected a string, found a u32");
    WRONG(gguf_get_string(&g, "list", true, &s, &err), "found an array");
    WRONG(gguf_get_array(&g, "text", true, GGUF_STRING, &a, &err), "expected an array of strings, found a string");
    WRONG(gguf_get_array(&g, "list", true, GGUF_STRING, &a, &err), "found an array, each a u32");
    WRONG(gguf_get_array(&g, "list", true, GGUF_BOOL, &a, &err), "found an array, each a u32");
#undef WRONG
    assert_int_equal(u, 0);
    gguf_close(&g);
    str_free(&file);
    free(b);
}

static void texts_follow_each_other(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "", "long one", "\xC4\xA0the"};
    made_gguf                m;
    str                      file;
    gguf                     g;
    uint8_t                 *b;
    const gguf_entry        *e = NULL;
    made_gguf_begin(&m);
    made_gguf_texts(&m, "t", texts, 4);
    made_gguf_end(&m, &file);
    must_open(&g, &b, &file);
    assert_int_equal(gguf_get_array(&g, "t", true, GGUF_STRING, &e, NULL), WEIR_OK);
    const uint8_t *at = e->data;
    for (size_t i = 0; i < 4; i++) {
        const gguf_string s = gguf_next_string(&at);
        assert_int_equal(s.len, strlen(texts[i]));
        assert_memory_equal(s.text, texts[i], s.len);
    }
    gguf_close(&g);
    str_free(&file);
    free(b);
}

/* A real file of a gigabyte (sparse) that claims as many entries as fit: refused without their memory. */
static void a_giant_claim_costs_nothing(void **state)
{
    (void)state;
    char    *dir      = made_dir(), path[4096];
    uint8_t  head[24] = "GGUF\3";
    uint64_t n        = 1000001;
    memcpy(head + N_ENTRIES, &n, 8);
    (void)snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    made_file(dir, FILE_NAME, head, sizeof head);
    assert_int_equal(truncate(path, 1 << 30), 0);
    assert_true(gguf_recognise(path));
    assert_false(gguf_recognise(dir));

    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    gguf       g;
    weir_error err;
    check_failure(gguf_open(&g, path, &err), WEIR_FORMAT, &err, "too many entries",
                  (const char *[]){path, "metadata entries", NULL});
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 100 * 1024); /* KiB */
    made_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_reads_back),           cmocka_unit_test(an_empty_file_and_version_2_are_read),
        cmocka_unit_test(every_broken_rule_is_named),       cmocka_unit_test(a_type_without_a_use_is_kept_by_name),
        cmocka_unit_test(every_truncation_is_refused),      cmocka_unit_test(the_alignment_of_the_file_holds),
        cmocka_unit_test(values_of_another_kind_are_named), cmocka_unit_test(texts_follow_each_other),
        cmocka_unit_test(a_giant_claim_costs_nothing),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
