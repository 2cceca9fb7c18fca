/* Decoding of MLX's affine scheme: worked examples of the packing and of one
 * quantised group, and a matrix in every width, group size and scale type. */
#include "support/golden.h"

#include "base/bytes.h"
#include "base/half.h"
#include "quant/affine.h"

#include <stdio.h>
#include <stdlib.h>

static void codes_are_one_bit_string(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint8_t  bytes[6], codes[8];
    } examples[] = {
        {2, {0xe4, 0x1b}, {0, 1, 2, 3, 3, 2, 1, 0}},
        {3, {0x88, 0xc6, 0xfa}, {0, 1, 2, 3, 4, 5, 6, 7}},
        {4, {0x10, 0x32, 0x54, 0x76}, {0, 1, 2, 3, 4, 5, 6, 7}},
        {5, {0x20, 0x88, 0x41, 0x8a, 0x39}, {0, 1, 2, 3, 4, 5, 6, 7}},
        {6, {0x40, 0x20, 0x0c, 0x44, 0x61, 0x1c}, {0, 1, 2, 3, 4, 5, 6, 7}},
        {8, {9, 200, 255, 0, 1, 128}, {9, 200, 255, 0, 1, 128}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const affine_row r = {.bits = examples[i].bits, .codes = examples[i].bytes};
        for (size_t j = 0; j < (r.bits == 8 ? 6 : 8); j++) assert_int_equal(affine_code(&r, j), examples[i].codes[j]);
    }
}

/* The group (j - 12) / 16, j = 0 .. 31, quantised in every width: the bias is its
 * largest value, the scale negative. */
typedef struct group_example {
    uint32_t bits;
    uint16_t scale; /* bf16 */
    uint32_t words[8];
} group_example;

static const group_example group_examples[] = {
    {2, 0xbf18, {0xaaaaffff, 0x00155556}},
    {3, 0xbe98, {0x2db6edb7, 0x26db7249, 0x00124949}},
    {4, 0xbe07, {0xbccddeef, 0x88999aab, 0x44556677, 0x00112233}},
    {5, 0xbd80, {0x75be77df, 0x3a56d7c6, 0x35cf8465, 0xc74254b6, 0x00443214}},
    {6, 0xbcf9, {0x77e7cfbf, 0xbb6fc73d, 0x863967a6, 0x5765b75f, 0xa30e4125, 0x00210620}},
    {8, 0xbbf9, {0xe6eef6ff, 0xc5cdd5de, 0xa4acb5bd, 0x838c949c, 0x636b737b, 0x424a525a, 0x21293139, 0x00081019}},
};

enum { GROUP = 32 };

static void decode_example(const group_example *e, float *y)
{
    uint8_t        scale[2], bias[2];
    const uint16_t bias_bits = 0x3f98; /* 1.1875 */
    memcpy(scale, &e->scale, sizeof scale);
    memcpy(bias, &bias_bits, sizeof bias);
    const affine_row r = {.bits       = e->bits,
                          .group      = GROUP,
                          .codes      = (const uint8_t *)e->words,
                          .scales     = scale,
                          .biases     = bias,
                          .scale_type = DTYPE_BF16};
    affine_decode(y, &r, GROUP);
}

static void a_group_in_every_width(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof group_examples / sizeof *group_examples; i++) {
        const group_example *e = &group_examples[i];
        float                y[GROUP];
        decode_example(e, y);
        /* Half a step, and what rounding the scale to bf16 moves the far end. */
        const float step = -bf16_to_f32(e->scale), tolerance = step / 2 + 1.94f * 0x1p-8f;
        for (size_t j = 0; j < GROUP; j++) {
            const float v = ((float)j - 12.0f) / 16.0f, off = y[j] > v ? y[j] - v : v - y[j];
            if (off > tolerance)
                fail_msg("%u bits, %zu: expected about %g, found %g", e->bits, j, (double)v, (double)y[j]);
        }
        assert_true(y[GROUP - 1] == 1.1875f);
    }
    float y[GROUP];
    decode_example(&group_examples[2], y);
    assert_true(y[0] == -0.7900390625f && y[1] == -0.658203125f && y[12] == 0.0009765625f);
}

static uint32_t first_code(const uint8_t *bytes, size_t i)
{
    const affine_row r = {.bits = 4, .codes = bytes};
    return affine_code(&r, i);
}

static void the_tie_example(void **state)
{
    (void)state;
    static const uint8_t bytes[]    = {0xf0, 0x20, 0xe2, 0xce};
    static const uint8_t expected[] = {0, 15, 0, 2, 2, 14, 14, 12};
    for (size_t i = 0; i < 8; i++) assert_int_equal(first_code(bytes, i), expected[i]);
}

/* tests/fixtures/mlx-kernels: "b<bits>.g<group>", scales of another type with
 * ".f16" or ".f32" behind. */
static void check_matrix(const safetensors *file, uint32_t bits, uint32_t group, const char *suffix, dtype type)
{
    enum { ROWS = 12, COLS = 256, T = 3 };
    char name[48], codes[32];
    (void)snprintf(codes, sizeof codes, "b%u.g%u", bits, group);
    (void)snprintf(name, sizeof name, "%s.weight", codes);
    const uint8_t *words = golden_data(file, name, DTYPE_U32, NULL);
    (void)snprintf(name, sizeof name, "%s%s.scales", codes, suffix);
    const uint8_t *scales = golden_data(file, name, type, NULL);
    (void)snprintf(name, sizeof name, "%s%s.biases", codes, suffix);
    const uint8_t *biases = golden_data(file, name, type, NULL);
    (void)snprintf(name, sizeof name, "%s%s.y", codes, suffix);
    const uint8_t *products = golden_data(file, name, DTYPE_F64, NULL), *x = golden_data(file, "x", DTYPE_BF16, NULL);
    (void)snprintf(name, sizeof name, "%s.dequant", codes);
    const uint8_t *dequant = suffix[0] == '\0' ? golden_data(file, name, DTYPE_F32, NULL) : NULL;
    for (size_t r = 0; r < ROWS; r++) {
        const size_t     at  = r * (COLS / group) * dtype_table[type].bytes;
        const affine_row row = {.bits       = bits,
                                .group      = group,
                                .codes      = words + r * COLS * bits / 8,
                                .scales     = scales + at,
                                .biases     = biases + at,
                                .scale_type = type};
        float            y[COLS];
        affine_decode(y, &row, COLS);
        for (size_t i = 0; dequant != NULL && i < COLS; i++) {
            const float exact = load_f32(dequant + 4 * (r * COLS + i)), off = y[i] - exact;
            /* Two roundings here and one in the file, of numbers at most twice as large as the bias. */
            const float size = dense_at(row.biases, type, i / group) * 0x1p-21f;
            if (!(off <= (size < 0 ? -size : size) && -off <= (size < 0 ? -size : size)))
                fail_msg("%s[%zu][%zu]: expected %.9g, found %.9g", name, r, i, (double)exact, (double)y[i]);
        }
        for (size_t j = 0; j < T; j++) {
            double sum = 0, size = 0, want;
            for (size_t i = 0; i < COLS; i++) {
                const double term = (double)y[i] * (double)dense_at(x, DTYPE_BF16, j * COLS + i);
                sum += term;
                size += term < 0 ? -term : term;
            }
            memcpy(&want, products + 8 * (j * ROWS + r), sizeof want);
            const double off = sum - want;
            if (!((off < 0 ? -off : off) <= 1e-6 * (size + 1e-3)))
                fail_msg("b%u.g%u%s.y[%zu][%zu]: expected %.12g, found %.12g", bits, group, suffix, j, r, want, sum);
        }
    }
}

static void the_mlx_fixture_in_every_form(void **state)
{
    (void)state;
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    safetensors           file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/fixtures/mlx-kernels/expected.safetensors");
    for (size_t b = 0; b < 6; b++)
        for (size_t g = 0; g < 3; g++) check_matrix(&file, bits[b], groups[g], "", DTYPE_BF16);
    static const uint32_t others[][2] = {{3, 32}, {4, 64}, {5, 128}, {6, 64}};
    for (size_t i = 0; i < 4; i++) {
        check_matrix(&file, others[i][0], others[i][1], ".f16", DTYPE_F16);
        check_matrix(&file, others[i][0], others[i][1], ".f32", DTYPE_F32);
    }
    safetensors_close(&file);
}

/* The last code of a row must not touch the byte behind it: the row's bytes are
 * on the heap, where a sanitizer sees it. */
static void no_byte_behind_the_row_is_read(void **state)
{
    (void)state;
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8};
    for (size_t b = 0; b < 6; b++) {
        const size_t n     = GROUP * bits[b] / 8;
        uint8_t     *codes = malloc(n);
        assert_non_null(codes);
        memset(codes, 0xFF, n);
        const affine_row r = {.bits = bits[b], .codes = codes};
        assert_int_equal(affine_code(&r, GROUP - 1), (1u << bits[b]) - 1u);
        free(codes);
    }
}

static void dense_elements(void **state)
{
    (void)state;
    static const uint8_t f32[]  = {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1}; /* 1, -10 */
    static const uint8_t f16[]  = {0, 0x3c, 1, 0, 0xff, 0xfb};          /* 1, 2^-24, -65504 */
    static const uint8_t bf16[] = {0x80, 0x3f, 0x20, 0xc1};             /* 1, -10 */
    float                y[3];
    dense_decode(y, f32, DTYPE_F32, 2);
    assert_true(y[0] == 1.0f && y[1] == -10.0f);
    dense_decode(y, f16, DTYPE_F16, 3);
    assert_true(y[0] == 1.0f && y[1] == 0x1p-24f && y[2] == -65504.0f);
    dense_decode(y, bf16, DTYPE_BF16, 2);
    assert_true(y[0] == 1.0f && y[1] == -10.0f);
    assert_true(dense_at(f16, DTYPE_F16, 2) == -65504.0f);
    assert_int_equal(dtype_table[DTYPE_F32].bytes, 4);
    assert_int_equal(dtype_table[DTYPE_BF16].bytes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_one_bit_string),
        cmocka_unit_test(a_group_in_every_width),
        cmocka_unit_test(the_tie_example),
        cmocka_unit_test(the_mlx_fixture_in_every_form),
        cmocka_unit_test(no_byte_behind_the_row_is_read),
        cmocka_unit_test(dense_elements),
    };
    return cmocka_run_group_tests_name("affine", tests, NULL, NULL);
}
