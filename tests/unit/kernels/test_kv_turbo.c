/* Rows of the turbo forms: the worked example of the format, its rules written a second
 * time, and groups that the rules alone would spoil. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "base/half.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/kv_turbo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIM = 256, GROUP = 32, KEY_ROW = DIM + 4 * DIM / GROUP, VALUE_ROW = 3 * DIM / 8 + 2 * DIM / GROUP };

static const k_kv_form keys = {K_KV_TURBO8, GROUP}, values = {K_KV_TURBO3, GROUP};

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* x_i = (((37 i + 11) mod 64) - 32) / 16 */
static void ramp(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)((int)((37 * i + 11) % 64) - 32) / 16.0f;
}

/* Number i of a row, as attention reads it. */
static float read_back(const uint8_t *row, k_kv_form form, uint32_t dim, size_t i)
{
    static float  one[512], got[K_PAGE];
    const float  *q    = one;
    const kv_rows rows = {(uint8_t *)(uintptr_t)row, form, dim};
    float         out[512], *o = out;
    const float   p = 1.0f, rescale = 0.0f;
    const size_t  nk = 1;
    cpu_isa       t;
    cpu_isa_init(&t, 0);
    if (form.kind == K_KV_TURBO3) {
        t.values(&o, &rescale, &p, 1, &nk, &rows);
        return out[i];
    }
    one[i] = 1.0f;
    t.scores(got, &q, 1, &rows, 1, 1.0f);
    one[i] = 0.0f;
    return got[0];
}

static void worked_keys(void **state)
{
    (void)state;
    float   x[DIM];
    uint8_t row[KEY_ROW];
    ramp(x, DIM);
    kv_row_write(row, keys, x, DIM);
    static const int codes[] = {-81, 73, -40, 114};
    for (int i = 0; i < 4; i++) assert_int_equal((int8_t)row[i], codes[i]);
    assert_int_equal((int8_t)row[31], -102);
    assert_int_equal(u16_at(row + DIM), 0x23af);
    assert_int_equal(u16_at(row + DIM + 2), 0xc600);                        /* -6 */
    static const float decoded[] = {-1.3046875f, 1.0078125f, -0.69140625f}; /* in bfloat16 */
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(bf16_from_f32(read_back(row, keys, DIM, i)), bf16_from_f32(decoded[i]));
    for (int i = 0; i < DIM; i++) x[i] += 3.0f;
    static const int moved[] = {-82, 72, -40, 114};
    kv_row_write(row, keys, x, DIM);
    for (int i = 0; i < 4; i++) assert_int_equal((int8_t)row[i], moved[i]);
    assert_int_equal(u16_at(row + DIM + 2), 0x5a10); /* 194 */
}

static void worked_values(void **state)
{
    (void)state;
    float   x[DIM];
    uint8_t row[VALUE_ROW];
    ramp(x, DIM);
    kv_rotate(x, DIM);
    static const float rotated[] = {-1.3125f, 1.34375f, -0.296875f, -0.828125f};
    for (int i = 0; i < 4; i++) assert_true(x[i] == rotated[i]);
    kv_row_write(row, values, x, DIM);
    static const uint8_t packed[] = {0xf1, 0x54, 0x8a, 0x14, 0x91, 0xae, 0xb4, 0x3e, 0x6e, 0x99, 0x32, 0xbe};
    assert_memory_equal(row, packed, sizeof packed);
    static const uint16_t scales[] = {0x3c88, 0x3cd0, 0x3d18, 0x3d69, 0x3c5f, 0x3c8b, 0x3c3d, 0x3b8a};
    for (int g = 0; g < 8; g++) assert_int_equal(u16_at(row + 96 + 2 * g), scales[g]);
    static const float decoded[] = {-1.52239799f, 1.52239799f, -0.277640998f, -0.856417596f};
    static const float back[]    = {-1.1181f, 0.9630f, -0.7525f, 1.3386f};
    for (size_t i = 0; i < 4; i++) assert_true(read_back(row, values, DIM, i) == decoded[i]);
    float  y[DIM];
    double error = 0, size = 0;
    for (size_t i = 0; i < DIM; i++) y[i] = read_back(row, values, DIM, i);
    kv_rotate_back(y, DIM);
    ramp(x, DIM);
    for (int i = 0; i < 4; i++) assert_true(fabsf(y[i] - back[i]) <= 5.2e-5f); /* four digits are given */
    for (int i = 0; i < DIM; i++) error += pow((double)(y[i] - x[i]), 2), size += pow((double)x[i], 2);
    assert_true(fabs(error / size - 0.0331) <= 0.0001);
}

/* Lengths stay, and the way back is the way back, in every size. */
static void rotation(void **state)
{
    (void)state;
    uint64_t seed = 51;
    for (size_t n = 64; n <= 512; n *= 2) {
        float  x[512], y[512];
        double before = 0, after = 0;
        rng_fill(&seed, x, n, -2.0f, 2.0f);
        memcpy(y, x, sizeof x);
        kv_rotate(y, n);
        for (size_t i = 0; i < n; i++) before += pow((double)x[i], 2), after += pow((double)y[i], 2);
        assert_true(fabs(after / before - 1) <= 1e-6);
        kv_rotate_back(y, n);
        for (size_t i = 0; i < n; i++) assert_true(fabsf(y[i] - x[i]) <= 2e-6f);
    }
}

/* One large number alone is spread over all places; in the first one its sign is the table's. */
static void rotation_signs(void **state)
{
    (void)state;
    static const char *const tables[] = {"8e5469b70248de62", "0ddf396a50029c6ad537834ade596014",
                                         "1230e662114acd106f146da9c95e9cd39bf22f3a735d27b26bd9305757c38bfe",
                                         ("bd4b36700de3fb6263e439d461d2ca5c8f7c479b4312dde930de2a54bacaba77"
                                          "843e871118154c9ac5a304321f72815d5214828ac29ba78eef4b0e526d9d6b29")};
    for (unsigned t = 0; t < 4; t++) {
        const size_t n = (size_t)64 << t;
        char         found[129];
        for (size_t byte = 0; byte < n / 8; byte++) {
            unsigned minuses = 0;
            for (size_t bit = 0; bit < 8; bit++) {
                float x[512]      = {0};
                x[8 * byte + bit] = (float)sqrt((double)n);
                kv_rotate(x, n);
                for (size_t i = 0; i < n; i++) assert_true(fabsf(fabsf(x[i]) - 1.0f) <= 1e-6f);
                if (x[0] < 0.0f) minuses |= 1u << bit;
            }
            (void)snprintf(found + 2 * byte, 3, "%02x", minuses);
        }
        assert_string_equal(found, tables[t]);
    }
}

/* The rule of the keys in double precision, where no tie is near and no group is odd. */
static void keys_against_the_rule(void **state)
{
    (void)state;
    uint64_t seed = 52;
    unsigned near = 0;
    for (int round = 0; round < 2000; round++) {
        float       x[64], offset = rng_float(&seed, -3.0f, 3.0f);
        uint8_t     row[64 + 8];
        const float size = (float[]){1e-3f, 1.0f, 50.0f}[round % 3];
        rng_fill(&seed, x, 64, -size, size);
        for (int i = 0; i < 64; i++) x[i] += offset * size;
        kv_row_write(row, keys, x, 64);
        for (int g = 0; g < 2; g++) {
            double lo = x[32 * g], hi = lo;
            for (int i = 0; i < 32; i++) {
                const double v = (double)x[32 * g + i];
                if (v < lo) lo = v;
                if (v > hi) hi = v;
            }
            const double scale = (hi - lo) / 254, zero = nearbyint((hi + lo) / (2 * (scale + 1e-8)));
            const float  s = f16_to_f32(u16_at(row + 64 + 4 * g)), z = f16_to_f32(u16_at(row + 66 + 4 * g));
            assert_true(fabs((double)s - scale) <= 1.01 * fmax(scale * 0x1p-11, 0x1p-25));
            if ((double)z != zero) near++; /* a tie */
            for (int i = 0; i < 32; i++) {
                const double code = (double)x[32 * g + i] / (scale + 1e-8) - (double)z;
                assert_true(fabs(fmax(-127, fmin(127, code)) - (int8_t)row[32 * g + i]) <= 0.5001);
            }
        }
    }
    assert_true(near <= 4);
}

/* Equal numbers, hardly different ones far from zero, and broken ones. */
static void odd_groups(void **state)
{
    (void)state;
    float   x[64];
    uint8_t row[64 + 8], value[24 + 4];
    for (int i = 0; i < 64; i++) x[i] = i < 32 ? 5.0f : 0.0f;
    kv_row_write(row, keys, x, 64);
    for (size_t i = 0; i < 64; i++) assert_true(read_back(row, keys, 64, i) == x[i]);
    static const float spreads[] = {1e-6f, 1e-4f, 1e-3f, 0.01f, 0.1f, 0.5f};
    for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++) { /* zero points from a few on to infinite */
        for (int i = 0; i < 64; i++) x[i] = 40.0f + spreads[s] * (float)(i % 32) / 31.0f;
        kv_row_write(row, keys, x, 64);
        for (size_t i = 0; i < 64; i++) {
            const float found = read_back(row, keys, 64, i), bound = 40.0f * 0x1p-11f + spreads[s];
            if (!(fabsf(found - x[i]) <= bound)) fail_msg("%g comes back as %g", (double)x[i], (double)found);
        }
    }
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    x[40] = NAN;
    kv_row_write(row, keys, x, 64);
    assert_true(isnan(f16_to_f32(u16_at(row + 68))));
    assert_true(!isnan(f16_to_f32(u16_at(row + 64))));
    assert_true(isnan(read_back(row, keys, 64, 0))); /* of a sum that it has part in */
    kv_rotate(x, 64);
    kv_row_write(value, values, x, 64);
    for (size_t i = 0; i < 64; i++) assert_true(isnan(read_back(value, values, 64, i)));
    memset(x, 0, sizeof x);
    kv_row_write(value, values, x, 64);
    for (size_t i = 0; i < 64; i++) assert_true(read_back(value, values, 64, i) == 0.0f);
}

/* Scales are rounded to f16 to nearest, ties to even, subnormal ones too. */
static void scales_in_f16(void **state)
{
    (void)state;
    static const struct {
        float    x;
        uint16_t h;
    } cases[] = {{1.0f, 0x3c00},      {1.00048828125f, 0x3c00}, {1.00146484375f, 0x3c02},      {65504.0f, 0x7bff},
                 {65519.0f, 0x7bff},  {65520.0f, 0x7c00},       {6.103515625e-05f, 0x400},     {6.1e-05f, 0x3ff},
                 {5.9604645e-08f, 1}, {2.9802322e-08f, 0},      {2.98023224e-08f * 1.001f, 1}, {0.1f, 0x2e66}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float   x[64]; /* the rms of equal numbers */
        uint8_t row[24 + 4];
        for (int i = 0; i < 64; i++) x[i] = cases[c].x;
        kv_turbo_values(row, x, 64);
        assert_int_equal(u16_at(row + 24), cases[c].h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_keys),           cmocka_unit_test(worked_values), cmocka_unit_test(rotation),
        cmocka_unit_test(rotation_signs),        cmocka_unit_test(odd_groups),    cmocka_unit_test(scales_in_f16),
        cmocka_unit_test(keys_against_the_rule),
    };
    return cmocka_run_group_tests_name("kv_turbo", tests, NULL, NULL);
}
