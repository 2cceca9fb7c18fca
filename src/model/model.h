/* model/model.h - the text model: sizes, weights, and one step through it.
 *
 * Names are the papers' and checkpoints'.  The weights belong to a backend; the
 * room `load` makes them.  T = rows of a step, H = hidden_size. */
#ifndef MODEL_H
#define MODEL_H

#include "kernels/kernels.h"
#include "model/lora.h"
#include "state/state.h"

typedef struct model_config {
    uint32_t          hidden_size, n_layers, vocab_size, intermediate_size;
    uint32_t          n_delta_layers, n_attention_layers;
    float             eps;
    k_attention_shape attention;
    k_delta_shape     delta;
    /* 0 in dense models */
    uint32_t n_experts, experts_per_token, expert_size, shared_size;
    bool     mtp; /* with the multi-token-prediction head */
} model_config;

/* Attention layers with keys and values of their own: those of the trunk, then MTP's. */
static inline uint32_t model_cached_layers(const model_config *c)
{
    return c->n_attention_layers + (c->mtp ? 1 : 0);
}

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
    uint32_t   number;                 /* among all layers of the trunk */
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

/* Multi-token prediction (Gloeckle et al., 2024; DeepSeek-V3, 2024): from the trunk's
 * hidden row at t and the token at t+1, a guess of the token at t+2.  The block is
 * an attention layer, the first behind the trunk's in the state. */
typedef struct mtp_weights {
    k_weight *fc;                           /* [H, 2H]: embedding half, hidden half */
    k_buf    *norm_embedding, *norm_hidden; /* [H], of the two halves */
    k_buf    *norm;                         /* [H], of the output */
    layer     block;
} mtp_weights;

typedef struct model {
    model_config config;
    k_weight    *embed;      /* [vocab, H] */
    k_buf       *final_norm; /* [H] */
    k_weight    *head;       /* [vocab, H]; the same as embed when tied */
    layer       *layers;
    mtp_weights  mtp;          /* all zero without config.mtp */
    bool         mtp_pre_norm; /* MTP reads the trunk before its final norm; else after */
} model;

/* Buffers of one step, shared by the layers.  Those named on one line share
 * memory: they are never in use together. */
typedef struct work {
    k_buf *x, *h, *o;                   /* [T, H]: residual stream, block input, block output */
    k_buf *logits;                      /* [wanted, vocab] */
    k_buf *hidden;                      /* [T, H]: what the trunk leaves for MTP */
    k_buf *drafted;                     /* [T, H]: MTP's output after its norm.  Both NULL without MTP */
    k_buf *qkv, *qg, *gate, *slot_gate; /* [T, C], [T, heads*2*head_dim], [T, I], [T*k, expert_size] */
    k_buf *pair;                        /* [T, 2H], in the same memory */
    k_buf *conv, *keys, *up, *slot_up;  /* [T, C], [T, kv_heads*head_dim], ... */
    k_buf *z, *values, *slot_out;       /* [T, V], [T, kv_heads*head_dim], [T*k, H] */
    k_buf *y, *attended, *shared;       /* [T, V], [T, heads*head_dim], [T, H] */
    k_buf *a, *router;                  /* [T, value_heads], [T, experts] */
    k_buf *b, *shared_gate;             /* [T, value_heads], [T, 1] */
    k_buf *owned[12];                   /* what the names above point to */

    const lora_step *adapters; /* of the rows of the trunk's step; NULL: none.  The caller's */
    lora_work        adapted;  /* the caller's, too */
} work;

/* The most that a step brings: rows, and rows with logits. */
typedef struct work_limits {
    uint32_t max_rows, max_wanted;
} work_limits;
uint64_t    work_bytes(const model_config *c, const work_limits *l);
weir_status work_new(work *w, kernels *k, const model_config *c, const work_limits *l, weir_error *err);
void        work_free(work *w, kernels *k); /* all zero is allowed */

/* Sees the residual stream x [T, H] after each layer. */
typedef struct model_tap {
    void (*fn)(void *user, uint32_t layer, const float *x, uint32_t n_rows);
    void *user;
} model_tap;

/* One step: token ids in, the residual stream w->x [T, H] out; the sequences'
 * state moves on.  With MTP w->hidden [T, H] is what its head will read.  `tap` may be NULL.  k->finish() tells of
 * failures. */
void model_forward(const model *m, kernels *k, const k_step *s, const state *st, work *w, const model_tap *tap);

/* w->logits [n, vocab] of n rows of the step that model_forward just did;
 * n at most work's max_wanted.  May be called again for other rows, until
 * model_mtp has used w->x. */
void model_head(const model *m, kernels *k, work *w, const uint32_t *rows, uint32_t n);

/* Runs recorded inputs of the delta layers (state/state.h, windows) through the
 * recurrence: the spans of `s` are over the recorded rows; rows in no span are
 * computed and mean nothing.  Only recurrent state is written. */
void model_replay(const model *m, kernels *k, const k_step *s, const state *st, work *w);

/* One pass of the MTP head over the rows of a step of its own.  Row i pairs the
 * hidden row from[rows[i]] of position t with the token ids[i] of position t+1
 * and sits at position t, in its span as in the rotary embedding; w->drafted [i]
 * is for the token at t+2.  `from` holds hidden rows (w->hidden, or what was kept
 * of it), or is w->drafted to guess on from guesses; rows NULL: row i.  Only MTP's keys and values are written, in the
 * spans' pages; the slots are not looked at.  Uses up w->x, leaves w->hidden. */
void model_mtp(const model *m, kernels *k, const k_step *s, const state *st, work *w, const k_buf *from,
               const uint32_t *rows);
/* w->logits [n, vocab] of n rows of w->drafted, through the trunk's head. */
void model_mtp_head(const model *m, kernels *k, work *w, const uint32_t *rows, uint32_t n);

/* One layer over the residual stream w->x. */
void model_layer(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w);

/* All jobs over the same x: y_j = x w_j^T, and what the step's adapters add to it. */
void model_linear(const layer *l, kernels *k, const work *w, const k_buf *x, uint32_t rows, const k_linear_job *jobs,
                  const lora_target *targets, uint32_t n_jobs);

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
