/* Widths for modules: tables whose best answer is known, by hand and by trying all. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "convert/allocate.h"

#include <string.h>

/* Two bits cost 20, three 30, ... ; a damage that falls by 4 with each. */
static allocate_module module(double damage, uint64_t unit, size_t n)
{
    allocate_module m = {.n = n, .chosen = 77};
    for (size_t i = 0; i < n; i++, damage /= 4) m.choices[i] = (allocate_choice){(i + 2) * unit, damage};
    return m;
}

static void by_hand(void **state)
{
    (void)state;
    /* A step up saves 3/4 of the damage for 10 bytes: first 64 -> 16, then 16 -> 4 and 8 -> 2 ... */
    allocate_module m[] = {module(8, 10, 6), module(64, 10, 6), module(1, 10, 6)};
    assert_int_equal(allocate(m, 3, 60), 60);
    assert_true(m[0].chosen == 0 && m[1].chosen == 0 && m[2].chosen == 0);
    assert_int_equal(allocate(m, 3, 80), 80);
    assert_true(m[0].chosen == 0 && m[1].chosen == 2 && m[2].chosen == 0);
    assert_int_equal(allocate(m, 3, 109), 100); /* no step costs 9 */
    assert_true(m[0].chosen == 1 && m[1].chosen == 3 && m[2].chosen == 0);
    /* Everything, and no more than there is. */
    assert_int_equal(allocate(m, 3, 1000), 3 * 70);
    assert_true(m[0].chosen == 5 && m[1].chosen == 5 && m[2].chosen == 5);
    /* The floors are kept whatever the budget says. */
    assert_int_equal(allocate(m, 3, 10), 60);
}

static void equal_steps_go_to_the_first(void **state)
{
    (void)state;
    allocate_module m[] = {module(4, 10, 3), module(4, 10, 3), module(4, 10, 3)};
    assert_int_equal(allocate(m, 3, 80), 80);
    assert_true(m[0].chosen == 1 && m[1].chosen == 1 && m[2].chosen == 0);
}

static void a_choice_that_saves_nothing_is_not_taken(void **state)
{
    (void)state;
    allocate_module m = {.n = 3, .choices = {{10, 1.0}, {20, 1.5}, {30, 0.5}}};
    assert_int_equal(allocate(&m, 1, 29), 10); /* the middle one is worse than the first */
    assert_int_equal(allocate(&m, 1, 30), 30);
    m.choices[2].damage = 1.0;
    assert_int_equal(allocate(&m, 1, 30), 10);
}

/* A step that no longer fits leaves room for smaller ones. */
static void the_rest_is_used(void **state)
{
    (void)state;
    allocate_module m[] = {module(1000, 100, 2), module(1, 10, 6)};
    assert_int_equal(allocate(m, 2, 200 + 20 + 35), 200 + 50);
    assert_true(m[0].chosen == 0 && m[1].chosen == 3);
}

enum { N = 5, CHOICES = 4 };

static double damage_of(const allocate_module *m, const size_t *chosen, uint64_t *bytes)
{
    double damage = 0.0;
    *bytes        = 0;
    for (size_t i = 0; i < N; i++) {
        damage += m[i].choices[chosen[i]].damage;
        *bytes += m[i].choices[chosen[i]].bytes;
    }
    return damage;
}

/* The least damage of all combinations within the budget. */
static double best_of_all(const allocate_module *m, uint64_t budget)
{
    double best = 1e300;
    for (size_t k = 0; k < 1024; k++) { /* CHOICES^N */
        size_t   chosen[N];
        uint64_t bytes;
        for (size_t i = 0, rest = k; i < N; i++, rest /= CHOICES) chosen[i] = rest % CHOICES;
        const double damage = damage_of(m, chosen, &bytes);
        if (bytes <= budget && damage < best) best = damage;
    }
    return best;
}

/* With modules of one size and damages that fall ever slower the climb is never beaten. */
static void as_good_as_trying_all(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 40; round++) {
        allocate_module m[N];
        float           x[N];
        rng_fill(&seed, x, N, 0.1f, 100.0f);
        for (size_t i = 0; i < N; i++) m[i] = module((double)x[i], 10, CHOICES);
        for (uint64_t budget = 20 * N; budget <= 50 * N; budget += 7) {
            size_t   chosen[N];
            uint64_t bytes;
            assert_true(allocate(m, N, budget) <= budget);
            for (size_t i = 0; i < N; i++) chosen[i] = m[i].chosen;
            const double found = damage_of(m, chosen, &bytes), best = best_of_all(m, budget);
            if (found > best * (1 + 1e-12)) fail_msg("budget %d: damage %g, best %g", (int)budget, found, best);
        }
    }
}

/* Among some dozens of modules of many sizes the budget is met within a hundredth. */
static void budgets_are_met(void **state)
{
    (void)state;
    enum { MODULES = 60 };
    allocate_module m[MODULES];
    float           damage[MODULES], size[MODULES];
    uint64_t        seed = 9, least = 0;
    rng_fill(&seed, damage, MODULES, 0.01f, 1.0f);
    rng_fill(&seed, size, MODULES, 100.0f, 4000.0f);
    for (size_t i = 0; i < MODULES; i++) {
        m[i] = module((double)damage[i], (uint64_t)size[i], ALLOCATE_CHOICES);
        least += m[i].choices[0].bytes;
    }
    for (uint64_t budget = least; budget < 3 * least; budget += least / 37) {
        const uint64_t bytes = allocate(m, MODULES, budget);
        assert_true(bytes <= budget && bytes >= budget - budget / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(equal_steps_go_to_the_first),
        cmocka_unit_test(a_choice_that_saves_nothing_is_not_taken),
        cmocka_unit_test(the_rest_is_used),
        cmocka_unit_test(as_good_as_trying_all),
        cmocka_unit_test(budgets_are_met),
    };
    return cmocka_run_group_tests_name("allocate", tests, NULL, NULL);
}
