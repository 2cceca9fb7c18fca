/* include/weir/experimental.h - what may still change: measuring and proving. */
#ifndef WEIR_EXPERIMENTAL_H
#define WEIR_EXPERIMENTAL_H

#include "weir/engine.h"

/* A model with random weights made in memory, for measuring.  `shape`: "0.8b",
 * "2b", "4b", "9b", "27b", "35b-a3b"; `format`: "bf16", "f16", "f32", "affine4",
 * "affine8".  It has no tokenizer. */
WEIR_API weir_status weir_model_random(weir_model **out, const char *shape, const char *format, uint64_t seed,
                                       weir_error *err);

/* What this machine can do at most, measured now with `threads` threads (0: one
 * per physical core) and the instruction set `isa` (NULL: best): sequential reads
 * from memory, and f32 fused multiply-adds from registers (2 operations each). */
WEIR_API weir_status weir_measure_floor(uint32_t threads, const char *isa, double *read_gbps, double *fma_gflops,
                                        weir_error *err);

/* The result of weir_verify.  A schedule is one random way of computing a
 * sequence; every one is compared bit for bit with the dullest run. */
enum { WEIR_VERIFY_MAX_INVARIANTS = 16 };
typedef struct weir_verify_result {
    uint64_t schedules; /* compared */
    uint64_t differing; /* of these, with other bits */
    uint32_t n_invariants;
    struct {
        const char *name;  /* "chunking", "threads", "isa", ...; static */
        uint64_t    count; /* schedules that exercised it */
    } invariants[WEIR_VERIFY_MAX_INVARIANTS];
    char first_difference[400]; /* the shortest failing schedule found, or "" */
} weir_verify_result;

/* Called now and then; return false to stop early. */
typedef bool weir_verify_progress_fn(void *user, double seconds, const weir_verify_result *so_far);

/* Draws random schedules for about `budget_seconds` from `seed` and compares.
 * `kv` as in weir_engine_options.  WEIR_OK also when bits differ: see *out. */
WEIR_API weir_status weir_verify(const weir_model *m, double budget_seconds, uint64_t seed, const char *kv,
                                 weir_verify_progress_fn *progress, void *user, weir_verify_result *out,
                                 weir_error *err);

#endif
