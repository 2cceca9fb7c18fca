/* The activations against libm in double precision over every 97th float, NaNs
 * and infinities included.  Prints the worst of each function. */
#include "math_case.h"

enum { BATCH = 4096, SWEEP_STEP = 97 };

typedef double truth_fn(double x);

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double silu(double x)
{
    return isinf(x) && x < 0 ? -0.0 : x * sigmoid(x);
}
static double softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

/* Every 97th pattern from `first` to `last`, as bits. */
static void sweep(const char *name, each_fn *f, truth_fn *truth, uint32_t first, uint32_t last)
{
    static float x[BATCH], y[BATCH];
    worst        w = {0};
    for (uint64_t u = first; u <= last;) {
        size_t n = 0;
        for (; n < BATCH && u <= last; u += SWEEP_STEP) x[n++] = f32_from_bits((uint32_t)u);
        f(y, x, n);
        for (size_t i = 0; i < n; i++) compare(&w, name, x[i], y[i], truth((double)x[i]));
    }
    report(name, &w);
}

static void sweep_of_all_floats(void **state)
{
    (void)state;
    cpu_isa isa;
    cpu_isa_init(&isa, 0);
    sweep("exp", isa.exp, exp, 0, UINT32_MAX);
    sweep("sigmoid", isa.sigmoid, sigmoid, 0, UINT32_MAX);
    sweep("silu", isa.silu, silu, 0, UINT32_MAX);
    sweep("softplus", isa.softplus, softplus, 0, UINT32_MAX);
    sweep("log1p", isa.log1p, log1p, 0, 0x3F800000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sweep_of_all_floats)};
    return cmocka_run_group_tests_name("math_sweep", tests, NULL, NULL);
}
