/* The activations against values from 400 bits, at special values, and rising. */
#include "support/golden.h"

#include "base/bytes.h"
#include "math_case.h"

static cpu_isa isa;

static int setup(void **state)
{
    (void)state;
    cpu_isa_init(&isa, 0);
    return 0;
}

/* Columns x (F32) and y (F64) of tests/data/math. */
static void check_golden(const char *name, each_fn *f)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tests/data/math/%s.safetensors", WEIR_SOURCE_DIR, name);
    safetensors file;
    golden_open(&file, path);
    size_t         n, n_y;
    const uint8_t *xs = golden_data(&file, "x", DTYPE_F32, &n), *ys = golden_data(&file, "y", DTYPE_F64, &n_y);
    assert_true(n == n_y && n > 1000);
    worst w = {0};
    for (size_t i = 0; i < n; i++) {
        double      truth;
        const float x = load_f32(xs + 4 * i);
        float       y;
        memcpy(&truth, ys + 8 * i, sizeof truth);
        f(&y, &x, 1);
        compare(&w, name, x, y, truth);
    }
    report(name, &w);
    safetensors_close(&file);
}

static void goldens(void **state)
{
    (void)state;
    check_golden("exp", isa.exp);
    check_golden("sigmoid", isa.sigmoid);
    check_golden("silu", isa.silu);
    check_golden("softplus", isa.softplus);
}

/* log1p serves 0..1 alone; its goldens go further. */
static void log1p_goldens(void **state)
{
    (void)state;
    safetensors file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/data/math/log1p.safetensors");
    size_t         n;
    const uint8_t *xs = golden_data(&file, "x", DTYPE_F32, &n), *ys = golden_data(&file, "y", DTYPE_F64, NULL);
    worst          w = {0};
    for (size_t i = 0; i < n; i++) {
        const float x = load_f32(xs + 4 * i);
        float       y;
        double      truth;
        if (!(x >= 0.0f && x <= 1.0f)) continue;
        memcpy(&truth, ys + 8 * i, sizeof truth);
        isa.log1p(&y, &x, 1);
        compare(&w, "log1p", x, y, truth);
    }
    assert_true(w.n > 500);
    report("log1p", &w);
    safetensors_close(&file);
}

static void check_value(const char *name, each_fn *f, float x, float expected)
{
    float y;
    f(&y, &x, 1);
    if (f32_bits(y) != f32_bits(expected))
        fail_msg("%s(%a): expected %a, found %a", name, (double)x, (double)expected, (double)y);
}

static void special_values(void **state)
{
    (void)state;
    const float inf = INFINITY, tiny = 0x1p-149f;
    check_value("exp", isa.exp, 0.0f, 1.0f);
    check_value("exp", isa.exp, -0.0f, 1.0f);
    check_value("exp", isa.exp, tiny, 1.0f);
    check_value("exp", isa.exp, inf, inf);
    check_value("exp", isa.exp, -inf, 0.0f);
    check_value("exp", isa.exp, 88.73f, inf);
    check_value("exp", isa.exp, -103.9f, tiny);
    check_value("exp", isa.exp, -104.0f, 0.0f);
    check_value("log1p", isa.log1p, 0.0f, 0.0f);
    check_value("log1p", isa.log1p, tiny, tiny);
    check_value("sigmoid", isa.sigmoid, 0.0f, 0.5f);
    check_value("sigmoid", isa.sigmoid, -0.0f, 0.5f);
    check_value("sigmoid", isa.sigmoid, inf, 1.0f);
    check_value("sigmoid", isa.sigmoid, -inf, 0.0f);
    check_value("silu", isa.silu, 0.0f, 0.0f);
    check_value("silu", isa.silu, -0.0f, -0.0f);
    check_value("silu", isa.silu, inf, inf);
    check_value("silu", isa.silu, -inf, -0.0f);
    check_value("silu", isa.silu, 3.4e38f, 3.4e38f);
    check_value("silu", isa.silu, -3.4e38f, -0.0f);
    check_value("softplus", isa.softplus, inf, inf);
    check_value("softplus", isa.softplus, -inf, 0.0f);
    check_value("softplus", isa.softplus, 3.4e38f, 3.4e38f);
    each_fn *const all[] = {isa.exp, isa.log1p, isa.sigmoid, isa.silu, isa.softplus};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const float x = NAN;
        float       y;
        all[i](&y, &x, 1);
        assert_true(isnan(y));
    }
}

/* A larger argument never gives a smaller value by more than the error allows. */
static void rises_with_its_argument(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t      offset;
    } fns[] = {{"exp", offsetof(cpu_isa, exp)},
               {"sigmoid", offsetof(cpu_isa, sigmoid)},
               {"softplus", offsetof(cpu_isa, softplus)}};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        each_fn *f;
        memcpy(&f, (const char *)&isa + fns[i].offset, sizeof f);
        float last = 0.0f;
        for (int k = -110 * 64; k <= 110 * 64; k++) {
            const float x = (float)k / 64.0f;
            float       y;
            f(&y, &x, 1);
            if (!(y >= last))
                fail_msg("%s falls at %a: from %a to %a", fns[i].name, (double)x, (double)last, (double)y);
            last = y;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),
        cmocka_unit_test(log1p_goldens),
        cmocka_unit_test(special_values),
        cmocka_unit_test(rises_with_its_argument),
    };
    return cmocka_run_group_tests_name("math", tests, setup, NULL);
}
