/* load/adapter.h - a LoRA adapter's folder -> pairs of matrices for a model of given sizes.
 *
 * Two forms are read, PEFT's (adapter_model.safetensors, lora_A [r, in], lora_B [out, r]) and
 * mlx-lm's (adapters.safetensors, lora_a [in, r], lora_b [r, out]); in memory all have PEFT's
 * shapes.  Those of experts come one by one (mlp.experts.7.up_proj) or in mlx-lm's stacks
 * (mlp.switch_mlp.up_proj: lora_a [experts, r, in], lora_b [experts, out, r]).  Everything is copied, so that the
 * folder may change or go afterwards. */
#ifndef LOAD_ADAPTER_H
#define LOAD_ADAPTER_H

#include "checkpoint/adapter_config.h"
#include "checkpoint/safetensors.h"
#include "load/load.h"

enum { ADAPTER_MAX_RANK = 4096 };

/* A and B of one matrix of one layer. */
typedef struct adapter_pair {
    uint32_t    layer;
    lora_target target;
    uint32_t    mats; /* 1; of the experts' targets one A and one B for each */
    uint32_t    in, out, rank;
    bool        by_expert; /* each came by itself; those that did not come are zero */
    double      scale;
    dtype       a_type, b_type; /* F32, F16 or BF16 */
    uint8_t    *a, *b;          /* [mats, rank, in], [mats, out, rank]; owned */
} adapter_pair;

typedef struct adapter {
    char         *path;
    adapter_form  form;
    size_t        n;
    adapter_pair *pairs; /* by layer, then target */
    uint32_t      n_layers, max_rank, max_in, max_out;
    uint64_t      bytes; /* of all matrices */
} adapter;

/* Reads `dir`.  Every tensor of the file must belong to a known matrix of the model and fit it;
 * otherwise the file, the key, what was expected and what was found are told (WEIR_FORMAT,
 * WEIR_UNSUPPORTED). */
weir_status adapter_open(adapter **out, const char *dir, const config *c, weir_error *err);
/* The same from a config and a file's bytes in memory, which are not looked at afterwards. */
weir_status adapter_read(adapter **out, const char *dir, const adapter_config *ac, const safetensors *file,
                         const config *c, weir_error *err);
/* One with random matrices of type BF16 or F32 for every matrix of the model (of many experts for none),
 * scales 1; small enough to leave a model's numbers what they are like. */
weir_status adapter_random(adapter **out, const config *c, uint32_t rank, dtype type, uint64_t seed, weir_error *err);
void        adapter_close(adapter *a); /* NULL is allowed */

/* As weights of a backend, which borrow the adapter's memory. */
weir_status load_lora(lora *out, kernels *k, const adapter *a, weir_error *err);
void        load_lora_free(lora *l, kernels *k); /* all zero is allowed */

/* ---- adapter_modules.c: what an adapter may name ---- */

/* Rows of B that belong to one matrix: row i of the `n` is row
 * offset + i / group * stride + i % group of the named module's, and row first + i of the matrix. */
typedef struct adapter_part {
    lora_target target;
    uint32_t    first, n, group, stride, offset;
} adapter_part;

/* A module by its name in the checkpoint; fused ones have several parts over one input. */
enum { ADAPTER_MAX_PARTS = 4, ADAPTER_ALL = -1, ADAPTER_NONE = -2 };
typedef struct adapter_module {
    uint32_t     layer, in, out, n_parts;
    int32_t      expert; /* which; ADAPTER_ALL: a stack of them; ADAPTER_NONE: no expert's */
    adapter_part parts[ADAPTER_MAX_PARTS];
} adapter_module;

/* "layers.3.mlp.up_proj", ... of a model; WEIR_UNSUPPORTED says why it is none (without the
 * file and the key).  Modules that the config has in trellis codes are none. */
weir_status adapter_find_module(adapter_module *out, const config *c, const char *name, weir_error *err);
/* Columns and rows of a target's matrix. */
void adapter_target_size(const config *c, lora_target target, uint32_t *in, uint32_t *out);
/* Matrices of a target: the experts of the model, or 1. */
uint32_t adapter_target_mats(const config *c, lora_target target);
/* Whether a layer of the model has that matrix. */
bool adapter_layer_has(const config *c, uint32_t number, lora_target target);

/* Where the model has row `row` (of LORA_OUT: column) of a target's matrix: adapters count value
 * heads by key head, h = g * r + j; where heads are tiled, theirs is j * key heads + g. */
uint32_t adapter_place(const config *c, lora_target target, uint32_t row);

#endif
