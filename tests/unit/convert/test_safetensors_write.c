/* Written safetensors files, read by the reader and compared with the format's text. */
#include "../checkpoint/made_files.h"
#include "support/golden.h"

#include "base/mem.h"
#include "checkpoint/safetensors_write.h"

static safetensors_spec specs[] = {
    {.name = (char *)(uintptr_t) "half", .type = DTYPE_BF16, .rank = 2, .shape = {3, 1}},
    {.name = (char *)(uintptr_t) "words \"x\\", .type = DTYPE_U32, .rank = 1, .shape = {2}},
    {.name = (char *)(uintptr_t) "none", .type = DTYPE_F32, .rank = 2, .shape = {0, 5}},
    {.name = (char *)(uintptr_t) "scalar", .type = DTYPE_F32, .rank = 0},
};
enum { N = sizeof specs / sizeof *specs };

/* Puts everything but the last three bytes of "half", which stay zero. */
static char *write_all(safetensors_header *h, const char *dir)
{
    weir_error         err;
    safetensors_writer w;
    char              *path = path_join(dir, "model.safetensors");
    assert_int_equal(safetensors_layout(h, specs, N, path, &err), WEIR_OK);
    assert_int_equal(safetensors_create(&w, path, h, &err), WEIR_OK);
    assert_false(file_exists(path)); /* it has no name yet */
    assert_int_equal(safetensors_put(&w, specs[3].begin, "stuv", 4, &err), WEIR_OK);
    assert_int_equal(safetensors_put(&w, specs[1].begin + 4, "efgh", 4, &err), WEIR_OK);
    assert_int_equal(safetensors_put(&w, specs[1].begin, "abcd", 4, &err), WEIR_OK);
    assert_int_equal(safetensors_put(&w, specs[0].begin, "pqr", 3, &err), WEIR_OK);
    assert_int_equal(safetensors_commit(&w, h, &err), WEIR_OK);
    return path;
}

static void the_reader_finds_everything(void **state)
{
    (void)state;
    char              *dir = made_dir();
    safetensors_header h;
    char              *path = write_all(&h, dir);
    safetensors        file;
    size_t             n;
    golden_open(&file, path);
    assert_int_equal(file.n, N);
    assert_memory_equal(golden_data(&file, "words \"x\\", DTYPE_U32, &n), "abcdefgh", 8);
    assert_int_equal(n, 2);
    assert_memory_equal(golden_data(&file, "half", DTYPE_BF16, &n), "pqr\0\0", 6);
    assert_int_equal(n, 3);
    assert_memory_equal(golden_data(&file, "scalar", DTYPE_F32, &n), "stuv", 4);
    (void)golden_data(&file, "none", DTYPE_F32, &n);
    assert_int_equal(n, 0);
    assert_int_equal(golden_find(&file, "half")->shape[1], 1);
    safetensors_close(&file);
    str_free(&h.text);
    mem_free(path);
    made_remove(dir);
}

/* Larger elements first, and the data at a multiple of 8: all are aligned. */
static void the_layout(void **state)
{
    (void)state;
    static const char  expected[] = "{\"__metadata__\":{\"format\":\"mlx\"},"
                                    "\"words \\\"x\\\\\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
                                    "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
                                    "\"half\":{\"dtype\":\"BF16\",\"shape\":[3,1],\"data_offsets\":[12,18]}}";
    weir_error         err;
    safetensors_header h;
    assert_int_equal(safetensors_layout(&h, specs, N, "file", &err), WEIR_OK);
    assert_int_equal(h.text.len % 8, 0);
    assert_int_equal(h.data, 18);
    assert_memory_equal(h.text.data + 8, expected, sizeof expected - 1);
    uint64_t len;
    memcpy(&len, h.text.data, sizeof len);
    assert_int_equal(len, h.text.len - 8);
    assert_true(len - (sizeof expected - 1) < 8);
    str_free(&h.text);
}

static void too_large(void **state)
{
    (void)state;
    safetensors_spec huge[] = {
        {.name = specs[0].name, .type = DTYPE_F32, .rank = 2, .shape = {1ull << 32, 1ull << 32}},
        {.name = specs[0].name, .type = DTYPE_F32, .rank = 2, .shape = {1ull << 31, 1ull << 30}}};
    for (size_t i = 0; i < 2; i++) {
        weir_error         err;
        safetensors_header h;
        assert_int_equal(safetensors_layout(&h, &huge[i], 1, "file", &err), WEIR_INVALID);
        assert_string_equal(err.text, "file: half: too large for a file");
        str_free(&h.text);
    }
}

static void what_counts_as_written(void **state)
{
    (void)state;
    char              *dir = made_dir();
    safetensors_header h, other;
    weir_error         err;
    char              *path = write_all(&h, dir), *bytes;
    size_t             n;
    assert_true(safetensors_is_written(path, &h));
    assert_int_equal(safetensors_layout(&other, specs, N - 1, "file", &err), WEIR_OK);
    assert_false(safetensors_is_written(path, &other));
    assert_int_equal(file_read(&bytes, &n, path, 1 << 20, &err), WEIR_OK);
    made_file(dir, "model.safetensors", bytes, n - 1); /* cut short */
    assert_false(safetensors_is_written(path, &h));
    bytes[40]++; /* another header of the same length */
    made_file(dir, "model.safetensors", bytes, n);
    assert_false(safetensors_is_written(path, &h));
    assert_false(safetensors_is_written(dir, &h));
    mem_free(bytes);
    str_free(&h.text);
    str_free(&other.text);
    mem_free(path);
    made_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_finds_everything),
        cmocka_unit_test(the_layout),
        cmocka_unit_test(too_large),
        cmocka_unit_test(what_counts_as_written),
    };
    return cmocka_run_group_tests_name("safetensors_write", tests, NULL, NULL);
}
