/* Quantising by MLX's affine scheme: worked examples, the matrix of
 * tests/fixtures/mlx-kernels (made by an independent implementation) in every
 * form, and what is refused. */
#include "support/golden.h"

#include "base/half.h"
#include "quant/affine.h"

#include <math.h>
#include <stdio.h>

enum { GROUP = 32, COLS = 256, ROWS = 12 };

typedef struct encoded {
    uint8_t codes[COLS], scales[32], biases[32];
} encoded;

static encoded encode(uint32_t bits, uint32_t group, dtype type, const float *x, size_t n)
{
    encoded             e = {0};
    const affine_target t = {
        .bits = bits, .group = group, .codes = e.codes, .scales = e.scales, .biases = e.biases, .scale_type = type};
    assert_true(affine_encode(&t, x, n));
    return e;
}

static void a_group_in_every_width(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        float    scale;
        uint16_t scale_bf16;
        uint32_t words[8];
    } examples[] = {
        {2, -0.59375f, 0xbf18, {0xaaaaffff, 0x00155556}},
        {3, -0.296875f, 0xbe98, {0x2db6edb7, 0x26db7249, 0x00124949}},
        {4, -0.131944448f, 0xbe07, {0xbccddeef, 0x88999aab, 0x44556677, 0x00112233}},
        {5, -0.0625f, 0xbd80, {0x75be77df, 0x3a56d7c6, 0x35cf8465, 0xc74254b6, 0x00443214}},
        {6, -0.030448718f, 0xbcf9, {0x77e7cfbf, 0xbb6fc73d, 0x863967a6, 0x5765b75f, 0xa30e4125, 0x00210620}},
        {8,
         -0.0076121795f,
         0xbbf9,
         {0xe6eef6ff, 0xc5cdd5de, 0xa4acb5bd, 0x838c949c, 0x636b737b, 0x424a525a, 0x21293139, 0x00081019}},
    };
    float x[GROUP];
    for (size_t j = 0; j < GROUP; j++) x[j] = ((float)j - 12.0f) / 16.0f;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const uint32_t bits = examples[i].bits;
        encoded        e    = encode(bits, GROUP, DTYPE_BF16, x, GROUP);
        uint16_t       half;
        assert_memory_equal(e.codes, examples[i].words, GROUP * bits / 8);
        memcpy(&half, e.scales, sizeof half);
        assert_int_equal(half, examples[i].scale_bf16);
        memcpy(&half, e.biases, sizeof half);
        assert_int_equal(half, 0x3f98);
        e = encode(bits, GROUP, DTYPE_F32, x, GROUP);
        assert_memory_equal(e.codes, examples[i].words, GROUP * bits / 8);
        assert_true(dense_at(e.scales, DTYPE_F32, 0) == examples[i].scale);
        e = encode(bits, GROUP, DTYPE_F16, x, GROUP);
        assert_true(dense_at(e.scales, DTYPE_F16, 0) == f16_to_f32(f16_from_f32(examples[i].scale)));
        assert_true(dense_at(e.biases, DTYPE_F16, 0) == 1.1875f);
    }
}

/* Ties go to the even code. */
static void halfway_values(void **state)
{
    (void)state;
    static const float   first[] = {15, 0, 14.5f, 13.5f, 12.5f, 0.5f, 1.5f, 2.5f};
    static const uint8_t bytes[] = {0xf0, 0x20, 0xe2, 0xce};
    float                x[GROUP];
    memcpy(x, first, sizeof first);
    for (size_t i = 0; i < GROUP - 8; i++) x[8 + i] = (float)(i % 16);
    const encoded e = encode(4, GROUP, DTYPE_BF16, x, GROUP);
    assert_memory_equal(e.codes, bytes, sizeof bytes);
    assert_true(dense_at(e.scales, DTYPE_BF16, 0) == -1.0f && dense_at(e.biases, DTYPE_BF16, 0) == 15.0f);
}

static void all_negative_and_all_zero(void **state)
{
    (void)state;
    static const uint8_t codes[GROUP] = {15, 14, 14, 13};
    float                x[GROUP];
    for (size_t j = 0; j < GROUP; j++) x[j] = -1.0f - 0.01f * (float)j;
    encoded          e = encode(4, GROUP, DTYPE_F32, x, GROUP);
    const affine_row r = {.bits = 4, .codes = e.codes};
    assert_true(dense_at(e.scales, DTYPE_F32, 0) == 0.0207936503f);
    assert_true(dense_at(e.biases, DTYPE_F32, 0) == -1.30999994f);
    for (size_t i = 0; i < 4; i++) assert_int_equal(affine_code(&r, i), codes[i]);
    assert_int_equal(affine_code(&r, GROUP - 1), 0);

    memset(x, 0, sizeof x);
    e = encode(4, GROUP, DTYPE_BF16, x, GROUP);
    static const uint8_t zero[16], scale[2] = {0xd7, 0xb3};
    assert_memory_equal(e.codes, zero, sizeof zero);
    assert_memory_equal(e.scales, scale, sizeof scale);
    assert_memory_equal(e.biases, zero, 2);
}

static void check_fixture(const safetensors *file, uint32_t bits, uint32_t group, const char *suffix, dtype type)
{
    char name[48];
    (void)snprintf(name, sizeof name, "b%u.g%u.weight", bits, group);
    const uint8_t *words = golden_data(file, name, DTYPE_U32, NULL);
    (void)snprintf(name, sizeof name, "b%u.g%u%s.scales", bits, group, suffix);
    const uint8_t *scales = golden_data(file, name, type, NULL);
    (void)snprintf(name, sizeof name, "b%u.g%u%s.biases", bits, group, suffix);
    const uint8_t *biases = golden_data(file, name, type, NULL), *w = golden_data(file, "w", DTYPE_BF16, NULL);
    const size_t   n = COLS * bits / 8, m = COLS / group * dtype_table[type].bytes;
    for (size_t r = 0; r < ROWS; r++) {
        float x[COLS];
        dense_decode(x, w + r * COLS * 2, DTYPE_BF16, COLS);
        const encoded e = encode(bits, group, type, x, COLS);
        if (memcmp(e.codes, words + r * n, n) != 0 || memcmp(e.scales, scales + r * m, m) != 0 ||
            memcmp(e.biases, biases + r * m, m) != 0)
            fail_msg("b%u.g%u%s: row %zu differs", bits, group, suffix, r);
    }
}

static void the_fixture_in_every_form(void **state)
{
    (void)state;
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const uint32_t others[][2] = {{3, 32}, {4, 64}, {5, 128}, {6, 64}};
    safetensors           file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/fixtures/mlx-kernels/expected.safetensors");
    for (size_t b = 0; b < 6; b++)
        for (size_t g = 0; g < 3; g++) check_fixture(&file, bits[b], groups[g], "", DTYPE_BF16);
    for (size_t i = 0; i < 4; i++) {
        check_fixture(&file, others[i][0], others[i][1], ".f16", DTYPE_F16);
        check_fixture(&file, others[i][0], others[i][1], ".f32", DTYPE_F32);
    }
    safetensors_close(&file);
}

static void numbers_without_a_range_are_refused(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    encoded            e;
    affine_target      t = {
             .bits = 4, .group = GROUP, .codes = e.codes, .scales = e.scales, .biases = e.biases, .scale_type = DTYPE_F32};
    float x[2 * GROUP] = {0};
    for (size_t i = 0; i < 3; i++)
        for (size_t at = 0; at < 2 * GROUP; at++) {
            x[at] = odd[i];
            assert_false(affine_encode(&t, x, sizeof x / sizeof *x));
            x[at] = 0.0f;
        }
    x[0] = 3e38f;
    assert_true(affine_encode(&t, x, 2 * GROUP));
    x[1] = -3e38f; /* their difference is infinite */
    assert_false(affine_encode(&t, x, 2 * GROUP));
}

static void widths_and_groups(void **state)
{
    (void)state;
    size_t n = 0;
    for (uint32_t bits = 0; bits < 40; bits++)
        for (uint32_t group = 0; group < 300; group++) n += affine_is(bits, group);
    assert_int_equal(n, 18);
    assert_true(affine_is(2, 128) && affine_is(8, 32) && affine_is(6, 64));
    assert_false(affine_is(7, 64) || affine_is(1, 64) || affine_is(4, 16) || affine_is(36, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_in_every_width),
        cmocka_unit_test(halfway_values),
        cmocka_unit_test(all_negative_and_all_zero),
        cmocka_unit_test(the_fixture_in_every_form),
        cmocka_unit_test(numbers_without_a_range_are_refused),
        cmocka_unit_test(widths_and_groups),
    };
    return cmocka_run_group_tests_name("affine_encode", tests, NULL, NULL);
}
