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

#endif
