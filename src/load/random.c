/* load/random.c - checkpoints of published shapes with random weights, in memory.
 *
 * For measuring: the values are small and centred so that nothing overflows,
 * and every page is written, so that reading them costs what real ones cost. */
#include "base/mem.h"
#include "load/load.h"

#include <stdio.h>
#include <string.h>

typedef struct shape_entry {
    const char *name;
    uint32_t    layers, hidden, heads, kv_heads, value_heads, inner;
    bool        tied;
    uint32_t    experts, per_token, shared;
} shape_entry;

/* The published text models; inner is an expert's in mixtures. */
static const shape_entry shapes[] = {
    {"0.8b", 24, 1024, 8, 2, 16, 3584, true, 0, 0, 0},   {"2b", 24, 2048, 8, 2, 16, 6144, true, 0, 0, 0},
    {"4b", 32, 2560, 16, 4, 32, 9216, true, 0, 0, 0},    {"9b", 32, 4096, 16, 4, 32, 12288, false, 0, 0, 0},
    {"27b", 64, 5120, 24, 4, 48, 17408, false, 0, 0, 0}, {"35b-a3b", 40, 2048, 16, 2, 32, 512, false, 256, 8, 512},
};

typedef enum random_format {
    RANDOM_BF16,
    RANDOM_F16,
    RANDOM_F32,
    RANDOM_AFFINE4,
    RANDOM_AFFINE8,
    RANDOM_Q4_0,
    RANDOM_Q8_0,
    RANDOM_Q4_K,
    RANDOM_Q5_K,
    RANDOM_Q6_K,
    RANDOM_FORMATS
} random_format;
static const char *const format_names[RANDOM_FORMATS] = {"bf16", "f16",  "f32",  "affine4", "affine8",
                                                         "q4_0", "q8_0", "q4_k", "q5_k",    "q6_k"};

enum { GROUP = 64 };

typedef struct maker {
    checkpoint   *c;
    random_format format;
    uint64_t      seed;
    weir_status   st;
    weir_error   *err;
} maker;

static uint64_t next(uint64_t *seed)
{
    uint64_t x = *seed; /* xorshift64*, Vigna 2016 */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *seed = x;
    return x * 0x2545F4914F6CDD1Du;
}

static uint64_t elements(uint32_t rank, const uint64_t *shape)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= shape[i];
    return n;
}

/* Adds a tensor of `bytes` zero bytes and returns them to be filled; NULL after a failure. */
static void *add(maker *m, checkpoint_part part, const char *name, dtype type, uint32_t rank, const uint64_t *shape)
{
    if (m->st != WEIR_OK) return NULL;
    const uint64_t bytes = elements(rank, shape) / dtype_table[type].elements * dtype_table[type].bytes;
    void          *data  = mem_pages(bytes);
    if (data == NULL) {
        m->st =
            status_fail(m->err, WEIR_NO_MEMORY, "%s: %llu bytes are not to be had", name, (unsigned long long)bytes);
        return NULL;
    }
    m->st = checkpoint_add(m->c, part, name, type, rank, shape, data, m->err);
    if (m->st == WEIR_OK) return data;
    mem_pages_free(data, bytes);
    return NULL;
}

/* Fills with 64-bit words of which `mask` bits are random and `bits` are set. */
static void fill(maker *m, void *data, uint64_t bytes, uint64_t mask, uint64_t bits)
{
    uint8_t *p = data;
    for (uint64_t i = 0; p != NULL && i < bytes; i += 8) {
        const uint64_t w = (next(&m->seed) & mask) | bits;
        memcpy(p + i, &w, bytes - i < 8 ? bytes - i : 8);
    }
}

/* Random floats of either sign between 2^-7 and 2^-5. */
static void add_floats(maker *m, checkpoint_part part, const char *name, dtype type, uint32_t rank,
                       const uint64_t *shape)
{
    static const struct {
        dtype    type;
        uint64_t mask, bits;
    } patterns[] = {
        {DTYPE_BF16, 0x80FF80FF80FF80FFu, 0x3C003C003C003C00u},
        {DTYPE_F16, 0x87FF87FF87FF87FFu, 0x2000200020002000u},
        {DTYPE_F32, 0x80FFFFFF80FFFFFFu, 0x3C0000003C000000u},
    };
    void *data = add(m, part, name, type, rank, shape);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (patterns[i].type == type)
            fill(m, data, elements(rank, shape) * dtype_table[type].bytes, patterns[i].mask, patterns[i].bits);
}

/* Where a block's halves stand, and values that centre the weights on zero at about 2^-6. */
typedef struct block_form {
    dtype    type;
    size_t   d_at, min_at; /* min_at 0: none */
    uint16_t d, min;
} block_form;

static const block_form block_forms[RANDOM_FORMATS] = {
    [RANDOM_Q4_0] = {DTYPE_Q4_0, 0, 0, 0x1C00, 0},      [RANDOM_Q8_0] = {DTYPE_Q8_0, 0, 0, 0x0C00, 0},
    [RANDOM_Q4_K] = {DTYPE_Q4_K, 0, 2, 0x0800, 0x1380}, [RANDOM_Q5_K] = {DTYPE_Q5_K, 0, 2, 0x0400, 0x13C0},
    [RANDOM_Q6_K] = {DTYPE_Q6_K, 208, 0, 0x0080, 0},
};

static void add_blocks(maker *m, checkpoint_part part, const char *name, uint32_t rank, const uint64_t *shape)
{
    const block_form *f     = &block_forms[m->format];
    const uint64_t    block = dtype_table[f->type].bytes;
    const uint64_t    bytes = elements(rank, shape) / dtype_table[f->type].elements * block;
    uint8_t          *data  = add(m, part, name, f->type, rank, shape);
    fill(m, data, bytes, UINT64_MAX, 0);
    for (uint64_t at = 0; data != NULL && at < bytes; at += block) {
        memcpy(data + at + f->d_at, &f->d, sizeof f->d);
        if (f->min_at != 0) memcpy(data + at + f->min_at, &f->min, sizeof f->min);
    }
}

/* A matrix, or a stack of them, in the maker's format. */
static void add_matrix(maker *m, checkpoint_part part, const char *module, uint32_t rank, const uint64_t *shape)
{
    static const dtype dense[] = {[RANDOM_BF16] = DTYPE_BF16, [RANDOM_F16] = DTYPE_F16, [RANDOM_F32] = DTYPE_F32};
    char               name[160];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    if (m->format < RANDOM_AFFINE4) {
        add_floats(m, part, name, dense[m->format], rank, shape);
        return;
    }
    if (m->format > RANDOM_AFFINE8) {
        add_blocks(m, part, name, rank, shape);
        return;
    }
    const uint32_t bits = m->format == RANDOM_AFFINE4 ? 4 : 8;
    uint64_t       codes[3], groups[3];
    memcpy(codes, shape, rank * sizeof *shape);
    memcpy(groups, shape, rank * sizeof *shape);
    codes[rank - 1]  = shape[rank - 1] * bits / 32;
    groups[rank - 1] = shape[rank - 1] / GROUP;
    void *data       = add(m, part, name, DTYPE_U32, rank, codes);
    fill(m, data, elements(rank, codes) * 4, UINT64_MAX, 0);
    /* scale 2^-9 (4 bits) or 2^-13, bias -8 or -128 codes: centred on zero */
    (void)snprintf(name, sizeof name, "%s.scales", module);
    data = add(m, part, name, DTYPE_BF16, rank, groups);
    fill(m, data, elements(rank, groups) * 2, 0x007F007F007F007Fu,
         bits == 4 ? 0x3B003B003B003B00u : 0x3900390039003900u);
    (void)snprintf(name, sizeof name, "%s.biases", module);
    data = add(m, part, name, DTYPE_BF16, rank, groups);
    fill(m, data, elements(rank, groups) * 2, 0x007F007F007F007Fu,
         bits == 4 ? 0xBC80BC80BC80BC80u : 0xBC80BC80BC80BC80u);
}

/* Where a layer's tensors go: "layers.<i>." of a part. */
typedef struct place {
    checkpoint_part part;
    uint32_t        i;
} place;

static void matrix(maker *m, place at, const char *rest, uint64_t rows, uint64_t cols)
{
    char           module[128];
    const uint64_t shape[] = {rows, cols};
    (void)snprintf(module, sizeof module, "layers.%u.%s", at.i, rest);
    add_matrix(m, at.part, module, 2, shape);
}

static void stack(maker *m, place at, const char *rest, uint64_t mats, uint64_t rows, uint64_t cols)
{
    char           module[128];
    const uint64_t shape[] = {mats, rows, cols};
    (void)snprintf(module, sizeof module, "layers.%u.%s", at.i, rest);
    add_matrix(m, at.part, module, 3, shape);
}

static void vector(maker *m, place at, const char *rest, uint64_t n)
{
    char           name[128];
    const uint64_t shape[] = {n};
    (void)snprintf(name, sizeof name, "layers.%u.%s", at.i, rest);
    add_floats(m, at.part, name, DTYPE_F32, 1, shape);
}

static void mlp(maker *m, place at, const char *block, uint64_t inner, uint64_t hidden)
{
    char rest[64];
    (void)snprintf(rest, sizeof rest, "%s.gate_proj", block);
    matrix(m, at, rest, inner, hidden);
    (void)snprintf(rest, sizeof rest, "%s.up_proj", block);
    matrix(m, at, rest, inner, hidden);
    (void)snprintf(rest, sizeof rest, "%s.down_proj", block);
    matrix(m, at, rest, hidden, inner);
}

static void make_layer(maker *m, const config *c, place at, config_layer kind)
{
    const uint64_t H = c->hidden_size;
    vector(m, at, "input_layernorm.weight", H);
    vector(m, at, "post_attention_layernorm.weight", H);
    if (kind == CONFIG_FULL) {
        const uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads * c->head_dim;
        matrix(m, at, "self_attn.q_proj", 2 * q, H);
        matrix(m, at, "self_attn.k_proj", kv, H);
        matrix(m, at, "self_attn.v_proj", kv, H);
        matrix(m, at, "self_attn.o_proj", H, q);
        vector(m, at, "self_attn.q_norm.weight", c->head_dim);
        vector(m, at, "self_attn.k_norm.weight", c->head_dim);
    } else {
        const uint64_t C = config_conv_channels(c), V = config_linear_value(c), taps[] = {C, 1, c->conv_kernel};
        char           name[96];
        matrix(m, at, "linear_attn.in_proj_qkv", C, H);
        matrix(m, at, "linear_attn.in_proj_z", V, H);
        matrix(m, at, "linear_attn.in_proj_a", c->linear_n_value_heads, H);
        matrix(m, at, "linear_attn.in_proj_b", c->linear_n_value_heads, H);
        matrix(m, at, "linear_attn.out_proj", H, V);
        (void)snprintf(name, sizeof name, "layers.%u.linear_attn.conv1d.weight", at.i);
        add_floats(m, at.part, name, DTYPE_F32, 3, taps);
        vector(m, at, "linear_attn.A_log", c->linear_n_value_heads);
        vector(m, at, "linear_attn.dt_bias", c->linear_n_value_heads);
        vector(m, at, "linear_attn.norm.weight", c->linear_value_dim);
    }
    if (!c->is_moe) {
        mlp(m, at, "mlp", c->intermediate_size, H);
        return;
    }
    const uint64_t E = c->n_experts, I = c->moe_intermediate_size;
    matrix(m, at, "mlp.gate", E, H);
    stack(m, at, "mlp.switch_mlp.gate_proj", E, I, H);
    stack(m, at, "mlp.switch_mlp.up_proj", E, I, H);
    stack(m, at, "mlp.switch_mlp.down_proj", E, H, I);
    mlp(m, at, "mlp.shared_expert", c->shared_intermediate_size, H);
    matrix(m, at, "mlp.shared_expert_gate", 1, H);
}

static void make_mtp(maker *m, const config *c)
{
    const uint64_t H = c->hidden_size, norm[] = {H}, fc[] = {H, 2 * H};
    add_matrix(m, CHECKPOINT_MTP, "fc", 2, fc);
    add_floats(m, CHECKPOINT_MTP, "pre_fc_norm_embedding.weight", DTYPE_F32, 1, norm);
    add_floats(m, CHECKPOINT_MTP, "pre_fc_norm_hidden.weight", DTYPE_F32, 1, norm);
    add_floats(m, CHECKPOINT_MTP, "norm.weight", DTYPE_F32, 1, norm);
    make_layer(m, c, (place){CHECKPOINT_MTP, 0}, CONFIG_FULL);
}

static config shape_config(const shape_entry *s, random_format f)
{
    config c = {
        .is_moe                   = s->experts > 0,
        .hidden_size              = s->hidden,
        .n_layers                 = s->layers,
        .vocab_size               = 248320,
        .intermediate_size        = s->experts > 0 ? 0 : s->inner,
        .n_heads                  = s->heads,
        .n_kv_heads               = s->kv_heads,
        .head_dim                 = 256,
        .rms_norm_eps             = 1e-6,
        .tie_word_embeddings      = s->tied,
        .max_position             = 262144,
        .full_attention_interval  = 4,
        .linear_n_key_heads       = 16,
        .linear_n_value_heads     = s->value_heads,
        .linear_key_dim           = 128,
        .linear_value_dim         = 128,
        .conv_kernel              = 4,
        .rope                     = {.type                  = CONFIG_ROPE_DEFAULT,
                                     .theta                 = 1e7,
                                     .partial_rotary_factor = 0.25,
                                     .rotary_dim            = 64,
                                     .mrope_section         = {11, 11, 10},
                                     .mrope_interleaved     = true},
        .n_experts                = s->experts,
        .n_experts_per_token      = s->per_token,
        .moe_intermediate_size    = s->experts > 0 ? s->inner : 0,
        .shared_intermediate_size = s->shared,
        .mtp_layers               = 1,
        .image_token              = CONFIG_NO_TOKEN,
        .video_token              = CONFIG_NO_TOKEN,
        .vision_start_token       = CONFIG_NO_TOKEN,
        .vision_end_token         = CONFIG_NO_TOKEN,
        .sampling                 = {.temperature = 1.0, .top_p = 1.0},
        .quant                    = {.present = f == RANDOM_AFFINE4 || f == RANDOM_AFFINE8,
                                     .form    = {CONFIG_QUANT_AFFINE, f == RANDOM_AFFINE4 ? 4 : 8, GROUP}},
    };
    (void)snprintf(c.model_type, sizeof c.model_type, "%s", s->experts > 0 ? "qwen3_5_moe_text" : "qwen3_5_text");
    for (uint32_t i = 0; i < s->layers; i++) c.layers[i] = (i + 1) % 4 == 0 ? CONFIG_FULL : CONFIG_LINEAR;
    return c;
}

weir_status load_random(checkpoint **out, const char *shape, const char *format, uint64_t seed, weir_error *err)
{
    *out                 = NULL;
    const shape_entry *s = NULL;
    random_format      f = RANDOM_FORMATS;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, shape) == 0) s = &shapes[i];
    for (int i = 0; i < RANDOM_FORMATS; i++)
        if (strcmp(format_names[i], format) == 0) f = (random_format)i;
    if (s == NULL)
        return status_fail(err, WEIR_INVALID, "shape: expected 0.8b, 2b, 4b, 9b, 27b or 35b-a3b, found \"%s\"", shape);
    if (f == RANDOM_FORMATS)
        return status_fail(err, WEIR_INVALID, "format: expected bf16, f16, f32, affine4 or affine8, found \"%s\"",
                           format);

    const config                c  = shape_config(s, f);
    const checkpoint_convention cv = {.gain_minus_one = true, .has_mtp = true, .mtp_gain_minus_one = true};
    checkpoint                 *ck = NULL;
    TRY(checkpoint_new_memory(&ck, &c, &cv, err));
    maker          m       = {.c = ck, .format = f, .seed = seed * 2 + 1, .err = err};
    const uint64_t table[] = {c.vocab_size, c.hidden_size}, norm[] = {c.hidden_size};
    for (uint32_t i = 0; i < c.n_layers; i++) make_layer(&m, &c, (place){CHECKPOINT_TRUNK, i}, c.layers[i]);
    add_matrix(&m, CHECKPOINT_TRUNK, "embed_tokens", 2, table);
    if (!s->tied) add_matrix(&m, CHECKPOINT_HEAD, "lm_head", 2, table);
    add_floats(&m, CHECKPOINT_TRUNK, "norm.weight", DTYPE_F32, 1, norm);
    make_mtp(&m, &c);
    if (m.st != WEIR_OK) {
        checkpoint_close(ck);
        return m.st;
    }
    *out = ck;
    return WEIR_OK;
}
