/* load/load.h - checkpoint -> model: names bound, shapes checked, conventions undone. */
#ifndef LOAD_H
#define LOAD_H

#include "checkpoint/checkpoint.h"
#include "model/model.h"

/* The model's sizes out of the checkpoint's config, with its MTP head or without. */
model_config load_config(const config *c, bool with_mtp);

/* Is there an MTP head to load? */
bool load_has_mtp(const checkpoint *c);

/* Rotary frequencies [rotary_dim / 2] and the factor on sine and cosine, for
 * k_limits.  WEIR_UNSUPPORTED for a kind of scaling that is not implemented. */
weir_status load_rope(const config *c, double *inv_freq, float *rope_scale, weir_error *err);

/* Makes all weights on the backend; matrices stay in the checkpoint's mapping,
 * which must outlive the model.  Every parameter is bound exactly once: what
 * is missing, unexpected, of a wrong shape or of a format without kernels is
 * named (WEIR_FORMAT, WEIR_UNSUPPORTED).  Without with_mtp the MTP head's tensors
 * are passed over; with it WEIR_INVALID when there is none, WEIR_UNSUPPORTED when
 * it has several layers.  On failure *out is all zero. */
weir_status load_model(model *out, kernels *k, const checkpoint *c, bool with_mtp, weir_error *err);
void        load_free(model *m, kernels *k); /* all zero is allowed */

/* Where a model keeps the weights of a module: `mats` matrices [rows, cols]. */
typedef struct load_slot {
    k_weight **weight;
    uint32_t   mats, rows, cols;
} load_slot;

/* The slot of a module of the trunk by its name in a quantised checkpoint: "layers.0.mlp.up_proj",
 * "layers.0.mlp.switch_mlp.up_proj" (all experts), "embed_tokens", "lm_head" (not of a tied
 * head, which is the embedding).  False: no such module. */
bool load_module(load_slot *out, model *m, const char *name);

/* Bytes that load_model converts into memory of its own (norms, taps, rates),
 * those of MTP among them when the config is with it. */
uint64_t load_converted_bytes(const model_config *c);

/* What one reads off the names and shapes alone. */
enum { LOAD_MAX_FORMATS = 24 };
typedef struct load_format {
    char     name[32]; /* "bf16", "affine4 g64", "mxfp4"; of a 25th and more "other" */
    uint64_t bytes;    /* of trunk and head, scales included */
    uint32_t n;        /* weights */
} load_format;

typedef struct load_description {
    uint64_t    parameters, active_parameters;
    uint64_t    weights_bytes;   /* trunk and head as stored */
    uint64_t    mtp_bytes;       /* the MTP head as stored; 0 without one */
    uint64_t    bytes_per_token; /* of these, read for one token */
    uint64_t    macs_per_token;  /* multiply-adds of all matrices, head included */
    char        format[32];      /* of the largest layer weight */
    uint32_t    n_formats;
    load_format formats[LOAD_MAX_FORMATS]; /* the one with the most bytes first */
} load_description;
void load_describe(load_description *out, const checkpoint *c);

/* A checkpoint in memory with random weights of a published shape ("0.8b", ...),
 * MTP head included, in a format ("bf16", "affine4", "mxfp8", "trellis3", "q4_k", ...; random.c has the list). */
weir_status load_random(checkpoint **out, const char *shape, const char *format, uint64_t seed, weir_error *err);

#endif
