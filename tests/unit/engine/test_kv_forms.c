/* Names of the cache's forms: what is understood, for which heads, and what a refusal says. */
#include "engine/kv_forms.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static void check_name(const char *name, uint32_t head_dim, k_kv_form keys, k_kv_form values, const char *canonical)
{
    static kv_forms f;
    weir_error      err;
    char            again[KV_NAME_MAX];
    if (kv_forms_named(&f, name, 3, head_dim, &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(f.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f.layer[i].keys.kind, keys.kind);
        assert_int_equal(f.layer[i].keys.group, keys.group);
        assert_int_equal(f.layer[i].values.kind, values.kind);
        assert_int_equal(f.layer[i].values.group, values.group);
    }
    kv_forms_name(again, &f);
    assert_string_equal(again, canonical);
}

static void names(void **state)
{
    (void)state;
    const k_kv_form bf16 = {K_KV_BF16, 0}, f32 = {K_KV_F32, 0};
    check_name(NULL, 7, bf16, bf16, "bf16");
    check_name("f32", 7, f32, f32, "f32");
    check_name("bf16,f32", 80, bf16, f32, "bf16,f32");
    check_name("affine8", 64, (k_kv_form){K_KV_AFFINE8, 64}, (k_kv_form){K_KV_AFFINE8, 64}, "affine8");
    check_name("affine4-64", 256, (k_kv_form){K_KV_AFFINE4, 64}, (k_kv_form){K_KV_AFFINE4, 64}, "affine4");
    check_name("affine4-128,affine8-32", 128, (k_kv_form){K_KV_AFFINE4, 128}, (k_kv_form){K_KV_AFFINE8, 32},
               "affine4-128,affine8-32");
    check_name("turbo", 128, (k_kv_form){K_KV_TURBO8, 32}, (k_kv_form){K_KV_TURBO3, 32}, "turbo");
    check_name("affine8,affine8", 192, (k_kv_form){K_KV_AFFINE8, 64}, (k_kv_form){K_KV_AFFINE8, 64}, "affine8");
}

static void mixed_layers(void **state)
{
    (void)state;
    kv_forms f = {.n = 2, .layer = {{{K_KV_BF16, 0}, {K_KV_BF16, 0}}, {{K_KV_BF16, 0}, {K_KV_AFFINE4, 32}}}};
    char     name[KV_NAME_MAX];
    kv_forms_name(name, &f);
    assert_string_equal(name, "mixed");
    kv_layer_name(name, f.layer[1]);
    assert_string_equal(name, "bf16,affine4-32");
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t    head_dim;
        const char *known;
    } cases[] = {{"int8", 64, "bf16, f32, affine8-32, affine8, affine4-32, affine4 with"},
                 {"affine8-128", 64, "bf16, f32, affine8-32, affine8, affine4-32, affine4 with"},
                 {"affine8", 96, "bf16, f32, affine8-32, affine4-32 with"},
                 {"affine8-32", 80, "bf16, f32 with this model's heads of 80"},
                 {"bf16,affine8", 80, "bf16, f32 with this model's heads of 80"},
                 {"turbo", 192, "expected a form, or KEYS,VALUES, of bf16"},
                 {"turbo,affine8", 128, "expected turbo, a form"},
                 {"affine8,turbo", 128, "expected turbo, a form"},
                 {"affine8,", 64, "affine4 with"},
                 {",affine8", 64, "affine4 with"},
                 {"affine8,affine8,affine8", 64, "affine4 with"},
                 {"affine8-16", 64, "affine4 with"},
                 {"affine", 64, "affine4 with"},
                 {"affine88", 64, "affine4 with"},
                 {"", 64, "affine4 with"}};
    static kv_forms f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err;
        char       found[40];
        (void)snprintf(found, sizeof found, "found \"%s\"", cases[i].name);
        assert_int_equal(kv_forms_named(&f, cases[i].name, 2, cases[i].head_dim, &err), WEIR_INVALID);
        if (strstr(err.text, cases[i].known) == NULL || strstr(err.text, found) == NULL) fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(mixed_layers),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("kv_forms", tests, NULL, NULL);
}
