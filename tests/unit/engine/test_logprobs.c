/* Log probabilities against long double arithmetic. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "engine/logprobs.h"

#include <math.h>
#include <string.h>

enum { MAX_N = 3000 };

static long double log_total(const float *z, uint32_t n)
{
    long double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) max = z[i] > max ? z[i] : max;
    for (uint32_t i = 0; i < n; i++) sum += expl(z[i] - max);
    return max + logl(sum);
}

static void values_and_order_of_the_top(void **state)
{
    (void)state;
    static float z[MAX_N];
    uint64_t     seed = 4;
    for (int round = 0; round < 500; round++) {
        const uint32_t n = 1 + rng_below(&seed, round % 5 ? 40 : MAX_N);
        rng_fill(&seed, z, n, -30, 30);
        if (round % 3 == 0)
            for (uint32_t i = 0; i < n; i++) z[i] = (float)rng_below(&seed, 6); /* ties */
        const uint32_t chosen = rng_below(&seed, n), n_top = rng_below(&seed, LOGPROBS_MAX_TOP + 1);
        logprobs       got;
        weir_error     err;
        assert_int_equal(logprobs_compute(&got, z, n, chosen, n_top, &err), WEIR_OK);
        const long double total = log_total(z, n);
        assert_int_equal(got.chosen.id, chosen);
        assert_true(fabs(got.chosen.logprob - (double)(z[chosen] - total)) < 1e-13);
        assert_int_equal(got.n_top, n_top < n ? n_top : n);
        for (uint32_t i = 0; i < got.n_top; i++) {
            const token_logprob t = got.top[i];
            assert_true(fabs(t.logprob - (double)(z[t.id] - total)) < 1e-13);
            /* Exactly i tokens are better: higher, or equal with a lower id. */
            uint32_t better = 0;
            for (uint32_t j = 0; j < n; j++) better += z[j] > z[t.id] || (z[j] == z[t.id] && j < t.id);
            assert_int_equal(better, i);
        }
    }
}

static void impossible_tokens_and_padding(void **state)
{
    (void)state;
    const float z[6] = {0, -INFINITY, 1, -2000, NAN, 50};
    logprobs    got;
    weir_error  err;
    assert_int_equal(logprobs_compute(&got, z, 4, 1, 20, &err), WEIR_OK);
    assert_true(got.chosen.logprob == -INFINITY);
    assert_int_equal(got.n_top, 3);
    assert_int_equal(got.top[0].id, 2);
    assert_true(fabs(got.top[0].logprob + 0.31326168751822286) < 1e-15);
    assert_true(fabs(got.top[2].logprob + 2001.3132616875182) < 1e-12);
    assert_int_equal(logprobs_compute(&got, z, 5, 1, 0, &err), WEIR_NUMERICS);
    assert_int_equal(logprobs_compute(&got, z + 1, 1, 0, 0, &err), WEIR_NUMERICS);
    assert_int_equal(logprobs_compute(&got, z, 4, 4, 0, &err), WEIR_INVALID);
    assert_int_equal(logprobs_compute(&got, z, 4, 0, 21, &err), WEIR_INVALID);
    assert_string_equal(err.text, "top_logprobs: expected 0 to 20, found 21");
}

/* The last bit too: the order of the sum and exp are ours. */
static void bits_are_the_same_everywhere(void **state)
{
    (void)state;
    static float z[MAX_N];
    uint64_t     seed = 9, hash = 0xCBF29CE484222325u;
    for (uint32_t n = 1; n <= MAX_N; n += 37) {
        rng_fill(&seed, z, n, -8, 8);
        logprobs   got;
        weir_error err;
        assert_int_equal(logprobs_compute(&got, z, n, n / 2, 0, &err), WEIR_OK);
        uint64_t bits;
        memcpy(&bits, &got.chosen.logprob, sizeof bits);
        hash = (hash ^ bits) * 0x100000001B3u;
    }
    assert_int_equal(hash, 0x9FF139D56EE00167u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_order_of_the_top),
                                       cmocka_unit_test(impossible_tokens_and_padding),
                                       cmocka_unit_test(bits_are_the_same_everywhere)};
    return cmocka_run_group_tests_name("logprobs", tests, NULL, NULL);
}
