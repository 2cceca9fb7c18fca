/* Recipes: what a pattern fits, which rule wins, what the default keeps, and what is refused. */
#include "support/cmocka.h"

#include "convert/recipe.h"

#include <stdio.h>
#include <string.h>

static recipe parsed(const char *text)
{
    weir_error err;
    recipe     r = {.bits = 4, .group = 64};
    if (recipe_parse(&r, text, strlen(text), "rules", &err) != WEIR_OK) fail_msg("%s", err.text);
    return r;
}

static void check(recipe *r, const char *module, uint64_t cols, uint32_t bits, uint32_t group)
{
    const recipe_choice c = recipe_choose(r, module, cols);
    if (c.bits != bits || (bits != RECIPE_KEEP && c.group != group))
        fail_msg("%s: expected %u bits in groups of %u, found %u in %u", module, bits, group, c.bits, c.group);
}

static bool fits(const char *pattern, const char *module)
{
    char text[256];
    (void)snprintf(text, sizeof text, "[{\"pattern\": \"%s\", \"bits\": 2}]", pattern);
    recipe     r   = parsed(text);
    const bool yes = recipe_choose(&r, module, 256).bits == 2;
    recipe_free(&r);
    return yes;
}

static void patterns(void **state)
{
    (void)state;
    assert_true(fits("*", "layers.0.mlp.up_proj"));
    assert_true(fits("layers.*.mlp.up_proj", "layers.12.mlp.up_proj"));
    assert_true(fits("layers.?.mlp.up_proj", "layers.1.mlp.up_proj"));
    assert_false(fits("layers.?.mlp.up_proj", "layers.12.mlp.up_proj"));
    assert_false(fits("layers.1.mlp", "layers.1.mlp.up_proj"));
    assert_false(fits("mlp.up_proj", "layers.1.mlp.up_proj"));
    assert_true(fits("*up*", "layers.1.mlp.up_proj"));
    assert_true(fits("*a*b*c", "a.b.b.c"));
    assert_true(fits("l*proj**", "layers.1.mlp.up_proj"));
    assert_false(fits("*.up", "layers.1.mlp.up_proj"));
    assert_false(fits("?", ""));
}

static void the_first_rule_wins(void **state)
{
    (void)state;
    recipe r = parsed("[{\"pattern\": \"layers.0.*\", \"bits\": 8, \"group\": 32},"
                      " {\"pattern\": \"*.mlp.*\", \"bits\": 3}, {\"pattern\": \"*.in_proj_a\", \"bits\": 5}]");
    check(&r, "layers.0.mlp.up_proj", 256, 8, 32);
    check(&r, "layers.1.mlp.up_proj", 256, 3, 64);
    /* A rule wins over what the default keeps. */
    check(&r, "layers.1.linear_attn.in_proj_a", 256, 5, 64);
    check(&r, "layers.1.linear_attn.in_proj_b", 256, RECIPE_KEEP, 0);
    weir_error err;
    assert_int_equal(recipe_all_used(&r, &err), WEIR_OK);
    recipe_free(&r);

    r = parsed("[{\"pattern\": \"*\", \"bits\": 16}, {\"pattern\": \"lm_head\", \"bits\": 8}]");
    check(&r, "lm_head", 256, RECIPE_KEEP, 0);
    assert_int_equal(recipe_all_used(&r, &err), WEIR_FORMAT); /* the second rule never got to say anything */
    assert_non_null(strstr(err.text, "rules: [1].pattern"));
    assert_non_null(strstr(err.text, "lm_head"));
    recipe_free(&r);
}

static void the_default(void **state)
{
    (void)state;
    static const char *const kept[]      = {"layers.0.linear_attn.in_proj_a", "layers.9.linear_attn.in_proj_b",
                                            "layers.10.mlp.gate", "layers.3.mlp.shared_expert_gate",
                                            "mtp.layers.0.mlp.gate"};
    static const char *const sensitive[] = {"layers.3.self_attn.q_proj",     "layers.3.self_attn.k_proj",
                                            "layers.3.self_attn.v_proj",     "layers.3.self_attn.o_proj",
                                            "layers.0.linear_attn.out_proj", "lm_head",
                                            "mtp.layers.0.self_attn.q_proj", "mtp.fc"};
    static const char *const plain[]     = {
            "layers.0.linear_attn.in_proj_qkv",  "layers.0.linear_attn.in_proj_z",       "layers.0.mlp.gate_proj",
            "layers.0.mlp.switch_mlp.gate_proj", "layers.0.mlp.shared_expert.down_proj", "embed_tokens"};
    static const uint32_t widths[] = {2, 3, 4, 5, 6, 8};
    for (size_t b = 0; b < 6; b++) {
        recipe r = {.bits = widths[b], .group = 64};
        for (size_t i = 0; i < 5; i++) check(&r, kept[i], 4096, RECIPE_KEEP, 0);
        for (size_t i = 0; i < 8; i++) check(&r, sensitive[i], 4096, widths[b] > 6 ? widths[b] : 6, 64);
        for (size_t i = 0; i < 6; i++) check(&r, plain[i], 4096, widths[b], 64);
        r.tied_head = true;
        check(&r, "embed_tokens", 4096, widths[b] > 6 ? widths[b] : 6, 64);
    }
}

static void columns_that_do_not_divide(void **state)
{
    (void)state;
    recipe r = {.bits = 4, .group = 128};
    check(&r, "layers.0.mlp.up_proj", 128 * 3, 4, 128);
    check(&r, "layers.0.mlp.up_proj", 64 * 3, 4, 64);
    check(&r, "layers.0.mlp.up_proj", 32 * 3, 4, 32);
    check(&r, "layers.0.mlp.up_proj", 16 * 3, RECIPE_KEEP, 0);
    check(&r, "layers.0.mlp.up_proj", 0, RECIPE_KEEP, 0);
}

static void check_format(recipe *r, const char *module, recipe_format format, uint32_t bits, bool named)
{
    const recipe_choice c = recipe_choose(r, module, 96);
    if (c.format != format || c.bits != bits || c.named != named)
        fail_msg("%s: found format %d, %u bits, %s", module, (int)c.format, c.bits, c.named ? "a rule" : "no rule");
}

/* The default has a trellis for the MLPs of dense layers and nothing else; a
 * rule is affine unless it says otherwise. */
static void formats(void **state)
{
    (void)state;
    recipe r = parsed("[{\"pattern\": \"layers.1.mlp.*\", \"bits\": 8},"
                      " {\"pattern\": \"layers.2.mlp.*\", \"bits\": 2, \"format\": \"trellis\"},"
                      " {\"pattern\": \"layers.3.mlp.*\", \"bits\": 4, \"format\": \"affine\"},"
                      " {\"pattern\": \"lm_head\", \"bits\": 4, \"format\": \"trellis\"}]");
    check_format(&r, "layers.0.mlp.up_proj", RECIPE_AFFINE, 4, false);
    check_format(&r, "layers.2.mlp.up_proj", RECIPE_TRELLIS, 2, true);
    check_format(&r, "lm_head", RECIPE_TRELLIS, 4, true); /* the plan refuses it */
    r.format = RECIPE_TRELLIS;
    check_format(&r, "layers.0.mlp.gate_proj", RECIPE_TRELLIS, 4, false);
    check_format(&r, "layers.63.mlp.up_proj", RECIPE_TRELLIS, 4, false);
    check_format(&r, "layers.0.mlp.down_proj", RECIPE_TRELLIS, 4, false);
    check_format(&r, "layers.1.mlp.down_proj", RECIPE_AFFINE, 8, true);
    check_format(&r, "layers.3.mlp.down_proj", RECIPE_AFFINE, 4, true);
    check_format(&r, "layers.0.mlp.switch_mlp.down_proj", RECIPE_AFFINE, 4, false);
    check_format(&r, "layers.0.mlp.shared_expert.down_proj", RECIPE_AFFINE, 4, false);
    check_format(&r, "layers.0.mlp.gate", RECIPE_AFFINE, RECIPE_KEEP, false);
    check_format(&r, "mtp.layers.0.mlp.down_proj", RECIPE_AFFINE, 4, false);
    check_format(&r, "layers.0.self_attn.q_proj", RECIPE_AFFINE, 6, false);
    /* Without a trellis the group follows the columns. */
    const recipe_choice c = recipe_as_affine(recipe_choose(&r, "layers.0.mlp.up_proj", 96), 96);
    assert_true(c.format == RECIPE_AFFINE && c.bits == 4 && c.group == 32);
    recipe_free(&r);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "not valid JSON"},
        {"{}", "expected a list of rules, found an object"},
        {"[1]", "[0]: expected an object, found an integer"},
        {"[{\"bits\": 4}]", "[0].pattern: expected a string, found nothing"},
        {"[{\"pattern\": \"\", \"bits\": 4}]", "[0].pattern"},
        {"[{\"pattern\": \"*\"}]", "[0].bits: expected an integer"},
        {"[{\"pattern\": \"*\", \"bits\": 7}]", "[0].bits: expected 2, 3, 4, 5, 6, 8, or 16"},
        {"[{\"pattern\": \"*\", \"bits\": 0}]", "found 0"},
        {"[{\"pattern\": \"*\", \"bits\": \"4\"}]", "[0].bits: expected an integer, found a string"},
        {"[{\"pattern\": \"*\", \"bits\": -4}]", "[0].bits"},
        {"[{\"pattern\": \"*\", \"bits\": 4, \"group\": 16}]", "[0].group: expected 32, 64 or 128, found 16"},
        {"[{\"pattern\": \"*\", \"bits\": 4}, {\"pattern\": \"x\", \"bits\": 4, \"width\": 1}]",
         "[1].width: expected only pattern, bits, group and format"},
        {"[{\"pattern\": \"*\", \"bits\": 4, \"format\": \"q4_0\"}]",
         "[0].format: expected affine or trellis, found q4_0"},
        {"[{\"pattern\": \"*\", \"bits\": 4, \"format\": 4}]", "[0].format: expected a string, found an integer"},
        {"[{\"pattern\": \"*\", \"bits\": 5, \"format\": \"trellis\"}]",
         "[0].bits: expected 2, 3 or 4 with format trellis, found 5"},
        {"[{\"pattern\": \"*\", \"bits\": 16, \"format\": \"trellis\"}]", "found 16"},
        {"[{\"pattern\": \"*\", \"bits\": 4, \"bits\": 4}]", "duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error  err;
        recipe      r  = {.bits = 4, .group = 64};
        weir_status st = recipe_parse(&r, cases[i].text, strlen(cases[i].text), "rules", &err);
        if (st != WEIR_FORMAT || strstr(err.text, cases[i].says) == NULL || strncmp(err.text, "rules: ", 7) != 0)
            fail_msg("%s: status %d, %s", cases[i].text, (int)st, st == WEIR_OK ? "" : err.text);
        recipe_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),    cmocka_unit_test(the_first_rule_wins),
        cmocka_unit_test(the_default), cmocka_unit_test(columns_that_do_not_divide),
        cmocka_unit_test(formats),     cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
