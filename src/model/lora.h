/* model/lora.h - low-rank adapters (Hu et al., "LoRA", 2021): y = W x + s * B (A x).
 *
 * A step may have rows of sequences with different adapters, with several, and with none.
 * The base linear runs over all rows as ever; then each adapter's rows are gathered, run
 * through A and B as through any other linear, and added.  So a row's bits depend on its own
 * adapters and their order alone, and rows without one cost nothing (but for experts: below). */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H

#include "kernels/kernels.h"

/* The matrices of a layer that an adapter may add to.  LORA_GATE, _UP and _DOWN are those of
 * the MLP, in mixtures of experts those of the shared expert; the last three are the experts'. */
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
    LORA_EXPERT_GATE,
    LORA_EXPERT_UP,
    LORA_EXPERT_DOWN,
    LORA_TARGETS
} lora_target;

/* What is added to one matrix [out, in], or to each of a layer's experts. */
typedef struct lora_pair {
    k_weight *a; /* [rank, in]; NULL: nothing */
    k_weight *b; /* [out, rank]; of the experts there is one A and one B each */
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
    float          *scales; /* [max_rows or max_slots] of one pair's rows */
    uint32_t       *slots;  /* [max_slots] those of a run's rows */
} lora_step;

/* Buffers for the rows of a run. */
typedef struct lora_work {
    k_buf   *x;             /* [max_rows, in]: gathered */
    k_buf   *t[K_MAX_JOBS]; /* [max_rows, rank]: A x; the first [max_slots, rank] */
    k_buf   *delta;         /* [max_rows, out] or [max_slots, slot_out] */
    uint32_t per_token;     /* slots of a row */
} lora_work;

/* The widest that any adapter needs. */
typedef struct lora_limits {
    uint32_t max_rows, max_in, max_out, max_rank; /* max_rank 0: no adapters */
    uint32_t per_token, slot_out; /* of mixtures: experts of a token, rows of their largest matrix; else 0 */
} lora_limits;
uint64_t    lora_work_bytes(const lora_limits *l);
weir_status lora_work_new(lora_work *w, kernels *k, const lora_limits *l, weir_error *err);
void        lora_work_free(lora_work *w, kernels *k); /* all zero is allowed */

/* y_j += what the step's adapters add to it, after a linear of these jobs over x; targets [n_jobs]
 * say which matrix of the layer each is.  `s` NULL: no row has an adapter. */
void lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t layer, const k_buf *x,
              const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs);

/* The same after an expert_linear, whose y_j have a row a slot: the slots of the run's rows get what
 * their experts' A and B add.  A and B run over all rows of the step, which costs those without a
 * little time, too. */
void lora_add_experts(const lora_step *s, const lora_work *w, kernels *k, uint32_t layer, const k_buf *x,
                      bool from_slots, const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs);

#endif
