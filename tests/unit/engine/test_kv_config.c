/* kv_config.json: what is read, and what is refused by which name. */
#include "engine/kv_config.h"
#include "support/cmocka.h"

#include <string.h>

/* Layers 3 and 7 of 8 have a cache. */
static const config heads64 = {.n_layers = 8, .head_dim = 64, .layers = {[3] = CONFIG_FULL, [7] = CONFIG_FULL}};

static kv_forms forms;

static weir_status parse(const char *text, bool mtp, weir_error *err)
{
    return kv_config_parse(&forms, text, strlen(text), "kv.json", &heads64, mtp, err);
}

/* The names of the layers' forms, MTP's last, with blanks between. */
static void reads(const char *text, bool mtp, const char *names)
{
    weir_error err;
    char       found[3 * KV_NAME_MAX] = "", one[KV_NAME_MAX];
    if (parse(text, mtp, &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(forms.n, mtp ? 3 : 2);
    for (uint32_t i = 0; i < forms.n; i++) {
        kv_layer_name(one, forms.layer[i]);
        if (i > 0) (void)strcat(found, " ");
        (void)strcat(found, one);
    }
    assert_string_equal(found, names);
}

static void layers(void **state)
{
    (void)state;
    reads("[]", false, "bf16 bf16");
    reads("[{\"layer_idx\":7,\"bits\":4}]", true, "bf16 affine4 bf16");
    reads("[{\"layer_idx\":7,\"bits\":4},{\"layer_idx\":3,\"bits\":8,\"group_size\":32}]", false, "affine8-32 affine4");
    reads("[{\"layer_idx\":3,\"bits\":8,\"v_bits\":4,\"name\":\"x\"},{\"layer_idx\":7,\"k_bits\":16,\"v_bits\":8}]",
          true, "affine8,affine4 bf16,affine8 bf16");
    reads("[{\"layer_idx\":0,\"bits\":8}]", false, "bf16 bf16");                     /* a layer without a cache */
    reads("[{\"layer_idx\":3,\"bits\":16,\"group_size\":128}]", false, "bf16 bf16"); /* nothing has groups */
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"{\"3\":8}", "kv.json: expected an array of layers, found an object"},
        {"[3]", "kv.json: [0]: expected an object, found an integer"},
        {"[{\"bits\":8}]", "[0].layer_idx: expected an integer, found nothing"},
        {"[{\"layer_idx\":8,\"bits\":8}]", "[0].layer_idx: expected 0..7, found 8"},
        {"[{\"layer_idx\":-1,\"bits\":8}]", "[0].layer_idx: expected 0..7, found -1"},
        {"[{\"layer_idx\":3}]", "[0].bits: expected an integer, found nothing"},
        {"[{\"layer_idx\":3,\"k_bits\":8}]", "[0].bits: expected an integer, found nothing"},
        {"[{\"layer_idx\":3,\"bits\":5}]", "[0].bits: expected 4, 8 or 16, found 5"},
        {"[{\"layer_idx\":3,\"bits\":8,\"v_bits\":2}]", "[0].v_bits: expected 4, 8 or 16, found 2"},
        {"[{\"layer_idx\":3,\"bits\":8,\"k_bits\":0}]", "[0].k_bits: expected 1.."},
        {"[{\"layer_idx\":3,\"bits\":8.0}]", "[0].bits: expected an integer, found a number with a fraction"},
        {"[{\"layer_idx\":3,\"bits\":8,\"group_size\":16}]", "[0].group_size: expected 32, 64 or 128, found 16"},
        {"[{\"layer_idx\":3,\"bits\":8,\"group_size\":128}]",
         "[0].group_size: expected a group that divides head_dim = 64, found 128"},
        {"[{\"layer_idx\":3,\"bits\":8},{\"layer_idx\":3,\"bits\":4}]",
         "[1].layer_idx: expected every layer once, found 3 again"},
        {"[{\"layer_idx\":3,\"bits\":8}", "kv.json"},
        {"", "kv.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err;
        assert_int_equal(parse(cases[i].text, true, &err), WEIR_FORMAT);
        if (strstr(err.text, cases[i].what) == NULL) fail_msg("expected %s: %s", cases[i].what, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("kv_config", tests, NULL, NULL);
}
