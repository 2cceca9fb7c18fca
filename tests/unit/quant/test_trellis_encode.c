/* Trellis blocks: the bytes of an independent encoder (tests/tools/trellis_encoder.py),
 * the walk that they are, and how far they are from what was encoded. */
#include "support/golden.h"
#include "support/rng.h"

#include "base/half.h"
#include "base/simd.h"
#include "quant/trellis_encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = TRELLIS_BLOCK, STATES = 4096, MAX_BYTES = 128 };

/* ---- a decoder by the format's text ---- */

static uint32_t state_at(const uint8_t *block, uint32_t bits, size_t t)
{
    const size_t words = 8 * bits, p = (BLOCK - 1 - t) * bits, off = p % 32;
    uint32_t     w, next;
    memcpy(&w, block + p / 32 * 4, sizeof w);
    memcpy(&next, block + (p / 32 + 1) % words * 4, sizeof next);
    w >>= off;
    if (off + 12 > 32) w |= next << (32 - off);
    return w & 0xFFFu;
}

/* Encodes, and checks that states go over into each other, also around the end. */
static void encode(uint8_t *out, const float *x, const trellis_encode_tables *t)
{
    static float work[2 * BLOCK * 1024];
    assert_true(trellis_encode_work(t->bits) <= sizeof work / sizeof *work);
    trellis_encode_blocks(out, x, 1, t, work);
    for (size_t i = 0; i < BLOCK; i++) {
        const uint32_t s = state_at(out, t->bits, i), next = state_at(out, t->bits, (i + 1) % BLOCK);
        assert_int_equal(next >> t->bits, s % (uint32_t)(STATES >> t->bits));
    }
}

/* ---- the code ---- */

static void values_of_the_code(void **state)
{
    (void)state;
    static float code[STATES];
    double       sum = 0;
    for (uint32_t s = 0; s < STATES; s++) code[s] = trellis_code(s);
    for (size_t s = 0; s < STATES; s++) {
        assert_true(code[s] >= code[3031] && code[s] <= code[3652]);
        sum += (double)code[s] * (double)code[s];
    }
    assert_true(fabs(sqrt(sum / STATES) - 1.0041072) < 1e-7);
}

/* ---- bytes ---- */

static void check_rows(const safetensors *f, uint32_t bits, bool wide)
{
    trellis_encode_tables t;
    char                  name[32];
    size_t                n, n_words, n_scales;
    const float          *all = golden_data(f, "x", DTYPE_F32, &n);
    (void)snprintf(name, sizeof name, "k%u.words", bits);
    const uint8_t *words = golden_data(f, name, DTYPE_U32, &n_words);
    (void)snprintf(name, sizeof name, "k%u.scales", bits);
    const uint8_t *scales = golden_data(f, name, DTYPE_F16, &n_scales);
    const size_t   cols   = n / n_scales;
    assert_int_equal(n_scales, 8);
    assert_int_equal(n_words, n * bits / 32);
    trellis_encode_prepare(&t, bits, wide);
    for (size_t r = 0; r < n_scales; r++) {
        float    x[1024];
        uint16_t scale, want;
        uint8_t  block[MAX_BYTES];
        memcpy(x, all + r * cols, cols * sizeof *x);
        assert_true(trellis_encode_scale(&scale, x, cols, &t));
        memcpy(&want, scales + 2 * r, sizeof want);
        assert_int_equal(scale, want);
        for (size_t b = 0; b < cols / BLOCK; b++) {
            encode(block, x + b * BLOCK, &t);
            if (memcmp(block, words + (r * cols / BLOCK + b) * 32 * bits, 32 * bits) != 0)
                fail_msg("%u bits, row %zu, block %zu, wide %d: differs", bits, r, b, wide);
        }
    }
}

static void the_bytes_of_an_independent_encoder(void **state)
{
    (void)state;
    safetensors f;
    golden_open(&f, WEIR_SOURCE_DIR "/tests/data/trellis/rows.safetensors");
    for (uint32_t bits = 2; bits <= 4; bits++) {
        check_rows(&f, bits, false);
        if (simd_wide()) check_rows(&f, bits, true);
    }
    safetensors_close(&f);
}

/* ---- scales ---- */

static void scales_of_rows(void **state)
{
    (void)state;
    trellis_encode_tables t;
    uint16_t              scale;
    float                 zero[BLOCK] = {0}, flat[BLOCK], odd[BLOCK] = {0};
    trellis_encode_prepare(&t, 3, false);
    /* Nothing to scale: the row is zeros again whatever its blocks say. */
    assert_true(trellis_encode_scale(&scale, zero, BLOCK, &t));
    assert_int_equal(scale, 0);
    for (size_t i = 0; i < BLOCK; i++) assert_true(zero[i] == 0.0f);
    /* 1 / 1.0041072 = 0.995910, in half precision 2040/2048, by which numbers are divided. */
    for (size_t i = 0; i < BLOCK; i++) flat[i] = i % 2 == 0 ? 1.0f : -1.0f;
    assert_true(trellis_encode_scale(&scale, flat, BLOCK, &t));
    assert_int_equal(scale, f16_from_f32(2040.0f / 2048.0f));
    assert_true(flat[0] == 2048.0f / 2040.0f && flat[1] == -flat[0]);
    for (size_t i = 0; i < BLOCK; i++) flat[i] = 66000.0f; /* its scale is past 65504 */
    assert_false(trellis_encode_scale(&scale, flat, BLOCK, &t));
    odd[77] = NAN;
    assert_false(trellis_encode_scale(&scale, odd, BLOCK, &t));
    odd[77] = INFINITY;
    assert_false(trellis_encode_scale(&scale, odd, BLOCK, &t));
}

/* ---- errors ---- */

static void normal_numbers(float *x, size_t n)
{
    uint64_t seed = 5;
    for (size_t i = 0; i < n; i++) {
        const double u = (double)(rng_next(&seed) >> 11) * 0x1p-53, v = (double)(rng_next(&seed) >> 11) * 0x1p-53;
        x[i] = (float)(sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
}

/* Squared error over power. */
static double error_of(const float *x, size_t n, const trellis_encode_tables *t)
{
    double error = 0, power = 0;
    for (size_t b = 0; b < n / BLOCK; b++) {
        uint8_t block[MAX_BYTES];
        encode(block, x + b * BLOCK, t);
        for (size_t i = 0; i < BLOCK; i++) {
            const double v = x[b * BLOCK + i], d = v - (double)t->of_state[state_at(block, t->bits, i)];
            error += d * d;
            power += v * v;
        }
    }
    return error / power;
}

/* The paper has 0.069, 0.019 and 0.005 with 16 bits of state; over a million numbers these 12 have 0.0748,
 * 0.0199 and 0.0056. */
static void errors_of_normal_numbers(void **state)
{
    (void)state;
    enum { N = 48 * BLOCK };
    static const double least[] = {[2] = 0.071, [3] = 0.0189, [4] = 0.0050},
                        most[]  = {[2] = 0.078, [3] = 0.0207, [4] = 0.0061};
    static float x[N];
    for (uint32_t bits = 2; bits <= 4; bits++) {
        trellis_encode_tables t;
        uint16_t              scale;
        trellis_encode_prepare(&t, bits, simd_wide());
        normal_numbers(x, N);
        assert_true(trellis_encode_scale(&scale, x, N, &t));
        const double e = error_of(x, N, &t);
        if (e < least[bits] || e > most[bits]) fail_msg("%u bits: error %g", bits, e);
    }
}

/* Two go together where there are two. */
static void blocks_do_not_depend_on_each_other(void **state)
{
    (void)state;
    enum { N = 5 };
    static float work[2 * BLOCK * 1024], x[N * BLOCK];
    normal_numbers(x, N * BLOCK);
    for (uint32_t bits = 2; bits <= 4; bits++)
        for (int wide = 0; wide <= (int)simd_wide(); wide++) {
            trellis_encode_tables t;
            uint8_t               all[N * MAX_BYTES + 1], alone[MAX_BYTES];
            trellis_encode_prepare(&t, bits, wide);
            memset(all, 0xA5, sizeof all);
            trellis_encode_blocks(all, x, N, &t, work);
            for (size_t b = 0; b < N; b++) {
                encode(alone, x + b * BLOCK, &t);
                assert_memory_equal(all + b * 32 * bits, alone, 32 * bits);
            }
            assert_int_equal(all[N * 32 * bits], 0xA5); /* and nothing behind the last */
        }
}

/* A walk through the trellis is found again. */
static void walks_are_met_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 2; bits <= 4; bits++) {
        trellis_encode_tables t;
        uint32_t              words[32];
        float                 x[BLOCK];
        uint8_t               block[MAX_BYTES];
        trellis_encode_prepare(&t, bits, simd_wide());
        for (uint32_t i = 0; i < 32; i++) words[i] = i * 2654435761u + 0x9E3779B9u;
        for (size_t i = 0; i < BLOCK; i++) x[i] = t.of_state[state_at((const uint8_t *)words, bits, i)];
        encode(block, x, &t);
        for (size_t i = 0; i < BLOCK; i++) assert_true(t.of_state[state_at(block, bits, i)] == x[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_the_code),    cmocka_unit_test(the_bytes_of_an_independent_encoder),
        cmocka_unit_test(scales_of_rows),        cmocka_unit_test(errors_of_normal_numbers),
        cmocka_unit_test(walks_are_met_exactly), cmocka_unit_test(blocks_do_not_depend_on_each_other),
    };
    return cmocka_run_group_tests_name("trellis_encode", tests, NULL, NULL);
}
