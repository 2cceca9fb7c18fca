/* tests/unit/load/test_binding.c - every parameter is bound once: what is
 * missing, left over, misshapen or of another type is named. */
#include "rewrite.h"

#include <stdio.h>
#include <string.h>

#define REFUSED(fixture, fn, user, status, ...) \
    do { \
        char *refused_dir = rewrite(fixture, fn, user); \
        check_refused(refused_dir, status, (const char *const[]){__VA_ARGS__, NULL}); \
        made_remove(refused_dir); \
    } while (0)

/* Drops tensors whose canonical name ends in one of the NULL-ended list. */
static void drop(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    const char *const *list = user;
    for (; *list != NULL; list++)
        if (t->part != CHECKPOINT_MTP && ends_in(t->name, *list)) return;
    emit_same(out, t);
}

static void test_missing(void **given)
{
    (void)given;
    const char *const three[] = {"layers.1.linear_attn.A_log", "layers.3.self_attn.k_norm.weight", "lm_head.weight",
                                 NULL};
    REFUSED("tiny-dense", drop, three, WEIR_FORMAT, "3 tensors are missing", "layers.1.linear_attn.A_log",
            "layers.3.self_attn.k_norm.weight", "lm_head.weight");
    const char *const mlp[] = {"down_proj.weight", NULL}; /* four */
    REFUSED("tiny-dense", drop, mlp, WEIR_FORMAT, "4 tensors are missing", "layers.0.mlp.down_proj.weight",
            "layers.3.mlp.down_proj.weight");
    const char *const many[] = {"mlp.gate_proj.weight", "mlp.up_proj.weight", "down_proj.weight", NULL};
    REFUSED("tiny-dense", drop, many, WEIR_FORMAT, "12 tensors are missing", "...");
    const char *const experts[] = {"experts.down_proj", NULL};
    REFUSED("tiny-moe", drop, experts, WEIR_FORMAT, "layers.0.mlp.experts.down_proj");
    const char *const scales[] = {"layers.0.mlp.up_proj.biases", NULL};
    REFUSED("mlx-q4", drop, scales, WEIR_FORMAT, "layers.0.mlp.up_proj.biases");
}

static void add(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    emit_same(out, t);
    if (ends_in(t->name, "layers.0.input_layernorm.weight") && t->part == CHECKPOINT_TRUNK)
        emit(out, user, t, t->rank, t->shape, t->data, t->bytes);
}

static void test_unexpected(void **given)
{
    (void)given;
    REFUSED("tiny-dense", add, "model.language_model.layers.0.mlp.another.weight", WEIR_FORMAT,
            "layers.0.mlp.another.weight");
    REFUSED("tiny-odd", add, "model.layers.7.input_layernorm.weight", WEIR_FORMAT, "layers.7.input_layernorm.weight");
}

typedef struct reshape {
    const char *name;
    uint32_t    rank;
    uint64_t    shape[3];
} reshape;

static void reshaped(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    const reshape *r = user;
    if (t->part != CHECKPOINT_TRUNK || strcmp(t->name, r->name) != 0)
        emit_same(out, t);
    else
        emit(out, t->raw_name, t, r->rank, r->shape, t->data, t->bytes);
}

static void test_shapes(void **given)
{
    (void)given;
    const reshape embed = {"embed_tokens.weight", 2, {96, 300}};
    REFUSED("tiny-odd", reshaped, &embed, WEIR_FORMAT, "embed_tokens.weight", "[300, 96]", "[96, 300]");
    const reshape taps = {"layers.2.linear_attn.conv1d.weight", 2, {576, 4}};
    REFUSED("tiny-odd", reshaped, &taps, WEIR_FORMAT, "layers.2.linear_attn.conv1d.weight");
    const reshape norm = {"layers.1.self_attn.q_norm.weight", 2, {1, 64}};
    REFUSED("tiny-odd", reshaped, &norm, WEIR_FORMAT, "layers.1.self_attn.q_norm.weight", "[64]", "[1, 64]");
    const reshape rate = {"layers.0.linear_attn.A_log", 2, {3, 1}};
    REFUSED("tiny-odd", reshaped, &rate, WEIR_FORMAT, "layers.0.linear_attn.A_log", "[3]");
    const reshape experts = {"layers.0.mlp.experts.down_proj", 3, {8, 64, 128}};
    REFUSED("tiny-moe", reshaped, &experts, WEIR_FORMAT, "layers.0.mlp.experts.down_proj", "[8, 128, 64]",
            "[8, 64, 128]");
}

static void retyped(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    checkpoint_tensor other = *t;
    if (t->part == CHECKPOINT_TRUNK && strcmp(t->name, user) == 0) other.type_name = "I32"; /* as wide as F32 */
    emit_same(out, &other);
}

static void test_types(void **given)
{
    (void)given;
    REFUSED("tiny-odd", retyped, "layers.0.linear_attn.A_log", WEIR_UNSUPPORTED, "layers.0.linear_attn.A_log",
            "F32, F16 or BF16", "I32");
    REFUSED("tiny-odd", retyped, "layers.1.mlp.up_proj.weight", WEIR_UNSUPPORTED, "layers.1.mlp.up_proj.weight", "I32");
}

/* Widths without kernels are refused by name: the fixture has modules of 3 and 6 bits. */
static void test_widths(void **given)
{
    (void)given;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/mlx-mixed", WEIR_SOURCE_DIR);
    check_refused(path, WEIR_UNSUPPORTED, (const char *const[]){"layers.", "4 or 8 bits", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing), cmocka_unit_test(test_unexpected),
                                       cmocka_unit_test(test_shapes), cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_widths)};
    return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}
