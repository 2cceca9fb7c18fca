/* include/weir/convert.h - making one checkpoint from another. */
#ifndef WEIR_CONVERT_H
#define WEIR_CONVERT_H

#include "weir/base.h"

#include <stdbool.h>

/* How a tensor, or the weight of a module, is stored in the output. */
typedef struct weir_quantize_tensor {
    const char *name;        /* in the output; of a module without ".weight" */
    uint32_t    bits, group; /* of the codes (trellis: of the blocks); 0: not quantised */
    const char *format;      /* "affine", "trellis"; NULL: not quantised */
    const char *dtype;       /* "BF16", ...; of the scales when quantised */
    uint64_t    parameters;
} weir_quantize_tensor;

typedef struct weir_quantize_options {
    size_t      size;        /* sizeof(weir_quantize_options): the struct may grow */
    uint32_t    bits, group; /* 2, 3, 4, 5, 6 or 8; 32, 64 or 128 */
    const char *format;      /* of dense layers' MLPs: "affine" (NULL too), or "trellis", with 2, 3 or 4 bits */
    const char *recipe;      /* a file of rules that go before the default (docs/CLI.md), or NULL */
    uint32_t    threads;     /* 0: one per physical core */
    /* Called for every tensor before the first is made, and while they are made
     * with bytes of the source; return false to stop.  Either may be NULL. */
    void (*on_tensor)(void *user, const weir_quantize_tensor *t);
    bool (*on_progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} weir_quantize_options;

#define WEIR_QUANTIZE_OPTIONS_INIT \
    { \
        .size = sizeof(weir_quantize_options), .bits = 4, .group = 64 \
    }

typedef struct weir_quantize_result {
    uint64_t tensors;           /* in the output's files, scales and biases counted */
    uint64_t parameters;        /* numbers in the source */
    uint64_t bytes;             /* of the output's tensors */
    uint32_t files, files_kept; /* of weights; of these, left from a run that was stopped */
} weir_quantize_result;

/* Quantises the unquantised checkpoint in folder `source` to MLX's affine form,
 * which MLX programs read too, in folder `target`: a new one, an empty one, or
 * one that an earlier call with the same arguments left unfinished, which is
 * gone on with.  The trellis format is mlx-bun's: fewer bits for the same error,
 * and about a second of one core for a million weights.  Memory stays small whatever the model's size is.  `opt` may be
 * NULL.  The same arguments make the same bytes.  A target that holds anything
 * else is WEIR_INVALID; WEIR_CANCELLED leaves whole files, for the next call. */
WEIR_API weir_status weir_quantize(const char *source, const char *target, const weir_quantize_options *opt,
                                   weir_quantize_result *out, weir_error *err);

/* A module of the trunk as it would be stored: `mats` matrices [rows, cols], one behind the
 * other in each of the three. */
typedef struct weir_quantized_module {
    const char *name; /* without prefix: "layers.0.mlp.up_proj", "embed_tokens", "lm_head" */
    uint32_t    bits, group;
    uint32_t    mats, rows, cols;
    const char *scale_dtype; /* "BF16", "F16" or "F32" */
    const void *codes, *scales, *biases;
} weir_quantized_module;

/* Tells what the model suffers when this module alone is stored like that: a number, 0 for
 * nothing, that may be added to that of other modules (weir_sensitivity in
 * weir/experimental.h measures it).  The module is valid during the call. */
typedef weir_status weir_damage_fn(void *user, const weir_quantized_module *m, double *damage, weir_error *err);

typedef struct weir_allocate_options {
    size_t          size;            /* sizeof(weir_allocate_options): the struct may grow */
    double          bits_per_weight; /* of all that weir_quantize will write, scales and unquantised tensors counted */
    uint32_t        group;           /* as for weir_quantize */
    const char     *recipe;          /* its bits are the fewest that its modules get (16: as they are); or NULL */
    uint32_t        threads;         /* 0: one per physical core */
    weir_damage_fn *damage;
    /* Called for each module with the modules measured; return false to stop.  May be NULL. */
    bool (*on_progress)(void *user, uint32_t done, uint32_t total);
    void *user; /* of both */
} weir_allocate_options;

#define WEIR_ALLOCATE_OPTIONS_INIT \
    { \
        .size = sizeof(weir_allocate_options), .bits_per_weight = 4.5, .group = 64 \
    }

typedef struct weir_allocate_result {
    uint32_t modules;         /* measured */
    uint64_t bytes;           /* that weir_quantize will write */
    double   bits_per_weight; /* at most what was asked for */
    double   damage;          /* sum of what the chosen widths are expected to do */
} weir_allocate_result;

/* Finds widths for the modules of `source` that keep within bits_per_weight and do least
 * damage, and writes them as a recipe, with which weir_quantize (same group, default bits)
 * makes the checkpoint.  Each module is measured once, at 3 bits; for other widths its
 * damage is taken to follow the squared error of its weights.  What weir_quantize keeps by default (decay,
 * write strength, routers, norms, convolutions) is kept; its 6 bits for some are no floor
 * here, but a rule of `recipe` is one.  MTP's modules, on which no text depends, are stored
 * as by default with 4 bits.  The same arguments and damages give the same file.  WEIR_INVALID,
 * with the range, for a number of bits that is out of reach.  In memory at a time: one
 * module at 3 bits. */
WEIR_API weir_status weir_quantize_allocate(const char *source, const char *recipe_file,
                                            const weir_allocate_options *opt, weir_allocate_result *out,
                                            weir_error *err);

#endif
