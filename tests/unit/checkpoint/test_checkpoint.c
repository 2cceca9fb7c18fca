/* tests/unit/checkpoint/test_checkpoint.c - names, conventions, the view, and what happens without memory. */
#include "support/cmocka.h"

#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "made_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIXTURE(name) WEIR_SOURCE_DIR "/tests/fixtures/" name
#define MODEL "model.safetensors"

/* A model of four layers: C = 2*1*4 + 2*4 = 16 conv channels, kernel 4, one MTP layer announced. */
static const char tiny_config[] =
    "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":8,\"num_hidden_layers\":4,\"intermediate_size\":16,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,\"vocab_size\":32,\"linear_num_key_heads\":1,"
    "\"linear_num_value_heads\":2,\"linear_key_head_dim\":4,\"linear_value_head_dim\":4,\"mtp_num_hidden_layers\":1,"
    "\"rope_parameters\":{\"rope_theta\":10000}}";

/* What of it matters here: conv layouts and gains. */
typedef struct tiny {
    const char *prefix; /* of the trunk */
    bool        channel_last[3];
    float       first, others; /* gains of the first layer's input norm, of all other layer norms */
    bool        mtp;
    float       mtp_gain;
} tiny;

static void write_tiny(const char *dir, const tiny *t)
{
    made_tensors m;
    char         name[128];
    made_begin(&m);
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "%slayers.%u.input_layernorm.weight", t->prefix, i);
        made_bf16(&m, name, "[8]", 8, i == 0 ? t->first : t->others);
        (void)snprintf(name, sizeof name, "%slayers.%u.post_attention_layernorm.weight", t->prefix, i);
        made_bf16(&m, name, "[8]", 8, t->others);
        if (i == 3) continue;
        (void)snprintf(name, sizeof name, "%slayers.%u.linear_attn.conv1d.weight", t->prefix, i);
        made_bf16(&m, name, t->channel_last[i] ? "[16,4,1]" : "[16,1,4]", 64, 0.5f);
    }
    if (t->mtp) {
        made_bf16(&m, "mtp.layers.0.input_layernorm.weight", "[8]", 8, t->mtp_gain);
        made_bf16(&m, "mtp.layers.0.post_attention_layernorm.weight", "[8]", 8, t->mtp_gain);
        made_bf16(&m, "mtp.norm.weight", "[8]", 8, t->mtp_gain);
    }
    made_write(&m, dir, MODEL);
    made_text(dir, "config.json", tiny_config);
}

static int setup(void **state)
{
    *state = made_dir();
    return 0;
}

static int teardown(void **state)
{
    mem_fail_at(0);
    made_remove(*state);
    return 0;
}

static checkpoint *open_good(const char *path)
{
    checkpoint *c;
    weir_error  err;
    if (checkpoint_open(&c, path, &err) != WEIR_OK) fail_msg("%s: %s", path, err.text);
    return c;
}

static void open_bad(const char *path, const char *what, const char *const *fragments)
{
    checkpoint *c;
    weir_error  err;
    check_failure(checkpoint_open(&c, path, &err), WEIR_FORMAT, &err, what, fragments);
    assert_null(c);
}

static void names_of_every_generation_become_one(void **state)
{
    (void)state;
    static const struct {
        const char     *raw;
        checkpoint_part part;
        const char     *name;
    } cases[] = {
        {"model.language_model.layers.3.self_attn.q_proj.weight", CHECKPOINT_TRUNK, "layers.3.self_attn.q_proj.weight"},
        {"language_model.model.layers.3.self_attn.q_proj.scales", CHECKPOINT_TRUNK, "layers.3.self_attn.q_proj.scales"},
        {"model.layers.3.linear_attn.A_log", CHECKPOINT_TRUNK, "layers.3.linear_attn.A_log"},
        {"layers.3.mlp.experts.gate_up_proj", CHECKPOINT_TRUNK, "layers.3.mlp.experts.gate_up_proj"},
        {"model.language_model.embed_tokens.weight", CHECKPOINT_TRUNK, "embed_tokens.weight"},
        {"model.norm.weight", CHECKPOINT_TRUNK, "norm.weight"},
        {"lm_head.weight", CHECKPOINT_HEAD, "lm_head.weight"},
        {"language_model.lm_head.biases", CHECKPOINT_HEAD, "lm_head.biases"},
        {"mtp.fc.weight", CHECKPOINT_MTP, "fc.weight"},
        {"model.mtp.layers.0.mlp.down_proj.weight", CHECKPOINT_MTP, "layers.0.mlp.down_proj.weight"},
        {"language_model.mtp.norm.weight", CHECKPOINT_MTP, "norm.weight"},
        {"model.visual.pos_embed.weight", CHECKPOINT_VISION, "pos_embed.weight"},
        {"model.language_model.visual.pos_embed.weight", CHECKPOINT_VISION, "pos_embed.weight"},
        {"visual.merger.norm.bias", CHECKPOINT_VISION, "merger.norm.bias"},
        {"vision_tower.blocks.0.attn.qkv.weight", CHECKPOINT_VISION, "blocks.0.attn.qkv.weight"},
        {"language_model.extra", CHECKPOINT_TRUNK, "language_model.extra"},
        {"lm_head", CHECKPOINT_TRUNK, "lm_head"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *name;
        assert_int_equal(names_split(cases[i].raw, &name), cases[i].part);
        assert_string_equal(name, cases[i].name);
    }
}

/* Counts and conventions as an independent reading of the headers gives them. */
static void fixtures_open_as_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t      parts[CHECKPOINT_PARTS]; /* trunk, head, MTP, vision */
        bool        hf, mtp_minus_one;
    } cases[] = {
        {FIXTURE("tiny-dense"), {55, 1, 15, 33}, true, true},
        {FIXTURE("tiny-dense-tied"), {55, 0, 15, 33}, true, true},
        {FIXTURE("tiny-moe"), {71, 1, 19, 33}, true, true},
        {FIXTURE("tiny-odd"), {52, 1, 0, 0}, true, false},
        {FIXTURE("tiny-odd/model.safetensors"), {52, 1, 0, 0}, true, false},
        {FIXTURE("mlx-mixed"), {112, 3, 0, 0}, false, false},
        {FIXTURE("mlx-moe-q4"), {179, 3, 0, 0}, false, false},
        {FIXTURE("mlx-q4"), {119, 0, 0, 33}, false, false},
        {FIXTURE("mlx-q8"), {119, 0, 0, 0}, false, false},
        {WEIR_SOURCE_DIR "/models/demo", {234, 0, 31, 0}, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        checkpoint                  *c                       = open_good(cases[i].path);
        const checkpoint_convention *v                       = checkpoint_conventions(c);
        size_t                       parts[CHECKPOINT_PARTS] = {0};
        for (size_t k = 0; k < checkpoint_count(c); k++) parts[checkpoint_at(c, k)->part]++;
        for (size_t p = 0; p < CHECKPOINT_PARTS; p++)
            if (parts[p] != cases[i].parts[p]) fail_msg("%s: part %zu has %zu tensors", cases[i].path, p, parts[p]);
        if (v->gain_minus_one != cases[i].hf || v->conv_channel_last != !cases[i].hf ||
            v->has_mtp != (parts[CHECKPOINT_MTP] > 0) || v->mtp_gain_minus_one != cases[i].mtp_minus_one)
            fail_msg("%s: another convention", cases[i].path);
        checkpoint_close(c);
    }
}

static uint64_t byte_sum(const checkpoint_tensor *t)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < t->bytes; i++) sum += t->data[i];
    return sum;
}

/* Sums over bytes of three tensors, of a lone file, a quantised one and a second shard, from Python. */
static void views_show_the_right_bytes(void **state)
{
    (void)state;
    checkpoint              *c = open_good(FIXTURE("tiny-odd"));
    const checkpoint_tensor *t = checkpoint_find(c, CHECKPOINT_TRUNK, "layers.3.self_attn.q_norm.weight");
    assert_non_null(t);
    assert_string_equal(t->raw_name, "model.layers.3.self_attn.q_norm.weight");
    assert_int_equal(t->type, DTYPE_F32);
    assert_true(t->rank == 1 && t->shape[0] == 64 && t->bytes == 256);
    assert_int_equal(byte_sum(t), 32414);
    assert_null(checkpoint_find(c, CHECKPOINT_MTP, "layers.3.self_attn.q_norm.weight"));
    assert_null(checkpoint_find(c, CHECKPOINT_TRUNK, "layers.3.self_attn.q_norm"));
    checkpoint_close(c);

    c = open_good(FIXTURE("mlx-q4"));
    t = checkpoint_find(c, CHECKPOINT_TRUNK, "layers.0.mlp.up_proj.scales");
    assert_non_null(t);
    assert_true(t->type == DTYPE_BF16 && t->rank == 2 && t->shape[0] == 256 && t->shape[1] == 4);
    assert_int_equal(byte_sum(t), 305960);
    checkpoint_close(c);

    c = open_good(FIXTURE("tiny-dense"));
    t = checkpoint_find(c, CHECKPOINT_MTP, "fc.weight");
    assert_non_null(t);
    assert_non_null(strstr(t->file, "model.safetensors-00002-of-00002.safetensors"));
    assert_int_equal(byte_sum(t), 32121843);
    checkpoint_close(c);
}

/* One model in both conventions, with and without MTP tensors: MTP says nothing about the trunk. */
static void four_exports_of_one_model_are_told_apart(void **state)
{
    const char       *dir     = *state;
    static const tiny cases[] = {
        {"model.language_model.", {0, 0, 0}, 0.05f, 0.05f, false, 0},
        {"model.language_model.", {0, 0, 0}, 0.05f, 0.05f, true, 0.05f},
        {"language_model.model.", {1, 1, 1}, 1.05f, 1.05f, false, 0},
        {"language_model.model.", {1, 1, 1}, 1.05f, 1.05f, true, 1.05f},
        {"language_model.model.", {1, 1, 1}, 1.05f, 1.05f, true, 0.05f}, /* MTP left as it was */
        {"model.", {0, 0, 0}, -0.6f, -0.3f, true, -0.2f},                /* far from one, on the clear side */
        {"model.", {0, 0, 0}, 0.0f, 0.0f, false, 0},                     /* folded norms */
        {"model.", {0, 0, 0}, 0.6f, 0.1f, true, 0.3f},                   /* the first layer alone is unclear */
        {"language_model.model.", {1, 1, 1}, 0.4f, 0.8f, true, 0.7f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const tiny *t = &cases[i];
        write_tiny(dir, t);
        checkpoint                  *c = open_good(dir);
        const checkpoint_convention *v = checkpoint_conventions(c);
        assert_int_equal(v->conv_channel_last, t->channel_last[0]);
        assert_int_equal(v->gain_minus_one, !t->channel_last[0]);
        assert_int_equal(v->has_mtp, t->mtp);
        assert_int_equal(v->mtp_gain_minus_one, t->mtp && t->mtp_gain < 0.5f);
        checkpoint_close(c);
    }
}

static void what_cannot_be_told_is_refused_by_name(void **state)
{
    const char *dir = *state;
    static const struct {
        const char *what;
        tiny        model;
        const char *tensor, *why;
    } cases[] = {
        {"gains in the middle",
         {"model.", {0, 0, 0}, 0.5f, 0.5f, false, 0},
         "model.layers.0.input_layernorm.weight",
         "cannot decide"},
        {"raised gains, raw kernels",
         {"model.", {0, 0, 0}, 1.05f, 1.05f, false, 0},
         "model.layers.0.input_layernorm.weight",
         "expected gains stored as gamma - 1"},
        {"centred gains, converted kernels",
         {"model.", {1, 1, 1}, 0.05f, 0.05f, true, 1.05f},
         "model.layers.0.input_layernorm.weight",
         "expected gains stored as gamma like"},
        {"two layouts",
         {"model.", {0, 0, 1}, 0.05f, 0.05f, false, 0},
         "model.layers.2.linear_attn.conv1d.weight",
         "the layout of model.layers.0.linear_attn.conv1d.weight"},
        {"MTP in the middle",
         {"model.", {0, 0, 0}, 0.05f, 0.05f, true, 0.5f},
         "mtp.layers.0.input_layernorm.weight",
         "cannot decide"},
        {"gains that are no numbers",
         {"model.", {0, 0, 0}, NAN, 0.05f, false, 0},
         "model.layers.0.input_layernorm.weight",
         "finite"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_tiny(dir, &cases[i].model);
        open_bad(dir, cases[i].what, (const char *[]){MODEL, cases[i].tensor, cases[i].why, NULL});
    }
}

/* A model of which one tensor is another: type, shape and bytes of the evidence. */
static void write_with(const char *dir, const char *name, const char *type, const char *shape, const void *bytes,
                       size_t n)
{
    made_tensors m;
    uint8_t      zero[128] = {0};
    made_begin(&m);
    if (strcmp(name, "model.layers.0.input_layernorm.weight") != 0)
        made_raw(&m, "model.layers.0.input_layernorm.weight", "BF16", "[8]", zero, 16);
    if (strcmp(name, "model.layers.0.linear_attn.conv1d.weight") != 0)
        made_raw(&m, "model.layers.0.linear_attn.conv1d.weight", "BF16", "[16,1,4]", zero, 128);
    if (bytes != NULL) made_raw(&m, name, type, shape, bytes, n);
    made_write(&m, dir, MODEL);
    made_text(dir, "config.json", tiny_config);
}

static void evidence_may_have_any_float_type(void **state)
{
    const char    *dir    = *state;
    const char    *norm   = "model.layers.0.input_layernorm.weight";
    const float    f32[8] = {0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f, 0.125f};
    const uint16_t f16[8] = {0x3000, 0x3000, 0x3000, 0x3000, 0x3000, 0x3000, 0x3000, 0x3000}; /* 0.125 */
    write_with(dir, norm, "F32", "[8]", f32, sizeof f32);
    checkpoint_close(open_good(dir));
    write_with(dir, norm, "F16", "[8]", f16, sizeof f16);
    checkpoint_close(open_good(dir));
}

static void useless_evidence_is_named(void **state)
{
    const char   *dir  = *state;
    const char   *norm = "layers.0.input_layernorm.weight", *conv = "layers.0.linear_attn.conv1d.weight";
    const uint8_t zero[256] = {0};
    char          raw[64];
    (void)snprintf(raw, sizeof raw, "model.%s", norm);
    write_with(dir, raw, "U32", "[8]", zero, 32);
    open_bad(dir, "integers as gains", (const char *[]){MODEL, raw, "dtype", NULL});
    write_with(dir, raw, "BF16", "[2,4]", zero, 16);
    open_bad(dir, "a matrix of gains", (const char *[]){MODEL, raw, "shape", NULL});
    write_with(dir, raw, "BF16", "[0]", zero, 0);
    open_bad(dir, "no gains", (const char *[]){MODEL, raw, "shape", NULL});
    write_with(dir, raw, NULL, NULL, NULL, 0);
    open_bad(dir, "no norm", (const char *[]){dir, norm, "found none", NULL});

    static const char *const shapes[] = {"[16,4]",   "[16,2,2]",   "[8,1,8]",   "[64]",
                                         "[1,16,4]", "[16,4,1,1]", "[16,1,4,1]"};
    (void)snprintf(raw, sizeof raw, "model.%s", conv);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        write_with(dir, raw, "BF16", shapes[i], zero, 128);
        open_bad(dir, shapes[i], (const char *[]){MODEL, raw, "shape: expected [16, 1, 4] or [16, 4, 1]", NULL});
    }
    write_with(dir, raw, NULL, NULL, NULL, 0);
    open_bad(dir, "no kernel", (const char *[]){dir, conv, "found none", NULL});
}

static void one_meaning_may_have_one_tensor(void **state)
{
    const char   *dir       = *state;
    const uint8_t zero[128] = {0};
    /* Two spellings in one file. */
    write_with(dir, "model.language_model.layers.0.input_layernorm.weight", "BF16", "[8]", zero, 16);
    open_bad(dir, "two spellings",
             (const char *[]){MODEL, "model.layers.0.input_layernorm.weight",
                              "model.language_model.layers.0.input_layernorm.weight", NULL});
    /* One name in two files. */
    write_with(dir, "model.norm.weight", "BF16", "[8]", zero, 16);
    made_safetensors(dir, "model-2.safetensors",
                     "{\"model.norm.weight\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", zero, 2);
    open_bad(dir, "two files", (const char *[]){MODEL, "model-2.safetensors", "model.norm.weight", NULL});
}

static void a_folder_without_config_is_refused(void **state)
{
    const char *dir = *state;
    checkpoint *c;
    weir_error  err;
    made_safetensors(dir, MODEL, "{}", NULL, 0);
    check_failure(checkpoint_open(&c, dir, &err), WEIR_IO, &err, "no config.json",
                  (const char *[]){"config.json", NULL});
    assert_null(c);
}

/* What a loader keeps beside the checkpoint. */
enum { MAX_TAKEN = 128 };
static bool       taken[MAX_TAKEN];
static const bool skip_none[CHECKPOINT_PARTS];

static const checkpoint_tensor *take(const checkpoint *c, checkpoint_part part, const char *name)
{
    const checkpoint_tensor *t = checkpoint_find(c, part, name);
    if (t != NULL) {
        assert_true(checkpoint_index(c, t) < MAX_TAKEN);
        assert_ptr_equal(checkpoint_at(c, checkpoint_index(c, t)), t);
        taken[checkpoint_index(c, t)] = true;
    }
    return t;
}

static void unused_tensors_are_reported(void **state)
{
    const char *dir = *state;
    weir_error  err;
    write_tiny(dir, &(tiny){"model.", {0, 0, 0}, 0.05f, 0.05f, true, 0.05f});
    checkpoint *c = open_good(dir);
    assert_int_equal(checkpoint_count(c), 14);
    memset(taken, 0, sizeof taken);
    check_failure(checkpoint_unexpected(c, taken, skip_none, &err), WEIR_FORMAT, &err, "nothing taken",
                  (const char *[]){dir, "found 14: ", "model.layers.0.input_layernorm.weight", ", ...", NULL});
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const checkpoint_tensor *t = checkpoint_at(c, i);
        if (t->part == CHECKPOINT_TRUNK && strcmp(t->name, "layers.3.input_layernorm.weight") != 0)
            assert_ptr_equal(take(c, t->part, t->name), t);
    }
    const bool skip[CHECKPOINT_PARTS] = {[CHECKPOINT_MTP] = true};
    check_failure(checkpoint_unexpected(c, taken, skip, &err), WEIR_FORMAT, &err, "one left",
                  (const char *[]){"found 1: model.layers.3.input_layernorm.weight", NULL});
    assert_non_null(take(c, CHECKPOINT_TRUNK, "layers.3.input_layernorm.weight"));
    assert_int_equal(checkpoint_unexpected(c, taken, skip, &err), WEIR_OK);
    checkpoint_close(c);
}

/* MTP tensors that the config does not announce are there, but not looked at. */
static void unannounced_mtp_is_passed_over(void **state)
{
    const char *dir = *state;
    weir_error  err;
    str         text;
    write_tiny(dir, &(tiny){"model.", {0, 0, 0}, 0.05f, 0.05f, true, 0.5f}); /* undecidable gains */
    str_init(&text, 4096);
    str_put(&text, tiny_config, sizeof tiny_config - 2);
    str_puts(&text, "}");
    char *key = strstr(text.data, "\"mtp_num_hidden_layers\":1");
    assert_non_null(key);
    key[sizeof "\"mtp_num_hidden_layers\":" - 1] = '0';
    made_text(dir, "config.json", text.data);
    str_free(&text);
    checkpoint *c = open_good(dir);
    assert_false(checkpoint_conventions(c)->has_mtp);
    memset(taken, 0, sizeof taken);
    assert_non_null(checkpoint_find(c, CHECKPOINT_MTP, "norm.weight"));
    for (size_t i = 0; i < checkpoint_count(c); i++)
        if (checkpoint_at(c, i)->part == CHECKPOINT_TRUNK) (void)take(c, CHECKPOINT_TRUNK, checkpoint_at(c, i)->name);
    if (checkpoint_unexpected(c, taken, skip_none, &err) != WEIR_OK) fail_msg("%s", err.text);
    checkpoint_close(c);
}

/* Vision is passed over, and so is a head beside tied embeddings, but not one beside untied ones. */
static void redundant_parts_are_passed_over(void **state)
{
    const char   *dir       = *state;
    const uint8_t zero[128] = {0};
    for (int tied = 0; tied < 2; tied++) {
        str text;
        str_init(&text, 4096);
        str_put(&text, tiny_config, sizeof tiny_config - 2);
        str_printf(&text, ",\"tie_word_embeddings\":%s}", tied ? "true" : "false");
        write_with(dir, "lm_head.weight", "BF16", "[1,8]", zero, 16);
        made_safetensors(dir, "model-vision.safetensors",
                         "{\"model.visual.x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", zero, 2);
        made_text(dir, "config.json", text.data);
        str_free(&text);
        checkpoint *c = open_good(dir);
        memset(taken, 0, sizeof taken);
        (void)take(c, CHECKPOINT_TRUNK, "layers.0.input_layernorm.weight");
        (void)take(c, CHECKPOINT_TRUNK, "layers.0.linear_attn.conv1d.weight");
        weir_error err;
        if (tied)
            assert_int_equal(checkpoint_unexpected(c, taken, skip_none, &err), WEIR_OK);
        else
            check_failure(checkpoint_unexpected(c, taken, skip_none, &err), WEIR_FORMAT, &err, "a head",
                          (const char *[]){"found 1: lm_head.weight", NULL});
        checkpoint_close(c);
    }
}

static void requirements_name_what_is_missing(void **state)
{
    const char              *dir    = *state;
    const uint8_t            two[2] = {1, 2};
    const checkpoint_tensor *t;
    weir_error               err;
    write_with(dir, "model.odd", "F3_NEW", "[7]", two, 2);
    checkpoint    *c      = open_good(dir); /* a type that nobody asks for does no harm */
    const char    *conv   = "layers.0.linear_attn.conv1d.weight";
    const uint64_t good[] = {16, 1, 4}, bad[] = {16, 4, 1};
    assert_int_equal(checkpoint_require(c, CHECKPOINT_TRUNK, conv, 3, good, &t, &err), WEIR_OK);
    assert_ptr_equal(t, checkpoint_find(c, CHECKPOINT_TRUNK, conv));
    assert_int_equal(checkpoint_require(c, CHECKPOINT_TRUNK, conv, -1, NULL, &t, &err), WEIR_OK);
    check_failure(checkpoint_require(c, CHECKPOINT_TRUNK, conv, 3, bad, &t, &err), WEIR_FORMAT, &err, "another shape",
                  (const char *[]){MODEL,
                                   "model.layers.0.linear_attn.conv1d.weight: shape: expected [16, 4, 1], found "
                                   "[16, 1, 4]",
                                   NULL});
    assert_null(t);
    check_failure(checkpoint_require(c, CHECKPOINT_TRUNK, conv, 2, good, &t, &err), WEIR_FORMAT, &err, "another rank",
                  (const char *[]){"expected [16, 1], found [16, 1, 4]", NULL});
    check_failure(checkpoint_require(c, CHECKPOINT_MTP, "fc.weight", -1, NULL, &t, &err), WEIR_FORMAT, &err, "missing",
                  (const char *[]){dir, "mtp.fc.weight: expected the tensor, found none", NULL});
    check_failure(checkpoint_require(c, CHECKPOINT_TRUNK, "odd", -1, NULL, &t, &err), WEIR_UNSUPPORTED, &err,
                  "a type not known", (const char *[]){MODEL, "model.odd: dtype", "F3_NEW", NULL});
    checkpoint_close(c);
}

static void quantised_modules_are_those_with_scales(void **state)
{
    (void)state;
    checkpoint       *c = open_good(FIXTURE("mlx-mixed"));
    config_quant_form form;
    weir_error        err;
    bool              quantised;
    static const struct {
        checkpoint_part part;
        const char     *module;
        bool            quantised;
        uint32_t        bits;
    } cases[] = {
        {CHECKPOINT_TRUNK, "embed_tokens", true, 8},
        {CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_z", true, 3},
        {CHECKPOINT_TRUNK, "layers.0.linear_attn.in_proj_a", true, 4},
        {CHECKPOINT_TRUNK, "layers.1.self_attn.o_proj", false, 0},
        {CHECKPOINT_TRUNK, "layers.0.linear_attn.conv1d", false, 0},
        {CHECKPOINT_HEAD, "lm_head", true, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        form = (config_quant_form){0};
        if (checkpoint_quant(c, cases[i].part, cases[i].module, &quantised, &form, &err) != WEIR_OK)
            fail_msg("%s: %s", cases[i].module, err.text);
        assert_int_equal(quantised, cases[i].quantised);
        assert_int_equal(form.bits, cases[i].bits);
        assert_int_equal(form.group, quantised ? 32 : 0);
    }
    checkpoint_close(c);
}

static void scales_against_the_config_are_refused(void **state)
{
    const char              *dir      = *state;
    const uint8_t            zero[16] = {0};
    static const char *const blocks[] = {
        "", ",\"quantization\":{\"bits\":4,\"language_model.model.layers.0.mlp.up_proj\":false}"};
    for (size_t i = 0; i < 2; i++) {
        str text;
        str_init(&text, 4096);
        str_put(&text, tiny_config, sizeof tiny_config - 2);
        str_printf(&text, "%s}", blocks[i]);
        write_with(dir, "model.layers.0.mlp.up_proj.scales", "BF16", "[8]", zero, 16);
        made_text(dir, "config.json", text.data);
        str_free(&text);
        checkpoint       *c = open_good(dir);
        bool              quantised;
        config_quant_form form;
        weir_error        err;
        check_failure(checkpoint_quant(c, CHECKPOINT_TRUNK, "layers.0.mlp.up_proj", &quantised, &form, &err),
                      WEIR_FORMAT, &err, "scales",
                      (const char *[]){MODEL, "config.json", "model.layers.0.mlp.up_proj", NULL});
        checkpoint_close(c);
    }
}

static void made_up_weights_need_no_file(void **state)
{
    (void)state;
    config            cfg;
    checkpoint       *c;
    const config_text text = {"config.json", tiny_config, sizeof tiny_config - 1};
    weir_error        err;
    assert_int_equal(config_parse(&cfg, &text, NULL, &err), WEIR_OK);
    const checkpoint_convention v = {.gain_minus_one = true, .has_mtp = true};
    assert_int_equal(checkpoint_new_memory(&c, &cfg, &v, &err), WEIR_OK);
    config_free(&cfg);
    assert_int_equal(checkpoint_config(c)->hidden_size, 8);
    assert_true(checkpoint_conventions(c)->gain_minus_one);

    for (unsigned i = 0; i < 100; i++) { /* added in another order than they are kept */
        char           name[32];
        const uint64_t shape[2] = {i + 1, 3};
        float         *data     = mem_pages((i + 1) * 3 * sizeof *data);
        assert_non_null(data);
        data[0] = (float)i;
        (void)snprintf(name, sizeof name, "layers.%u.w", i * 37 % 100);
        assert_int_equal(
            checkpoint_add(c, i % 2 ? CHECKPOINT_MTP : CHECKPOINT_TRUNK, name, DTYPE_F32, 2, shape, data, &err),
            WEIR_OK);
    }
    assert_int_equal(checkpoint_count(c), 100);
    memset(taken, 0, sizeof taken);
    for (unsigned i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "layers.%u.w", i * 37 % 100);
        const checkpoint_tensor *t = take(c, i % 2 ? CHECKPOINT_MTP : CHECKPOINT_TRUNK, name);
        assert_non_null(t);
        assert_true(t->shape[0] == i + 1 && t->bytes == (i + 1) * 12u);
        assert_true(*(const float *)(const void *)t->data == (float)i);
    }
    assert_int_equal(checkpoint_unexpected(c, taken, skip_none, &err), WEIR_OK);

    const uint64_t huge[3] = {(uint64_t)1 << 32, (uint64_t)1 << 32, 4}, one[1] = {1};
    float         *spare = mem_pages(4);
    check_failure(checkpoint_add(c, CHECKPOINT_TRUNK, "layers.0.w", DTYPE_F32, 1, one, spare, &err), WEIR_INVALID, &err,
                  "a name twice", (const char *[]){"layers.0.w", NULL});
    check_failure(checkpoint_add(c, CHECKPOINT_TRUNK, "x", DTYPE_F32, 3, huge, spare, &err), WEIR_INVALID, &err,
                  "a huge shape", (const char *[]){"shape", NULL});
    check_failure(checkpoint_add(c, CHECKPOINT_TRUNK, "x", DTYPE_COUNT, 1, one, spare, &err), WEIR_INVALID, &err,
                  "no type", (const char *[]){"type", NULL});
    mem_fail_at(1);
    assert_int_equal(checkpoint_add(c, CHECKPOINT_TRUNK, "x", DTYPE_F32, 1, one, spare, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    mem_pages_free(spare, 4);
    checkpoint_close(c);
}

/* Every allocation of opening fails once: the answer is WEIR_NO_MEMORY, and the sanitizer sees no leak. */
static void check_every_allocation(const char *path)
{
    for (uint64_t n = 1;; n++) {
        checkpoint *c;
        weir_error  err;
        mem_fail_at(n);
        const weir_status st = checkpoint_open(&c, path, &err);
        mem_fail_at(0);
        if (st == WEIR_OK) {
            assert_true(n > 10); /* or the hook does nothing */
            checkpoint_close(c);
            return;
        }
        if (st != WEIR_NO_MEMORY) fail_msg("%s: allocation %llu: %s", path, (unsigned long long)n, err.text);
        assert_null(c);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    check_every_allocation(FIXTURE("tiny-odd"));
    check_every_allocation(FIXTURE("tiny-dense")); /* index, two shards */
    check_every_allocation(FIXTURE("mlx-mixed"));  /* overrides */
    check_every_allocation(FIXTURE("tiny-odd/" MODEL));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_every_generation_become_one),
        cmocka_unit_test(fixtures_open_as_what_they_are),
        cmocka_unit_test(views_show_the_right_bytes),
        TEST(four_exports_of_one_model_are_told_apart),
        TEST(what_cannot_be_told_is_refused_by_name),
        TEST(evidence_may_have_any_float_type),
        TEST(useless_evidence_is_named),
        TEST(one_meaning_may_have_one_tensor),
        TEST(a_folder_without_config_is_refused),
        TEST(unused_tensors_are_reported),
        TEST(unannounced_mtp_is_passed_over),
        TEST(redundant_parts_are_passed_over),
        TEST(requirements_name_what_is_missing),
        cmocka_unit_test(quantised_modules_are_those_with_scales),
        TEST(scales_against_the_config_are_refused),
        cmocka_unit_test(made_up_weights_need_no_file),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
