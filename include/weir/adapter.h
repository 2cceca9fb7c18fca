/* include/weir/adapter.h - LoRA adapters: small additions to a model's matrices.
 *
 * An adapter adds s * B (A x) to some linears of the model, y = W x.  An engine knows the
 * adapters that its options list, and those that come later (weir/engine.h); every request and every sequence chooses
 * among them, one or several with a scale each, and all share the engine's steps with those that chose none. The result
 * is the same bits as alone, and rows without an adapter cost nothing more.
 *
 * What is read under one choice is never taken for another: the prefix cache, its folder on
 * disk and saved sequences tell adapters apart by their content, scales and order. */
#ifndef WEIR_ADAPTER_H
#define WEIR_ADAPTER_H

#include "weir/model.h"

typedef struct weir_adapter weir_adapter;

/* Reads the adapter in folder `dir` for the model m: PEFT's form (adapter_config.json and
 * adapter_model.safetensors) or mlx-lm's (adapter_config.json and adapters.safetensors).  It
 * is copied into memory and never changes; any thread may open one, and any number of engines
 * on m may share it, which it must outlive.
 *
 * On WEIR_OK the caller owns *out and releases it with weir_adapter_close().  Nothing is left
 * out silently: WEIR_FORMAT names the file and tensor that do not fit the model,
 * WEIR_UNSUPPORTED what is not implemented (DoRA, biases, modules_to_save, embeddings, ...).
 * One that would change nothing opens, and the log says so. */
WEIR_API weir_status weir_adapter_open(weir_adapter **out, const weir_model *m, const char *dir, weir_error *err);
WEIR_API void        weir_adapter_close(weir_adapter *a); /* NULL is allowed */

typedef struct weir_adapter_info {
    const char *path;      /* borrowed */
    const char *form;      /* "peft", "mlx"; static */
    uint32_t    n_modules; /* matrices it adds to */
    uint32_t    max_rank;
    uint64_t    bytes;    /* of its matrices */
    uint8_t     hash[32]; /* of its content: the same for the two forms of one adapter */
} weir_adapter_info;

WEIR_API void weir_adapter_get_info(const weir_adapter *a, weir_adapter_info *out);

enum { WEIR_MAX_ADAPTERS = 4 }; /* of one sequence */

/* One of a list: they add in the order of the list.  scale: on top of the adapter's own, 1 as
 * it was trained, -100 to 100; 0 leaves it out. */
typedef struct weir_adapter_choice {
    const weir_adapter *adapter;
    float               scale;
} weir_adapter_choice;

/* Writes a checkpoint of m with the adapters added into the weights, W + s B A, into the
 * folder `dir`, which must not exist: weights in m's own types, and the JSON and template files
 * beside m's weights.  Files appear whole (temporary file, fsync, rename), config.json last.
 * WEIR_UNSUPPORTED names the first tensor that is not F32, F16 or BF16 where one has to change;
 * GGUF files are not merged. */
WEIR_API weir_status weir_model_merge(const weir_model *m, const weir_adapter_choice *adapters, size_t n,
                                      const char *dir, weir_error *err);

#endif
