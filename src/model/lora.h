/* model/lora.h - low-rank adapters (Hu et al., "LoRA", 2021): y = W x + s * B (A x).
 *
 * A step may have rows of sequences with different adapters, with several, and with none.
 * The base linear runs over all rows as ever; then each adapter's rows are gathered, run
 * through A and B as through any other linear, and added.  So a row's bits depend on its own
 * adapters and their order alone, and rows without one cost nothing. */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H

#include "kernels/kernels.h"

/* The matrices of a layer that an adapter may add to.  The last three are those of
 * the MLP, in mixtures of experts those of the shared expert. */
typedef enum lora_target {
    LORA_IN_QKV,
    LORA_IN_Z,
    LORA_IN_A,
    LORA_IN_B,
    LORA_OUT,
    LORA_Q,
    LORA_K,
    LORA_V,
    LORA_O,
    LORA_GATE,
    LORA_UP,
    LORA_DOWN,
    LORA_TARGETS
} lora_target;

/* What is added to one matrix [out, in]. */
typedef struct lora_pair {
    k_weight *a; /* [rank, in]; NULL: nothing */
    k_weight *b; /* [out, rank] */
    uint32_t  in, out;
    float     scale; /* s, as the adapter was trained */
} lora_pair;

typedef struct lora {
    uint32_t n_layers;
    lora_pair (*layers)[LORA_TARGETS]; /* [n_layers] */
} lora;

/* Rows of a step that have this adapter at the same place of their lists. */
typedef struct lora_run {
    const lora     *adapter;
    uint32_t        n;
    const uint32_t *rows;   /* [n] ascending */
    const float    *scales; /* [n] on top of the pairs' own */
} lora_run;

/* The adapters of a step: the runs in the order in which they are added. */
typedef struct lora_step {
    uint32_t        n_runs;
    const lora_run *runs;
    float          *scales; /* [max_rows] of one pair's rows */
} lora_step;

/* Buffers for the rows of a run. */
typedef struct lora_work {
    k_buf *x;             /* [max_rows, in]: gathered */
    k_buf *t[K_MAX_JOBS]; /* [max_rows, rank]: A x */
    k_buf *delta;         /* [max_rows, out] */
} lora_work;

/* The widest that any adapter needs. */
typedef struct lora_limits {
    uint32_t max_rows, max_in, max_out, max_rank; /* max_rank 0: no adapters */
} lora_limits;
uint64_t    lora_work_bytes(const lora_limits *l);
weir_status lora_work_new(lora_work *w, kernels *k, const lora_limits *l, weir_error *err);
void        lora_work_free(lora_work *w, kernels *k); /* all zero is allowed */

/* y_j += what the step's adapters add to it, after a linear of these jobs over x; targets [n_jobs]
 * say which matrix of the layer each is.  `s` NULL: no row has an adapter. */
void lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t layer, const k_buf *x,
              const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs);

#endif
