/* tests/unit/model/test_delta_example.c - two tokens of the gated delta rule
 * worked out by hand: decay first, then the correction with beta, then the
 * query reads the new state. */
#include "kernels/cpu/isa.h"
#include "support/cmocka.h"

#include <math.h>

static void close_to(float found, double expected)
{
    assert_true(fabs((double)found - expected) <= 1e-6);
}

static void check(const cpu_isa *t)
{
    float       state[2] = {0.0f, 0.0f}, y = 0.0f; /* key dim 2, value dim 1 */
    const float k0[] = {0.6f, 0.8f}, q0[] = {1.0f, 0.0f}, v0 = 2.0f;
    const float k1[] = {0.0f, 1.0f}, q1[] = {0.5f, 0.5f}, v1 = 1.0f;
    t->delta_token(&y, state, 1, q0, k0, &v0, 0.5f, 0.5f, 2, 1);
    close_to(y, 0.6);
    close_to(state[0], 0.6);
    close_to(state[1], 0.8);
    /* What the state says of k1 is 0.25 * 0.8, so the correction is 0.8. */
    t->delta_token(&y, state, 1, q1, k1, &v1, 0.25f, 1.0f, 2, 1);
    close_to(y, 0.575);
    close_to(state[0], 0.15);
    close_to(state[1], 1.0);
}

static void test_example(void **given)
{
    (void)given;
    cpu_isa t;
    cpu_isa_init(&t, 0);
    check(&t);
    cpu_isa_init(&t, cpu_flags());
    check(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_example)};
    return cmocka_run_group_tests_name("delta example", tests, NULL, NULL);
}
