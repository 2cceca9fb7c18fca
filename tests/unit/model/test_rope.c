/* tests/unit/model/test_rope.c - rotary frequencies against float64 tables and
 * worked values of YaRN. */
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/tensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FREQUENCIES = 512 };

static void check_table(const char *fixture)
{
    char          path[1024];
    safetensors   f;
    weir_error    err;
    double        found[MAX_FREQUENCIES];
    float         scale;
    weir_model   *m = model_named(fixture);
    const config *c = checkpoint_config(m->c);
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s/expected.safetensors", WEIR_SOURCE_DIR, fixture);
    tensors_open(&f, path);
    numbers expected = tensors_get(&f, "rope.inv_freq");
    assert_int_equal(expected.n, c->rope.rotary_dim / 2);
    must(load_rope(c, found, &scale, &err), &err);
    assert_true(scale == 1.0f);
    for (size_t i = 0; i < expected.n; i++) assert_true(fabs(found[i] / expected.x[i] - 1.0) <= 1e-14);
    numbers_free(&expected);
    safetensors_close(&f);
    weir_model_close(m);
}

static void test_tables(void **given)
{
    (void)given;
    check_table("tiny-dense"); /* theta 1e7, 32 frequencies */
    check_table("tiny-dense-tied");
    check_table("tiny-moe");
    check_table("tiny-odd"); /* theta 10000, 8 frequencies */
}

/* YaRN as published for the family: factor 4 over 262144 positions, theta 1e7,
 * 64 rotary dimensions.  The blend then runs from frequency 14 to 22. */
static void test_yarn(void **given)
{
    (void)given;
    enum { DIM = 64, LO = 14, HI = 22 };
    const rope_yarn y = {.theta = 1e7, .factor = 4, .original_positions = 262144, .beta_fast = 32, .beta_slow = 1};
    double          plain[DIM / 2], blended[DIM / 2];
    rope_frequencies(plain, DIM, y.theta);
    memcpy(blended, plain, sizeof plain);
    rope_apply_yarn(blended, DIM, &y);
    for (int i = 0; i < DIM / 2; i++) {
        const double base = pow(1e7, -2.0 * i / DIM), ramp = i <= LO   ? 0.0
                                                             : i >= HI ? 1.0
                                                                       : (i - LO) / (double)(HI - LO);
        assert_true(fabs(plain[i] / base - 1.0) <= 1e-14);
        assert_true(fabs(blended[i] / (base * ((1.0 - ramp) + ramp / 4.0)) - 1.0) <= 1e-14);
    }
    assert_true(blended[LO] == plain[LO] && blended[LO + 1] < plain[LO + 1]);
    assert_true(blended[HI - 1] > plain[HI - 1] / 4.0 && blended[HI] == plain[HI] / 4.0);
}

/* Bounds that meet are set apart a little, so that nothing divides by zero. */
static void test_yarn_narrow(void **given)
{
    (void)given;
    const rope_yarn y = {.theta = 1e7, .factor = 2, .original_positions = 2, .beta_fast = 32, .beta_slow = 1};
    double          f[4];
    rope_frequencies(f, 8, y.theta);
    rope_apply_yarn(f, 8, &y); /* both indices are cut to 0 */
    assert_true(f[0] == 1.0);
    for (int i = 1; i < 4; i++) assert_true(fabs(f[i] / (0.5 * pow(1e7, -2.0 * i / 8)) - 1.0) <= 1e-14);
}

/* A fixture's config.json with other rope parameters. */
static void parse_with(config *out, const char *rope)
{
    char         path[1024];
    weir_error   err;
    json_error_t je;
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/tiny-odd/config.json", WEIR_SOURCE_DIR);
    json_t *root = json_load_file(path, 0, &je), *part = json_loads(rope, 0, &je);
    assert_non_null(root);
    assert_non_null(part);
    assert_int_equal(json_object_set_new(root, "rope_parameters", part), 0);
    char             *text      = json_dumps(root, 0);
    const config_text main_text = {.name = "config.json", .text = text, .len = strlen(text)};
    must(config_parse(out, &main_text, NULL, &err), &err);
    free(text);
    json_decref(root);
}

static void test_yarn_of_config(void **given)
{
    (void)given;
    config     c;
    weir_error err;
    double     f[MAX_FREQUENCIES];
    float      scale;
    parse_with(&c, "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 262144, "
                   "\"rope_theta\": 10000000, \"partial_rotary_factor\": 1.0}");
    assert_int_equal(c.rope.rotary_dim, 64);
    must(load_rope(&c, f, &scale, &err), &err);
    assert_true(fabs((double)scale - 1.138629) <= 5e-7);
    assert_true(fabs(f[14] / pow(1e7, -28.0 / 64) - 1.0) <= 1e-14);
    assert_true(fabs(f[22] / (pow(1e7, -44.0 / 64) / 4.0) - 1.0) <= 1e-14);
    config_free(&c);
}

static void test_linear_of_config(void **given)
{
    (void)given;
    config     c;
    weir_error err;
    double     f[MAX_FREQUENCIES];
    float      scale;
    parse_with(&c,
               "{\"rope_type\": \"linear\", \"factor\": 8.0, \"rope_theta\": 10000, \"partial_rotary_factor\": 0.25}");
    must(load_rope(&c, f, &scale, &err), &err);
    assert_true(scale == 1.0f);
    for (int i = 0; i < 8; i++) assert_true(fabs(f[i] / (pow(10000, -2.0 * i / 16) / 8.0) - 1.0) <= 1e-14);
    config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables), cmocka_unit_test(test_yarn),
                                       cmocka_unit_test(test_yarn_narrow), cmocka_unit_test(test_yarn_of_config),
                                       cmocka_unit_test(test_linear_of_config)};
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
