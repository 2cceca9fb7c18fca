/* include/weir/experimental.h - what may still change: measuring and proving. */
#ifndef WEIR_EXPERIMENTAL_H
#define WEIR_EXPERIMENTAL_H

#include "weir/convert.h"
#include "weir/sequence.h"

/* A model with random weights made in memory, for measuring.  `shape`: "0.8b",
 * "2b", "4b", "9b", "27b", "35b-a3b"; `format`: "bf16", "f16", "f32", "affine2",
 * "affine3", "affine4", "affine5", "affine6", "affine8", "mxfp4", "mxfp8", "nvfp4", "trellis2",
 * "trellis3", "trellis4" (the MLPs; the rest is "affine4"), or
 * GGML's "q4_0", "q8_0", "q4_k", "q5_k", "q6_k".  It has no tokenizer. */
WEIR_API weir_status weir_model_random(weir_model **out, const char *shape, const char *format, uint64_t seed,
                                       weir_error *err);

/* What this machine can do at most, measured now with `threads` threads (0: one
 * per physical core) and the instruction set `isa` (NULL: best): sequential reads
 * from memory, and f32 fused multiply-adds from registers (2 operations each). */
WEIR_API weir_status weir_measure_floor(uint32_t threads, const char *isa, double *read_gbps, double *fma_gflops,
                                        weir_error *err);

/* One step in which each of n different sequences of one engine reads `tokens`
 * ids ([n, tokens]) and every row has its logits made; *seconds is what it took.
 * With tokens > 1 they are windows, as drafts are checked in (the engine must
 * have a draft source): the first `keep` of them stay, the sequence's logits are
 * those of the last that does.  With tokens = 1 it is a step of n replies.
 * WEIR_INVALID, as when the sequences, rows or tokens are more than the engine
 * or a sequence has room for, changes nothing. */
WEIR_API weir_status weir_measure_step(weir_sequence *const *sequences, uint32_t n, const uint32_t *ids,
                                       uint32_t tokens, uint32_t keep, double *seconds, weir_error *err);

/* How much worse a model says a text when one of its modules is stored with fewer bits. */
typedef struct weir_sensitivity weir_sensitivity;

/* Runs the model over n >= 2 ids of the text and remembers what it expects behind each; `device`,
 * `isa` and `threads` of the engine as in weir_engine_options, memory as it needs.  Here and in
 * weir_sensitivity_of `progress` tells the ids read, and stops the work (WEIR_CANCELLED); it
 * may be NULL.  The model must outlive it. */
WEIR_API weir_status weir_sensitivity_open(weir_sensitivity **out, const weir_model *m, const uint32_t *ids, size_t n,
                                           const weir_engine_options *opt, weir_progress_fn *progress, void *user,
                                           weir_error *err);
/* *damage = the mean over the text of the Kullback-Leibler divergence, in nats, from what the model
 * expects to what it expects with module `q` in place of its own weights.  All tokens of less than 2^-12 count
 * as one.  `sensitivity` is a weir_sensitivity: this is a weir_damage_fn.  The same bits on
 * any number of threads. */
WEIR_API weir_status weir_sensitivity_of(void *sensitivity, const weir_quantized_module *q, double *damage,
                                         weir_error *err);
WEIR_API void        weir_sensitivity_close(weir_sensitivity *s); /* NULL is allowed */

/* weir_verify draws random schedules, ways of computing some sequences or
 * requests on one engine, and compares every one bit for bit with the dullest
 * run: one sequence, one token at a time, one thread, scalar code. */
typedef struct weir_verify_options {
    size_t      size;           /* sizeof(weir_verify_options): the struct may grow */
    double      budget_seconds; /* about how long to go on; a difference takes half of it more to shrink */
    uint64_t    max_schedules;  /* 0: as many as the budget allows */
    uint64_t    seed;           /* the same seed draws the same schedules, as far as time allows */
    uint32_t    max_length;     /* of a sequence: 32 and up; 0: past the border of attention's partitions */
    const char *scratch;        /* where a folder for files is made, and removed in the end; NULL: /tmp */
    const char *kv, *kv_config; /* as in weir_engine_options, */
    uint32_t    kv_start;       /* this too */
} weir_verify_options;

#define WEIR_VERIFY_OPTIONS_INIT \
    { \
        .size = sizeof(weir_verify_options), .budget_seconds = 10 \
    }

enum { WEIR_VERIFY_MAX_INVARIANTS = 32 };
typedef struct weir_verify_result {
    uint64_t schedules; /* compared */
    uint64_t differing; /* of these, with other bits, or failed */
    uint32_t n_invariants;
    struct {
        const char *name;  /* "chunking", "threads", "isa", ...; static */
        uint64_t    count; /* schedules that exercised it */
    } invariants[WEIR_VERIFY_MAX_INVARIANTS];
    /* The first that differed, shrunk to the shortest that still does, in lines; or "". */
    char first_difference[4000];
} weir_verify_result;

/* Called now and then; return false to stop early. */
typedef bool weir_verify_progress_fn(void *user, double seconds, const weir_verify_result *so_far);

/* Draws and compares.  `opt` may be NULL.  WEIR_OK also when bits differ: see *out. */
WEIR_API weir_status weir_verify(const weir_model *m, const weir_verify_options *opt, weir_verify_progress_fn *progress,
                                 void *user, weir_verify_result *out, weir_error *err);

#endif
