/* include/weir/engine.h - a model made ready to compute on one device.
 *
 * The engine owns the threads, the weights in the device's form, the caches
 * and the workspaces.  All memory is taken when it is opened: a step allocates
 * nothing.  One thread at a time may use an engine and its sequences. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "weir/model.h"

typedef struct weir_engine weir_engine;

typedef struct weir_engine_options {
    size_t      size;          /* sizeof(weir_engine_options): the struct may grow */
    const char *device;        /* "cpu"; NULL picks the fastest present */
    const char *isa;           /* "scalar", "avx2", "avx512", "neon"; NULL: the best this CPU has */
    const char *kv;            /* format of cached keys and values: "bf16" (NULL) or "f32" */
    uint32_t    threads;       /* 0: one per physical core */
    uint32_t    max_context;   /* positions a sequence may have; 0: what the model was made for, capped by memory */
    uint32_t    max_sequences; /* sequences alive at once; 0: 1 */
    uint32_t    chunk;         /* most prompt tokens in one step; 0: 256 */
    uint64_t    memory_limit;  /* bytes for weights, caches and workspaces; 0: what the machine has */
} weir_engine_options;

#define WEIR_ENGINE_OPTIONS_INIT \
    { \
        .size = sizeof(weir_engine_options) \
    }

/* Makes `m` ready.  `opt` may be NULL.  On WEIR_OK the caller owns *out and
 * releases it with weir_engine_close(); `m` must outlive it.  WEIR_INVALID
 * names the option; WEIR_FORMAT lists missing and unexpected tensors or the
 * tensor of a wrong shape; WEIR_NO_MEMORY says needed and allowed bytes. */
WEIR_API weir_status weir_engine_open(weir_engine **out, const weir_model *m, const weir_engine_options *opt,
                                      weir_error *err);

/* Releases the engine.  NULL is allowed.  No sequence of it may be left. */
WEIR_API void weir_engine_close(weir_engine *e);

typedef struct weir_engine_info {
    const char *device, *isa, *kv; /* static strings */
    uint32_t    threads, max_context, max_sequences, chunk;
} weir_engine_info;

WEIR_API void weir_engine_get_info(const weir_engine *e, weir_engine_info *out);

/* Memory that an engine with these options takes.  One formula: admission in
 * weir_engine_open uses it too. */
typedef struct weir_fit {
    uint64_t weights_bytes;            /* the stored weights, plus what is converted at load */
    uint64_t kv_bytes_per_token;       /* of one sequence */
    uint64_t state_bytes_per_sequence; /* convolution tails and recurrent state */
    uint64_t workspace_bytes;
    uint64_t total_bytes; /* weights + workspace + max_sequences * ((kv + 4) * max_context + state); 4: the token ids */
    uint32_t max_context; /* the longest context that fits memory_limit (0: the machine's memory) */
    bool     fits;
} weir_fit;

/* Computes *out without loading weights. */
WEIR_API weir_status weir_engine_fit(const weir_model *m, const weir_engine_options *opt, weir_fit *out,
                                     weir_error *err);

#endif
