/* Decoding of GGML's block types: worked examples whose values are known from
 * GGML's own decoders, and random blocks against a second decoder's. */
#include "support/golden.h"

#include "quant/blocks.h"

#include <stdio.h>
#include <stdlib.h>

/* A field of a block that the pattern does not fill. */
typedef struct field {
    uint8_t  at, bytes;
    uint16_t value;
} field;

typedef struct known {
    size_t i;
    double y;
} known;

/* The block is byte i = (37 i + 11) mod 256 with some fields overwritten. */
typedef struct example {
    dtype  type;
    field  fields[2];
    known  values[9];
    size_t n;
    double sum;
} example;

static const example examples[] = {
    {DTYPE_Q8_0, {{0, 2, 0x3000}}, {{0, 10.625}, {1, 15.25}, {2, -12.125}, {15, -16}, {16, -11.375}, {31, -6}}, 6, -22},
    {DTYPE_Q4_0, {{0, 2, 0x3000}}, {{0, -0.375}, {1, 0.25}, {2, 0.875}, {15, -1}, {16, -0.375}, {31, 0}}, 6, -2.625},
    {DTYPE_Q4_1,
     {{0, 2, 0x3000}, {2, 2, 0xB800}},
     {{0, 1.375}, {1, 0}, {2, 0.625}, {15, 0.75}, {16, 0.625}, {31, 1}},
     6,
     14.625},
    {DTYPE_Q5_0, {{0, 2, 0x3000}}, {{0, 1.125}, {1, -0.25}, {2, 0.375}, {15, -1.5}, {16, 1.75}, {31, 0.125}}, 6, 1.875},
    {DTYPE_Q5_1,
     {{0, 2, 0x3000}, {2, 2, 0xB800}},
     {{0, 1.875}, {1, 2.5}, {2, 3.125}, {15, 3.25}, {16, 1.875}, {17, 0.125}},
     6,
     47.125},
    {DTYPE_IQ4_NL,
     {{0, 2, 0x2000}},
     {{0, -0.2734375}, {1, 0.1953125}, {2, 0.8828125}, {15, -0.9921875}, {16, -0.2734375}, {31, 0.0078125}},
     6,
     -2.0078125},
    {DTYPE_MXFP4, {{0, 1, 0x7E}}, {{0, 0}, {1, 1.5}, {2, -0.5}, {15, -0.75}, {16, 0.75}, {31, 1.5}}, 6, 6.25},
    {DTYPE_Q2_K,
     {{80, 2, 0x3000}, {82, 2, 0x2800}},
     {{0, 4.125}, {1, 0}, {2, 1.375}, {15, 2.75}, {16, -0.09375}, {64, 1.59375}, {128, 1.03125}, {255, 0.65625}},
     8,
     309.875},
    {DTYPE_Q3_K,
     {{108, 2, 0x2000}},
     {{0, 0.6328125},
      {1, -0.84375},
      {2, 0.2109375},
      {15, -0.421875},
      {16, -0.75},
      {64, 0.265625},
      {128, 0.015625},
      {255, 0.328125}},
     8,
     7.484375},
    {DTYPE_Q4_K,
     {{0, 2, 0x2000}, {2, 2, 0x2800}},
     {{0, 1.0703125},
      {1, -1.59375},
      {2, -0.3828125},
      {15, -0.140625},
      {16, 1.0703125},
      {64, 1.6171875},
      {128, 2.9765625},
      {255, -0.578125}},
     8,
     194.3125},
    {DTYPE_Q5_K,
     {{0, 2, 0x2000}, {2, 2, 0x2800}},
     {{0, 4.9453125},
      {1, -1.59375},
      {2, 3.4921875},
      {15, -0.140625},
      {16, 4.9453125},
      {64, 1.6171875},
      {128, 7.8515625},
      {255, -0.109375}},
     8,
     676.9375},
    {DTYPE_Q6_K,
     {{208, 2, 0x1000}},
     {{0, -0.698730469},
      {1, 0.828125},
      {2, 0.284667969},
      {15, -0.155273438},
      {16, -0.2109375},
      {64, -1.484375},
      {128, -0.171386719},
      {255, -0.029296875}},
     8,
     2.25195312},
    {DTYPE_IQ4_XS,
     {{0, 2, 0x1000}},
     {{0, 0.0317382812},
      {1, -0.00048828125},
      {2, -0.0336914062},
      {15, -0.0434570312},
      {16, 0.0317382812},
      {64, 0.380859375},
      {128, -0.285644531},
      {255, -0.0078125}},
     8,
     -5.37353516},
};

/* The values are given with nine digits, and all are multiples of 2^-20. */
static bool same(double found, double expected)
{
    const double off = found - expected;
    return off < 0x1p-22 && off > -0x1p-22;
}

static void the_worked_examples(void **state)
{
    (void)state;
    for (size_t e = 0; e < sizeof examples / sizeof examples[0]; e++) {
        const example *x = &examples[e];
        const size_t   n = dtype_table[x->type].elements;
        uint8_t        block[256];
        float          y[256];
        for (size_t i = 0; i < sizeof block; i++) block[i] = (uint8_t)(37 * i + 11);
        for (size_t i = 0; i < 2; i++) memcpy(block + x->fields[i].at, &x->fields[i].value, x->fields[i].bytes);
        blocks_decode(y, block, x->type, n);
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)y[i];
        for (size_t i = 0; i < x->n; i++)
            if (!same((double)y[x->values[i].i], x->values[i].y))
                fail_msg("%s[%zu]: expected %.9g, found %.9g", dtype_table[x->type].name, x->values[i].i,
                         x->values[i].y, (double)y[x->values[i].i]);
        if (!same(sum, x->sum)) fail_msg("%s: sum: expected %.9g, found %.9g", dtype_table[x->type].name, x->sum, sum);
    }
}

/* Bit for bit; the blocks lie on the heap, so that a sanitizer sees a read past the last. */
static void random_blocks_of_every_type(void **state)
{
    (void)state;
    safetensors file;
    unsigned    n_types = 0;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/data/ggml/blocks.safetensors");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        char   name[32];
        size_t n, bytes;
        if (!blocks_is((dtype)t)) continue;
        n_types++;
        (void)snprintf(name, sizeof name, "%s.values", dtype_table[t].name);
        const uint8_t *values = golden_data(&file, name, DTYPE_F32, &n);
        (void)snprintf(name, sizeof name, "%s.blocks", dtype_table[t].name);
        const uint8_t *blocks = golden_data(&file, name, DTYPE_U8, &bytes);
        assert_int_equal(bytes, blocks_bytes((dtype)t, n));
        uint8_t *copy = malloc(bytes);
        float   *y    = malloc(n * sizeof *y);
        assert_true(copy != NULL && y != NULL);
        memcpy(copy, blocks, bytes);
        blocks_decode(y, copy, (dtype)t, n);
        for (size_t i = 0; i < n; i++)
            if (memcmp(&y[i], values + 4 * i, 4) != 0) {
                float expected;
                memcpy(&expected, values + 4 * i, 4);
                fail_msg("%s[%zu]: expected %.9g, found %.9g", dtype_table[t].name, i, (double)expected, (double)y[i]);
            }
        free(copy);
        free(y);
    }
    assert_int_equal(n_types, 13);
    safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_examples),
        cmocka_unit_test(random_blocks_of_every_type),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
