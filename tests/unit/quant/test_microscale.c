/* Decoding of MLX's floating-point modes: worked examples of a group, and random groups
 * with every code against a second decoder's. */
#include "support/golden.h"

#include "base/bytes.h"
#include "base/half.h"
#include "quant/microscale.h"

#include <stdio.h>
#include <stdlib.h>

static void the_small_floats(void **state)
{
    (void)state;
    assert_true(e4m3_value(0x38) == 1.0f && e4m3_value(0x2a) == 0.3125f && e4m3_value(0xaa) == -0.3125f);
    assert_true(e4m3_value(0x23) == 0.171875f && e4m3_value(0x01) == 0x1p-9f && e4m3_value(0x00) == 0.0f);
    assert_true(e4m3_value(0x7e) == 448.0f && e4m3_value(0x7f) == 480.0f && e4m3_value(0xff) == -480.0f);
    assert_true(e8m0(127) == 1.0f && e8m0(1) == 0x1p-126f && e8m0(0) == 0x1p-127f);
    assert_true(e8m0(254) == 0x1p127f);
}

/* The group (j - 12) / 16, j = 0 .. 31, as MLX's quantiser writes it. */
static void a_group_in_every_mode(void **state)
{
    (void)state;
    static const uint32_t mxfp4[] = {0xabccccdd, 0x210089aa, 0x54444322, 0x66666655};
    static const uint32_t nvfp4[] = {0xcdeeeeff, 0x32109abc, 0x55544432, 0x77766666};
    static const uint8_t  e8m0 = 125, e4m3[] = {0x20, 0x25}, mxfp8[32] = {0xfc, 0xfb, 0xfa, 0xf9, [31] = 0x7e};
    static const uint8_t  e8m0_of_8 = 118;
    float                 y[32];
    microscale_decode(y, MICROSCALE_MXFP4, (const uint8_t *)mxfp4, &e8m0, 32);
    assert_true(y[0] == -0.75f && y[1] == -0.75f && y[7] == -0.25f && y[12] == 0.0f && y[31] == 1.0f);
    microscale_decode(y, MICROSCALE_NVFP4, (const uint8_t *)nvfp4, e4m3, 32);
    assert_true(y[0] == -0.75f && y[6] == -0.375f && y[16] == 0.203125f && y[31] == 1.21875f);
    microscale_decode(y, MICROSCALE_MXFP8, mxfp8, &e8m0_of_8, 32);
    assert_true(y[0] == -0.75f && y[3] == -0.5625f && y[31] == 0.875f);
}

static const struct {
    const char     *name;
    microscale_mode mode;
} modes[] = {{"mxfp4", MICROSCALE_MXFP4}, {"mxfp8", MICROSCALE_MXFP8}, {"nvfp4", MICROSCALE_NVFP4}};

/* A tensor on the heap, so that a sanitizer sees a read past it. */
static uint8_t *bytes_of(const safetensors *file, const char *mode, const char *which)
{
    char   name[32];
    size_t n;
    (void)snprintf(name, sizeof name, "%s.%s", mode, which);
    const void *data = golden_data(file, name, DTYPE_U8, &n);
    uint8_t    *copy = malloc(n);
    assert_non_null(copy);
    memcpy(copy, data, n);
    return copy;
}

static void random_groups_of_every_mode(void **state)
{
    (void)state;
    safetensors file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/data/mlx/modes.safetensors");
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        char   name[32];
        size_t n;
        (void)snprintf(name, sizeof name, "%s.values", modes[m].name);
        const uint8_t *values = golden_data(&file, name, DTYPE_F32, &n);
        uint8_t *codes = bytes_of(&file, modes[m].name, "codes"), *scales = bytes_of(&file, modes[m].name, "scales");
        float   *y = malloc(n * sizeof *y);
        assert_non_null(y);
        microscale_decode(y, modes[m].mode, codes, scales, n);
        for (size_t i = 0; i < n; i++)
            if (y[i] != load_f32(values + 4 * i))
                fail_msg("%s[%zu]: expected %.9g, found %.9g", modes[m].name, i, (double)load_f32(values + 4 * i),
                         (double)y[i]);
        free(codes);
        free(scales);
        free(y);
    }
    safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_small_floats),
        cmocka_unit_test(a_group_in_every_mode),
        cmocka_unit_test(random_groups_of_every_mode),
    };
    return cmocka_run_group_tests_name("microscale", tests, NULL, NULL);
}
