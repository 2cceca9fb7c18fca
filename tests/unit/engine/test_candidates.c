/* Selection against a full sort by the C library. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "engine/candidates.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_N = 3000 };

static int by_quality(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return candidate_better(*x, *y) ? -1 : candidate_better(*y, *x) ? 1 : 0;
}

/* Kinds of input: random, many ties, ascending, descending, all equal, organ pipe. */
static void fill(float *z, uint32_t n, int kind, uint64_t *seed)
{
    for (uint32_t i = 0; i < n; i++) {
        const float values[] = {rng_float(seed, -9, 9),        (float)rng_below(seed, 5), (float)i, -(float)i, 1.5f,
                                (float)(i < n / 2 ? i : n - i)};
        z[i]                 = values[kind];
        if (kind < 2 && rng_below(seed, 10) == 0) z[i] = -__builtin_inff();
    }
}

static uint32_t reference(candidate *c, const float *z, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (z[i] != -__builtin_inff()) c[kept++] = (candidate){z[i], i};
    qsort(c, kept, sizeof c[0], by_quality);
    return kept;
}

static void selections_equal_a_full_sort(void **state)
{
    (void)state;
    static float     z[MAX_N];
    static candidate want[MAX_N], got[MAX_N];
    uint64_t         seed = 3;
    for (int round = 0; round < 600; round++) {
        const uint32_t n = 1 + rng_below(&seed, round < 500 ? 80 : MAX_N);
        fill(z, n, round % 6, &seed);
        const uint32_t kept = reference(want, z, n);
        const uint32_t k    = rng_below(&seed, n + 2);
        const uint32_t best = k < kept ? k : kept;

        assert_int_equal(candidates_best(got, k < n ? k : n, z, n), best);
        assert_memory_equal(got, want, best * sizeof got[0]);

        assert_int_equal(candidates_all(got, z, n), kept);
        for (uint32_t i = 1; i < kept; i++) assert_true(got[i - 1].id < got[i].id);
        candidates_partition(got, kept, best);
        candidates_sort(got, best);
        assert_memory_equal(got, want, best * sizeof got[0]);
        candidates_sort(got, kept);
        assert_memory_equal(got, want, kept * sizeof got[0]);
    }
}

static void maximum_is_found_in_every_lane_and_tail(void **state)
{
    (void)state;
    float z[70];
    for (uint32_t n = 1; n <= 70; n++) {
        for (uint32_t at = 0; at < n; at++) {
            for (uint32_t i = 0; i < n; i++) z[i] = -2.0f - (float)i;
            z[at] = 1.0f;
            float max;
            assert_true(logits_max(z, n, &max));
            assert_true(max == 1.0f);
            assert_int_equal(logits_find(z, n, max), at);
            z[at] = __builtin_nanf("");
            assert_false(logits_max(z, n, &max));
            z[at] = __builtin_inff();
            assert_false(logits_max(z, n, &max));
            z[at] = -__builtin_inff();
            assert_true(logits_max(z, n, &max));
            assert_true(max == (n == 1 ? -__builtin_inff() : at == 0 ? -3.0f : -2.0f));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(selections_equal_a_full_sort),
                                       cmocka_unit_test(maximum_is_found_in_every_lane_and_tail)};
    return cmocka_run_group_tests_name("candidates", tests, NULL, NULL);
}
