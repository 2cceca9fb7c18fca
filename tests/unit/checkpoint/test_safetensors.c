/* tests/unit/checkpoint/test_safetensors.c - the header rules, each with a file that breaks it. */
#include "support/cmocka.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "made_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXAMPLE "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}"
#define FILE_NAME "model.safetensors"

static const float example_data[6] = {0, 1, 2, 3, 4, 5};

/* Opens u64 `length` + header + data from a heap block of exactly that size. */
static weir_status open_bytes(safetensors *s, uint8_t **keep, uint64_t length, const char *header, size_t header_size,
                              const void *data, size_t n, weir_error *err)
{
    const size_t size = 8 + header_size + n;
    uint8_t     *b    = malloc(size);
    assert_non_null(b);
    memcpy(b, &length, 8);
    memcpy(b + 8, header, header_size);
    if (n > 0) memcpy(b + 8 + header_size, data, n);
    *keep = b;
    return safetensors_open_memory(s, FILE_NAME, b, size, err);
}

static void the_worked_example_reads_back(void **state)
{
    (void)state;
    safetensors s;
    uint8_t    *b;
    assert_int_equal(strlen(EXAMPLE), 64);
    assert_int_equal(open_bytes(&s, &b, 64, EXAMPLE, 64, example_data, 24, NULL), WEIR_OK);
    assert_int_equal(s.n, 1);
    const safetensors_tensor *t = &s.tensors[0];
    assert_string_equal(t->name, "attn.0");
    assert_int_equal(t->type, DTYPE_F32);
    assert_int_equal(t->rank, 3);
    assert_true(t->shape[0] == 1 && t->shape[1] == 2 && t->shape[2] == 3);
    assert_true(t->begin == 0 && t->bytes == 24);
    assert_ptr_equal(s.data, b + 72);
    for (size_t i = 0; i < 6; i++) assert_true(load_f32(s.data + 4 * i) == (float)i);
    safetensors_close(&s);
    free(b);
}

static void an_empty_file_has_no_tensors(void **state)
{
    (void)state;
    safetensors s;
    uint8_t    *b;
    assert_int_equal(open_bytes(&s, &b, 8, "{}      ", 8, NULL, 0, NULL), WEIR_OK);
    assert_int_equal(s.n, 0);
    safetensors_close(&s);
    free(b);
}

/* Scalars, empty tensors, null metadata, data at odd addresses and element types without a use here are fine. */
static void what_other_writers_write_is_read(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":null,"
                                 "\"b\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[1,9]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                                 "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[9,9]},"
                                 "\"half\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[9,11]},"
                                 "\"new\":{\"dtype\":\"F3_NEW\",\"shape\":[5],\"data_offsets\":[11,12]}} ";
    const uint8_t     data[12] = {0};
    safetensors       s;
    weir_error        err;
    uint8_t          *b;
    if (open_bytes(&s, &b, sizeof header - 1, header, sizeof header - 1, data, sizeof data, &err) != WEIR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(s.n, 5);
    assert_string_equal(s.tensors[0].name, "a");
    assert_int_equal(s.tensors[0].rank, 0);
    assert_string_equal(s.tensors[1].name, "b");
    assert_int_equal(s.tensors[2].bytes, 0);
    assert_int_equal(s.tensors[3].type, DTYPE_COUNT);
    assert_string_equal(s.tensors[4].type_name, "F3_NEW");
    safetensors_close(&s);
    free(b);
}

/* A header that must fail; length 0 means its own length. */
typedef struct bad_header {
    const char *what;
    const char *header;
    uint64_t    length;
    size_t      data;
    const char *field; /* in the message, beside the file's name */
} bad_header;

#define REC(dtype, shape, offsets) "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"attn.0\":" REC(dtype, shape, offsets) "}"
#define PAIR(off_a, off_b) "{\"a\":" REC("\"U8\"", "[4]", off_a) ",\"b\":" REC("\"U8\"", "[4]", off_b) "}"

static const bad_header bad_headers[] = {
    {"the length one too long swallows a data byte", EXAMPLE, 65, 24, "zero byte"},
    {"the length one past the end", EXAMPLE, 89, 24, "header length"},
    {"the length wraps", EXAMPLE, UINT64_MAX, 24, "header length"},
    {"the length claims a gigabyte", EXAMPLE, (uint64_t)1 << 30, 24, "header length"},
    {"the length claims 2^40", EXAMPLE, (uint64_t)1 << 40, 24, "header length"},
    {"an offset one too far", ONE("\"F32\"", "[1,2,3]", "[0,25]"), 0, 25, "attn.0: data_offsets"},
    {"offsets moved", ONE("\"F32\"", "[1,2,3]", "[4,28]"), 0, 24, "attn.0: data_offsets"},
    {"offsets moved, with room: a hole", ONE("\"F32\"", "[1,2,3]", "[4,28]"), 0, 28, "attn.0: data_offsets"},
    {"a dimension of 2^64 - 1", ONE("\"F32\"", "[1,2,18446744073709551615]", "[0,24]"), 0, 24, "not valid JSON"},
    {"a dimension of 2^63 - 1", ONE("\"F32\"", "[1,2,9223372036854775807]", "[0,24]"), 0, 24, "attn.0: shape"},
    {"a product of 2^64", ONE("\"F32\"", "[4294967296,4294967296]", "[0,24]"), 0, 24, "attn.0: shape"},
    {"an element count of 2^62", ONE("\"F32\"", "[2147483648,2147483648]", "[0,0]"), 0, 0, "attn.0: shape"},
    {"overflow before a zero", ONE("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), 0, 0, "attn.0: shape"},
    {"a 2^40 tensor", ONE("\"U8\"", "[1099511627776]", "[0,1099511627776]"), 0, 24, "attn.0: data_offsets"},
    {"the same record twice",
     "{\"attn.0\":" REC("\"F32\"", "[6]", "[0,24]") ",\"attn.0\":" REC("\"F32\"", "[6]", "[0,24]") "}", 0, 24,
     "attn.0"},
    {"the same field twice", "{\"attn.0\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
     0, 24, "dtype"},
    {"the same metadata twice", "{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", 0, 0, "duplicate"},
    {"a byte behind the data", EXAMPLE, 0, 25, "file size"},
    {"a byte too few", EXAMPLE, 0, 23, "attn.0: data_offsets"},
    {"a tail and no tensor", "{}", 0, 1, "file size"},
    {"overlap", PAIR("[0,4]", "[2,6]"), 0, 6, "b: data_offsets"},
    {"two on the same bytes", PAIR("[0,4]", "[0,4]"), 0, 4, "b: data_offsets"},
    {"a hole", PAIR("[0,4]", "[5,9]"), 0, 9, "b: data_offsets"},
    {"begin past end", ONE("\"F32\"", "[6]", "[24,0]"), 0, 24, "attn.0: data_offsets"},
    {"begin past end, of a type not known", ONE("\"NEW\"", "[6]", "[24,0]"), 0, 24, "begin <= end"},
    {"a negative offset", ONE("\"F32\"", "[6]", "[0,-1]"), 0, 24, "negative"},
    {"a minus zero", ONE("\"F32\"", "[6]", "[-0,24]"), 0, 24, "negative"},
    {"an exponent", ONE("\"F32\"", "[6]", "[0,24e0]"), 0, 24, "attn.0: data_offsets"},
    {"a fraction", ONE("\"F32\"", "[6.0]", "[0,24]"), 0, 24, "attn.0: shape"},
    {"an offset of 2^53", ONE("\"F32\"", "[6]", "[0,9007199254740992]"), 0, 24, "attn.0: data_offsets"},
    {"three offsets", ONE("\"F32\"", "[6]", "[0,24,24]"), 0, 24, "attn.0: data_offsets"},
    {"offsets as text", ONE("\"F32\"", "[6]", "\"0,24\""), 0, 24, "attn.0: data_offsets"},
    {"nine dimensions", ONE("\"F32\"", "[1,1,1,1,1,1,1,1,6]", "[0,24]"), 0, 24, "attn.0: shape"},
    {"a shape that is no list", ONE("\"F32\"", "6", "[0,24]"), 0, 24, "attn.0: shape"},
    {"another type's size", ONE("\"F16\"", "[6]", "[0,24]"), 0, 24, "attn.0: data_offsets: expected 12"},
    {"a type that is no text", ONE("7", "[6]", "[0,24]"), 0, 24, "attn.0: dtype"},
    {"a type without a name", ONE("\"\"", "[6]", "[0,24]"), 0, 24, "attn.0: dtype"},
    {"a type with a long name", ONE("\"F32F32F32F32F32\"", "[6]", "[0,24]"), 0, 24, "attn.0: dtype"},
    {"a byte and a half", ONE("\"F4\"", "[3]", "[0,1]"), 0, 1, "attn.0: data_offsets"},
    {"no type", "{\"attn.0\":{\"shape\":[6],\"data_offsets\":[0,24]}}", 0, 24, "attn.0: dtype"},
    {"no shape", "{\"attn.0\":{\"dtype\":\"F32\",\"data_offsets\":[0,24]}}", 0, 24, "attn.0: shape"},
    {"no offsets", "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[6]}}", 0, 24, "attn.0: data_offsets"},
    {"one field more", "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24],\"strides\":[1]}}", 0, 24,
     "attn.0: record"},
    {"a record that is no object", "{\"attn.0\":[]}", 0, 0, "attn.0: record"},
    {"metadata that is no object", "{\"__metadata__\":[]}", 0, 0, "__metadata__"},
    {"metadata that is no text", "{\"__metadata__\":{\"step\":7}}", 0, 0, "__metadata__: step"},
    {"a nameless tensor", "{\"\":" REC("\"U8\"", "[0]", "[0,0]") "}", 0, 0, "tensor name"},
    {"a name with a newline", "{\"a\\nb\":" REC("\"U8\"", "[0]", "[0,0]") "}", 0, 0, "tensor name"},
    {"a name with a zero", "{\"a\\u0000b\":" REC("\"U8\"", "[0]", "[0,0]") "}", 0, 0, "not valid JSON"},
    {"not UTF-8", "{\"\xff\":" REC("\"U8\"", "[0]", "[0,0]") "}", 0, 0, "UTF-8"},
    {"a space before the object", " {}", 0, 0, "header"},
    {"a list", "[]", 0, 0, "header"},
    {"text behind the object", "{} x", 0, 0, "not valid JSON"},
    {"a second object", "{}{}", 0, 0, "not valid JSON"},
    {"an unfinished object", "{\"a\":", 0, 0, "not valid JSON"},
    {"nested nine deep", "{\"a\":[[[[[[[[]]]]]]]]}", 0, 0, "nested"},
    {"nothing but blanks", "        ", 0, 0, "header"},
};

static void every_broken_rule_is_named(void **state)
{
    (void)state;
    const uint8_t data[32] = {0};
    for (size_t i = 0; i < sizeof bad_headers / sizeof bad_headers[0]; i++) {
        const bad_header *h = &bad_headers[i];
        safetensors       s;
        weir_error        err;
        uint8_t          *b;
        const size_t      n  = strlen(h->header);
        const weir_status st = open_bytes(&s, &b, h->length != 0 ? h->length : n, h->header, n, data, h->data, &err);
        check_failure(st, WEIR_FORMAT, &err, h->what, (const char *[]){FILE_NAME, h->field, NULL});
        assert_null(s.tensors);
        free(b);
    }
}

static void short_files_are_named(void **state)
{
    (void)state;
    const uint8_t bytes[8] = {0};
    for (size_t n = 0; n <= 8; n++) { /* at 8 the header length is 0 */
        safetensors s;
        weir_error  err;
        uint8_t    *b = malloc(n != 0 ? n : 1);
        assert_non_null(b);
        memcpy(b, bytes, n);
        check_failure(safetensors_open_memory(&s, FILE_NAME, b, n, &err), WEIR_FORMAT, &err, "a short file",
                      (const char *[]){FILE_NAME, "header length", NULL});
        free(b);
    }
}

/* Each cut of a sound file is refused: no prefix of it is sound. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t file[96] = {64};
    memcpy(file + 8, EXAMPLE, 64);
    memcpy(file + 72, example_data, 24);
    for (size_t n = 0; n < sizeof file; n++) {
        safetensors s;
        uint8_t    *b = malloc(n != 0 ? n : 1);
        assert_non_null(b);
        memcpy(b, file, n);
        assert_int_equal(safetensors_open_memory(&s, FILE_NAME, b, n, NULL), WEIR_FORMAT);
        free(b);
    }
}

static void a_long_name_is_refused_at_its_limit(void **state)
{
    (void)state;
    for (size_t len = 1024; len <= 1025; len++) {
        str header;
        str_init(&header, 4096);
        str_puts(&header, "{\"");
        for (size_t i = 0; i < len; i++) str_putc(&header, 'n');
        str_puts(&header, "\":" REC("\"U8\"", "[0]", "[0,0]") "}");
        safetensors       s;
        uint8_t          *b;
        weir_error        err;
        const weir_status st = open_bytes(&s, &b, header.len, header.data, header.len, NULL, 0, &err);
        if (len == 1024)
            assert_int_equal(st, WEIR_OK);
        else
            check_failure(st, WEIR_FORMAT, &err, "a long name", (const char *[]){FILE_NAME, "tensor name", NULL});
        safetensors_close(&s);
        str_free(&header);
        free(b);
    }
}

static void gguf_is_called_by_its_name(void **state)
{
    (void)state;
    safetensors s;
    weir_error  err;
    check_failure(safetensors_open_memory(&s, FILE_NAME, "GGUF\3\0\0\0\0\0\0\0", 12, &err), WEIR_UNSUPPORTED, &err,
                  "a GGUF file", (const char *[]){FILE_NAME, "GGUF", NULL});
}

/* A real file that claims a gigabyte of header, and is one (sparse): refused at once, without its memory. */
static void a_giant_claim_costs_nothing(void **state)
{
    (void)state;
    char          *dir = made_dir(), path[4096];
    const uint64_t n   = (uint64_t)1 << 30;
    (void)snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    made_file(dir, FILE_NAME, &n, sizeof n);
    assert_int_equal(truncate(path, (off_t)n + 64), 0);

    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    safetensors s;
    weir_error  err;
    check_failure(safetensors_open(&s, path, &err), WEIR_FORMAT, &err, "a gigabyte of header",
                  (const char *[]){path, "header length", NULL});
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 100 * 1024); /* KiB */
    made_remove(dir);
}

/* As many tensors as a large mixture of experts has; a quadratic search would take minutes. */
static void a_hundred_thousand_tensors_open(void **state)
{
    (void)state;
    enum { N = 100000 };
    str header;
    str_init(&header, 1 << 24);
    str_putc(&header, '{');
    for (unsigned i = 0; i < N; i++)
        str_printf(&header,
                   "%s\"model.layers.%u.mlp.experts.%u.up_proj.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[%u,%u]}",
                   i > 0 ? "," : "", i / 1000, i % 1000, i, i + 1);
    str_putc(&header, '}');
    assert_false(header.failed);
    uint8_t *data = calloc(N, 1), *b;
    assert_non_null(data);
    safetensors s;
    assert_int_equal(open_bytes(&s, &b, header.len, header.data, header.len, data, N, NULL), WEIR_OK);
    assert_int_equal(s.n, N);
    assert_string_equal(s.tensors[N - 1].name, "model.layers.99.mlp.experts.999.up_proj.weight");
    safetensors_close(&s);
    str_free(&header);
    free(data);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_reads_back),
        cmocka_unit_test(an_empty_file_has_no_tensors),
        cmocka_unit_test(what_other_writers_write_is_read),
        cmocka_unit_test(every_broken_rule_is_named),
        cmocka_unit_test(short_files_are_named),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_long_name_is_refused_at_its_limit),
        cmocka_unit_test(gguf_is_called_by_its_name),
        cmocka_unit_test(a_giant_claim_costs_nothing),
        cmocka_unit_test(a_hundred_thousand_tensors_open),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
