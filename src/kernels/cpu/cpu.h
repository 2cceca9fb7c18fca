/* kernels/cpu/cpu.h - the CPU backend's insides, shared by cpu.c and the op_*.c files. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "base/pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"

struct k_buf {
    void    *data;
    uint64_t bytes;
};

struct k_weight {
    lin_weight form; /* of every matrix; its pointers are those of the first */
    uint32_t   mats;
    k_matrix   mat[]; /* [mats] */
};

/* One matrix of a linear: y[yrow(i)] = w x[xrow(i)] for i < n; NULL rows mean i itself. */
typedef struct lin_job {
    lin_weight      w;
    float          *y; /* rows of w.rows floats */
    const uint32_t *x_rows, *y_rows;
    uint32_t        n;
} lin_job;
/* What the arrays of the operations hold; reserve() refuses more. */
enum { CPU_MAX_HEAD_DIM = 1024, CPU_MAX_CONV = 16 };

typedef struct cpu_backend {
    kernels       table; /* first: the table is the backend */
    pool         *pool;
    cpu_isa       isa;
    k_limits      limits;
    double       *inv_freq; /* the copy that limits.inv_freq points to */
    const k_step *step;
    bool          failed; /* a caller broke the interface; told by finish() */

    float    *prepared;      /* the rows of one linear, laid out for its weights */
    float    *panels;        /* per thread */
    size_t    panel_size;    /* floats per thread */
    float    *rope;          /* [max_rows][rotary_dim]: cosines, then sines, of the step's positions */
    uint32_t *positions;     /* [max_rows] */
    float    *partials;      /* partial softmax results of one row: [heads][partitions][head_dim + 2] */
    uint32_t *route_ids;     /* [max_rows][experts_per_token] */
    float    *route_weights; /* the same */
    uint32_t *slots;         /* slots ordered by expert, then per expert its first slot */
    uint32_t *slot_rows;     /* x row of every ordered slot */
    lin_job  *expert_jobs;   /* [experts * K_MAX_JOBS] */
} cpu_backend;

/* Opens the CPU backend with `threads` threads (0: all cores) and the named
 * instruction set (NULL: the best here).  The caller ends *out through its close(). */
weir_status cpu_open(kernels **out, uint32_t threads, const char *isa, weir_error *err);

static inline cpu_backend *cpu_of(kernels *k)
{
    return (cpu_backend *)k;
}
static inline float *buf_f32(const k_buf *b)
{
    return b->data;
}

/* Matrix i of a weight. */
lin_weight weight_mat(const k_weight *w, uint32_t i);

/* weights.c */
weir_status cpu_weight_new(kernels *k, const k_weight_desc *d, k_weight **out, weir_error *err);
void        cpu_weight_free(kernels *k, k_weight *w);
void        cpu_embed(kernels *k, k_buf *x, const k_weight *table);

/* op_rows.c */
void cpu_rmsnorm(kernels *k, k_buf *y, const k_buf *x, const k_buf *gain, uint32_t n, float eps, uint32_t rows);
void cpu_add(kernels *k, k_buf *x, const k_buf *y, uint32_t n, uint32_t rows);
void cpu_add_scaled(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const float *scales, uint32_t n,
                    uint32_t n_rows);
void cpu_swiglu(kernels *k, k_buf *y, const k_buf *gate, const k_buf *up, uint32_t n, uint32_t rows);
void cpu_copy_rows(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const uint32_t *x_rows, uint32_t n,
                   uint32_t n_rows);
void cpu_concat(kernels *k, k_buf *y, const k_buf *a, const k_buf *b, uint32_t n, uint32_t rows);
void cpu_gated_norm(kernels *k, k_buf *y, const k_buf *x, const k_buf *z, const k_buf *gain, float eps);

/* Calls fn(arg, row) for every row, over the threads when rows * cost (in
 * elements) is worth waking them. */
typedef void row_fn(void *arg, size_t row);
void         for_rows(cpu_backend *b, row_fn *fn, void *arg, size_t rows, size_t cost);

/* op_linear.c */
void cpu_linear(kernels *k, const k_buf *x, uint32_t rows, const k_linear_job *jobs, uint32_t n_jobs);
/* x has `rows` rows of the jobs' common width; all jobs together, one run of the pool. */
void linear_run(cpu_backend *b, const float *x, uint32_t rows, const lin_job *jobs, uint32_t n_jobs);

/* op_delta.c */
void cpu_conv(kernels *k, k_buf *y, const k_buf *qkv, const k_buf *taps, k_buf *tail);
void cpu_delta(kernels *k, k_buf *y, k_buf *qkv, k_buf *a, k_buf *b, const k_buf *decay_rate, const k_buf *dt_bias,
               k_buf *state);

/* kv_rows.c: n numbers, the key or value of one position and head, into a row of the cache. */
void kv_row_write(uint8_t *row, k_kv_form form, const float *x, size_t n);

/* op_attention.c, rope.c */
void cpu_attention(kernels *k, k_buf *y, k_buf *qg, k_buf *keys, const k_buf *values, const k_buf *q_gain,
                   const k_buf *k_gain, const k_cache *cache);
void rope_fill(cpu_backend *b);

/* op_moe.c */
void cpu_route(kernels *k, const k_buf *logits);
void cpu_expert_linear(kernels *k, const k_buf *x, bool from_slots, const k_linear_job *jobs, uint32_t n_jobs);
void cpu_combine(kernels *k, k_buf *y, const k_buf *x, const k_buf *shared, const k_buf *shared_gate, uint32_t n);

#endif
