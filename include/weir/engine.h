/* include/weir/engine.h - a model made ready to compute on one device.
 *
 * The engine owns the threads, the weights in the device's form, the caches
 * and the workspaces.  All memory is taken when it is opened: a step allocates
 * nothing, but for what waits to be written to a cache_dir, within a limit that is
 * counted.  One thread at a time may use an engine and its sequences. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "weir/adapter.h"

typedef struct weir_engine weir_engine;

typedef struct weir_engine_options {
    size_t      size;       /* sizeof(weir_engine_options): the struct may grow */
    const char *device;     /* "cpu"; NULL picks the fastest present */
    const char *isa;        /* "scalar", "avx2", "avx512", "neon"; NULL: the best this CPU has */
    const char *kv;         /* form of cached keys and values: "bf16" (NULL), "affine8", ... (docs/CLI.md, --kv) */
    const char *kv_config;  /* a file with the form of every layer (docs/CLI.md), instead of kv; NULL: that of the
                               model's directory if it has one and kv is NULL */
    uint32_t kv_start;      /* the first positions of a sequence stay bf16 where kv says affine; rounded up to 256 */
    uint32_t threads;       /* 0: one per physical core */
    uint32_t max_context;   /* positions a sequence may have; 0: what the model was made for, capped by memory */
    uint32_t max_sequences; /* sequences alive at once; 0: 1 */
    uint32_t chunk;         /* most prompt tokens in one step; 0: 256 */
    uint64_t memory_limit;  /* bytes for weights, caches and workspaces; 0: what the machine has */
    uint64_t pool_context;  /* positions that all sequences together have at least; 0: max_sequences * max_context */

    /* Prefix cache of requests: bytes of memory (0: none; WEIR_CACHE_AUTO: up to an eighth
     * of the memory, at most 8 GB), and a directory with its bytes (0: 32 GB) for what is
     * to outlive the process (NULL: none; needs cache_memory). */
    uint64_t    cache_memory;
    const char *cache_dir;
    uint64_t    cache_disk;

    /* Where drafts come from: "off" (NULL), "mtp" (the model's own head), "ngram" (the
     * text so far), "model" (draft_model), "auto" ("mtp" if the model has the head, else
     * "off").  Drafts change speed, never the text. */
    const char       *draft;
    const weir_model *draft_model; /* of the same tokenizer; must outlive the engine */
    uint32_t          max_drafts;  /* per step and sequence, at most 16; 0: 3 for "mtp", 8 for "ngram", 4 for "model" */
    bool              fixed_drafts; /* always max_drafts instead of what pays; for measuring */
    bool              mtp_pre_norm; /* feed the MTP head what precedes the final norm (docs/CLI.md, --mtp-hidden) */

    /* What sequences and requests may choose, n_adapters of them; each of this model, and must outlive the engine. */
    const weir_adapter *const *adapters;
    size_t                     n_adapters;
    /* Memory for adapters that come later (weir_engine_add_adapter): how many at once with those listed (0:
     * n_adapters), of which rank (0: 64), and how many bytes of matrices the later ones have together (0: as many as
     * they take on every matrix of the model but for the experts', in 16 bits). */
    uint32_t max_adapters;
    uint32_t max_adapter_rank;
    uint64_t adapter_memory;
} weir_engine_options;

#define WEIR_CACHE_AUTO UINT64_MAX

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

/* Releases the engine.  NULL is allowed.  No sequence of it may be left, nor a request. */
WEIR_API void weir_engine_close(weir_engine *e);

/* Adds an adapter of the engine's model, which sequences and requests that begin afterwards may
 * choose, or takes one away, between steps: requests that are under way go on.  An adapter must outlive its time in the
 * engine.  What it gives are the same bits as if it had been listed in the options.
 *
 * Adding fails with WEIR_INVALID for an adapter of another model, one that the engine has
 * and one of a higher rank than max_adapter_rank, and with WEIR_NO_MEMORY when max_adapters or
 * the memory for them are used up; removing with WEIR_INVALID for one that the engine does not have,
 * and while a sequence or a request that is not done has it.  Both do nothing then.  What the prefix
 * cache holds stays, and serves when the same adapter comes again. */
WEIR_API weir_status weir_engine_add_adapter(weir_engine *e, const weir_adapter *a, weir_error *err);
WEIR_API weir_status weir_engine_remove_adapter(weir_engine *e, const weir_adapter *a, weir_error *err);

typedef struct weir_engine_info {
    const char *device, *isa; /* static strings */
    const char *kv;           /* as in the options, or "mixed"; lives as long as the engine */
    uint32_t    threads, max_context, max_sequences, chunk;
    uint64_t    pool_context;
    const char *draft; /* "off", "mtp", "ngram", "model"; static */
    uint32_t    max_drafts;
} weir_engine_info;

WEIR_API void weir_engine_get_info(const weir_engine *e, weir_engine_info *out);

/* Memory that an engine with these options takes.  One formula: admission in
 * weir_engine_open uses it too. */
typedef struct weir_fit {
    uint64_t weights_bytes;            /* the stored weights, plus what is converted at load */
    uint64_t kv_bytes_per_token;       /* of one sequence, behind kv_start */
    uint64_t kv_start_bytes;           /* keys and values of all positions before kv_start, of one sequence */
    uint64_t state_bytes_per_sequence; /* convolution tails and recurrent state, twice with drafts */
    uint64_t snapshot_bytes;           /* of one place in the prefix cache to continue from */
    uint64_t cache_bytes;              /* what the prefix cache takes of cache_memory */
    uint64_t workspace_bytes;          /* of a step, and of cache_dir: its entries and what waits to be written */
    uint64_t draft_bytes;              /* the draft model with its caches, or the index of "ngram" */
    uint64_t adapter_bytes;            /* adapters, memory for later ones, and the workspace that they need */
    uint64_t total_bytes; /* weights + workspace + cache + drafts + adapters + (kv + 4) * pool_context + max_sequences *
                             state; 4: the token ids.  Positions before kv_start count max_sequences * kv_start_bytes in
                             place of kv */
    uint32_t max_context; /* the longest context that fits memory_limit (0: the machine's memory) */
    bool     fits;
} weir_fit;

/* Computes *out without loading weights. */
WEIR_API weir_status weir_engine_fit(const weir_model *m, const weir_engine_options *opt, weir_fit *out,
                                     weir_error *err);

#endif
