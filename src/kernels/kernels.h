/* kernels/kernels.h - what a backend can do.  model/ and state/ see this and no more.
 *
 * A backend owns buffers and weights and runs operations over the rows of one
 * step.  Operations return nothing: a backend that fails remembers it, turns
 * every later operation of the step into a no-op, and finish() tells.
 *
 * T = rows of the step.  A row's bits never depend on the other rows, on how
 * rows were cut into steps or on the number of threads (docs/EXACTNESS.md).
 * Buffers named x, y, ... hold f32 [T, columns] unless a comment says more.
 * One thread at a time calls into a backend. */
#ifndef KERNELS_H
#define KERNELS_H

#include "base/dtype.h"
#include "weir/base.h"

#include <stdbool.h>

enum { KERNELS_ABI = 5 }; /* raise on any change below */

typedef struct kernels  kernels;
typedef struct k_buf    k_buf;    /* memory of the backend; opaque to all others */
typedef struct k_weight k_weight; /* matrices in their storage format            */

/* How a weight matrix is stored.  AFFINE<b>: MLX's packing, codes of b bits,
 * w = scale * code + bias per group of `group` columns (quant/affine.h); MLX_<mode>:
 * its floating-point modes (quant/microscale.h).  TRELLIS: rows of trellis blocks
 * (quant/trellis.h); TRELLIS_ACROSS: the same of the transposed matrix, so that a
 * block holds 256 rows' weights of one column.  The others are GGML's block
 * types (quant/blocks.h), rows of whole blocks, in dtype's order. */
typedef enum k_format {
    K_F32,
    K_F16,
    K_BF16,
    K_AFFINE4,
    K_AFFINE8,
    K_AFFINE2,
    K_AFFINE3,
    K_AFFINE5,
    K_AFFINE6,
    K_MLX_MXFP4,
    K_MLX_MXFP8,
    K_MLX_NVFP4,
    K_TRELLIS,
    K_TRELLIS_ACROSS,
    K_Q4_0,
    K_Q4_1,
    K_Q5_0,
    K_Q5_1,
    K_Q8_0,
    K_Q2_K,
    K_Q3_K,
    K_Q4_K,
    K_Q5_K,
    K_Q6_K,
    K_IQ4_NL,
    K_IQ4_XS,
    K_MXFP4,
    K_FORMATS
} k_format;

/* Is it one of MLX's affine ones, or any of MLX's. */
static inline bool k_is_affine(k_format f)
{
    return f >= K_AFFINE4 && f <= K_AFFINE6;
}
static inline bool k_is_grouped(k_format f)
{
    return f >= K_AFFINE4 && f <= K_MLX_NVFP4;
}
/* Bits of a code of MLX's formats; 0 for the others. */
static inline uint32_t k_code_bits(k_format f)
{
    static const uint8_t bits[K_FORMATS] = {
        [K_AFFINE4] = 4, [K_AFFINE8] = 8,   [K_AFFINE2] = 2,   [K_AFFINE3] = 3,  [K_AFFINE5] = 5,
        [K_AFFINE6] = 6, [K_MLX_MXFP4] = 4, [K_MLX_MXFP8] = 8, [K_MLX_NVFP4] = 4};
    return bits[f];
}
/* Is it one of the trellis codes. */
static inline bool k_is_trellis(k_format f)
{
    return f == K_TRELLIS || f == K_TRELLIS_ACROSS;
}
/* Are products those of the floats that the codes stand for, in the order of K_F32?
 * Codes of 4 and 8 bits have an order of their own. */
static inline bool k_is_decoded(k_format f)
{
    return f > K_AFFINE8;
}
/* Is it one of the block types, and which. */
static inline bool k_is_block(k_format f)
{
    return f >= K_Q4_0 && f < K_FORMATS;
}
static inline dtype k_block_type(k_format f)
{
    return (dtype)((int)DTYPE_Q4_0 + ((int)f - (int)K_Q4_0));
}
static inline k_format k_block_format(dtype t)
{
    return (k_format)((int)K_Q4_0 + ((int)t - (int)DTYPE_Q4_0));
}
_Static_assert((int)K_MXFP4 - (int)K_Q4_0 == (int)DTYPE_MXFP4 - (int)DTYPE_Q4_0, "two lists of one order");

/* Where one matrix's bytes are; scales for MLX's formats and trellis codes alone, biases for affine ones. */
typedef struct k_matrix {
    const void *data, *scales, *biases;
} k_matrix;

/* `mats` matrices [rows, cols] of one form (the experts of a layer; else 1).
 * The bytes are borrowed: they stay where they are, at any alignment, as long
 * as the weight lives.  The array `mat` is copied. */
typedef struct k_weight_desc {
    k_format        format;
    uint32_t        mats, rows, cols;
    uint32_t        group;      /* MLX's only; divides cols */
    dtype           scale_type; /* MLX's only: DTYPE_F32, F16 or BF16, of its other modes U8 */
    uint32_t        bits;       /* trellis only: of a symbol, 1 to 8; its scales are F16 */
    bool            paired;     /* TRELLIS_ACROSS: two blocks of every column side by side, then the next two */
    const k_matrix *mat;        /* [mats] */
} k_weight_desc;

/* Positions per page of the key/value cache, and keys per block of the online
 * softmax: the block boundaries are a part of the contract. */
enum { K_PAGE = 64 };
/* Positions that one partial softmax covers before results are merged. */
enum { K_PARTITION = 1024 };

/* How a row of the cache, the key or the value of one position and head, is stored.
 *   BF16, F32  the numbers.
 *   AFFINE8/4  codes of 8 or 4 bits, the first one in the lowest bits, then for every group of
 *              `group` numbers its scale and its bias in bfloat16: x = scale * code + bias.
 *   TURBO8     for keys: signed codes of 8 bits, then for every group its scale and its zero point
 *              in f16: x = (code + zero) * scale.
 *   TURBO3     for values, which the backend rotates before it stores them, and the sum of which
 *              it rotates back: codes of 3 bits, likewise, then for every group its scale in f16:
 *              x = scale * the code's level. */
typedef enum k_kv_kind { K_KV_BF16, K_KV_F32, K_KV_AFFINE8, K_KV_AFFINE4, K_KV_TURBO8, K_KV_TURBO3 } k_kv_kind;
enum { K_KV_TURBO_GROUP = 32 };
typedef struct k_kv_form {
    k_kv_kind kind;
    uint32_t  group; /* affine: 32, 64 or 128, and divides the head's size, which for turbo is 64, 128, 256 or 512;
                        else 0 */
} k_kv_form;

/* Of one attention layer. */
typedef struct k_kv_layer {
    k_kv_form keys, values;
} k_kv_layer;

/* Bytes of a row of n numbers. */
static inline uint32_t k_kv_row_bytes(k_kv_form f, uint32_t n)
{
    switch (f.kind) {
    case K_KV_F32: return 4 * n;
    case K_KV_AFFINE8: return n + 4 * (n / f.group);
    case K_KV_AFFINE4: return n / 2 + 4 * (n / f.group);
    case K_KV_TURBO8: return n + 4 * (n / f.group);
    case K_KV_TURBO3: return 3 * n / 8 + 2 * (n / f.group);
    default: return 2 * n;
    }
}

/* The form of rows in an early page: positions at the start of a sequence are not put into codes
 * (but for TURBO3 they are rotated like the others). */
static inline k_kv_form k_kv_early(k_kv_form f)
{
    return f.group == 0 ? f : (k_kv_form){K_KV_BF16, 0};
}

/* Where one attention layer's keys and values are: [page][kv_head][K_PAGE] rows.  Pages 0 .. early-1
 * are early ones, with rows of another size. */
typedef struct k_cache {
    k_buf     *keys, *values;
    k_kv_layer form;
    uint32_t   early;
} k_cache;

/* Consecutive rows of one sequence.  State slots: the recurrence reads
 * slot_in and leaves slot_out (equal: in place). */
typedef struct k_span {
    uint32_t        row, n;   /* rows row .. row+n-1 of the step */
    uint32_t        position; /* of the first one in its sequence */
    uint32_t        slot_in, slot_out;
    const uint32_t *pages; /* page of positions K_PAGE*i ..; covers position + n */
} k_span;

/* A ragged batch of rows; host memory that lives until finish(). */
typedef struct k_step {
    uint32_t        n_rows, n_spans;
    const uint32_t *ids;   /* [n_rows] tokens */
    const k_span   *spans; /* [n_spans], rows ascending, covering all rows */
} k_step;

/* y [T, rows of w] = x w^T for one matrix that shares x with at most K_MAX_JOBS - 1 others. */
enum { K_MAX_JOBS = 4 };
typedef struct k_linear_job {
    const k_weight *w;
    k_buf          *y;
} k_linear_job;

/* Sizes of the gated delta rule, equal for all layers.  Value head h belongs to key head
 * h div (value_heads / key_heads), in tiled order to h mod key_heads. */
typedef struct k_delta_shape {
    uint32_t key_heads, value_heads, key_dim, value_dim, conv_kernel;
    bool     heads_tiled;
} k_delta_shape;

/* C, the channels of the convolution: queries, keys and values of all heads. */
static inline uint32_t k_delta_channels(const k_delta_shape *s)
{
    return 2 * s->key_heads * s->key_dim + s->value_heads * s->value_dim;
}

/* Sizes of softmax attention, equal for all layers. */
typedef struct k_attention_shape {
    uint32_t heads, kv_heads, head_dim, rotary_dim;
    float    eps; /* of the query and key norms */
} k_attention_shape;

/* The most a step may bring, so that workspaces can be taken once. */
typedef struct k_limits {
    uint32_t          max_rows;                                /* rows in one step */
    uint32_t          max_cols;                                /* widest input of a linear */
    uint32_t          max_positions;                           /* in one sequence */
    uint32_t          experts, experts_per_token, expert_cols; /* expert_cols: input of the experts' down projection */
    k_attention_shape attention;
    k_delta_shape     delta;
    const double     *inv_freq;   /* [rotary_dim / 2] radians per position; copied */
    float             rope_scale; /* multiplies sine and cosine (YaRN); else 1 */
} k_limits;

struct kernels {
    const char *name; /* "cpu", "cuda" */
    const char *isa;  /* instruction set in use */

    uint32_t (*threads)(const kernels *k); /* of the host that work for it */

    /* Buffers are zeroed and take physical memory when touched. */
    weir_status (*buf_new)(kernels *k, uint64_t bytes, k_buf **out, weir_error *err);
    void (*buf_free)(kernels *k, k_buf *b); /* NULL is allowed */
    void (*buf_write)(kernels *k, k_buf *b, uint64_t offset, const void *from, uint64_t bytes);
    void (*buf_read)(kernels *k, const k_buf *b, uint64_t offset, void *to, uint64_t bytes);
    void (*buf_zero)(kernels *k, k_buf *b, uint64_t offset, uint64_t bytes);
    /* Copies within the backend's memory.  `to` may be `from` when the regions do not overlap. */
    void (*buf_copy)(kernels *k, k_buf *to, uint64_t to_offset, const k_buf *from, uint64_t from_offset,
                     uint64_t bytes);
    /* A pointer to read results from, valid until the next operation on b. */
    const void *(*buf_host)(kernels *k, const k_buf *b);

    weir_status (*weight_new)(kernels *k, const k_weight_desc *d, k_weight **out, weir_error *err);
    void (*weight_free)(kernels *k, k_weight *w); /* NULL is allowed */

    /* Takes the workspaces; once, before the first step.  workspace_bytes tells
     * their size without taking them. */
    weir_status (*reserve)(kernels *k, const k_limits *limits, weir_error *err);
    uint64_t (*workspace_bytes)(const kernels *k, const k_limits *limits);

    /* Starts a step: the operations below mean its rows and spans. */
    void (*begin)(kernels *k, const k_step *s);
    weir_status (*finish)(kernels *k, weir_error *err); /* wait; first failure of the step */

    /* x [T, cols of table] = rows `ids` of the table. */
    void (*embed)(kernels *k, k_buf *x, const k_weight *table);
    /* y = x / sqrt(mean(x^2) + eps) * gain, rows of n columns.  y may be x. */
    void (*rmsnorm)(kernels *k, k_buf *y, const k_buf *x, const k_buf *gain, uint32_t n, float eps, uint32_t rows);
    /* All jobs over the same x: y_j = x w_j^T, in the lane order of w's format. */
    void (*linear)(kernels *k, const k_buf *x, uint32_t rows, const k_linear_job *jobs, uint32_t n_jobs);
    /* x += y over `rows` rows of n columns. */
    void (*add)(kernels *k, k_buf *x, const k_buf *y, uint32_t n, uint32_t rows);
    /* y[y_rows[i]] += scales[i] * x[i] for i < n_rows, rows of n columns, one rounding each.  No row is
     * written twice.  The lists are read before this returns. */
    void (*add_scaled)(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const float *scales, uint32_t n,
                       uint32_t n_rows);
    /* y = silu(gate) * up. */
    void (*swiglu)(kernels *k, k_buf *y, const k_buf *gate, const k_buf *up, uint32_t n, uint32_t rows);
    /* y[y_rows[i]] = x[x_rows[i]] for i < n_rows, rows of n columns; rows NULL mean i itself.  No
     * row is written twice.  y may be x: the copies are as if made in the order of i, so a row
     * that is also written must be read before.  The lists are read before this returns. */
    void (*copy_rows)(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const uint32_t *x_rows, uint32_t n,
                      uint32_t n_rows);
    /* y [rows, 2n] = a [rows, n] and b [rows, n] side by side.  y is neither. */
    void (*concat)(kernels *k, k_buf *y, const k_buf *a, const k_buf *b, uint32_t n, uint32_t rows);

    /* qkv [T, C] -> y [T, C] = silu(causal depthwise convolution), C = 2*key_heads*key_dim +
     * value_heads*value_dim.  taps [kernel, C], oldest first.  tail [slot][kernel-1][C]: the last
     * inputs before the span, oldest first; left behind for the next span. */
    void (*conv)(kernels *k, k_buf *y, const k_buf *qkv, const k_buf *taps, k_buf *tail);
    /* The gated delta rule: qkv [T, C] after conv, a, b [T, value_heads];
     * decay_rate [value_heads] = -exp(A_log); dt_bias [value_heads];
     * state [slot][value_head][key_dim][value_dim]; y [T, value_heads*value_dim].  qkv, a and b
     * are used up. */
    void (*delta)(kernels *k, k_buf *y, k_buf *qkv, k_buf *a, k_buf *b, const k_buf *decay_rate, const k_buf *dt_bias,
                  k_buf *state);
    /* y = rmsnorm per value head * gain [value_dim] * silu(z).  y may be x. */
    void (*gated_norm)(kernels *k, k_buf *y, const k_buf *x, const k_buf *z, const k_buf *gain, float eps);

    /* qg [T, heads*2*head_dim] (query, gate per head), kv rows as projected.  Norms queries and
     * keys, rotates them, stores keys and values in the pages, attends causally over everything
     * stored so far and multiplies with sigmoid(gate): y [T, heads*head_dim]. */
    void (*attention)(kernels *k, k_buf *y, k_buf *qg, k_buf *keys, const k_buf *values, const k_buf *q_gain,
                      const k_buf *k_gain, const k_cache *cache);

    /* Mixture of experts.  route: logits [T, experts] -> the best per row, highest first, ties to
     * the lower id, with weights softmaxed over the chosen ones; kept for the next two.
     * expert_linear: y [T*per_token, rows of w]; x has T rows (shared by a row's experts) or
     * T*per_token rows (from_slots).  combine: y = sum of weight * x over a row's slots in order
     * + sigmoid(shared_gate [T, 1]) * shared. */
    void (*route)(kernels *k, const k_buf *logits);
    void (*expert_linear)(kernels *k, const k_buf *x, bool from_slots, const k_linear_job *jobs, uint32_t n_jobs);
    void (*combine)(kernels *k, k_buf *y, const k_buf *x, const k_buf *shared, const k_buf *shared_gate, uint32_t n);

    void (*close)(kernels *k);
};

#endif
