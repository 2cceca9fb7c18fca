/* bfloat16 and binary16, every pattern. */
#include "support/cmocka.h"

#include "base/half.h"

#include <math.h>

static void every_bf16_survives_the_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float    x    = bf16_to_f32((uint16_t)h);
        const uint16_t back = bf16_from_f32(x);
        if (isnan(x))
            assert_int_equal(back, h | 0x40); /* made quiet */
        else
            assert_int_equal(back, h);
    }
    assert_true(bf16_to_f32(0x3F80) == 1.0f && bf16_to_f32(0xC120) == -10.0f && bf16_to_f32(1) == 0x1p-133f);
}

/* What lies between two neighbours goes to the nearer one, the middle to the even. */
static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7F80; h++) {
        const uint32_t low = h << 16;
        assert_int_equal(bf16_from_f32(f32_from_bits(low | 0x7FFF)), h);
        assert_int_equal(bf16_from_f32(f32_from_bits(low | 0x8000)), h + (h & 1));
        assert_int_equal(bf16_from_f32(f32_from_bits(low | 0x8001)), h + 1); /* the largest become infinity */
        assert_int_equal(bf16_from_f32(f32_from_bits(low | 0x80008000u)), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(bf16_from_f32(INFINITY), 0x7F80);
    assert_int_equal(bf16_from_f32(f32_from_bits(0x7F800001)), 0x7FC0); /* a NaN whose top bits are none */
    assert_int_equal(bf16_from_f32(f32_from_bits(0xFFFFFFFF)), 0xFFFF);
}

/* Sign, exponent and fraction put together by ldexp, in double. */
static double f16_value(uint32_t h)
{
    const int    exponent = (int)(h >> 10 & 31);
    const double sign = (h & 0x8000) != 0 ? -1.0 : 1.0, fraction = (double)(h & 0x3FF);
    if (exponent == 31) return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024.0 + fraction, exponent - 25));
}

static void every_f16_has_its_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float  x    = f16_to_f32((uint16_t)h);
        const double want = f16_value(h);
        if (isnan(want)) {
            assert_true(isnan(x));
            assert_int_equal(f32_bits(x) >> 13 & 0x3FF, h & 0x3FF); /* the payload stays */
            continue;
        }
        if ((double)x != want || (signbit(x) != 0) != (h >> 15 != 0))
            fail_msg("0x%04x: expected %a, found %a", h, want, (double)x);
    }
}

/* Every pattern survives; between neighbours the nearer one wins, in the middle the even. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float x = f16_to_f32((uint16_t)h);
        if (isnan(x))
            assert_int_equal(f16_from_f32(x), h | 0x200); /* made quiet */
        else
            assert_int_equal(f16_from_f32(x), h);
    }
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        const float low = f16_to_f32((uint16_t)h), high = f16_to_f32((uint16_t)(h + 1));
        const float middle = (low + high) / 2;
        assert_int_equal(f16_from_f32(nextafterf(middle, low)), h);
        assert_int_equal(f16_from_f32(middle), h + (h & 1));
        assert_int_equal(f16_from_f32(nextafterf(middle, high)), h + 1);
        assert_int_equal(f16_from_f32(-middle), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(f16_from_f32(nextafterf(65520.0f, 0.0f)), 0x7BFF);
    assert_int_equal(f16_from_f32(65520.0f), 0x7C00);
    assert_int_equal(f16_from_f32(-3e38f), 0xFC00);
    assert_int_equal(f16_from_f32(1e-30f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_survives_the_round_trip),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(every_f16_has_its_value),
        cmocka_unit_test(f16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
