/* tests/unit/load/test_binding.c - every parameter is bound once: what is
 * missing, left over, misshapen or of another type is named. */
#include "rewrite.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
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

/* The fixture with other bytes at the end of one tensor, or one tensor left out. */
typedef struct damage {
    const char *name; /* its end */
    int         last; /* byte; -1: no such tensor */
} damage;

static void damaged(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    const damage *d = user;
    if (t->part != CHECKPOINT_TRUNK || !ends_in(t->name, d->name)) {
        emit_same(out, t);
        return;
    }
    if (d->last < 0) return;
    uint8_t *bytes = malloc(t->bytes);
    assert_non_null(bytes);
    memcpy(bytes, t->data, t->bytes);
    bytes[t->bytes - 1] = (uint8_t)d->last;
    emit(out, t->raw_name, t, t->rank, t->shape, bytes, t->bytes);
    free(bytes);
}

static void biases_as_well(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
    if (t->part == CHECKPOINT_TRUNK && strcmp(t->name, "layers.0.mlp.gate_proj.scales") == 0)
        emit(out, "language_model.model.layers.0.mlp.gate_proj.biases", t, t->rank, t->shape, t->data, t->bytes);
}

/* Codes in groups: what does not fit the form that the config states is named. */
static void test_groups(void **given)
{
    (void)given;
    const reshape codes = {"layers.0.linear_attn.in_proj_qkv.weight", 2, {540, 16}}; /* 5 bits of 96 columns: 15 */
    REFUSED("mlx-modes", reshaped, &codes, WEIR_FORMAT, "layers.0.linear_attn.in_proj_qkv.weight", "[576, 15]",
            "[540, 16]");
    const reshape scales = {"layers.0.mlp.gate_proj.scales", 2, {96, 5}};
    REFUSED("mlx-modes", reshaped, &scales, WEIR_FORMAT, "layers.0.mlp.gate_proj.scales", "[160, 3]", "[96, 5]");
    const reshape sixteens = {"embed_tokens.scales", 2, {600, 3}}; /* as if groups had 32 */
    REFUSED("mlx-modes", reshaped, &sixteens, WEIR_FORMAT, "embed_tokens.scales", "[300, 6]", "[600, 3]");
    const damage none = {"layers.0.mlp.gate_proj.scales", 255}, highest = {"layers.0.mlp.gate_proj.scales", 254};
    REFUSED("mlx-modes", damaged, &none, WEIR_FORMAT, "layers.0.mlp.gate_proj.scales", "below 255");
    char *dir = rewrite("mlx-modes", damaged, &highest);
    check_same_logits(dir, dir); /* opens */
    made_remove(dir);
    const damage missing = {"layers.0.mlp.up_proj.biases", -1};
    REFUSED("mlx-modes", damaged, &missing, WEIR_FORMAT, "layers.0.mlp.up_proj.biases");
    REFUSED("mlx-modes", biases_as_well, NULL, WEIR_FORMAT, "layers.0.mlp.gate_proj.biases");
}

static void same(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
}

/* A fixture with every `from` of its config.json replaced. */
static char *with_config(const char *fixture, const char *from, const char *to)
{
    char       path[1024], *text;
    size_t     n, times = 0;
    weir_error err;
    str        out;
    char      *dir = rewrite(fixture, same, NULL);
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    must(file_read(&text, &n, path, 1 << 20, &err), &err);
    str_init(&out, 1 << 20);
    const char *rest = text;
    for (const char *at = strstr(rest, from); at != NULL; at = strstr(rest, from), times++) {
        str_put(&out, rest, (size_t)(at - rest));
        str_puts(&out, to);
        rest = at + strlen(from);
    }
    str_puts(&out, rest);
    assert_true(times > 0);
    made_file(dir, "config.json", out.data, strlen(out.data));
    str_free(&out);
    mem_free(text);
    return dir;
}

#define REFUSED_CONFIG(from, to, status, ...) REFUSED_WITH("mlx-modes", from, to, status, __VA_ARGS__)
#define REFUSED_WITH(fixture, from, to, status, ...) \
    do { \
        char *refused_dir = with_config(fixture, from, to); \
        check_refused(refused_dir, status, (const char *const[]){__VA_ARGS__, NULL}); \
        made_remove(refused_dir); \
    } while (0)

/* A form that is none, or is not that of the tensors; one that is left out is that of the tensors. */
static void test_forms(void **given)
{
    (void)given;
    REFUSED_CONFIG("\"bits\": 5", "\"bits\": 7", WEIR_UNSUPPORTED, "bits", "2, 3, 4, 5, 6 or 8", "7");
    REFUSED_CONFIG("\"group_size\": 128", "\"group_size\": 48", WEIR_UNSUPPORTED, "group_size", "32..128", "48");
    REFUSED_CONFIG("\"group_size\": 16", "\"group_size\": 32", WEIR_UNSUPPORTED, "group_size", "16..16", "nvfp4");
    REFUSED_CONFIG("\"bits\": 5", "\"bits\": 6", WEIR_FORMAT, "layers.0.linear_attn.in_proj_qkv.weight", "[576, 18]",
                   "[576, 15]");
    REFUSED_CONFIG("\"mode\": \"mxfp8\"", "\"mode\": \"affine\"", WEIR_FORMAT, "lm_head.biases");
    char *plain  = rewrite("mlx-modes", same, NULL),
         *unsaid = with_config("mlx-modes", "\"bits\": 5", "\"mode\": \"affine\"");
    check_same_logits(plain, unsaid);
    made_remove(plain);
    made_remove(unsaid);
}

/* Trellis codes: shapes along either axis and in pairs of blocks, and the scales' numbers. */
static void test_trellis(void **given)
{
    (void)given;
    const char   *gate = "layers.0.mlp.gate_proj.weight", *pairs = "layers.0.mlp.down_proj.weight";
    const reshape turned = {gate, 2, {32, 40}}, flat = {pairs, 2, {40, 48}}, longer = {pairs, 3, {2, 20, 48}};
    REFUSED("trellis", reshaped, &turned, WEIR_FORMAT, gate, "[40, 32]", "[32, 40]");
    REFUSED("trellis", reshaped, &longer, WEIR_FORMAT, pairs, "[1, 40, 48]", "[2, 20, 48]");
    char *plain = rewrite("trellis", same, NULL), *one = rewrite("trellis", reshaped, &flat);
    check_same_logits(plain, one); /* one pair of blocks: both layouts are the same */
    made_remove(one);
    char *unsaid = with_config("trellis", "\"bits\": 3,", ""); /* the shapes tell */
    check_same_logits(plain, unsaid);
    made_remove(unsaid);
    made_remove(plain);
    const reshape scales = {"layers.1.mlp.up_proj.scales", 2, {1, 40}};
    REFUSED("trellis", reshaped, &scales, WEIR_FORMAT, "layers.1.mlp.up_proj.scales", "[40]", "[1, 40]");
    const damage infinite = {"layers.1.mlp.down_proj.scales", 0x7C};
    REFUSED("trellis", damaged, &infinite, WEIR_FORMAT, "layers.1.mlp.down_proj.scales", "finite", "at 39");
    REFUSED("trellis", retyped, gate, WEIR_UNSUPPORTED, gate, "U32", "I32");
    REFUSED_WITH("trellis", "\"bits\": 4,\n      \"group_size\": 256", "\"bits\": 2,\n      \"group_size\": 256",
                 WEIR_FORMAT, "layers.1.mlp.gate_proj.weight", "[40, 32]", "[40, 64]");
    REFUSED_WITH("trellis", "\"axis\": 1", "\"axis\": 0", WEIR_FORMAT, "layers.0.mlp.gate_proj",
                 "output features in whole trellis blocks of 256", "40");
    REFUSED_WITH("trellis", "\"axis\": 0", "\"axis\": 1", WEIR_FORMAT, "layers.0.mlp.down_proj",
                 "input features in whole trellis blocks of 256", "40");
#define DOWN(bits) \
    "\"bits\": " bits \
    ",\n      \"group_size\": 256,\n      \"mode\": \"trellis\",\n      \"trellis\": {\n        \"L\": 12,\n        " \
    "\"code\": \"1mad\",\n        \"axis\": 0"
    REFUSED_WITH("trellis", DOWN("3"), DOWN("4"), WEIR_FORMAT, "layers.0.mlp.down_proj", "3 bits in pairs of blocks",
                 "found 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing), cmocka_unit_test(test_unexpected),
                                       cmocka_unit_test(test_shapes),  cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_groups),  cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_trellis)};
    return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}
