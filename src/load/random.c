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

/* A format by its name: a plain type, a block type of GGML's, or a form of MLX's.  With trellis
 * codes, which are for the MLPs alone, the form is that of the other matrices. */
typedef struct random_format {
    const char       *name;
    bool              grouped;
    dtype             type; /* of the weights, or of the scales */
    config_quant_form form;
    uint32_t          trellis; /* bits of the MLPs' trellis codes; 0: none */
} random_format;

#define AFFINE(bits) \
    { \
        CONFIG_QUANT_AFFINE, bits, 64, 0 \
    }
static const random_format formats[] = {
    {"bf16", false, DTYPE_BF16, {0}, 0},
    {"f16", false, DTYPE_F16, {0}, 0},
    {"f32", false, DTYPE_F32, {0}, 0},
    {"affine2", true, DTYPE_BF16, AFFINE(2), 0},
    {"affine3", true, DTYPE_BF16, AFFINE(3), 0},
    {"affine4", true, DTYPE_BF16, AFFINE(4), 0},
    {"affine5", true, DTYPE_BF16, AFFINE(5), 0},
    {"affine6", true, DTYPE_BF16, AFFINE(6), 0},
    {"affine8", true, DTYPE_BF16, AFFINE(8), 0},
    {"mxfp4", true, DTYPE_U8, {CONFIG_QUANT_MXFP4, 4, 32, 0}, 0},
    {"mxfp8", true, DTYPE_U8, {CONFIG_QUANT_MXFP8, 8, 32, 0}, 0},
    {"nvfp4", true, DTYPE_U8, {CONFIG_QUANT_NVFP4, 4, 16, 0}, 0},
    {"trellis2", true, DTYPE_BF16, AFFINE(4), 2},
    {"trellis3", true, DTYPE_BF16, AFFINE(4), 3},
    {"trellis4", true, DTYPE_BF16, AFFINE(4), 4},
    {"q4_0", false, DTYPE_Q4_0, {0}, 0},
    {"q8_0", false, DTYPE_Q8_0, {0}, 0},
    {"q4_k", false, DTYPE_Q4_K, {0}, 0},
    {"q5_k", false, DTYPE_Q5_K, {0}, 0},
    {"q6_k", false, DTYPE_Q6_K, {0}, 0},
};

typedef struct maker {
    checkpoint          *c;
    const random_format *format;
    uint64_t             seed;
    weir_status          st;
    weir_error          *err;
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

static const block_form block_forms[] = {
    {DTYPE_Q4_0, 0, 0, 0x1C00, 0},      {DTYPE_Q8_0, 0, 0, 0x0C00, 0},   {DTYPE_Q4_K, 0, 2, 0x0800, 0x1380},
    {DTYPE_Q5_K, 0, 2, 0x0400, 0x13C0}, {DTYPE_Q6_K, 208, 0, 0x0080, 0},
};

static void add_blocks(maker *m, checkpoint_part part, const char *name, uint32_t rank, const uint64_t *shape)
{
    const block_form *f = block_forms;
    while (f->type != m->format->type) f++;
    const uint64_t block = dtype_table[f->type].bytes;
    const uint64_t bytes = elements(rank, shape) / dtype_table[f->type].elements * block;
    uint8_t       *data  = add(m, part, name, f->type, rank, shape);
    fill(m, data, bytes, UINT64_MAX, 0);
    for (uint64_t at = 0; data != NULL && at < bytes; at += block) {
        memcpy(data + at + f->d_at, &f->d, sizeof f->d);
        if (f->min_at != 0) memcpy(data + at + f->min_at, &f->min, sizeof f->min);
    }
}

/* One of the small numbers to a group: 64-bit words of them, `mask` random and `bits` set. */
static void add_group_numbers(maker *m, checkpoint_part part, const char *module, const char *which, uint32_t rank,
                              const uint64_t *groups, uint64_t mask, uint64_t bits)
{
    char name[160];
    (void)snprintf(name, sizeof name, "%s.%s", module, which);
    void *data = add(m, part, name, m->format->type, rank, groups);
    fill(m, data, elements(rank, groups) * dtype_table[m->format->type].bytes, mask, bits);
}

/* A matrix, or a stack of them, in the maker's format. */
static void add_matrix(maker *m, checkpoint_part part, const char *module, uint32_t rank, const uint64_t *shape)
{
    const config_quant_form *form = &m->format->form;
    char                     name[160];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    if (dtype_table[m->format->type].elements > 1) {
        add_blocks(m, part, name, rank, shape);
        return;
    }
    if (!m->format->grouped) {
        add_floats(m, part, name, m->format->type, rank, shape);
        return;
    }
    uint64_t codes[3], groups[3];
    memcpy(codes, shape, rank * sizeof *shape);
    memcpy(groups, shape, rank * sizeof *shape);
    codes[rank - 1]  = shape[rank - 1] * form->bits / 32;
    groups[rank - 1] = shape[rank - 1] / form->group;
    void *data       = add(m, part, name, DTYPE_U32, rank, codes);
    fill(m, data, elements(rank, codes) * 4, UINT64_MAX, 0);
    const uint64_t halves = 0x0001000100010001u, bytes = 0x0101010101010101u;
    switch (form->mode) {
    case CONFIG_QUANT_AFFINE: /* scale 2^-(5 + bits), bias -2^(bits - 1) codes: centred on zero */
        add_group_numbers(m, part, module, "scales", rank, groups, 0x7F * halves, (122u - form->bits) * 128 * halves);
        add_group_numbers(m, part, module, "biases", rank, groups, 0x7F * halves, 0xBC80 * halves);
        break;
    case CONFIG_QUANT_NVFP4: /* from 2^-6 to 2^-5 */
        add_group_numbers(m, part, module, "scales", rank, groups, 7 * bytes, 8 * bytes);
        break;
    default: /* 2^-9 or 2^-8; 2^-15 or 2^-14 for elements of up to 480 */
        add_group_numbers(m, part, module, "scales", rank, groups, bytes,
                          (form->mode == CONFIG_QUANT_MXFP4 ? 118u : 112u) * bytes);
        break;
    }
}

/* A matrix of an MLP: in trellis codes where the format has them, those of `down` along the output. */
static void add_mlp_matrix(maker *m, checkpoint_part part, const char *module, const uint64_t *shape, bool down)
{
    if (m->format->trellis == 0) {
        add_matrix(m, part, module, 2, shape);
        return;
    }
    char           name[160];
    const uint64_t stored = shape[down ? 1 : 0], coded = shape[down ? 0 : 1];
    const uint64_t codes[] = {stored, coded * m->format->trellis / 32};
    (void)snprintf(name, sizeof name, "%s.weight", module);
    fill(m, add(m, part, name, DTYPE_U32, 2, codes), elements(2, codes) * 4, UINT64_MAX, 0);
    (void)snprintf(name, sizeof name, "%s.scales", module);
    add_floats(m, part, name, DTYPE_F16, 1, &stored);
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

static const char *const mlp_matrices[] = {"gate_proj", "up_proj", "down_proj"};
enum { MLP_MATRICES = 3, MLP_DOWN = 2 };

static void mlp_module(char *out, size_t size, uint32_t number, const char *block, int which)
{
    (void)snprintf(out, size, "layers.%u.%s.%s", number, block, mlp_matrices[which]);
}

static void mlp(maker *m, place at, const char *block, uint64_t inner, uint64_t hidden)
{
    for (int i = 0; i < MLP_MATRICES; i++) {
        char           module[128];
        const uint64_t shape[] = {i == MLP_DOWN ? hidden : inner, i == MLP_DOWN ? inner : hidden};
        mlp_module(module, sizeof module, at.i, block, i);
        add_mlp_matrix(m, at.part, module, shape, i == MLP_DOWN);
    }
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

static config shape_config(const shape_entry *s, const random_format *f)
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
        .quant                    = {.present = f->grouped, .form = f->form},
    };
    (void)snprintf(c.model_type, sizeof c.model_type, "%s", s->experts > 0 ? "qwen3_5_moe_text" : "qwen3_5_text");
    for (uint32_t i = 0; i < s->layers; i++) c.layers[i] = (i + 1) % 4 == 0 ? CONFIG_FULL : CONFIG_LINEAR;
    return c;
}

/* The forms of the trellis-coded MLPs as overrides: paths and array in one piece of memory (mem_free);
 * the MTP layer is called like the first one. */
static weir_status add_overrides(config_quant *q, const config *c, uint32_t bits, weir_error *err)
{
    enum { PATH = 64 };
    const char  *block = c->is_moe ? "mlp.shared_expert" : "mlp";
    const size_t n     = (size_t)c->n_layers * MLP_MATRICES;
    if (bits == 0) return WEIR_OK;
    q->overrides = mem_zalloc(n, sizeof *q->overrides + PATH);
    if (q->overrides == NULL) return status_fail(err, WEIR_NO_MEMORY, "model: out of memory");
    char *path = (char *)(q->overrides + n);
    for (; q->n_overrides < n; q->n_overrides++, path += PATH) {
        const int which = (int)(q->n_overrides % MLP_MATRICES);
        mlp_module(path, PATH, (uint32_t)(q->n_overrides / MLP_MATRICES), block, which);
        q->overrides[q->n_overrides] = (config_quant_override){
            .path = path, .quantised = true, .form = {CONFIG_QUANT_TRELLIS, bits, 256, which != MLP_DOWN}};
    }
    return WEIR_OK;
}

weir_status load_random(checkpoint **out, const char *shape, const char *format, uint64_t seed, weir_error *err)
{
    *out                   = NULL;
    const shape_entry   *s = NULL;
    const random_format *f = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, shape) == 0) s = &shapes[i];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, format) == 0) f = &formats[i];
    if (s == NULL)
        return status_fail(err, WEIR_INVALID, "shape: expected 0.8b, 2b, 4b, 9b, 27b or 35b-a3b, found \"%s\"", shape);
    if (f == NULL)
        return status_fail(
            err, WEIR_INVALID,
            "format: expected bf16, f16, f32, affine2, affine3, affine4, affine5, affine6, affine8, mxfp4, "
            "mxfp8, nvfp4, trellis2, trellis3, trellis4, q4_0, q8_0, q4_k, q5_k or q6_k, found \"%s\"",
            format);

    config                      c  = shape_config(s, f);
    const checkpoint_convention cv = {.gain_minus_one = true, .has_mtp = true, .mtp_gain_minus_one = true};
    checkpoint                 *ck = NULL;
    TRY(add_overrides(&c.quant, &c, f->trellis, err));
    const weir_status made = checkpoint_new_memory(&ck, &c, &cv, err);
    mem_free(c.quant.overrides);
    TRY(made);
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
