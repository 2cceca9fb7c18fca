/* Exactness of pmath against values computed with 400 bits (tools/make-pmath-goldens.py). */
#include "support/cmocka.h"

#include "base/json.h"
#include "base/pmath.h"

#include <stdlib.h>

static const double MAX_ULP = 0.9;

static json_doc goldens;

static int load_goldens(void **state)
{
    (void)state;
    weir_error err;
    return json_load(&goldens, WEIR_SOURCE_DIR "/tests/data/math/pmath.json", 4u << 20, 8, &err) != WEIR_OK;
}

static int free_goldens(void **state)
{
    (void)state;
    json_doc_free(&goldens);
    return 0;
}

static uint64_t hex(const json_t *v)
{
    return strtoull(json_string_value(v), NULL, 16);
}

/* The unit in the last place of a positive pattern is the step to the next one
 * up, save at a power of two, where the goldens count the same way. */
static double ulps_between(uint64_t got, uint64_t want)
{
    return (double)((int64_t)got - (int64_t)want);
}

static void check_table(const char *name, double (*f)(double))
{
    const json_t *rows = json_object_get(goldens.root, name);
    assert_true(json_array_size(rows) > 400);
    double worst = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t  *row = json_array_get(rows, i);
        const uint64_t x = hex(json_array_get(row, 0)), want = hex(json_array_get(row, 1));
        const double   rest = json_number_value(json_array_get(row, 2));
        const uint64_t got  = pmath_bits(f(pmath_from_bits(x)));
        /* Patterns order by magnitude; rest is signed. */
        const double signed_rest = (want >> 63) ? -rest : rest;
        const double error       = ulps_between(got, want) - signed_rest;
        const double size        = error < 0 ? -error : error;
        if (!(size <= MAX_ULP))
            fail_msg("%s(%a) = %a, %.3f ulp off", name, pmath_from_bits(x), pmath_from_bits(got), size);
        if (size > worst) worst = size;
    }
    print_message("%s: at most %.3f ulp\n", name, worst);
}

static void every_function_is_within_one_ulp(void **state)
{
    (void)state;
    check_table("exp", pmath_exp);
    check_table("log", pmath_log);
    check_table("sin", pmath_sin);
    check_table("cos", pmath_cos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_is_within_one_ulp)};
    return cmocka_run_group_tests_name("pmath", tests, load_goldens, free_goldens);
}
