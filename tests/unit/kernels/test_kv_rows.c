/* Rows of the key/value cache: the affine quantiser against the worked examples of
 * its rule and against a second writing of it, and what comes of numbers that are none. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "base/half.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { MAX_DIM = 256, MAX_ROW = 4 * MAX_DIM };

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* x_i = (((37 i + 11) mod 64) - 32) / 16 */
static void ramp(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)((int)((37 * i + 11) % 64) - 32) / 16.0f;
}

static void worked_examples(void **state)
{
    (void)state;
    float   x[32];
    uint8_t row[MAX_ROW];
    /* (j - 12) / 16: the largest number is a point of the grid, and the scale negative. */
    static const uint8_t codes4[] = {0xef, 0xde, 0xcd, 0xbc, 0xab, 0x9a, 0x99, 0x88,
                                     0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00};
    static const uint8_t codes8[] = {0xff, 0xf6, 0xee, 0xe6, 0xde, 0xd5, 0xcd, 0xc5, 0xbd, 0xb5, 0xac,
                                     0xa4, 0x9c, 0x94, 0x8c, 0x83, 0x7b, 0x73, 0x6b, 0x63, 0x5a, 0x52,
                                     0x4a, 0x42, 0x39, 0x31, 0x29, 0x21, 0x19, 0x10, 0x08, 0x00};
    for (int j = 0; j < 32; j++) x[j] = (float)(j - 12) / 16.0f;
    kv_row_write(row, (k_kv_form){K_KV_AFFINE4, 32}, x, 32);
    assert_memory_equal(row, codes4, sizeof codes4);
    assert_int_equal(u16_at(row + 16), 0xbe07);
    assert_int_equal(u16_at(row + 18), 0x3f98);
    kv_row_write(row, (k_kv_form){K_KV_AFFINE8, 32}, x, 32);
    assert_memory_equal(row, codes8, sizeof codes8);
    assert_int_equal(u16_at(row + 32), 0xbbf9);
    assert_int_equal(u16_at(row + 34), 0x3f98);
    /* The smallest number is; ties go to the even code: 3 12 5 14 8 1 10 4 13 6 15 8. */
    static const uint8_t ramp4[] = {0xc3, 0xe5, 0x18, 0x4a, 0x6d, 0x8f};
    ramp(x, 32);
    kv_row_write(row, (k_kv_form){K_KV_AFFINE4, 32}, x, 32);
    assert_memory_equal(row, ramp4, sizeof ramp4);
    assert_int_equal(u16_at(row + 16), 0x3e80); /* 0.25 */
    assert_int_equal(u16_at(row + 18), 0xc000); /* -2 */
}

static void ties_and_one_sign(void **state)
{
    (void)state;
    static const float   head[] = {15.0f, 0.0f, 14.5f, 13.5f, 12.5f, 0.5f, 1.5f, 2.5f};
    static const uint8_t ties[] = {0xf0, 0x20, 0xe2, 0xce}; /* 0 15 0 2 2 14 14 12 */
    float                x[32];
    uint8_t              row[MAX_ROW];
    memcpy(x, head, sizeof head);
    for (int i = 0; i < 24; i++) x[8 + i] = (float)(i % 16);
    kv_row_write(row, (k_kv_form){K_KV_AFFINE4, 32}, x, 32);
    assert_memory_equal(row, ties, sizeof ties);
    assert_int_equal(u16_at(row + 16), 0xbf80);
    assert_int_equal(u16_at(row + 18), 0x4170);
    /* A group without a positive number need not contain zero: 15 14 14 13 ... 0 0. */
    for (int j = 0; j < 32; j++) x[j] = (float)(-1.0 - 0.01 * j);
    kv_row_write(row, (k_kv_form){K_KV_AFFINE4, 32}, x, 32);
    assert_int_equal(row[0], 0xef);
    assert_int_equal(row[1], 0xde);
    assert_int_equal(row[15], 0);
    assert_int_equal(u16_at(row + 16), bf16_from_f32(0.0207936503f));
    assert_int_equal(u16_at(row + 18), bf16_from_f32(-1.30999994f));
    /* Nothing but zeros. */
    memset(x, 0, sizeof x);
    memset(row, 0x55, sizeof row);
    kv_row_write(row, (k_kv_form){K_KV_AFFINE4, 32}, x, 32);
    for (int i = 0; i < 16; i++) assert_int_equal(row[i], 0);
    assert_int_equal(u16_at(row + 16), 0xb3d7);
    assert_int_equal(u16_at(row + 18), 0);
}

/* The rule once more, step by step, every step a float of its own; bits set one by one. */
static void expect_row(uint8_t *row, unsigned bits, size_t group, const float *x, size_t dim)
{
    const float n = (float)((1 << bits) - 1);
    memset(row, 0, dim * bits / 8);
    for (size_t g = 0; g < dim / group; g++) {
        const float *v  = x + g * group;
        float        mn = INFINITY, mx = -INFINITY;
        for (size_t i = 0; i < group; i++) mn = fminf(mn, v[i]), mx = fmaxf(mx, v[i]);
        const volatile float range = mx - mn;
        volatile float       s = fmaxf(range / n, 1e-7f), bias = 0.0f;
        const bool           side = fabsf(mn) > fabsf(mx);
        if (!side) s = -s;
        const float          edge = side ? mn : mx;
        const volatile float q0   = nearbyintf(edge / s);
        if (q0 != 0.0f) s = edge / q0, bias = edge;
        for (size_t i = 0; i < group; i++) {
            const volatile float away = v[i] - bias;
            const volatile float step = away / s;
            const float          code = fminf(fmaxf(nearbyintf(step), 0.0f), n);
            for (unsigned b = 0; b < bits; b++) {
                const size_t at = (g * group + i) * bits + b;
                if ((unsigned)code >> b & 1u) row[at / 8] |= (uint8_t)(1u << at % 8);
            }
        }
        uint8_t       *pair     = row + dim * bits / 8 + 4 * g;
        const uint16_t stored[] = {bf16_from_f32(s), bf16_from_f32(bias)};
        for (int i = 0; i < 2; i++) pair[2 * i] = (uint8_t)stored[i], pair[2 * i + 1] = (uint8_t)(stored[i] >> 8);
    }
}

/* Numbers round an offset, at scales from tiny to huge; now and then a group of equal ones. */
static void draw(float *x, size_t dim, uint64_t *seed)
{
    static const float sizes[] = {1e-30f, 1e-6f, 0.01f, 1.0f, 300.0f, 1e20f};
    const float        size    = sizes[rng_below(seed, sizeof sizes / sizeof *sizes)];
    const float        offset  = rng_below(seed, 2) == 0 ? 0.0f : rng_float(seed, -20.0f, 20.0f) * size;
    rng_fill(seed, x, dim, -size, size);
    for (size_t i = 0; i < dim; i++) x[i] += offset;
    if (rng_below(seed, 8) == 0)
        for (size_t i = 0; i < 32; i++) x[i] = offset;
}

static void every_form_against_the_rule(void **state)
{
    (void)state;
    static const struct {
        k_kv_kind kind;
        unsigned  bits;
    } kinds[]     = {{K_KV_AFFINE8, 8}, {K_KV_AFFINE4, 4}};
    uint64_t seed = 41;
    float    x[MAX_DIM];
    uint8_t  row[MAX_ROW], expected[MAX_ROW];
    for (int round = 0; round < 3000; round++) {
        const unsigned  k     = rng_below(&seed, 2);
        const uint32_t  group = 32u << rng_below(&seed, 3);
        const size_t    dim   = group * (size_t)(1 + rng_below(&seed, MAX_DIM / group));
        const k_kv_form form  = {kinds[k].kind, group};
        const size_t    bytes = k_kv_row_bytes(form, (uint32_t)dim);
        assert_int_equal(bytes, dim * kinds[k].bits / 8 + 4 * dim / group);
        draw(x, dim, &seed);
        memset(row, 0xA5, sizeof row);
        memset(expected, 0xA5, sizeof expected);
        expect_row(expected, kinds[k].bits, group, x, dim);
        kv_row_write(row, form, x, dim);
        if (memcmp(row, expected, sizeof row) != 0) fail_msg("round %d: other bytes, or past the row", round);
    }
}

/* What the cache gives back is within a step (zero is made a point of the grid, for which the far
 * end pays), and what scale and bias lose in bfloat16. */
static void error_is_bounded(void **state)
{
    (void)state;
    uint64_t seed = 42;
    float    x[64], one[64] = {0}, got[K_PAGE];
    uint8_t  row[MAX_ROW];
    cpu_isa  t;
    cpu_isa_init(&t, 0);
    for (int round = 0; round < 200; round++) {
        const k_kv_form form = {round % 2 == 0 ? K_KV_AFFINE8 : K_KV_AFFINE4, 64};
        const float     most = round % 2 == 0 ? 255.0f : 15.0f;
        const kv_rows   rows = {row, form, 64};
        rng_fill(&seed, x, 64, -3.0f, 3.0f);
        kv_row_write(row, form, x, 64);
        for (int i = 0; i < 64; i++) {
            const float *q = one;
            one[i]         = 1.0f;
            t.scores(got, &q, 1, &rows, 1, 1.0f); /* number i */
            one[i]            = 0.0f;
            const float bound = 6.0f / most + (6.0f + 3.0f) / 512.0f;
            if (!(fabsf(got[0] - x[i]) <= bound)) fail_msg("%g comes back as %g", (double)x[i], (double)got[0]);
        }
    }
}

/* A group with a number that is none comes back as NaN, the others as they are. */
static void broken_numbers_stay_visible(void **state)
{
    (void)state;
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    float              x[64];
    uint8_t            row[MAX_ROW], whole[MAX_ROW];
    for (size_t b = 0; b < 3; b++) {
        for (int i = 0; i < 64; i++) x[i] = (float)i;
        kv_row_write(whole, (k_kv_form){K_KV_AFFINE8, 32}, x, 64);
        x[40] = broken[b];
        kv_row_write(row, (k_kv_form){K_KV_AFFINE8, 32}, x, 64);
        assert_memory_equal(row, whole, 32);
        assert_memory_equal(row + 64, whole + 64, 4);
        for (int i = 32; i < 64; i++) assert_int_equal(row[i], 0);
        assert_int_equal(u16_at(row + 68), 0x7fc0);
        assert_int_equal(u16_at(row + 70), 0x7fc0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(ties_and_one_sign),
        cmocka_unit_test(every_form_against_the_rule),
        cmocka_unit_test(error_is_bounded),
        cmocka_unit_test(broken_numbers_stay_visible),
    };
    return cmocka_run_group_tests_name("kv_rows", tests, NULL, NULL);
}
