/* include/weir/model.h - one checkpoint: weights, tokenizer, chat template.
 *
 * A weir_model never changes after it is opened, so any number of threads and
 * engines may share it.  It must outlive every engine made from it.  Opening
 * maps the files and reads their headers; weights are read when they are used. */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include "weir/base.h"

#include <stdbool.h>

typedef struct weir_model weir_model;

/* Opens the checkpoint at `path`: a directory in Hugging Face or MLX form,
 * one .safetensors file beside its config.json, or a GGUF file, which brings its
 * own tokenizer and chat template.
 *
 * On WEIR_OK the caller owns *out and releases it with weir_model_close().
 * Otherwise *out is NULL and `err` names the file and the field or tensor,
 * what was expected and what was found: WEIR_IO (cannot be read), WEIR_FORMAT
 * (damaged or not a checkpoint), WEIR_UNSUPPORTED (well formed, not known
 * here), WEIR_NO_MEMORY.  `path` is not kept.  A missing tokenizer.json or chat
 * template is no failure here, only where one is asked for (weir/text.h). */
WEIR_API weir_status weir_model_open(weir_model **out, const char *path, weir_error *err);

/* Releases the model.  NULL is allowed.  No engine of it may be left. */
WEIR_API void weir_model_close(weir_model *m);

/* What a checkpoint holds; strings are borrowed from the model. */
typedef struct weir_model_info {
    const char *path;          /* as opened */
    const char *model_type;    /* "qwen3_5", "qwen3_5_moe", ... */
    const char *layout;        /* "huggingface", "mlx" or "gguf": how norms, decays and convolutions are stored */
    const char *weight_format; /* the format of the largest layer weight, "bf16", "affine4 g64", "mxfp4", ...;
                                  behind it ", trellis3" when the MLPs are in such codes */
    bool     moe, tied_head, has_mtp, has_vision, has_tokenizer, has_chat_template;
    uint32_t n_layers, n_attention_layers; /* the others are gated DeltaNet */
    uint32_t hidden_size, intermediate_size, vocab_size;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim;
    uint32_t n_experts, experts_per_token; /* 0 in dense models */
    uint32_t max_position;                 /* context length the checkpoint was made for */
    uint32_t n_tensors;
    uint64_t parameters;        /* of the text model, MTP apart */
    uint64_t active_parameters; /* used for one token; equals parameters in dense models */
    uint64_t weights_bytes;     /* of the text model as stored */
    uint64_t bytes_per_token;   /* weight bytes that decoding one token reads */
    uint64_t macs_per_token;    /* multiply-adds in the weight matrices for one token, head included */
} weir_model_info;

/* Fills *out.  Any thread. */
WEIR_API void weir_model_get_info(const weir_model *m, weir_model_info *out);

/* One tensor of the checkpoint. */
typedef struct weir_tensor_info {
    const char *name;  /* as in the file */
    const char *file;  /* the shard's path */
    const char *dtype; /* "BF16", "U32", ... */
    uint32_t    rank;
    uint64_t    shape[8];
    uint64_t    bytes;
} weir_tensor_info;

/* Tensor i < n_tensors, in the order of the files; WEIR_INVALID beyond. */
WEIR_API weir_status weir_model_get_tensor(const weir_model *m, uint32_t i, weir_tensor_info *out);

/* The checkpoint's own advice on sampling (generation_config.json); fields it
 * does not give are neutral: temperature 1, top_p 1, top_k 0. */
typedef struct weir_sampling_defaults {
    float    temperature, top_p;
    uint32_t top_k;
    bool     present; /* the file gave at least one of them */
} weir_sampling_defaults;

WEIR_API void weir_model_get_sampling(const weir_model *m, weir_sampling_defaults *out);

/* The ids that end a generation: the union of what generation_config.json,
 * config.json and the tokenizer say.  *n of them, borrowed from the model. */
WEIR_API const uint32_t *weir_model_eos_ids(const weir_model *m, size_t *n);

#endif
