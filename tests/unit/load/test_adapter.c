/* tests/unit/load/test_adapter.c - adapters' folders: what is read, and what is refused. */
#include "checkpoint/adapter_config.h"
#include "kernels/open.h"
#include "load/adapter.h"
#include "support/adapter_config_small.h"
#include "support/cmocka.h"
#include "unit/checkpoint/made_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEFT "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 20}"
#define MLX "{\"fine_tune_type\": \"lora\", \"lora_parameters\": {\"rank\": 1, \"scale\": 20.0}}"

/* ---- folders ---- */

static void put_f32(made_tensors *t, const char *name, const char *shape, const float *x, size_t n)
{
    made_raw(t, name, "F32", shape, x, n * sizeof *x);
}

static weir_status open_made(adapter **out, made_tensors *t, const char *file, const char *text, const config *c,
                             weir_error *err)
{
    char *dir = made_dir();
    made_write(t, dir, file);
    made_text(dir, "adapter_config.json", text);
    const weir_status st = adapter_open(out, dir, c, err);
    made_remove(dir);
    return st;
}

/* The specification's example: k_proj of layer 1, [2, 2]. */
static adapter *example(bool mlx, const config *c)
{
    made_tensors t;
    weir_error   err;
    adapter     *a;
    const float  x[] = {1, 0.5f}, y[] = {2, -1};
    made_begin(&t);
    if (mlx) {
        put_f32(&t, "language_model.model.layers.1.self_attn.k_proj.lora_a", "[2, 1]", x, 2);
        put_f32(&t, "language_model.model.layers.1.self_attn.k_proj.lora_b", "[1, 2]", y, 2);
    } else {
        put_f32(&t, "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight", "[1, 2]", x, 2);
        put_f32(&t, "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight", "[2, 1]", y, 2);
    }
    if (open_made(&a, &t, mlx ? "adapters.safetensors" : "adapter_model.safetensors", mlx ? MLX : PEFT, c, &err) !=
        WEIR_OK)
        fail_msg("%s", err.text);
    return a;
}

static void check_example(bool mlx)
{
    const config c = adapter_config_small();
    adapter     *a = example(mlx, &c);
    kernels     *k;
    weir_error   err;
    lora         l;
    lora_work    w;
    k_buf       *x, *y;
    const float  in[] = {9, 9, 1, 2}, base[] = {1, 1, 1, 1};
    float        out[4], scratch[2];
    assert_int_equal(kernels_open(&k, "cpu", 1, "scalar", &err), WEIR_OK);
    const double   inv_freq[1] = {1.0};
    const k_limits limits      = {.max_rows      = 2,
                                  .max_cols      = 2,
                                  .max_positions = 2,
                                  .attention     = {1, 1, 2, 2, 1e-6f},
                                  .delta         = {1, 1, 1, 1, 4, false},
                                  .inv_freq      = inv_freq};
    assert_int_equal(k->reserve(k, &limits, &err), WEIR_OK);
    assert_int_equal(load_lora(&l, k, a, &err), WEIR_OK);
    assert_int_equal(lora_work_new(&w, k, &(lora_limits){2, a->max_in, a->max_out, a->max_rank, 0, 0}, &err), WEIR_OK);
    assert_int_equal(k->buf_new(k, sizeof in, &x, &err), WEIR_OK);
    assert_int_equal(k->buf_new(k, sizeof base, &y, &err), WEIR_OK);
    k->buf_write(k, x, 0, in, sizeof in);
    k->buf_write(k, y, 0, base, sizeof base);
    /* The second of two rows has it. */
    const lora_run run = {.adapter = &l, .n = 1, .rows = (const uint32_t[]){1}, .scales = (const float[]){1.0f}};
    lora_add(&(lora_step){1, &run, scratch, NULL}, &w, k, 1, x, &(k_linear_job){NULL, y}, (const lora_target[]){LORA_K},
             1);
    assert_int_equal(k->finish(k, &err), WEIR_OK);
    k->buf_read(k, y, 0, out, sizeof out);
    assert_memory_equal(out, ((const float[]){1, 1, 81, -39}), sizeof out);
    k->buf_free(k, x);
    k->buf_free(k, y);
    lora_work_free(&w, k);
    load_lora_free(&l, k);
    k->close(k);
    adapter_close(a);
}

static void test_the_example(void **unused)
{
    (void)unused;
    check_example(false);
    check_example(true);
}

/* ---- scales ---- */

static double scale_of(const char *text, const char *module, uint32_t rank)
{
    adapter_config c;
    weir_error     err;
    if (adapter_config_parse(&c, "adapter_config.json", text, strlen(text), &err) != WEIR_OK) fail_msg("%s", err.text);
    const double s = adapter_config_scale(&c, module, rank);
    adapter_config_free(&c);
    return s;
}

static void test_scales(void **unused)
{
    (void)unused;
    static const char pattern[] = "{\"peft_type\":\"LORA\",\"lora_alpha\":16,\"use_rslora\":false,\"alpha_pattern\":"
                                  "{\"layers.1.mlp.up_proj\":8,\"up_proj\":4,\"q_proj\":2}}";
    const char       *up        = "model.layers.1.mlp.up_proj";
    assert_true(scale_of("{\"peft_type\":\"LORA\",\"lora_alpha\":16}", up, 8) == 2.0);
    assert_true(scale_of("{\"peft_type\":\"LORA\",\"lora_alpha\":16,\"use_rslora\":true}", up, 4) == 8.0);
    assert_true(scale_of(pattern, up, 4) == 2.0);
    assert_true(scale_of(pattern, "model.layers.11.mlp.up_proj", 4) == 1.0);
    assert_true(scale_of(pattern, "model.layers.1.mlp.gate_up_proj", 4) == 4.0); /* no module ends in _up_proj */
    assert_true(scale_of(pattern, "q_proj", 4) == 0.5);
    assert_true(scale_of("{\"lora_parameters\":{\"rank\":8}}", up, 8) == 20.0);
    assert_true(scale_of("{\"lora_parameters\":{\"rank\":8,\"scale\":3}}", up, 8) == 3.0);
}

/* Modules in trellis codes, by name, also as a part of a fused one. */
static void test_trellis_codes_are_refused(void **unused)
{
    (void)unused;
    config_quant_override coded = {
        .path = (char[]){"model.layers.1.mlp.up_proj"}, .quantised = true, .form = {CONFIG_QUANT_TRELLIS, 3, 256, 1}};
    config         c = adapter_config_small();
    adapter_module m;
    weir_error     err;
    assert_int_equal(adapter_find_module(&m, &c, "layers.1.mlp.gate_up_proj", &err), WEIR_OK);
    c.quant = (config_quant){.present = true, .n_overrides = 1, .overrides = &coded};
    assert_int_equal(adapter_find_module(&m, &c, "layers.1.mlp.gate_proj", &err), WEIR_OK);
    assert_int_equal(adapter_find_module(&m, &c, "layers.1.mlp.up_proj", &err), WEIR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layers.1.mlp.up_proj: expected a module that adapters may add to"));
    assert_int_equal(adapter_find_module(&m, &c, "layers.1.mlp.gate_up_proj", &err), WEIR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layers.1.mlp.up_proj: "));
    assert_non_null(strstr(err.text, "trellis"));
}

static void test_configs_that_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        weir_status st;
        const char *says;
    } bad[] = {
        {"[]", WEIR_FORMAT, "expected an object, found an array"},
        {"{}", WEIR_FORMAT, "expected peft_type (PEFT) or lora_parameters (mlx-lm), found neither"},
        {"{\"peft_type\":\"LOHA\",\"lora_alpha\":1}", WEIR_UNSUPPORTED, "peft_type: expected LORA, found LOHA"},
        {"{\"peft_type\":\"LORA\"}", WEIR_FORMAT, "lora_alpha: expected a number, found nothing"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1e9}", WEIR_FORMAT, "lora_alpha: expected a number of at most"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"use_dora\":true}", WEIR_UNSUPPORTED, "use_dora"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"bias\":\"all\"}", WEIR_UNSUPPORTED, "bias: "},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"lora_bias\":true}", WEIR_UNSUPPORTED, "lora_bias"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"fan_in_fan_out\":true}", WEIR_UNSUPPORTED, "fan_in_fan_out"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"layer_replication\":[[0,1]]}", WEIR_UNSUPPORTED,
         "layer_replication"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"target_parameters\":[\"a\"]}", WEIR_UNSUPPORTED,
         "target_parameters"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"modules_to_save\":[\"lm_head\"]}", WEIR_UNSUPPORTED,
         "modules_to_save"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"alpha_pattern\":{\"(a+)+b\":2}}", WEIR_UNSUPPORTED,
         "alpha_pattern: expected names of modules, found \"(a+)+b\""},
        {"{\"fine_tune_type\":\"dora\",\"lora_parameters\":{}}", WEIR_UNSUPPORTED,
         "fine_tune_type: expected lora, found dora"},
        {"{\"fine_tune_type\":\"full\"}", WEIR_UNSUPPORTED, "fine_tune_type: expected lora, found full"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        adapter_config c;
        weir_error     err;
        check_failure(adapter_config_parse(&c, "adapter_config.json", bad[i].text, strlen(bad[i].text), &err),
                      bad[i].st, &err, bad[i].text, (const char *const[]){"adapter_config.json: ", bad[i].says, NULL});
    }
}

/* ---- tensors that are refused ---- */

typedef struct tensor {
    const char *name, *dtype, *shape;
    size_t      bytes;
} tensor;

static void check_refused(const tensor *list, size_t n, weir_status st, const char *says)
{
    static const uint8_t zeros[1 << 15];
    const config         c = adapter_config_small();
    made_tensors         t;
    weir_error           err;
    adapter             *a;
    made_begin(&t);
    for (size_t i = 0; i < n; i++) made_raw(&t, list[i].name, list[i].dtype, list[i].shape, zeros, list[i].bytes);
    check_failure(open_made(&a, &t, "adapter_model.safetensors", PEFT, &c, &err), st, &err, says,
                  (const char *const[]){"adapter_model.safetensors", says, NULL});
    assert_null(a);
}

#define KEY "base_model.model.model.layers.1.self_attn.k_proj"
#define GOOD_A \
    { \
        KEY ".lora_A.weight", "F32", "[1, 2]", 8 \
    }
#define GOOD_B \
    { \
        KEY ".lora_B.weight", "F32", "[2, 1]", 8 \
    }

static void test_tensors_that_are_refused(void **unused)
{
    (void)unused;
#define REFUSED(st, says, ...) \
    do { \
        const tensor list[] = {__VA_ARGS__}; \
        check_refused(list, sizeof list / sizeof *list, st, says); \
    } while (0)
    REFUSED(WEIR_FORMAT, "k_proj.lora_A.weight\": expected one A and one B for a module", GOOD_A);
    REFUSED(WEIR_FORMAT, "k_proj.lora_B.weight\": expected one A and one B for a module", GOOD_B);
    REFUSED(WEIR_FORMAT, "expected one A and one B", GOOD_A, GOOD_B,
            {"model.language_model.layers.1.self_attn.k_proj.lora_a", "F32", "[2, 1]", 8});
    REFUSED(WEIR_FORMAT, "expected A [r, 2] and B [2, r], found [1, 3] and [2, 1]",
            {KEY ".lora_A.weight", "F32", "[1, 3]", 12}, GOOD_B);
    REFUSED(WEIR_FORMAT, "found [2, 2] and [2, 1]", {KEY ".lora_A.weight", "F32", "[2, 2]", 16}, GOOD_B);
    REFUSED(WEIR_FORMAT, "found [0, 2] and [2, 0]", {KEY ".lora_A.weight", "F32", "[0, 2]", 0},
            {KEY ".lora_B.weight", "F32", "[2, 0]", 0});
    REFUSED(WEIR_UNSUPPORTED, "expected a matrix, found 3 dimensions", {KEY ".lora_A.weight", "F32", "[1, 1, 2]", 8},
            GOOD_B);
    REFUSED(WEIR_UNSUPPORTED, "expected F32, F16 or BF16, found I8", {KEY ".lora_A.weight", "I8", "[1, 2]", 2}, GOOD_B);
    REFUSED(WEIR_UNSUPPORTED, "found DoRA", GOOD_A, GOOD_B, {KEY ".lora_magnitude_vector", "F32", "[2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "found DoRA", GOOD_A, GOOD_B, {"model.layers.1.self_attn.k_proj.m", "F32", "[2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "found a bias", GOOD_A, GOOD_B, {KEY ".lora_B.bias", "F32", "[2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "found something else", GOOD_A, GOOD_B, {KEY ".weight", "F32", "[2, 2]", 16});
    REFUSED(WEIR_UNSUPPORTED, "found an embedding's",
            {"base_model.model.model.embed_tokens.lora_embedding_A", "F32", "[1, 4]", 16});
    REFUSED(WEIR_UNSUPPORTED, "found one of lm_head", {"base_model.model.lm_head.lora_A.weight", "F32", "[1, 2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "found one of the vision tower",
            {"base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight", "F32", "[1, 2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "found one of the multi-token-prediction head",
            {"base_model.model.mtp.fc.lora_A.weight", "F32", "[1, 2]", 8});
    REFUSED(WEIR_UNSUPPORTED, "expected a module of layers.0 to layers.1",
            {"model.layers.2.self_attn.k_proj.lora_a", "F32", "[2, 1]", 8},
            {"model.layers.2.self_attn.k_proj.lora_b", "F32", "[1, 2]", 8});
    REFUSED(WEIR_FORMAT, "expected a module that layer 1 of the model has, found \"mlp.switch_mlp.up_proj\"",
            {"model.layers.1.mlp.switch_mlp.up_proj.lora_a", "F32", "[1, 1, 2]", 8},
            {"model.layers.1.mlp.switch_mlp.up_proj.lora_b", "F32", "[1, 3, 1]", 12});
    REFUSED(WEIR_FORMAT, "expected a module that layer 0 of the model has",
            {"model.layers.0.self_attn.k_proj.lora_a", "F32", "[2, 1]", 8},
            {"model.layers.0.self_attn.k_proj.lora_b", "F32", "[1, 2]", 8});
    REFUSED(WEIR_FORMAT, "expected every matrix once", GOOD_A, GOOD_B,
            {"model.layers.1.self_attn.qkv_proj.lora_a", "F32", "[2, 1]", 8},
            {"model.layers.1.self_attn.qkv_proj.lora_b", "F32", "[1, 12]", 48});
    REFUSED(WEIR_UNSUPPORTED, "expected a rank of at most 4096, found 4097",
            {KEY ".lora_A.weight", "BF16", "[4097, 2]", 16388}, {KEY ".lora_B.weight", "BF16", "[2, 4097]", 16388});
#undef REFUSED
}

/* ---- layouts ---- */

static const adapter_pair *pair_of(const adapter *a, lora_target target)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->pairs[i].target == target) return &a->pairs[i];
    fail_msg("no such pair");
    return NULL;
}

static void check_b(const adapter *a, lora_target target, const float *expected, size_t n)
{
    const adapter_pair *p = pair_of(a, target);
    assert_int_equal(p->out, n);
    assert_int_equal(p->in, 2);
    assert_memory_equal(p->a, ((const float[]){1, 2}), 2 * sizeof(float));
    assert_memory_equal(p->b, expected, n * sizeof *expected);
}

/* Rows of B count from 0: by where they land one sees the split. */
static void test_fused_layouts(void **unused)
{
    (void)unused;
    const config c = adapter_config_small();
    made_tensors t;
    weir_error   err;
    adapter     *a;
    float        rows[16];
    const float  in[] = {1, 2};
    for (int i = 0; i < 16; i++) rows[i] = (float)i;
    made_begin(&t);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_qkvz.lora_a", "[2, 1]", in, 2);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_qkvz.lora_b", "[1, 12]", rows, 12);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_ba.lora_a", "[2, 1]", in, 2);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_ba.lora_b", "[1, 8]", rows, 8);
    put_f32(&t, "model.layers.0.mlp.gate_up_proj.lora_a", "[2, 1]", in, 2);
    put_f32(&t, "model.layers.0.mlp.gate_up_proj.lora_b", "[1, 6]", rows, 6);
    put_f32(&t, "model.layers.1.self_attn.qkv_proj.lora_a", "[2, 1]", in, 2);
    put_f32(&t, "model.layers.1.self_attn.qkv_proj.lora_b", "[1, 12]", rows, 12);
    if (open_made(&a, &t, "adapters.safetensors", MLX, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(a->n, 9);
    /* A key head: q, k, two values, two z. */
    check_b(a, LORA_IN_QKV, (const float[]){0, 6, 1, 7, 2, 3, 8, 9}, 8);
    check_b(a, LORA_IN_Z, (const float[]){4, 5, 10, 11}, 4);
    check_b(a, LORA_IN_B, (const float[]){0, 1, 4, 5}, 4);
    check_b(a, LORA_IN_A, (const float[]){2, 3, 6, 7}, 4);
    check_b(a, LORA_GATE, (const float[]){0, 1, 2}, 3);
    check_b(a, LORA_UP, (const float[]){3, 4, 5}, 3);
    check_b(a, LORA_Q, (const float[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    check_b(a, LORA_K, (const float[]){8, 9}, 2);
    check_b(a, LORA_V, (const float[]){10, 11}, 2);
    adapter_close(a);
}

/* Where value heads are tiled, what belongs to them moves: heads 0 1 2 3 stand as 0 2 1 3. */
static void test_tiled_heads(void **unused)
{
    (void)unused;
    config       c = adapter_config_small();
    made_tensors t;
    weir_error   err;
    adapter     *a;
    float        rows[8];
    const float  in[] = {1, 2}, wide[] = {10, 11, 12, 13};
    for (int i = 0; i < 8; i++) rows[i] = (float)i;
    c.linear_heads_tiled = true;
    made_begin(&t);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_qkv.lora_A.weight", "[1, 2]", in, 2);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_qkv.lora_B.weight", "[8, 1]", rows, 8);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_z.lora_A.weight", "[1, 2]", in, 2);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_z.lora_B.weight", "[4, 1]", rows, 4);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_ba.lora_A.weight", "[1, 2]", in, 2);
    put_f32(&t, "model.layers.0.linear_attn.in_proj_ba.lora_B.weight", "[8, 1]", rows, 8);
    put_f32(&t, "model.layers.0.linear_attn.out_proj.lora_A.weight", "[1, 4]", wide, 4);
    put_f32(&t, "model.layers.0.linear_attn.out_proj.lora_B.weight", "[2, 1]", in, 2);
    put_f32(&t, "model.layers.1.self_attn.k_proj.lora_A.weight", "[1, 2]", in, 2);
    put_f32(&t, "model.layers.1.self_attn.k_proj.lora_B.weight", "[2, 1]", rows, 2);
    if (open_made(&a, &t, "adapter_model.safetensors", PEFT, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
    check_b(a, LORA_IN_QKV, (const float[]){0, 1, 2, 3, 4, 6, 5, 7}, 8);
    check_b(a, LORA_IN_Z, (const float[]){0, 2, 1, 3}, 4);
    check_b(a, LORA_IN_B, (const float[]){0, 4, 1, 5}, 4);
    check_b(a, LORA_IN_A, (const float[]){2, 6, 3, 7}, 4);
    check_b(a, LORA_K, (const float[]){0, 1}, 2);
    const adapter_pair *out = pair_of(a, LORA_OUT);
    assert_memory_equal(out->a, ((const float[]){10, 12, 11, 13}), 4 * sizeof(float));
    assert_memory_equal(out->b, in, 2 * sizeof(float));
    adapter_close(a);
}

/* Fits only the other way round than it is spelled: turned.  Where both fit, the spelling counts. */
static void test_orientation(void **unused)
{
    (void)unused;
    const config c = adapter_config_small();
    made_tensors t;
    weir_error   err;
    adapter     *a;
    const float  x[] = {1, 2, 3, 4}, wide[] = {1, 2, 3, 4, 5, 6};
    made_begin(&t);
    put_f32(&t, "model.layers.1.mlp.up_proj.lora_A.weight", "[2, 1]", x, 2);
    put_f32(&t, "model.layers.1.mlp.up_proj.lora_B.weight", "[1, 3]", wide, 3);
    put_f32(&t, "model.layers.1.self_attn.k_proj.lora_a", "[2, 2]", x, 4);
    put_f32(&t, "model.layers.1.self_attn.k_proj.lora_b", "[2, 2]", x, 4);
    if (open_made(&a, &t, "adapters.safetensors", MLX, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
    const adapter_pair *up = pair_of(a, LORA_UP), *k = pair_of(a, LORA_K);
    assert_int_equal(up->rank, 1);
    assert_memory_equal(up->a, x, 2 * sizeof *x);
    assert_memory_equal(up->b, wide, 3 * sizeof *wide);
    assert_memory_equal(k->a, ((const float[]){1, 3, 2, 4}), 4 * sizeof *x);
    assert_memory_equal(k->b, ((const float[]){1, 3, 2, 4}), 4 * sizeof *x);
    adapter_close(a);
}

/* ---- experts ---- */

#define STACK "language_model.model.layers.1.mlp.switch_mlp.up_proj"
#define EXPERT(e) "base_model.model.model.layers.1.mlp.experts." e ".up_proj"

static const float stack_a[] = {1, 2, 3, 4, 1, 0.5f}, stack_b[] = {1, 1, 1, 2, 2, 2, 2, -1, 4};

static void put_stack(made_tensors *t, const char *a_shape, const char *b_shape)
{
    put_f32(t, STACK ".lora_a", a_shape, stack_a, 6);
    put_f32(t, STACK ".lora_b", b_shape, stack_b, 9);
}

static void put_expert(made_tensors *t, const char *a, const char *b, const char *a_shape, const char *b_shape,
                       size_t rank)
{
    put_f32(t, a, a_shape, stack_a + 4, 2 * rank);
    put_f32(t, b, b_shape, stack_b + 6, 3 * rank);
}

/* Of three rows the first and the last have the adapter; they go to experts 0 and 1, and 2 and 1. */
static void check_experts(const adapter *a, const float *expected)
{
    kernels       *k;
    weir_error     err;
    lora           l;
    lora_work      w;
    k_buf         *x, *y, *logits;
    const float    in[] = {1, 2, 9, 9, 1, 2}, scores[] = {3, 2, 1, 3, 2, 1, 1, 2, 3};
    float          out[6 * 3], scales[6], base[6 * 3];
    uint32_t       slots[6];
    const double   inv_freq[1] = {1.0};
    const k_limits limits      = {.max_rows          = 3,
                                  .max_cols          = 3,
                                  .max_positions     = 3,
                                  .experts           = 3,
                                  .experts_per_token = 2,
                                  .expert_cols       = 3,
                                  .attention         = {1, 1, 2, 2, 1e-6f},
                                  .delta             = {1, 1, 1, 1, 4, false},
                                  .inv_freq          = inv_freq};
    const k_span   span        = {.n = 3};
    assert_int_equal(kernels_open(&k, "cpu", 1, "scalar", &err), WEIR_OK);
    assert_int_equal(k->reserve(k, &limits, &err), WEIR_OK);
    assert_int_equal(load_lora(&l, k, a, &err), WEIR_OK);
    assert_int_equal(lora_work_new(&w, k, &(lora_limits){3, a->max_in, a->max_out, a->max_rank, 2, 3}, &err), WEIR_OK);
    assert_int_equal(k->buf_new(k, sizeof in, &x, &err), WEIR_OK);
    assert_int_equal(k->buf_new(k, sizeof base, &y, &err), WEIR_OK);
    assert_int_equal(k->buf_new(k, sizeof scores, &logits, &err), WEIR_OK);
    for (int i = 0; i < 18; i++) base[i] = 1;
    k->buf_write(k, x, 0, in, sizeof in);
    k->buf_write(k, y, 0, base, sizeof base);
    k->buf_write(k, logits, 0, scores, sizeof scores);
    k->begin(k, &(k_step){.n_rows = 3, .n_spans = 1, .ids = (const uint32_t[]){0, 1, 2}, .spans = &span});
    k->route(k, logits);
    const lora_run run = {
        .adapter = &l, .n = 2, .rows = (const uint32_t[]){0, 2}, .scales = (const float[]){1.0f, 1.0f}};
    lora_add_experts(&(lora_step){1, &run, scales, slots}, &w, k, 1, x, false, &(k_linear_job){NULL, y},
                     (const lora_target[]){LORA_EXPERT_UP}, 1);
    assert_int_equal(k->finish(k, &err), WEIR_OK);
    k->buf_read(k, y, 0, out, sizeof out);
    assert_memory_equal(out + 6, base, 6 * sizeof *out); /* the slots of the row between */
    assert_memory_equal(out, expected, 6 * sizeof *out);
    assert_memory_equal(out + 12, expected + 6, 6 * sizeof *out);
    k->buf_free(k, x);
    k->buf_free(k, y);
    k->buf_free(k, logits);
    lora_work_free(&w, k);
    load_lora_free(&l, k);
    k->close(k);
}

static void test_experts(void **unused)
{
    (void)unused;
    const config c = adapter_config_moe();
    made_tensors t;
    weir_error   err;
    adapter     *a;
    /* Expert 0: 20 * (1, 1, 1) * (1 + 2 * 2); 1: 20 * (2, 2, 2) * (3 + 4 * 2); 2: 20 * (2, -1, 4) * (1 + 0.5 * 2). */
    const float from_stack[] = {101, 101, 101, 441, 441, 441, 81, -39, 161, 441, 441, 441};
    const float from_one[]   = {1, 1, 1, 1, 1, 1, 81, -39, 161, 1, 1, 1};
    made_begin(&t);
    put_stack(&t, "[3, 1, 2]", "[3, 3, 1]");
    if (open_made(&a, &t, "adapters.safetensors", MLX, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(a->n, 1);
    assert_int_equal(a->bytes, (6 + 9) * sizeof(float));
    assert_memory_equal(pair_of(a, LORA_EXPERT_UP)->a, stack_a, sizeof stack_a);
    assert_memory_equal(pair_of(a, LORA_EXPERT_UP)->b, stack_b, sizeof stack_b);
    check_experts(a, from_stack);
    adapter_close(a);

    /* One of the experts by itself: the others have nothing. */
    made_begin(&t);
    put_expert(&t, EXPERT("2") ".lora_A.weight", EXPERT("2") ".lora_B.weight", "[1, 2]", "[3, 1]", 1);
    if (open_made(&a, &t, "adapter_model.safetensors", PEFT, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(a->n, 1);
    check_experts(a, from_one);
    adapter_close(a);
}

static void check_experts_refused(made_tensors *t, weir_status st, const char *says)
{
    const config c = adapter_config_moe();
    weir_error   err;
    adapter     *a;
    check_failure(open_made(&a, t, "adapter_model.safetensors", PEFT, &c, &err), st, &err, says,
                  (const char *const[]){"adapter_model.safetensors", says, NULL});
}

static void test_experts_that_are_refused(void **unused)
{
    (void)unused;
    made_tensors t;
    made_begin(&t);
    put_stack(&t, "[1, 3, 2]", "[3, 3, 1]");
    check_experts_refused(&t, WEIR_FORMAT, "expected 3 experts, found 1");
    made_begin(&t);
    put_stack(&t, "[3, 2, 1]", "[3, 3, 1]"); /* turned, which no program writes */
    check_experts_refused(&t, WEIR_FORMAT, "expected A [r, 2] and B [3, r], found [2, 1] and [3, 1]");
    made_begin(&t);
    put_stack(&t, "[3, 2]", "[3, 3]");
    check_experts_refused(&t, WEIR_UNSUPPORTED, "expected a matrix for each expert, found 2 dimensions");
    made_begin(&t);
    put_expert(&t, EXPERT("0") ".lora_A.weight", EXPERT("0") ".lora_B.weight", "[1, 2]", "[3, 1]", 1);
    put_stack(&t, "[3, 1, 2]", "[3, 3, 1]");
    check_experts_refused(&t, WEIR_FORMAT, "expected every matrix once");
    made_begin(&t);
    put_expert(&t, EXPERT("3") ".lora_A.weight", EXPERT("3") ".lora_B.weight", "[1, 2]", "[3, 1]", 1);
    check_experts_refused(&t, WEIR_UNSUPPORTED, "found \"mlp.experts.3.up_proj\"");
    made_begin(&t);
    put_expert(&t, EXPERT("0") ".lora_A.weight", EXPERT("0") ".lora_B.weight", "[1, 2]", "[3, 1]", 1);
    put_f32(&t, EXPERT("1") ".lora_A.weight", "[2, 2]", stack_a, 4);
    put_f32(&t, EXPERT("1") ".lora_B.weight", "[3, 2]", stack_b, 6);
    check_experts_refused(&t, WEIR_UNSUPPORTED, "expected one rank, type and scale for all experts of a layer");
}

/* ---- what is told ---- */

static void keep_line(void *user, weir_log_level level, const char *line)
{
    (void)level;
    (void)snprintf(user, 400, "%s", line);
}

/* As before training: B is zero.  It opens, and the log says so. */
static void test_an_adapter_of_nothing(void **unused)
{
    (void)unused;
    static const float zeros[2], some[] = {0, 1};
    const config       c = adapter_config_small();
    for (int nothing = 0; nothing < 2; nothing++) {
        char         line[400] = "";
        made_tensors t;
        weir_error   err;
        adapter     *a;
        made_begin(&t);
        put_f32(&t, KEY ".lora_A.weight", "[1, 2]", some, 2);
        put_f32(&t, KEY ".lora_B.weight", "[2, 1]", nothing ? zeros : some, 2);
        weir_log_set(keep_line, line);
        if (open_made(&a, &t, "adapter_model.safetensors", PEFT, &c, &err) != WEIR_OK) fail_msg("%s", err.text);
        weir_log_set(NULL, NULL);
        assert_int_equal(strstr(line, "the adapter changes nothing") != NULL, nothing);
        adapter_close(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_trellis_codes_are_refused),
        cmocka_unit_test(test_configs_that_are_refused),
        cmocka_unit_test(test_tensors_that_are_refused),
        cmocka_unit_test(test_fused_layouts),
        cmocka_unit_test(test_tiled_heads),
        cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_experts_that_are_refused),
        cmocka_unit_test(test_an_adapter_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
