/* checkpoint/config.h - config.json and generation_config.json as one plain struct.
 *
 * Every number is range-checked here, once, so that later code may multiply
 * the sizes below as uint64_t (and heads * dim as uint32_t) without a thought of overflow.  Keys whose
 * absence the public implementations fill differently are required.  What the
 * engine does not implement is refused by name (WEIR_UNSUPPORTED); what
 * contradicts itself is WEIR_FORMAT.  Both nested files (text_config) and
 * flat ones are read. */
#ifndef CHECKPOINT_CONFIG_H
#define CHECKPOINT_CONFIG_H

#include "base/status.h"

#include <stdbool.h>

enum {
    CONFIG_MAX_LAYERS  = 1024,
    CONFIG_MAX_HIDDEN  = 1 << 17,
    CONFIG_MAX_VOCAB   = 1 << 21,
    CONFIG_MAX_HEADS   = 1024,
    CONFIG_MAX_DIM     = 1024,    /* of one head, attention or linear */
    CONFIG_MAX_INNER   = 1 << 20, /* MLP sizes; heads * dim of any kind */
    CONFIG_MAX_EXPERTS = 4096,
    CONFIG_MAX_CONV    = 16,
    CONFIG_MAX_EOS     = 32,
    CONFIG_MAX_FILE    = 4 << 20 /* bytes of a JSON file */
};

#define CONFIG_NO_TOKEN UINT32_MAX /* a token id that the file does not give */

typedef enum config_layer { CONFIG_LINEAR, CONFIG_FULL } config_layer;

typedef enum config_rope_type { CONFIG_ROPE_DEFAULT, CONFIG_ROPE_LINEAR, CONFIG_ROPE_YARN } config_rope_type;

typedef struct config_rope {
    config_rope_type type;
    double           theta;
    double           partial_rotary_factor;
    uint32_t         rotary_dim; /* floor(head_dim * partial_rotary_factor), even, >= 2 */
    /* linear: factor.  yarn: all five, defaults filled in (32, 1, 0.1 ln f + 1). */
    double   factor;
    uint32_t original_max_position;
    double   beta_fast, beta_slow;
    double   attention_factor;
    /* Frequencies per axis (t, h, w), sum rotary_dim / 2; all 0 when not given. */
    uint32_t mrope_section[3];
    bool     mrope_interleaved;
} config_rope;

typedef enum config_quant_mode {
    CONFIG_QUANT_AFFINE,
    CONFIG_QUANT_MXFP4,
    CONFIG_QUANT_MXFP8,
    CONFIG_QUANT_NVFP4,
    CONFIG_QUANT_TRELLIS
} config_quant_mode;
const char *config_quant_mode_name(config_quant_mode mode); /* as files write it */

/* How a module is stored.  bits and group are 0 where the file does not say;
 * the shapes of weight and scales decide, and a stated number must agree. */
typedef struct config_quant_form {
    config_quant_mode mode;
    uint32_t          bits, group;
    uint32_t          axis; /* trellis: 1, coded along the input, or 0, along the output; else 0 */
} config_quant_form;

typedef struct config_quant_override {
    char             *path; /* as in the file, owned by the config */
    bool              quantised;
    config_quant_form form; /* when quantised */
} config_quant_override;

typedef struct config_quant {
    bool                   present; /* the file has a quantization block */
    config_quant_form      form;    /* for modules that no override names */
    size_t                 n_overrides;
    config_quant_override *overrides; /* sorted by path */
} config_quant;

/* Advice of generation_config.json; what it does not give keeps the value named here. */
typedef struct config_sampling {
    bool     do_sample;          /* true */
    double   temperature, top_p; /* 1, 1 */
    uint32_t top_k;              /* 0: no limit */
} config_sampling;

typedef struct config {
    char     model_type[32]; /* of the text part: "qwen3_5_text", ... */
    bool     is_moe;
    uint32_t hidden_size, n_layers, vocab_size;
    uint32_t intermediate_size; /* dense MLP; 0 in MoE */
    uint32_t n_heads, n_kv_heads, head_dim;
    double   rms_norm_eps;
    bool     tie_word_embeddings;
    uint32_t max_position;

    uint8_t  layers[CONFIG_MAX_LAYERS]; /* config_layer of each of n_layers */
    uint32_t full_attention_interval;   /* 0 when the kinds follow no interval */

    uint32_t linear_n_key_heads, linear_n_value_heads; /* value heads a multiple of key heads */
    uint32_t linear_key_dim, linear_value_dim;         /* of one head */
    bool     linear_heads_tiled; /* value head h reads key head h mod key heads; else h div (value / key heads) */
    uint32_t conv_kernel;        /* 2..16 */

    config_rope rope;

    /* 0 unless is_moe */
    uint32_t n_experts, n_experts_per_token, moe_intermediate_size, shared_intermediate_size;

    uint32_t mtp_layers; /* MTP depth the file announces; its tensors may still be absent */

    /* The union of both files' eos_token_id, in the order met; may be empty.
     * Whoever has the tokenizer adds the id of <|im_end|>. */
    uint32_t n_eos, eos[CONFIG_MAX_EOS];

    bool     has_vision; /* vision_config is there */
    uint32_t image_token, video_token, vision_start_token, vision_end_token;

    config_sampling sampling;
    config_quant    quant;
} config;

/* Reads dir/config.json (required) and dir/generation_config.json (optional).
 * On failure *out is all zero.  Release with config_free. */
weir_status config_load(config *out, const char *dir, weir_error *err);

/* The same from text, for tests and fuzzing.  `generation` may be NULL.  The
 * names are used in messages. */
typedef struct config_text {
    const char *name, *text;
    size_t      len;
} config_text;
weir_status config_parse(config *out, const config_text *main, const config_text *generation, weir_error *err);

void config_free(config *c); /* all zero is allowed */

/* Copies all of `from` into the empty *to, for a config of one's own; its overrides may be in any
 * order.  The copy is released by config_free, also after a failure. */
weir_status config_quant_copy(config_quant *to, const config_quant *from, weir_error *err);

/* Sizes derived from the above: conv channels C = 2 * key_dim + value_dim. */
static inline uint32_t config_linear_key(const config *c)
{
    return c->linear_n_key_heads * c->linear_key_dim;
}

static inline uint32_t config_linear_value(const config *c)
{
    return c->linear_n_value_heads * c->linear_value_dim;
}

static inline uint32_t config_conv_channels(const config *c)
{
    return 2 * config_linear_key(c) + config_linear_value(c);
}

/* How the module of raw path `module` ("model.layers.0.mlp.up_proj", as in the
 * file, without ".weight") is stored, given that its ".scales" exist.  Looks
 * for an override under the raw path and under the same path with the prefixes
 * language_model.model, model.language_model, model and none; without one the
 * global form.  WEIR_FORMAT when the file has no quantization block or says
 * that this module is not quantised. */
weir_status config_quant_for(const config *c, const char *module, config_quant_form *out, weir_error *err);

#endif
