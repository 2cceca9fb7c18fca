/* tests/unit/checkpoint/test_config.c - config.json: what is read, and what is refused by which name. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "checkpoint/config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURE(name) WEIR_SOURCE_DIR "/tests/fixtures/" name

/* The 27B's published text keys. */
static const char dense[] =
    "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":5120,\"num_hidden_layers\":64,\"intermediate_size\":17408,"
    "\"num_attention_heads\":24,\"num_key_value_heads\":4,\"head_dim\":256,\"vocab_size\":248320,"
    "\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":false,\"full_attention_interval\":4,"
    "\"linear_num_key_heads\":16,\"linear_num_value_heads\":48,\"linear_key_head_dim\":128,"
    "\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,\"attn_output_gate\":true,\"attention_bias\":false,"
    "\"hidden_act\":\"silu\",\"max_position_embeddings\":262144,\"eos_token_id\":248044,\"mtp_num_hidden_layers\":1,"
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,\"partial_rotary_factor\":0.25,"
    "\"mrope_section\":[11,11,10],\"mrope_interleaved\":true}}";

/* Additions that make it a mixture of experts, the 35B-A3B's. */
static const char moe[] = "{\"model_type\":\"qwen3_5_moe_text\",\"num_experts\":256,\"num_experts_per_tok\":8,"
                          "\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":512}";

static json_t *parsed(const char *text)
{
    json_error_t e;
    json_t      *v = json_loads(text, 0, &e);
    if (v == NULL) fail_msg("the test's own JSON is wrong: %s: %s", e.text, text);
    return v;
}

/* Members of `patch` replace those of `base`, objects go into objects, "DELETE" deletes. */
static void merge(json_t *base, const json_t *patch)
{
    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)patch, key, v)
    {
        json_t *old = json_object_get(base, key);
        if (json_is_string(v) && strcmp(json_string_value(v), "DELETE") == 0)
            (void)json_object_del(base, key);
        else if (json_is_object(v) && json_is_object(old))
            merge(old, v);
        else
            (void)json_object_set(base, key, v);
    }
}

static weir_status parse_json(config *c, const json_t *main, const char *generation, weir_error *err)
{
    char *text = json_dumps(main, JSON_COMPACT);
    assert_non_null(text);
    const config_text a  = {"config.json", text, strlen(text)};
    const config_text b  = {"generation_config.json", generation, generation != NULL ? strlen(generation) : 0};
    const weir_status st = config_parse(c, &a, generation != NULL ? &b : NULL, err);
    free(text);
    return st;
}

/* The dense configuration with `patch`, flat or inside text_config. */
static weir_status parse_patched(config *c, const char *patch, bool nested, const char *generation, weir_error *err)
{
    json_t *text = parsed(dense), *p = parsed(patch);
    merge(text, p);
    json_t *top = text;
    if (nested) {
        const char *type   = json_string_value(json_object_get(text, "model_type"));
        const bool  is_moe = type != NULL && strstr(type, "moe") != NULL;
        top = json_pack("{s:s,s:o}", "model_type", is_moe ? "qwen3_5_moe" : "qwen3_5", "text_config", text);
    }
    const weir_status st = parse_json(c, top, generation, err);
    json_decref(top);
    json_decref(p);
    return st;
}

static void parse_good(config *c, const char *patch, bool nested, const char *generation)
{
    weir_error err;
    if (parse_patched(c, patch, nested, generation, &err) != WEIR_OK) fail_msg("%s: %s", patch, err.text);
}

static void a_dense_config_is_read(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        config c;
        parse_good(&c, "{}", nested, NULL);
        assert_string_equal(c.model_type, "qwen3_5_text");
        assert_false(c.is_moe);
        assert_int_equal(c.hidden_size, 5120);
        assert_int_equal(c.n_layers, 64);
        assert_int_equal(c.intermediate_size, 17408);
        assert_int_equal(c.n_heads, 24);
        assert_int_equal(c.n_kv_heads, 4);
        assert_int_equal(c.head_dim, 256);
        assert_int_equal(c.vocab_size, 248320);
        assert_true(c.rms_norm_eps == 1e-6);
        assert_int_equal(c.max_position, 262144);
        assert_int_equal(c.conv_kernel, 4);
        assert_int_equal(config_linear_key(&c), 2048);
        assert_int_equal(config_linear_value(&c), 6144);
        assert_int_equal(config_conv_channels(&c), 10240);
        assert_int_equal(c.mtp_layers, 1);
        unsigned full = 0;
        for (uint32_t i = 0; i < c.n_layers; i++) {
            assert_int_equal(c.layers[i], i % 4 == 3 ? CONFIG_FULL : CONFIG_LINEAR);
            full += c.layers[i] == CONFIG_FULL;
        }
        assert_int_equal(full, 16);
        assert_int_equal(c.rope.type, CONFIG_ROPE_DEFAULT);
        assert_true(c.rope.theta == 1e7);
        assert_int_equal(c.rope.rotary_dim, 64);
        assert_int_equal(c.rope.mrope_section[2], 10);
        assert_true(c.rope.mrope_interleaved);
        assert_int_equal(c.n_eos, 1);
        assert_int_equal(c.eos[0], 248044);
        assert_false(c.has_vision);
        assert_true(c.image_token == CONFIG_NO_TOKEN);
        assert_true(c.sampling.do_sample && c.sampling.temperature == 1.0 && c.sampling.top_p == 1.0);
        assert_int_equal(c.sampling.top_k, 0);
        assert_false(c.quant.present);
        config_free(&c);
    }
}

static void a_mixture_of_experts_is_read(void **state)
{
    (void)state;
    json_t *patch = parsed(moe);
    (void)json_object_set_new(patch, "intermediate_size", json_string("DELETE"));
    char *text = json_dumps(patch, 0);
    for (int nested = 0; nested < 2; nested++) {
        config c;
        parse_good(&c, text, nested, NULL);
        assert_true(c.is_moe);
        assert_int_equal(c.n_experts, 256);
        assert_int_equal(c.n_experts_per_token, 8);
        assert_int_equal(c.moe_intermediate_size, 512);
        assert_int_equal(c.shared_intermediate_size, 512);
        assert_int_equal(c.intermediate_size, 0);
        config_free(&c);
    }
    free(text);
    json_decref(patch);
}

static void fixtures_are_read(void **state)
{
    (void)state;
    config     c;
    weir_error err;
    if (config_load(&c, FIXTURE("tiny-odd"), &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(c.hidden_size, 96);
    assert_int_equal(c.full_attention_interval, 2);
    assert_int_equal(c.layers[0], CONFIG_LINEAR);
    assert_int_equal(c.layers[1], CONFIG_FULL);
    assert_int_equal(c.rope.rotary_dim, 16);
    assert_true(c.rms_norm_eps == 1e-5);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 299);
    assert_true(c.sampling.temperature == 0.6 && c.sampling.top_p == 0.95);
    assert_int_equal(c.sampling.top_k, 20);
    config_free(&c);

    if (config_load(&c, FIXTURE("tiny-moe"), &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_true(c.is_moe && c.has_vision);
    assert_int_equal(c.image_token, 500);
    assert_int_equal(c.video_token, 501);
    assert_int_equal(c.vision_start_token, 498);
    assert_int_equal(c.vision_end_token, 499);
    assert_int_equal(c.n_eos, 2); /* [511, 509] of the one file, 511 of the other */
    assert_int_equal(c.eos[0], 511);
    assert_int_equal(c.eos[1], 509);
    config_free(&c);
}

static void ends_of_text_are_united(void **state)
{
    (void)state;
    static const struct {
        const char *patch, *generation;
        uint32_t    n, ids[4];
    } cases[] = {
        {"{}", "{\"eos_token_id\":[248046,248044]}", 2, {248046, 248044}},
        {"{}", "{\"eos_token_id\":248046}", 2, {248046, 248044}},
        {"{\"eos_token_id\":[1,2]}", "{\"eos_token_id\":[2,3]}", 3, {2, 3, 1}},
        {"{\"eos_token_id\":null}", "{}", 0, {0}},
        {"{\"eos_token_id\":\"DELETE\"}", NULL, 0, {0}},
        {"{\"eos_token_id\":[]}", "{\"eos_token_id\":0}", 1, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config c;
        parse_good(&c, cases[i].patch, i % 2 == 0, cases[i].generation);
        assert_int_equal(c.n_eos, cases[i].n);
        for (uint32_t k = 0; k < c.n_eos; k++) assert_int_equal(c.eos[k], cases[i].ids[k]);
        config_free(&c);
    }
}

static void absent_keys_get_the_family_s_values(void **state)
{
    (void)state;
    config c;
    parse_good(&c,
               "{\"rms_norm_eps\":\"DELETE\",\"full_attention_interval\":\"DELETE\",\"linear_conv_kernel_dim\":"
               "\"DELETE\",\"max_position_embeddings\":\"DELETE\",\"mtp_num_hidden_layers\":\"DELETE\","
               "\"tie_word_embeddings\":\"DELETE\",\"hidden_act\":\"DELETE\"}",
               false, NULL);
    assert_true(c.rms_norm_eps == 1e-6);
    assert_int_equal(c.full_attention_interval, 4);
    assert_int_equal(c.layers[3], CONFIG_FULL);
    assert_int_equal(c.conv_kernel, 4);
    assert_int_equal(c.max_position, 32768);
    assert_int_equal(c.mtp_layers, 0);
    assert_false(c.tie_word_embeddings);
    config_free(&c);
}

static void the_mtp_alias_is_known(void **state)
{
    (void)state;
    config c;
    parse_good(&c, "{\"mtp_num_hidden_layers\":\"DELETE\",\"num_nextn_predict_layers\":1}", true, NULL);
    assert_int_equal(c.mtp_layers, 1);
    config_free(&c);
}

static void rope_has_older_forms(void **state)
{
    (void)state;
    config c;
    parse_good(&c, "{\"rope_parameters\":\"DELETE\",\"rope_theta\":5e6,\"partial_rotary_factor\":0.5}", false, NULL);
    assert_true(c.rope.theta == 5e6);
    assert_int_equal(c.rope.rotary_dim, 128);
    assert_true(c.rope.factor == 1.0 && c.rope.attention_factor == 1.0);
    assert_int_equal(c.rope.mrope_section[0], 0);
    config_free(&c);

    parse_good(
        &c, "{\"rope_parameters\":\"DELETE\",\"rope_theta\":5e6,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
        true, NULL);
    assert_int_equal(c.rope.type, CONFIG_ROPE_LINEAR);
    assert_true(c.rope.factor == 2.0);
    assert_int_equal(c.rope.rotary_dim, 64);
    config_free(&c);
}

static void yarn_fills_in_its_constants(void **state)
{
    (void)state;
    config c;
    parse_good(
        &c, "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":262144}}",
        true, NULL);
    assert_int_equal(c.rope.type, CONFIG_ROPE_YARN);
    assert_true(c.rope.factor == 4.0 && c.rope.beta_fast == 32.0 && c.rope.beta_slow == 1.0);
    assert_int_equal(c.rope.original_max_position, 262144);
    assert_true(fabs(c.rope.attention_factor - 1.138629) < 1e-6);
    config_free(&c);

    parse_good(&c,
               "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":1024,"
               "\"beta_fast\":16,\"beta_slow\":2,\"attention_factor\":1.5}}",
               false, NULL);
    assert_true(c.rope.beta_fast == 16.0 && c.rope.beta_slow == 2.0 && c.rope.attention_factor == 1.5);
    config_free(&c);
}

/* A change of the text part and the failure it must cause; `field` is in the message. */
typedef struct bad_text {
    const char *patch;
    weir_status status;
    const char *field;
} bad_text;

#define F WEIR_FORMAT
#define U WEIR_UNSUPPORTED

static const bad_text bad_texts[] = {
    /* required, and no other reading of their absence */
    {"{\"hidden_size\":\"DELETE\"}", F, "hidden_size"},
    {"{\"num_hidden_layers\":null}", F, "num_hidden_layers"},
    {"{\"intermediate_size\":\"DELETE\"}", F, "intermediate_size"},
    {"{\"num_attention_heads\":\"DELETE\"}", F, "num_attention_heads"},
    {"{\"num_key_value_heads\":\"DELETE\"}", F, "num_key_value_heads"},
    {"{\"head_dim\":\"DELETE\"}", F, "head_dim"},
    {"{\"vocab_size\":\"DELETE\"}", F, "vocab_size"},
    {"{\"linear_num_key_heads\":\"DELETE\"}", F, "linear_num_key_heads"},
    {"{\"linear_num_value_heads\":\"DELETE\"}", F, "linear_num_value_heads"},
    {"{\"linear_key_head_dim\":\"DELETE\"}", F, "linear_key_head_dim"},
    {"{\"linear_value_head_dim\":\"DELETE\"}", F, "linear_value_head_dim"},
    {"{\"rope_parameters\":\"DELETE\"}", F, "rope_parameters"},
    {"{\"rope_parameters\":{\"rope_theta\":\"DELETE\"}}", F, "rope_theta"},
    /* kinds and ranges */
    {"{\"hidden_size\":\"5120\"}", F, "hidden_size: expected an integer, found a string"},
    {"{\"hidden_size\":5120.0}", F, "hidden_size"},
    {"{\"hidden_size\":0}", F, "hidden_size: expected 1..131072, found 0"},
    {"{\"hidden_size\":-1}", F, "hidden_size"},
    {"{\"hidden_size\":131073}", F, "hidden_size"},
    {"{\"hidden_size\":4294967296}", F, "hidden_size"},
    {"{\"num_hidden_layers\":1025}", F, "num_hidden_layers"},
    {"{\"intermediate_size\":9223372036854775807}", F, "intermediate_size"},
    {"{\"vocab_size\":2097153}", F, "vocab_size"},
    {"{\"head_dim\":1}", F, "head_dim"},
    {"{\"head_dim\":2048}", F, "head_dim"},
    {"{\"num_attention_heads\":2000,\"num_key_value_heads\":2000}", F, "num_attention_heads"},
    {"{\"num_attention_heads\":1024,\"head_dim\":1024,\"rope_parameters\":{\"mrope_section\":null}}", WEIR_OK, ""},
    {"{\"linear_num_value_heads\":1024,\"linear_value_head_dim\":1025}", F, "linear_value_head_dim"},
    {"{\"max_position_embeddings\":0}", F, "max_position_embeddings"},
    {"{\"rms_norm_eps\":0}", F, "rms_norm_eps"},
    {"{\"rms_norm_eps\":-1e-6}", F, "rms_norm_eps"},
    {"{\"rms_norm_eps\":1}", F, "rms_norm_eps"},
    {"{\"rms_norm_eps\":\"1e-6\"}", F, "rms_norm_eps"},
    {"{\"mtp_num_hidden_layers\":17}", F, "mtp_num_hidden_layers"},
    {"{\"num_nextn_predict_layers\":2}", F, "num_nextn_predict_layers"},
    {"{\"eos_token_id\":248320}", F, "eos_token_id: expected 0..248319, found 248320"},
    {"{\"eos_token_id\":-1}", F, "eos_token_id"},
    {"{\"eos_token_id\":\"<|im_end|>\"}", F, "eos_token_id"},
    {"{\"eos_token_id\":[1,[2]]}", F, "eos_token_id"},
    {"{\"tie_word_embeddings\":1}", F, "tie_word_embeddings"},
    /* what must divide */
    {"{\"num_key_value_heads\":5}", F, "num_attention_heads: expected a multiple of 5, found 24"},
    {"{\"linear_num_value_heads\":24}", F, "linear_num_value_heads: expected a multiple of 16, found 24"},
    {"{\"rope_parameters\":{\"partial_rotary_factor\":0.25390625}}", F, "partial_rotary_factor"}, /* 65 dimensions */
    {"{\"rope_parameters\":{\"partial_rotary_factor\":0.001}}", F, "partial_rotary_factor"},
    {"{\"rope_parameters\":{\"partial_rotary_factor\":1.5}}", F, "partial_rotary_factor"},
    /* layer kinds */
    {"{\"layer_types\":[\"full_attention\"]}", F, "layer_types: expected 64 entries"},
    {"{\"num_hidden_layers\":1,\"layer_types\":[7]}", F, "layer_types[0]"},
    {"{\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]}", U, "layer_types[0]"},
    {"{\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"linear_attention\"]}", F, "layer_types[0]"},
    {"{\"full_attention_interval\":0}", F, "full_attention_interval"},
    /* rotary embeddings */
    {"{\"rope_parameters\":{\"rope_type\":\"longrope\"}}", U, "rope_parameters.rope_type"},
    {"{\"rope_parameters\":{\"rope_type\":\"dynamic\"}}", U, "found dynamic"},
    {"{\"rope_parameters\":{\"rope_type\":\"llama3\"}}", U, "found llama3"},
    {"{\"rope_parameters\":{\"rope_type\":null,\"type\":7}}", WEIR_OK, ""}, /* the newer key wins */
    {"{\"rope_parameters\":{\"rope_type\":\"DELETE\",\"type\":\"su\"}}", U, "rope_parameters.type"},
    {"{\"rope_parameters\":{\"rope_type\":\"linear\"}}", F, "rope_parameters.factor"},
    {"{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":0.5}}", F, "rope_parameters.factor"},
    {"{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4}}", F, "original_max_position_embeddings"},
    {"{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":9,\"mscale\":1}}",
     U, "mscale"},
    {"{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":9,"
     "\"truncate\":false}}",
     U, "truncate"},
    {"{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":9,"
     "\"beta_fast\":1,\"beta_slow\":2}}",
     F, "beta_slow"},
    {"{\"rope_parameters\":{\"rope_theta\":0}}", F, "rope_theta"},
    {"{\"rope_parameters\":{\"rope_theta\":\"1e7\"}}", F, "rope_theta"},
    {"{\"rope_parameters\":{\"mrope_section\":[11,11,11]}}", F, "mrope_section"},
    {"{\"rope_parameters\":{\"mrope_section\":[16,16]}}", F, "mrope_section"},
    {"{\"rope_parameters\":{\"mrope_section\":[-1,22,11]}}", F, "mrope_section"},
    {"{\"rope_scaling\":{\"type\":\"yarn\"}}", U, "rope_scaling"},
    {"{\"rope_parameters\":[]}", F, "rope_parameters"},
    /* another graph */
    {"{\"attn_output_gate\":false}", U, "attn_output_gate: expected true, found false"},
    {"{\"attention_bias\":true}", U, "attention_bias: expected false, found true"},
    {"{\"use_sliding_window\":true}", U, "use_sliding_window"},
    {"{\"mtp_use_dedicated_embeddings\":true}", U, "mtp_use_dedicated_embeddings"},
    {"{\"hidden_act\":\"gelu\"}", U, "hidden_act: expected silu, found gelu"},
    {"{\"output_gate_type\":\"sigmoid\"}", U, "output_gate_type"},
    {"{\"linear_conv_kernel_dim\":1}", U, "linear_conv_kernel_dim: expected 2..16, found 1"},
    {"{\"linear_conv_kernel_dim\":17}", U, "linear_conv_kernel_dim"},
    {"{\"model_type\":\"qwen4exp\"}", U, "model_type"},
    {"{\"model_type\":\"qwen3_next\"}", U, "model_type"},
    {"{\"num_experts\":8}", F, "num_experts"},
};

static void every_bad_text_key_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_texts / sizeof bad_texts[0]; i++)
        for (int nested = 0; nested < 2; nested++) {
            const bad_text   *b = &bad_texts[i];
            config            c;
            weir_error        err = {.text = ""};
            const weir_status st  = parse_patched(&c, b->patch, nested, NULL, &err);
            if (st != b->status) fail_msg("%s: status %d: %s", b->patch, (int)st, err.text);
            if (st != WEIR_OK && (strstr(err.text, b->field) == NULL || strstr(err.text, "config.json") == NULL))
                fail_msg("%s: \"%s\" is not in: %s", b->patch, b->field, err.text);
            if (st != WEIR_OK && nested && strstr(b->patch, "model_type") == NULL &&
                strstr(err.text, "text_config.") == NULL)
                fail_msg("%s: the path is not in: %s", b->patch, err.text);
            config_free(&c);
        }
}

/* Whole files: changes of a nested file's top level, or of the mixture of experts. */
typedef struct bad_file {
    const char *text;
    weir_status status;
    const char *field;
} bad_file;

static void check_bad(const char *what, weir_status expected, const char *field, weir_status st, const weir_error *err)
{
    if (st != expected) fail_msg("%s: status %d: %s", what, (int)st, st != WEIR_OK ? err->text : "accepted");
    if (strstr(err->text, field) == NULL) fail_msg("%s: \"%s\" is not in: %s", what, field, err->text);
}

#define TRELLIS(form, trellis) "{\"quantization\":{\"up\":{" form ",\"mode\":\"trellis\",\"trellis\":{" trellis "}}}}"

static void every_bad_top_level_is_named(void **state)
{
    (void)state;
    static const bad_file cases[] = {
        {"{\"model_type\":\"DELETE\"}", F, "model_type"},
        {"{\"model_type\":\"llama\"}", U, "model_type: expected qwen3_5"},
        {"{\"model_type\":\"qwen3_5_mtp\"}", U, "found qwen3_5_mtp"},
        {"{\"model_type\":\"qwen3_5_moe\"}", F, "text_config.model_type"},
        {"{\"architectures\":[\"Qwen3NextForCausalLM\"]}", U, "architectures"},
        {"{\"architectures\":[\"Qwen3_5MoeForCausalLM\"]}", F, "architectures"},
        {"{\"architectures\":[7]}", F, "architectures"},
        {"{\"architectures\":\"Qwen3_5ForCausalLM\"}", F, "architectures"},
        {"{\"tie_word_embeddings\":true}", F, "text_config.tie_word_embeddings"},
        {"{\"vision_config\":7}", F, "vision_config"},
        {"{\"image_token_id\":248320}", F, "image_token_id"},
        {"{\"text_config\":\"dense\"}", F, "text_config"},
        {"{\"quantization\":7}", F, "quantization"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\"}}", U, "quantization_config.quant_method"},
        {"{\"quantization\":{\"bits\":7}}", U, "quantization.bits"},
        {"{\"quantization\":{\"bits\":16}}", U, "quantization.bits"},
        {"{\"quantization\":{\"bits\":0}}", F, "quantization.bits"},
        {"{\"quantization\":{\"bits\":4,\"group_size\":48}}", U, "quantization.group_size"},
        {"{\"quantization\":{\"bits\":4,\"group_size\":256}}", U, "quantization.group_size"},
        {"{\"quantization\":{\"bits\":8,\"mode\":\"mxfp4\"}}", U, "quantization.bits"},
        {"{\"quantization\":{\"bits\":4,\"group_size\":32,\"mode\":\"nvfp4\"}}", U, "quantization.group_size"},
        {"{\"quantization\":{\"mode\":\"turbo\"}}", U, "found turbo"},
        {"{\"quantization\":{\"mode\":\"trellis\"}}", F, "quantization.trellis: expected an object"},
        {"{\"quantization\":{\"mode\":\"trellis\",\"trellis\":7}}", F, "quantization.trellis"},
        {TRELLIS("\"bits\":3", "\"L\":12,\"code\":\"1mad\""), F, "quantization.up.trellis.axis"},
        {TRELLIS("\"bits\":3", "\"L\":12,\"code\":\"1mad\",\"axis\":2"), U, "axis: expected 0 or 1, found 2"},
        {TRELLIS("\"bits\":3", "\"L\":16,\"code\":\"1mad\",\"axis\":1"), U, "L: expected 12, found 16"},
        {TRELLIS("\"bits\":3", "\"code\":\"3inst\",\"axis\":1"), U, "code: expected 1mad, found 3inst"},
        {TRELLIS("\"bits\":9", "\"axis\":1"), U, "bits: expected 1 to 8 (mode trellis), found 9"},
        {TRELLIS("\"group_size\":128", "\"axis\":1"), U, "group_size: expected a power of two in 256..256"},
        {"{\"quantization\":{\"lm_head\":{\"bits\":9}}}", U, "quantization.lm_head.bits"},
        {"{\"quantization\":{\"lm_head\":4}}", U, "quantization.lm_head"},
        {"{\"quantization\":{\"bits\":4},\"quantization_config\":{\"bits\":8}}", F, "quantization_config"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config     c;
        weir_error err;
        json_t    *top = json_pack("{s:s,s:o}", "model_type", "qwen3_5", "text_config", parsed(dense)),
               *patch  = parsed(cases[i].text);
        merge(top, patch);
        check_bad(cases[i].text, cases[i].status, cases[i].field, parse_json(&c, top, NULL, &err), &err);
        json_decref(top);
        json_decref(patch);
    }
}

static void every_bad_expert_key_is_named(void **state)
{
    (void)state;
    static const bad_file cases[] = {
        {"{\"num_experts\":\"DELETE\"}", F, "num_experts"},
        {"{\"num_experts\":0}", F, "num_experts"},
        {"{\"num_experts\":5000}", F, "num_experts"},
        {"{\"num_experts_per_tok\":\"DELETE\"}", F, "num_experts_per_tok"},
        {"{\"num_experts_per_tok\":257}", F, "num_experts_per_tok: expected at most num_experts (256), found 257"},
        {"{\"moe_intermediate_size\":\"DELETE\"}", F, "moe_intermediate_size"},
        {"{\"shared_expert_intermediate_size\":\"DELETE\"}", F, "shared_expert_intermediate_size"},
        {"{\"norm_topk_prob\":false}", U, "norm_topk_prob"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config     c;
        weir_error err;
        json_t    *text = parsed(dense), *experts = parsed(moe), *patch = parsed(cases[i].text);
        merge(text, experts);
        merge(text, patch);
        check_bad(cases[i].text, cases[i].status, cases[i].field, parse_json(&c, text, NULL, &err), &err);
        json_decref(text);
        json_decref(experts);
        json_decref(patch);
    }
}

static void every_bad_generation_key_is_named(void **state)
{
    (void)state;
    static const bad_file cases[] = {
        {"{\"temperature\":-1}", F, "temperature"},
        {"{\"temperature\":\"hot\"}", F, "temperature"},
        {"{\"top_p\":0}", F, "top_p"},
        {"{\"top_p\":1.01}", F, "top_p"},
        {"{\"top_k\":-1}", F, "top_k"},
        {"{\"top_k\":2.5}", F, "top_k"},
        {"{\"do_sample\":\"yes\"}", F, "do_sample"},
        {"{\"eos_token_id\":[248320]}", F, "eos_token_id"},
        {"{\"eos_token_id\":{}}", F, "eos_token_id"},
        {"[]", F, "expected an object"},
        {"{", F, "not valid JSON"},
        {"{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32]"
         "}",
         F, "eos_token_id: expected at most 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config     c;
        weir_error err;
        check_bad(cases[i].text, cases[i].status, cases[i].field, parse_patched(&c, "{}", false, cases[i].text, &err),
                  &err);
        assert_non_null(strstr(err.text, "generation_config.json"));
    }
}

static void bad_json_is_refused(void **state)
{
    (void)state;
    static char deep[200];
    memset(deep, '[', sizeof deep);
    const struct {
        const char *text;
        size_t      n;
        const char *field;
    } cases[] = {
        {"", 0, "not valid JSON"},        {"[]", 2, "expected an object"},
        {"7", 1, "expected an object"},   {"{\"model_type\":\"qwen3_5\",\"model_type\":\"qwen3_5\"}", 47, "duplicate"},
        {"{\"\xc3\x28\":1}", 8, "UTF-8"}, {"{\"a\":NaN}", 9, "not valid JSON"},
        {deep, sizeof deep, "nested"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config            c;
        weir_error        err;
        const config_text t = {"config.json", cases[i].text, cases[i].n};
        check_bad(cases[i].field, F, cases[i].field, config_parse(&c, &t, NULL, &err), &err);
        assert_non_null(strstr(err.text, "config.json"));
    }
}

static void check_form(const config *c, const char *module, config_quant_mode mode, uint32_t bits, uint32_t group)
{
    config_quant_form f;
    weir_error        err;
    if (config_quant_for(c, module, &f, &err) != WEIR_OK) fail_msg("%s: %s", module, err.text);
    assert_int_equal(f.mode, mode);
    if (f.bits != bits || f.group != group) fail_msg("%s: found %u bits, group %u", module, f.bits, f.group);
}

static void overrides_are_found_under_every_spelling(void **state)
{
    (void)state;
    config c;
    parse_good(&c,
               "{\"quantization\":{\"group_size\":64,\"bits\":4,\"model.layers.0.mlp.up_proj\":{\"bits\":8},"
               "\"language_model.model.layers.1.mlp.up_proj\":{\"group_size\":32,\"bits\":3,\"mode\":\"affine\"},"
               "\"lm_head\":{\"bits\":6,\"group_size\":128},\"model.language_model.layers.2.mlp.gate\":true,"
               "\"language_model.model.layers.3.self_attn.o_proj\":false}}",
               false, NULL);
    static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.", ""};
    for (size_t i = 0; i < 4; i++) {
        char              module[128];
        config_quant_form f;
        weir_error        err;
        (void)snprintf(module, sizeof module, "%slayers.0.mlp.up_proj", prefixes[i]);
        check_form(&c, module, CONFIG_QUANT_AFFINE, 8, 0); /* not stated, so left to the shapes */
        (void)snprintf(module, sizeof module, "%slayers.1.mlp.up_proj", prefixes[i]);
        check_form(&c, module, CONFIG_QUANT_AFFINE, 3, 32);
        (void)snprintf(module, sizeof module, "%slayers.2.mlp.gate", prefixes[i]);
        check_form(&c, module, CONFIG_QUANT_AFFINE, 4, 64);
        (void)snprintf(module, sizeof module, "%slayers.9.mlp.up_proj", prefixes[i]);
        check_form(&c, module, CONFIG_QUANT_AFFINE, 4, 64);
        (void)snprintf(module, sizeof module, "%slayers.3.self_attn.o_proj", prefixes[i]);
        check_bad(module, F, "o_proj", config_quant_for(&c, module, &f, &err), &err);
    }
    check_form(&c, "lm_head", CONFIG_QUANT_AFFINE, 6, 128);
    check_form(&c, "language_model.lm_head", CONFIG_QUANT_AFFINE, 6, 128);
    config_free(&c);
}

static void trellis_codes_have_an_axis(void **state)
{
    (void)state;
    config c;
    parse_good(
        &c,
        "{\"quantization\":{\"group_size\":64,\"bits\":3,\"a\":{\"bits\":2,\"group_size\":256,\"mode\":\"trellis\","
        "\"trellis\":{\"L\":12,\"code\":\"1mad\",\"axis\":1,\"other\":[]}},"
        "\"b\":{\"mode\":\"trellis\",\"trellis\":{\"axis\":0}}}}",
        false, NULL);
    config_quant_form f;
    weir_error        err;
    check_form(&c, "a", CONFIG_QUANT_TRELLIS, 2, 256);
    assert_int_equal(config_quant_for(&c, "a", &f, &err), WEIR_OK);
    assert_int_equal(f.axis, 1);
    check_form(&c, "b", CONFIG_QUANT_TRELLIS, 0, 0);
    assert_int_equal(config_quant_for(&c, "b", &f, &err), WEIR_OK);
    assert_int_equal(f.axis, 0);
    check_form(&c, "c", CONFIG_QUANT_AFFINE, 3, 64);
    config_free(&c);
}

/* An object without a mode is affine, also inside a block of another mode. */
static void an_override_without_a_mode_is_affine(void **state)
{
    (void)state;
    config c;
    parse_good(&c,
               "{\"quantization_config\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\","
               "\"model.layers.0.mlp.gate\":{\"group_size\":64,\"bits\":8}}}",
               true, NULL); /* inside the text part, where it is found too */
    check_form(&c, "model.layers.0.mlp.gate", CONFIG_QUANT_AFFINE, 8, 64);
    check_form(&c, "model.layers.0.mlp.up_proj", CONFIG_QUANT_MXFP4, 4, 32);
    config_free(&c);
}

static void scales_without_a_block_are_refused(void **state)
{
    (void)state;
    config            c;
    config_quant_form f;
    weir_error        err;
    parse_good(&c, "{}", false, NULL);
    check_bad("no block", F, "model.layers.0.mlp.up_proj.scales",
              config_quant_for(&c, "model.layers.0.mlp.up_proj", &f, &err), &err);
    config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_config_is_read),
        cmocka_unit_test(a_mixture_of_experts_is_read),
        cmocka_unit_test(fixtures_are_read),
        cmocka_unit_test(ends_of_text_are_united),
        cmocka_unit_test(absent_keys_get_the_family_s_values),
        cmocka_unit_test(the_mtp_alias_is_known),
        cmocka_unit_test(rope_has_older_forms),
        cmocka_unit_test(yarn_fills_in_its_constants),
        cmocka_unit_test(every_bad_text_key_is_named),
        cmocka_unit_test(every_bad_top_level_is_named),
        cmocka_unit_test(every_bad_expert_key_is_named),
        cmocka_unit_test(every_bad_generation_key_is_named),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(overrides_are_found_under_every_spelling),
        cmocka_unit_test(trellis_codes_have_an_axis),
        cmocka_unit_test(an_override_without_a_mode_is_affine),
        cmocka_unit_test(scales_without_a_block_are_refused),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
