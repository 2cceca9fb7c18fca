/* tests/exact/test_verify.c - weir_verify itself: random schedules over every
 * fixture and the bundled model find no difference and leave no invariant out. */
#include "trace.h"

#include "weir/experimental.h"

static const double   budget  = 1.0; /* seconds, of one seed */
static const uint64_t seeds[] = {1, 2};

/* Over all runs. */
static uint64_t    exercised[WEIR_VERIFY_MAX_INVARIANTS];
static const char *invariant_name[WEIR_VERIFY_MAX_INVARIANTS];
static uint32_t    n_invariants;

static void verify(const weir_model *m, uint64_t seed, const char *kv)
{
    weir_error         err;
    weir_verify_result r;
    must(weir_verify(m, budget, seed, kv, NULL, NULL, &r, &err), &err);
    if (r.differing != 0)
        fail_msg("%llu of %llu schedules differ: %s", (unsigned long long)r.differing, (unsigned long long)r.schedules,
                 r.first_difference);
    assert_true(r.schedules > 0);
    n_invariants = r.n_invariants;
    for (uint32_t i = 0; i < r.n_invariants; i++) {
        exercised[i] += r.invariants[i].count;
        invariant_name[i] = r.invariants[i].name;
    }
}

static void test_model(void **given)
{
    weir_model *m = model_named(*given);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) verify(m, seeds[i], i % 2 == 0 ? "bf16" : "f32");
    weir_model_close(m);
}

static bool all_exercised(void)
{
    for (uint32_t i = 0; i < n_invariants; i++)
        if (exercised[i] == 0) return false;
    return n_invariants >= 7;
}

/* A busy machine computes few schedules in its time: some more seeds then. */
static void test_all_exercised(void **given)
{
    enum { MORE_SEEDS = 20 };
    (void)given;
    weir_model *m = model_named("tiny-odd");
    for (uint64_t seed = 100; !all_exercised() && seed < 100 + MORE_SEEDS; seed++) verify(m, seed, "bf16");
    weir_model_close(m);
    for (uint32_t i = 0; i < n_invariants; i++)
        print_message("%-10s %llu schedules\n", invariant_name[i], (unsigned long long)exercised[i]);
    assert_true(all_exercised());
}

int main(void)
{
    struct CMUnitTest tests[FIXTURES + 2];
    for (unsigned i = 0; i <= FIXTURES; i++) {
        const char *name = i < FIXTURES ? fixture_names[i] : "demo";
        tests[i] = (struct CMUnitTest){.name = name, .test_func = test_model, .initial_state = (void *)(uintptr_t)name};
    }
    tests[FIXTURES + 1] = (struct CMUnitTest){.name = "every invariant", .test_func = test_all_exercised};
    return cmocka_run_group_tests_name("exact verify", tests, NULL, NULL);
}
