/* model/model.h - the text model: sizes, weights, and one step through it.
 *
 * Names are the papers' and checkpoints'.  The weights belong to a backend; the
 * room `load` makes them.  T = rows of a step, H = hidden_size. */
#ifndef MODEL_H
#define MODEL_H

#include "kernels/kernels.h"
#include "state/state.h"

typedef struct model_config {
    uint32_t          hidden_size, n_layers, vocab_size, intermediate_size;
    uint32_t          n_delta_layers, n_attention_layers;
    float             eps;
    k_attention_shape attention;
    k_delta_shape     delta;
    /* 0 in dense models */
    uint32_t n_experts, experts_per_token, expert_size, shared_size;
} model_config;

typedef enum layer_kind { LAYER_DELTA, LAYER_ATTENTION } layer_kind;

/* Gated DeltaNet (Yang et al., 2024): C = 2*key_heads*key_dim + V, V = value_heads*value_dim. */
typedef struct delta_weights {
    k_weight *in_qkv;      /* [C, H] */
    k_weight *in_z;        /* [V, H] */
    k_weight *in_a, *in_b; /* [value_heads, H] */
    k_weight *out;         /* [H, V] */
    k_buf    *taps;        /* [conv_kernel, C], oldest first */
    k_buf    *decay_rate;  /* [value_heads] = -exp(A_log) */
    k_buf    *dt_bias;     /* [value_heads] */
    k_buf    *norm;        /* [value_dim] */
} delta_weights;

/* Gated softmax attention; q: per head head_dim query rows, then head_dim gate rows. */
typedef struct attention_weights {
    k_weight *q;               /* [heads*2*head_dim, H] */
    k_weight *k, *v;           /* [kv_heads*head_dim, H] */
    k_weight *o;               /* [H, heads*head_dim] */
    k_buf    *q_norm, *k_norm; /* [head_dim] */
} attention_weights;

typedef struct mlp_weights {
    k_weight *gate, *up; /* [I, H] */
    k_weight *down;      /* [H, I] */
} mlp_weights;

typedef struct moe_weights {
    k_weight   *router;      /* [experts, H] */
    mlp_weights experts;     /* `experts` matrices each, I = expert_size */
    mlp_weights shared;      /* I = shared_size */
    k_weight   *shared_gate; /* [1, H] */
} moe_weights;

typedef struct layer {
    layer_kind kind;
    uint32_t   index;                  /* among the layers of its kind */
    k_buf     *input_norm, *post_norm; /* [H] */
    union {
        delta_weights     delta;
        attention_weights attention;
    };
    union {
        mlp_weights mlp; /* dense models */
        moe_weights moe; /* n_experts > 0 */
    };
} layer;

typedef struct model {
    model_config config;
    k_weight    *embed;      /* [vocab, H] */
    k_buf       *final_norm; /* [H] */
    k_weight    *head;       /* [vocab, H]; the same as embed when tied */
    layer       *layers;
} model;

/* Buffers of one step, shared by the layers.  Those named on one line share
 * memory: they are never in use together. */
typedef struct work {
    k_buf *x, *h, *o;                   /* [T, H]: residual stream, block input, block output */
    k_buf *logits;                      /* [wanted, vocab] */
    k_buf *qkv, *qg, *gate, *slot_gate; /* [T, C], [T, heads*2*head_dim], [T, I], [T*k, expert_size] */
    k_buf *conv, *keys, *up, *slot_up;  /* [T, C], [T, kv_heads*head_dim], ... */
    k_buf *z, *values, *slot_out;       /* [T, V], [T, kv_heads*head_dim], [T*k, H] */
    k_buf *y, *attended, *shared;       /* [T, V], [T, heads*head_dim], [T, H] */
    k_buf *a, *router;                  /* [T, value_heads], [T, experts] */
    k_buf *b, *shared_gate;             /* [T, value_heads], [T, 1] */
    k_buf *owned[10];                   /* what the names above point to */
} work;

/* Bytes of the buffers for steps of at most max_rows rows, max_wanted of them with logits. */
uint64_t    work_bytes(const model_config *c, uint32_t max_rows, uint32_t max_wanted);
weir_status work_new(work *w, kernels *k, const model_config *c, uint32_t max_rows, uint32_t max_wanted,
                     weir_error *err);
void        work_free(work *w, kernels *k); /* all zero is allowed */

/* Sees the residual stream x [T, H] after each layer. */
typedef struct model_tap {
    void (*fn)(void *user, uint32_t layer, const float *x, uint32_t n_rows);
    void *user;
} model_tap;

/* One step: token ids in, the residual stream w->x [T, H] out; the sequences'
 * state moves on.  `tap` may be NULL.  k->finish() tells of failures. */
void model_forward(const model *m, kernels *k, const k_step *s, const state *st, work *w, const model_tap *tap);

/* w->logits [n, vocab] of n rows of the step that model_forward just did;
 * n at most work's max_wanted.  May be called again for other rows. */
void model_head(const model *m, kernels *k, work *w, const uint32_t *rows, uint32_t n);

/* The blocks; each reads w->h and writes w->o. */
void model_delta(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w);
void model_attention(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w);
void model_mlp(const model *m, const layer *l, kernels *k, const k_step *s, work *w);
void model_moe(const model *m, const layer *l, kernels *k, const k_step *s, work *w);

/* Rotary frequencies.  inv_freq [rotary_dim / 2] = theta^(-2i / rotary_dim). */
void rope_frequencies(double *inv_freq, uint32_t rotary_dim, double theta);
/* YaRN (Peng et al., 2023): blends inv_freq with inv_freq / factor by wavelength. */
typedef struct rope_yarn {
    double theta, factor, original_positions, beta_fast, beta_slow;
} rope_yarn;
void rope_apply_yarn(double *inv_freq, uint32_t rotary_dim, const rope_yarn *y);

#endif
