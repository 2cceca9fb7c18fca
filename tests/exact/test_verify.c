/* tests/exact/test_verify.c - weir_verify itself: random schedules over every
 * fixture and the bundled model find no difference and leave no invariant out. */
#include "trace.h"

#include "weir/experimental.h"

#include <string.h>

/* Of one model.  The same seed draws the same schedules: time only ends what hangs. */
typedef struct share {
    const char *model, *kv;
    uint64_t    schedules;
    uint32_t    max_length, kv_start;
} share;

static const share shares[] = {
    {"tiny-odd", "bf16", 200, 300, 0},
    {"tiny-odd", "f32", 40, 1216, 0},
    {"tiny-dense-tied", "f32", 420, 48, 0},
    {"tiny-moe", "bf16", 400, 64, 0},
    {"mlx-q4", "f32", 200, 150, 0},
    {"mlx-q8", "bf16", 220, 64, 0},
    {"mlx-moe-q4", "bf16", 160, 64, 0},
    {"tiny-dense", "f32", 40, 48, 0},
    {"demo", "bf16", 20, 48, 0},
    {"tiny-odd", "affine8,affine4-32", 80, 150, 0},
    {"tiny-moe", "affine4", 120, 80, 0},
    {"tiny-odd", "affine4", 40, 300, 200},
    {"tiny-dense-tied", "turbo", 80, 48, 0},
};
enum { SHARES = sizeof shares / sizeof *shares };
static const double most_seconds = 600;

/* Over all runs. */
static weir_verify_result total;

static void test_share(void **given)
{
    const share        *s = *given;
    weir_error          err;
    weir_verify_result  r;
    weir_model         *m   = model_named(s->model);
    weir_verify_options opt = WEIR_VERIFY_OPTIONS_INIT;
    opt.budget_seconds      = most_seconds;
    opt.max_schedules       = s->schedules;
    opt.max_length          = s->max_length;
    opt.kv                  = s->kv;
    opt.kv_start            = s->kv_start;
    opt.seed                = 1;
    must(weir_verify(m, &opt, NULL, NULL, &r, &err), &err);
    weir_model_close(m);
    if (r.differing != 0)
        fail_msg("%llu of %llu schedules differ: %s", (unsigned long long)r.differing, (unsigned long long)r.schedules,
                 r.first_difference);
    assert_int_equal(r.schedules, s->schedules);
    total.schedules += r.schedules;
    total.n_invariants = r.n_invariants;
    for (uint32_t i = 0; i < r.n_invariants; i++) {
        total.invariants[i].name = r.invariants[i].name;
        total.invariants[i].count += r.invariants[i].count;
    }
}

static void test_total(void **given)
{
    (void)given;
    const char *names[MAX_ISAS];
    for (uint32_t i = 0; i < total.n_invariants; i++) {
        print_message("%-12s %6llu schedules\n", total.invariants[i].name,
                      (unsigned long long)total.invariants[i].count);
        if (total.invariants[i].count == 0 && !(strcmp(total.invariants[i].name, "isa") == 0 && isas(names) == 1))
            fail_msg("%s was not exercised", total.invariants[i].name);
    }
    assert_true(total.schedules >= 2000);
    assert_true(total.n_invariants >= 24);
}

int main(void)
{
    struct CMUnitTest tests[SHARES + 1];
    for (size_t i = 0; i < SHARES; i++)
        tests[i] = (struct CMUnitTest){
            .name = shares[i].model, .test_func = test_share, .initial_state = (void *)(uintptr_t)&shares[i]};
    tests[SHARES] = (struct CMUnitTest){.name = "all together", .test_func = test_total};
    return cmocka_run_group_tests_name("exact verify", tests, NULL, NULL);
}
