/* pmath: special values, and that its bits depend on nothing but the argument. */
#include "support/cmocka.h"

#include "base/pmath.h"

static void special_values_follow_ieee(void **state)
{
    (void)state;
    const double inf = __builtin_inf(), nan = __builtin_nan("");
    assert_true(pmath_exp(0.0) == 1.0 && pmath_exp(-0.0) == 1.0);
    assert_true(pmath_exp(inf) == inf && pmath_exp(-inf) == 0.0 && pmath_exp(710.0) == inf);
    assert_true(pmath_exp(709.7827128933841) == inf && pmath_exp(709.782712893384) < inf);
    assert_true(pmath_exp(-745.2) == 0.0 && pmath_exp(-1e300) == 0.0);
    assert_true(pmath_exp(nan) != pmath_exp(nan));
    assert_true(pmath_log(1.0) == 0.0 && pmath_log(0.0) == -inf && pmath_log(-0.0) == -inf);
    assert_true(pmath_log(inf) == inf);
    assert_true(pmath_log(-1.0) != pmath_log(-1.0) && pmath_log(nan) != pmath_log(nan));
    assert_true(pmath_sin(0.0) == 0.0 && pmath_bits(pmath_sin(-0.0)) >> 63 == 1 && pmath_cos(0.0) == 1.0);
    assert_true(pmath_sin(1.1e7) != pmath_sin(1.1e7) && pmath_cos(inf) != pmath_cos(inf));
    assert_true(pmath_sin(nan) != pmath_sin(nan));
}

static void loop_kernel_gives_the_bits_of_exp(void **state)
{
    (void)state;
    for (int i = -70800; i <= 70800; i++) {
        const double x = i * 0.01;
        assert_true(pmath_bits(pmath_exp(x)) == pmath_bits(pmath_exp_normal(x)));
    }
}

static void sincos_is_the_two_single_calls(void **state)
{
    (void)state;
    for (int i = -5000; i < 5000; i++) {
        const double x = i * 1234.567;
        double       s, c;
        pmath_sincos(x, &s, &c);
        assert_true(pmath_bits(s) == pmath_bits(pmath_sin(x)) && pmath_bits(c) == pmath_bits(pmath_cos(x)));
        assert_true(s * s + c * c > 1 - 1e-15 && s * s + c * c < 1 + 1e-15);
    }
}

/* A digest of all results: another compiler, flag or CPU must give these bits. */
static void bits_are_the_same_everywhere(void **state)
{
    (void)state;
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a over 64-bit words */
    for (int i = 1; i <= 20000; i++) {
        const double   x    = i * 0.0347;
        const uint64_t v[4] = {pmath_bits(pmath_exp(x - 350)), pmath_bits(pmath_log(x)),
                               pmath_bits(pmath_sin(x * 14000)), pmath_bits(pmath_cos(x * 14000))};
        for (int j = 0; j < 4; j++) hash = (hash ^ v[j]) * 0x100000001B3u;
    }
    assert_int_equal(hash, 0x37938B1FA5EF3B77u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values_follow_ieee), cmocka_unit_test(loop_kernel_gives_the_bits_of_exp),
        cmocka_unit_test(sincos_is_the_two_single_calls), cmocka_unit_test(bits_are_the_same_everywhere)};
    return cmocka_run_group_tests_name("pmath bits", tests, NULL, NULL);
}
