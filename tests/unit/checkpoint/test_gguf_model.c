/* tests/unit/checkpoint/test_gguf_model.c - GGUF files as checkpoints: keys, names, shapes, files
 * beside each other. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "checkpoint/gguf_model.h"
#include "made_files.h"
#include "made_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 8, VOCAB = 5, LAYERS = 4, CHANNELS = 2 * 2 * 2 + 4 * 3, TAPS = 4 };

/* ---- a small model ---- */

typedef struct key_value {
    const char *key;
    uint32_t    value;
} key_value;

static const key_value dense[] = {
    {"block_count", LAYERS},        {"context_length", 100},       {"embedding_length", HIDDEN},
    {"feed_forward_length", 16},    {"attention.head_count", 6},   {"attention.head_count_kv", 2},
    {"attention.key_length", 4},    {"attention.value_length", 4}, {"rope.dimension_count", 2},
    {"full_attention_interval", 2}, {"ssm.conv_kernel", TAPS},     {"ssm.state_size", 2},
    {"ssm.group_count", 2},         {"ssm.time_step_rank", 4},     {"ssm.inner_size", 12}};

static const key_value moe[] = {{"expert_count", 8},
                                {"expert_used_count", 2},
                                {"expert_feed_forward_length", 16},
                                {"expert_shared_feed_forward_length", 24}};

/* What a test changes: `without` is left out, the rest is added. */
typedef struct change {
    const char *without;
    void (*add)(made_gguf *m);
} change;

static void put_keys(made_gguf *m, const char *arch, const key_value *keys, size_t n, const char *without)
{
    for (size_t i = 0; i < n; i++) {
        char key[64];
        if (without != NULL && strcmp(keys[i].key, without) == 0) continue;
        (void)snprintf(key, sizeof key, "%s.%s", arch, keys[i].key);
        made_gguf_u32(m, key, keys[i].value);
    }
}

static void put_floats(made_gguf *m, const char *name, uint32_t rank, const uint64_t *ne, float value)
{
    float  x[CHANNELS * TAPS];
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= ne[i];
    assert_in_range(n, 1, CHANNELS * TAPS);
    for (size_t i = 0; i < n; i++) x[i] = value;
    made_gguf_tensor(m, name, rank, ne, 0, x, n * sizeof *x);
}

static bool left_out(const change *c, const char *key)
{
    return c->without != NULL && strcmp(c->without, key) == 0;
}

static void make_model(str *file, const char *arch, const change *c)
{
    static const char *const tokens[VOCAB] = {"a", "b", "<|im_end|>", "<|endoftext|>", "[PAD4]"};
    static const int32_t     sections[]    = {1, 0, 0, 0};
    made_gguf                m;
    char                     key[64];
    made_gguf_begin(&m);
    if (!left_out(c, "general.architecture")) made_gguf_text(&m, "general.architecture", arch);
    put_keys(&m, arch, dense, sizeof dense / sizeof dense[0], c->without);
    if (strcmp(arch, "qwen35moe") == 0) put_keys(&m, arch, moe, sizeof moe / sizeof moe[0], c->without);
    (void)snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    if (!left_out(c, "epsilon")) made_gguf_f32(&m, key, 0x1p-20f);
    (void)snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    if (!left_out(c, "freq_base")) made_gguf_f32(&m, key, 10000.0f);
    (void)snprintf(key, sizeof key, "%s.rope.dimension_sections", arch);
    if (!left_out(c, "sections")) made_gguf_array(&m, key, GGUF_I32, 4, sections, sizeof sections);
    if (!left_out(c, "tokens")) made_gguf_texts(&m, "tokenizer.ggml.tokens", tokens, VOCAB);
    made_gguf_u32(&m, "tokenizer.ggml.eos_token_id", 2);
    if (!left_out(c, "token_embd")) put_floats(&m, "token_embd.weight", 2, (const uint64_t[]){HIDDEN, VOCAB}, 0.5f);
    if (!left_out(c, "norms")) put_floats(&m, "blk.0.attn_norm.weight", 1, (const uint64_t[]){HIDDEN}, 1.0f);
    if (c->add != NULL) c->add(&m);
    made_gguf_end(&m, file);
}

static weir_status open_model(checkpoint **out, const char *dir, const char *name, const str *file, weir_error *err)
{
    char path[4096];
    made_file(dir, name, file->data, file->len);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return checkpoint_open(out, path, err);
}

/* The model of a change, opened; the caller closes it. */
static checkpoint *must_open(const char *arch, const change *c)
{
    char       *dir = made_dir();
    str         file;
    checkpoint *ck;
    weir_error  err;
    make_model(&file, arch, c);
    if (open_model(&ck, dir, "m.gguf", &file, &err) != WEIR_OK) fail_msg("%s", err.text);
    str_free(&file);
    made_remove(dir); /* the mapping stays */
    return ck;
}

/* ---- metadata ---- */

static void every_key_arrives(void **state)
{
    (void)state;
    checkpoint   *ck = must_open("qwen35", &(change){0});
    const config *c  = checkpoint_config(ck);
    assert_string_equal(c->model_type, "qwen3_5_text");
    assert_false(c->is_moe);
    assert_int_equal(c->hidden_size, HIDDEN);
    assert_int_equal(c->n_layers, LAYERS);
    assert_int_equal(c->vocab_size, VOCAB);
    assert_int_equal(c->intermediate_size, 16);
    assert_int_equal(c->n_heads, 6);
    assert_int_equal(c->n_kv_heads, 2);
    assert_int_equal(c->head_dim, 4);
    assert_true(c->rms_norm_eps == 0x1p-20);
    assert_true(c->tie_word_embeddings);
    assert_int_equal(c->max_position, 100);
    for (uint32_t i = 0; i < LAYERS; i++) assert_int_equal(c->layers[i], i % 2 == 1 ? CONFIG_FULL : CONFIG_LINEAR);
    assert_int_equal(c->linear_n_key_heads, 2);
    assert_int_equal(c->linear_n_value_heads, 4);
    assert_int_equal(c->linear_key_dim, 2);
    assert_int_equal(c->linear_value_dim, 3);
    assert_int_equal(c->conv_kernel, TAPS);
    assert_true(c->linear_heads_tiled);
    assert_int_equal(c->rope.type, CONFIG_ROPE_DEFAULT);
    assert_true(c->rope.theta == 10000.0 && c->rope.partial_rotary_factor == 0.5);
    assert_true(c->rope.factor == 1.0 && c->rope.attention_factor == 1.0);
    assert_int_equal(c->rope.rotary_dim, 2);
    assert_true(c->rope.mrope_section[0] == 1 && c->rope.mrope_section[1] == 0 && c->rope.mrope_interleaved);
    assert_int_equal(c->mtp_layers, 0);
    assert_int_equal(c->n_eos, 2); /* <|im_end|> by its key, <|endoftext|> by its name */
    assert_true(c->eos[0] == 2 && c->eos[1] == 3);
    assert_true(c->sampling.do_sample && c->sampling.temperature == 1.0 && c->sampling.top_k == 0);
    const checkpoint_convention *v = checkpoint_conventions(ck);
    assert_true(v->decay_is_rate && !v->gain_minus_one && !v->conv_channel_last && !v->has_mtp);
    assert_non_null(checkpoint_gguf(ck));
    checkpoint_close(ck);
}

static void add_output(made_gguf *m)
{
    put_floats(m, "output.weight", 2, (const uint64_t[]){HIDDEN, VOCAB}, 0.25f);
    made_gguf_f32(m, "general.sampling.temp", 0.5f);
    made_gguf_u32(m, "general.sampling.top_k", 20);
    made_gguf_bool(m, "qwen35moe.ssm.v_head_reordered", false);
}

static void a_mixture_has_its_own(void **state)
{
    (void)state;
    checkpoint   *ck = must_open("qwen35moe", &(change){.without = "feed_forward_length", .add = add_output});
    const config *c  = checkpoint_config(ck);
    assert_string_equal(c->model_type, "qwen3_5_moe_text");
    assert_true(c->is_moe && !c->tie_word_embeddings && !c->linear_heads_tiled);
    assert_int_equal(c->n_experts, 8);
    assert_int_equal(c->n_experts_per_token, 2);
    assert_int_equal(c->moe_intermediate_size, 16);
    assert_int_equal(c->shared_intermediate_size, 24);
    assert_true(c->sampling.temperature == 0.5 && c->sampling.top_k == 20);
    checkpoint_close(ck);
}

static void add_kv_list(made_gguf *m)
{
    const uint32_t heads[LAYERS] = {2, 0, 0, 2}, ids[] = {1, 2};
    made_gguf_array(m, "qwen35.attention.head_count_kv", GGUF_U32, LAYERS, heads, sizeof heads);
    made_gguf_array(m, "tokenizer.ggml.eos_token_ids", GGUF_U32, 2, ids, sizeof ids);
}

static void add_recurrent(made_gguf *m)
{
    const uint8_t flags[LAYERS] = {0, 1, 1, 1};
    made_gguf_array(m, "qwen35.attention.recurrent_layers", GGUF_BOOL, LAYERS, flags, sizeof flags);
}

/* One number a layer, as ollama writes it, and flags, as newer converters do, say more than the interval. */
static void layers_may_be_listed(void **state)
{
    (void)state;
    checkpoint   *ck = must_open("qwen35", &(change){.without = "attention.head_count_kv", .add = add_kv_list});
    const config *c  = checkpoint_config(ck);
    assert_int_equal(c->n_kv_heads, 2);
    assert_true(c->layers[0] == CONFIG_FULL && c->layers[1] == CONFIG_LINEAR && c->layers[3] == CONFIG_FULL);
    assert_int_equal(c->n_eos, 3);
    checkpoint_close(ck);
    ck = must_open("qwen35", &(change){.add = add_recurrent});
    c  = checkpoint_config(ck);
    assert_true(c->layers[0] == CONFIG_FULL && c->layers[1] == CONFIG_LINEAR && c->layers[3] == CONFIG_LINEAR);
    checkpoint_close(ck);
}

/* ---- refusals ---- */

#define ADD_U32(name, key, value) \
    static void name(made_gguf *m) \
    { \
        made_gguf_u32(m, "qwen35." key, value); \
    }
ADD_U32(odd_heads, "attention.head_count", 5)
ADD_U32(wide_values, "attention.value_length", 8)
ADD_U32(odd_inner, "ssm.inner_size", 13)
ADD_U32(odd_ranks, "ssm.time_step_rank", 3)
ADD_U32(one_tap, "ssm.conv_kernel", 1)
ADD_U32(no_layers, "block_count", 0)
ADD_U32(mtp_only, "nextn_predict_layers", LAYERS)
ADD_U32(odd_rotary, "rope.dimension_count", 3)
ADD_U32(sigmoid, "expert_gating_func", 2)
#undef ADD_U32

static void add_scaling(made_gguf *m)
{
    made_gguf_text(m, "qwen35.rope.scaling.type", "yarn");
}

static void add_short_kv_list(made_gguf *m)
{
    const uint32_t heads[] = {2, 0, 0};
    made_gguf_array(m, "qwen35.attention.head_count_kv", GGUF_U32, 3, heads, sizeof heads);
}

static void add_mixed_kv_list(made_gguf *m)
{
    const uint32_t heads[] = {2, 0, 0, 3};
    made_gguf_array(m, "qwen35.attention.head_count_kv", GGUF_U32, 4, heads, sizeof heads);
}

static void add_wide_sections(made_gguf *m)
{
    const int32_t sections[] = {1, 1, 0};
    made_gguf_array(m, "qwen35.rope.dimension_sections", GGUF_I32, 3, sections, sizeof sections);
}

static void add_few_tokens(made_gguf *m)
{
    static const char *const tokens[] = {"a", "b"};
    made_gguf_texts(m, "tokenizer.ggml.tokens", tokens, 2);
}

static void add_norms_minus_one(made_gguf *m)
{
    put_floats(m, "blk.0.attn_norm.weight", 1, (const uint64_t[]){HIDDEN}, 0.05f);
}

static void add_logs(made_gguf *m)
{
    put_floats(m, "blk.0.ssm_a", 1, (const uint64_t[]){4}, 1.5f);
}

static void add_twice(made_gguf *m)
{
    put_floats(m, "blk.0.ssm_dt", 1, (const uint64_t[]){4}, 1.5f);
    put_floats(m, "blk.0.ssm_dt.bias", 1, (const uint64_t[]){4}, 1.5f);
}

static void add_wrong_split(made_gguf *m)
{
    made_gguf_u32(m, "split.count", 2);
    made_gguf_u32(m, "split.no", 0);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    static const struct {
        change      c;
        weir_status status;
        const char *fragment;
    } cases[] = {
        {{"general.architecture", NULL}, WEIR_FORMAT, "general.architecture: expected a string, found nothing"},
        {{"embedding_length", NULL}, WEIR_FORMAT, "qwen35.embedding_length: expected a whole number of 1..131072"},
        {{"feed_forward_length", NULL}, WEIR_FORMAT, "qwen35.feed_forward_length"},
        {{"attention.head_count_kv", NULL}, WEIR_FORMAT, "qwen35.attention.head_count_kv"},
        {{"ssm.inner_size", NULL}, WEIR_FORMAT, "qwen35.ssm.inner_size"},
        {{"epsilon", NULL}, WEIR_FORMAT, "qwen35.attention.layer_norm_rms_epsilon"},
        {{"freq_base", NULL}, WEIR_FORMAT, "qwen35.rope.freq_base"},
        {{"token_embd", NULL}, WEIR_FORMAT, "token_embd.weight: expected the tensor"},
        {{"attention.head_count", odd_heads}, WEIR_FORMAT, "a multiple of attention.head_count_kv, found 5"},
        {{"attention.value_length", wide_values}, WEIR_UNSUPPORTED, "qwen35.attention.value_length"},
        {{"ssm.inner_size", odd_inner}, WEIR_FORMAT, "found 13 for 4 heads"},
        {{"ssm.time_step_rank", odd_ranks}, WEIR_FORMAT, "a multiple of ssm.group_count, found 3"},
        {{"ssm.conv_kernel", one_tap}, WEIR_FORMAT, "qwen35.ssm.conv_kernel"},
        {{"block_count", no_layers}, WEIR_FORMAT, "qwen35.block_count"},
        {{NULL, mtp_only}, WEIR_FORMAT, "qwen35.block_count: expected a whole number of 5..1024, found 4"},
        {{"rope.dimension_count", odd_rotary}, WEIR_FORMAT, "qwen35.rope.dimension_count: expected an even number"},
        {{NULL, sigmoid}, WEIR_UNSUPPORTED, "qwen35.expert_gating_func"},
        {{NULL, add_scaling}, WEIR_UNSUPPORTED, "qwen35.rope.scaling.type"},
        {{"attention.head_count_kv", add_short_kv_list}, WEIR_FORMAT, "an entry for every layer"},
        {{"attention.head_count_kv", add_mixed_kv_list}, WEIR_FORMAT, "the same number in all attention layers"},
        {{"sections", add_wide_sections}, WEIR_FORMAT, "add up to half of rope.dimension_count"},
        {{"tokens", add_few_tokens},
         WEIR_FORMAT,
         "tokenizer.ggml.tokens: expected as many as token_embd.weight has rows"},
        {{"norms", add_norms_minus_one}, WEIR_FORMAT, "norm gains: expected gamma"},
        {{NULL, add_logs}, WEIR_FORMAT, "blk.0.ssm_a: expected decay rates -exp(A_log), found 1.5"},
        {{NULL, add_twice}, WEIR_FORMAT, "expected one tensor of this meaning"},
        {{NULL, add_wrong_split}, WEIR_FORMAT, "expected a file named NAME-00001-of-00002.gguf"},
    };
    char *dir = made_dir();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        str         file;
        checkpoint *ck;
        weir_error  err;
        make_model(&file, "qwen35", &cases[i].c);
        check_failure(open_model(&ck, dir, "m.gguf", &file, &err), cases[i].status, &err, cases[i].fragment,
                      (const char *[]){"m.gguf", cases[i].fragment, NULL});
        assert_null(ck);
        str_free(&file);
    }
    made_remove(dir);
}

static void another_architecture_is_refused_by_name(void **state)
{
    (void)state;
    char       *dir = made_dir();
    str         file;
    checkpoint *ck;
    weir_error  err;
    make_model(&file, "llama", &(change){0});
    check_failure(open_model(&ck, dir, "m.gguf", &file, &err), WEIR_UNSUPPORTED, &err, "llama",
                  (const char *[]){"m.gguf", "expected qwen35 or qwen35moe, found \"llama\"", NULL});
    str_free(&file);
    made_remove(dir);
}

/* ---- names and shapes ---- */

static void names_become_ours(void **state)
{
    (void)state;
    static const struct {
        const char     *raw;
        checkpoint_part part;
        const char     *name;
    } cases[] = {
        {"token_embd.weight", CHECKPOINT_TRUNK, "embed_tokens.weight"},
        {"output.weight", CHECKPOINT_HEAD, "lm_head.weight"},
        {"output_norm.weight", CHECKPOINT_TRUNK, "norm.weight"},
        {"blk.0.attn_norm.weight", CHECKPOINT_TRUNK, "layers.0.input_layernorm.weight"},
        {"blk.3.post_attention_norm.weight", CHECKPOINT_TRUNK, "layers.3.post_attention_layernorm.weight"},
        {"blk.3.attn_q.weight", CHECKPOINT_TRUNK, "layers.3.self_attn.q_proj.weight"},
        {"blk.3.attn_output.weight", CHECKPOINT_TRUNK, "layers.3.self_attn.o_proj.weight"},
        {"blk.0.attn_qkv.weight", CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_qkv.weight"},
        {"blk.0.attn_gate.weight", CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_z.weight"},
        {"blk.0.ssm_alpha.weight", CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_a.weight"},
        {"blk.0.ssm_beta.weight", CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_b.weight"},
        {"blk.0.ssm_a", CHECKPOINT_TRUNK, "layers.0.linear_attn.A_log"},
        {"blk.0.ssm_dt.bias", CHECKPOINT_TRUNK, "layers.0.linear_attn.dt_bias"},
        {"blk.0.ssm_dt", CHECKPOINT_TRUNK, "layers.0.linear_attn.dt_bias"},
        {"blk.0.ffn_down_exps.weight", CHECKPOINT_TRUNK, "layers.0.mlp.switch_mlp.down_proj.weight"},
        {"blk.0.ffn_gate_inp.weight", CHECKPOINT_TRUNK, "layers.0.mlp.gate.weight"},
        {"blk.4.attn_q.weight", CHECKPOINT_MTP, "layers.0.self_attn.q_proj.weight"},
        {"blk.5.ffn_up.weight", CHECKPOINT_MTP, "layers.1.mlp.up_proj.weight"},
        {"blk.4.nextn.eh_proj.weight", CHECKPOINT_MTP, "fc.weight"},
        {"blk.4.nextn.enorm.weight", CHECKPOINT_MTP, "pre_fc_norm_embedding.weight"},
        {"blk.4.nextn.hnorm.weight", CHECKPOINT_MTP, "pre_fc_norm_hidden.weight"},
        {"blk.4.nextn.shared_head_norm.weight", CHECKPOINT_MTP, "norm.weight"},
        {"blk.4.nextn.embed_tokens.weight", CHECKPOINT_MTP, "blk.4.nextn.embed_tokens.weight"},
        {"blk.3.nextn.eh_proj.weight", CHECKPOINT_TRUNK, "blk.3.nextn.eh_proj.weight"},
        {"blk.3.unknown", CHECKPOINT_TRUNK, "blk.3.unknown"},
        {"blk.-1.attn_q.weight", CHECKPOINT_TRUNK, "blk.-1.attn_q.weight"},
        {"blk.99999999999999999999.attn_q.weight", CHECKPOINT_TRUNK, "blk.99999999999999999999.attn_q.weight"},
        {"v.blk.0.attn_out.weight", CHECKPOINT_VISION, "v.blk.0.attn_out.weight"},
        {"mm.0.weight", CHECKPOINT_VISION, "mm.0.weight"},
        {"mtp.fc.weight", CHECKPOINT_MTP, "mtp.fc.weight"},
        {"rope_freqs.weight", CHECKPOINT_TRUNK, "rope_freqs.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[GGUF_MAX_CANONICAL];
        assert_int_equal(gguf_canonical(cases[i].raw, LAYERS, name), cases[i].part);
        assert_string_equal(name, cases[i].name);
    }
}

static void add_shapes(made_gguf *m)
{
    put_floats(m, "blk.0.ssm_conv1d.weight", 2, (const uint64_t[]){TAPS, CHANNELS}, 0.5f);
    put_floats(m, "blk.0.ffn_gate_inp_shexp.weight", 1, (const uint64_t[]){HIDDEN}, 0.5f);
    made_gguf_tensor(m, "blk.0.ffn_gate.weight", 2, (const uint64_t[]){256, 1}, 16, (const uint8_t[66]){0}, 66);
}

static void shapes_and_types_are_the_canonical_ones(void **state)
{
    (void)state;
    checkpoint              *ck     = must_open("qwen35", &(change){.add = add_shapes});
    const uint64_t           conv[] = {CHANNELS, 1, TAPS}, gate[] = {1, HIDDEN}, embed[] = {VOCAB, HIDDEN};
    const checkpoint_tensor *t;
    weir_error               err;
    assert_int_equal(checkpoint_require(ck, CHECKPOINT_TRUNK, "layers.0.linear_attn.conv1d.weight", 3, conv, &t, NULL),
                     WEIR_OK);
    assert_string_equal(t->raw_name, "blk.0.ssm_conv1d.weight");
    assert_int_equal(t->bytes, CHANNELS * TAPS * 4);
    assert_int_equal(
        checkpoint_require(ck, CHECKPOINT_TRUNK, "layers.0.mlp.shared_expert_gate.weight", 2, gate, &t, NULL), WEIR_OK);
    assert_int_equal(checkpoint_require(ck, CHECKPOINT_TRUNK, "embed_tokens.weight", 2, embed, &t, NULL), WEIR_OK);
    check_failure(
        checkpoint_require(ck, CHECKPOINT_TRUNK, "layers.0.mlp.gate_proj.weight", -1, NULL, &t, &err), WEIR_UNSUPPORTED,
        &err, "IQ2_XXS",
        (const char *[]){"m.gguf: blk.0.ffn_gate.weight", "expected F32, F16, BF16, Q8_0", "found IQ2_XXS", NULL});
    checkpoint_close(ck);
}

/* ---- the MTP head ---- */

static void add_mtp(made_gguf *m)
{
    made_gguf_u32(m, "qwen35.nextn_predict_layers", 1);
    put_floats(m, "output_norm.weight", 1, (const uint64_t[]){HIDDEN}, 1.25f);
    put_floats(m, "blk.3.nextn.eh_proj.weight", 2, (const uint64_t[]){2 * HIDDEN, 4}, 0.5f);
}

static void a_head_without_a_norm_has_the_trunks(void **state)
{
    (void)state;
    checkpoint *ck = must_open("qwen35", &(change){.add = add_mtp});
    assert_int_equal(checkpoint_config(ck)->n_layers, LAYERS - 1);
    assert_int_equal(checkpoint_config(ck)->mtp_layers, 1);
    assert_true(checkpoint_conventions(ck)->has_mtp && !checkpoint_conventions(ck)->mtp_gain_minus_one);
    const checkpoint_tensor *own   = checkpoint_find(ck, CHECKPOINT_MTP, "norm.weight");
    const checkpoint_tensor *trunk = checkpoint_find(ck, CHECKPOINT_TRUNK, "norm.weight");
    assert_non_null(own);
    assert_non_null(checkpoint_find(ck, CHECKPOINT_MTP, "fc.weight"));
    assert_ptr_equal(own->data, trunk->data);
    checkpoint_close(ck);
}

/* Split files must say the same, and link to nothing outside. */
static void split_files_belong_together(void **state)
{
    (void)state;
    static const struct {
        uint32_t    no, count, total;
        const char *fragment; /* NULL: sound */
    } cases[] = {{1, 2, 2, NULL},
                 {0, 2, 2, "m-00002-of-00002.gguf: split.no, split.count: expected 1 of 2, found 0 of 2"},
                 {1, 3, 2, "expected 1 of 2, found 1 of 3"},
                 {1, 2, 3, "m-00001-of-00002.gguf: split.tensors.count: expected 3 tensors in all files, found 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char       *dir = made_dir();
        made_gguf   a, b;
        str         file;
        gguf_set    s;
        weir_error  err;
        char        path[4096];
        const float x[8] = {0};
        made_gguf_begin(&a);
        made_gguf_u32(&a, "split.no", 0);
        made_gguf_u32(&a, "split.count", 2);
        made_gguf_u32(&a, "split.tensors.count", cases[i].total);
        made_gguf_tensor(&a, "x", 1, (const uint64_t[]){8}, 0, x, sizeof x);
        made_gguf_end(&a, &file);
        made_file(dir, "m-00001-of-00002.gguf", file.data, file.len);
        str_free(&file);
        made_gguf_begin(&b);
        made_gguf_u32(&b, "split.no", cases[i].no);
        made_gguf_u32(&b, "split.count", cases[i].count);
        made_gguf_tensor(&b, "y", 1, (const uint64_t[]){8}, 0, x, sizeof x);
        made_gguf_end(&b, &file);
        made_file(dir, "m-00002-of-00002.gguf", file.data, file.len);
        str_free(&file);
        (void)snprintf(path, sizeof path, "%s/m-00001-of-00002.gguf", dir);
        const weir_status st = gguf_set_open(&s, path, &err);
        if (cases[i].fragment == NULL) {
            if (st != WEIR_OK) fail_msg("%s", err.text);
            assert_int_equal(s.n, 2);
            assert_non_null(gguf_set_find(&s, "y"));
            assert_null(gguf_set_find(&s, "z"));
            gguf_set_close(&s);
        } else {
            check_failure(st, WEIR_FORMAT, &err, "split", (const char *[]){cases[i].fragment, NULL});
            assert_null(s.files);
        }
        made_remove(dir);
    }
}

/* ---- a folder ---- */

/* What is in the folder, and what opening it says: NULL, it opens. */
typedef struct folder_case {
    const char *files[5];
    const char *fragments[3];
} folder_case;

static void a_folder_of_one_file_opens(void **state)
{
    (void)state;
    static const folder_case cases[] = {
        {{"m.gguf"}, {NULL}},
        {{"m.gguf", "mmproj-F16.gguf", "README.md"}, {NULL}},
        {{"a.gguf", "b.gguf"}, {"expected one model, found 2: a.gguf, b.gguf"}},
        {{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b.gguf"}, {"found 2: a-00001-of-00002.gguf, b.gguf"}},
        /* One set: its first file is opened, though here it does not say that it is split. */
        {{"m-00002-of-00002.gguf", "m-00001-of-00002.gguf"}, {NULL}},
        {{"m-00002-of-00002.gguf"}, {"m-00001-of-00002.gguf", "No such file"}},
        {{"README.md"}, {"model"}},
        {{"m.gguf", "config.json"}, {"model"}}, /* config.json speaks for safetensors */
    };
    str file;
    make_model(&file, "qwen35", &(change){0});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char       *dir = made_dir();
        checkpoint *c;
        weir_error  err;
        for (size_t k = 0; cases[i].files[k] != NULL; k++) made_file(dir, cases[i].files[k], file.data, file.len);
        const weir_status st = checkpoint_open(&c, dir, &err);
        if (cases[i].fragments[0] == NULL) {
            if (st != WEIR_OK) fail_msg("%zu: %s", i, err.text);
            assert_non_null(checkpoint_gguf(c));
            assert_string_equal(checkpoint_path(c) + strlen(dir), i == 4 ? "/m-00001-of-00002.gguf" : "/m.gguf");
            checkpoint_close(c);
        } else {
            assert_true(st != WEIR_OK);
            for (size_t k = 0; cases[i].fragments[k] != NULL; k++)
                if (strstr(err.text, cases[i].fragments[k]) == NULL) fail_msg("%zu: %s", i, err.text);
        }
        made_remove(dir);
    }
    str_free(&file);
}

/* Each allocation fails once: it is said, and nothing leaks. */
static void a_folder_without_memory(void **state)
{
    (void)state;
    char       *dir = made_dir();
    str         file;
    checkpoint *c;
    weir_error  err;
    weir_status st = WEIR_NO_MEMORY;
    make_model(&file, "qwen35", &(change){0});
    made_file(dir, "m-00002-of-00002.gguf", file.data, file.len);
    made_file(dir, "m-00001-of-00002.gguf", file.data, file.len);
    uint64_t n = 0;
    while (st == WEIR_NO_MEMORY) {
        mem_fail_at(++n);
        st = checkpoint_open(&c, dir, &err);
        mem_fail_at(0);
    }
    if (st != WEIR_OK) fail_msg("allocation %llu: %s", (unsigned long long)n, err.text);
    assert_true(n > 10); /* or the hook does nothing */
    checkpoint_close(c);
    str_free(&file);
    made_remove(dir);
}

/* A name that is ours becomes the file's, for messages: there and back for all that are known. */
static void names_become_the_files(void **state)
{
    (void)state;
    static const struct {
        checkpoint_part part;
        const char     *name, *raw;
    } known[] = {{CHECKPOINT_TRUNK, "layers.3.self_attn.q_proj.weight", "blk.3.attn_q.weight"},
                 {CHECKPOINT_TRUNK, "layers.0.linear_attn.dt_bias", "blk.0.ssm_dt.bias"},
                 {CHECKPOINT_TRUNK, "embed_tokens.weight", "token_embd.weight"},
                 {CHECKPOINT_TRUNK, "norm.weight", "output_norm.weight"},
                 {CHECKPOINT_HEAD, "lm_head.weight", "output.weight"},
                 {CHECKPOINT_MTP, "fc.weight", "blk.4.nextn.eh_proj.weight"},
                 {CHECKPOINT_MTP, "layers.0.mlp.up_proj.weight", "blk.4.ffn_up.weight"},
                 {CHECKPOINT_MTP, "norm.weight", "blk.4.nextn.shared_head_norm.weight"}};
    char raw[GGUF_MAX_CANONICAL], name[GGUF_MAX_CANONICAL];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(gguf_raw(known[i].part, known[i].name, 4, raw));
        assert_string_equal(raw, known[i].raw);
        assert_int_equal(gguf_canonical(raw, 4, name), known[i].part);
        assert_string_equal(name, known[i].name);
    }
    assert_false(gguf_raw(CHECKPOINT_TRUNK, "layers.3.self_attn.q_proj.scales", 4, raw));
    assert_false(gguf_raw(CHECKPOINT_TRUNK, "layers.x.mlp.up_proj.weight", 4, raw));

    checkpoint              *c = must_open("qwen35", &(change){0});
    weir_error               err;
    const checkpoint_tensor *t;
    check_failure(checkpoint_require(c, CHECKPOINT_TRUNK, "layers.1.mlp.up_proj.weight", -1, NULL, &t, &err),
                  WEIR_FORMAT, &err, "missing",
                  (const char *[]){"blk.1.ffn_up.weight (layers.1.mlp.up_proj.weight): expected the tensor", NULL});
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_arrives),
        cmocka_unit_test(a_mixture_has_its_own),
        cmocka_unit_test(layers_may_be_listed),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(another_architecture_is_refused_by_name),
        cmocka_unit_test(names_become_ours),
        cmocka_unit_test(shapes_and_types_are_the_canonical_ones),
        cmocka_unit_test(a_head_without_a_norm_has_the_trunks),
        cmocka_unit_test(split_files_belong_together),
        cmocka_unit_test(a_folder_of_one_file_opens),
        cmocka_unit_test(a_folder_without_memory),
        cmocka_unit_test(names_become_the_files),
    };
    return cmocka_run_group_tests_name("gguf model", tests, NULL, NULL);
}
