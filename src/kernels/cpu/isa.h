/* kernels/cpu/isa.h - the CPU's inner loops as a table; one overlay per instruction set.
 *
 * Every entry but the two burns gives the scalar entry's bits (docs/EXACTNESS.md);
 * scalar/ is the definition.  The common scheme: 16 lanes, lane l takes elements l, l+16, ...
 * with fused multiply-add, and one fixed tree adds the lanes:
 * a[l]+a[l+8], then +4, +2, +1.  Pointers may have any alignment unless said. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include "kernels/cpu/linear_layout.h"

#include <stdbool.h>

enum { CPU_AVX2 = 1u << 0, CPU_AVX512 = 1u << 1, CPU_NEON = 1u << 2 };
enum { LANES = 16 };
enum { ATTENTION_TILE = 4 }; /* queries that share the loads of keys and values */

/* Up to K_PAGE keys or values of one head, one after the other. */
typedef struct kv_rows {
    uint8_t  *at;
    k_kv_form form;
    uint32_t  dim;
} kv_rows;

typedef struct cpu_isa {
    const char *name;

    /* y[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i].  y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *gain, size_t n, float eps);
    /* y[i] = x[i] * (scale / sqrt(sum(x^2) + eps)).  y may be x. */
    void (*l2norm)(float *y, const float *x, size_t n, float eps, float scale);
    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, size_t n);
    /* y[i] = silu(gate[i]) * up[i].  y may be gate or up. */
    void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
    /* x[i] *= sigmoid(gate[i]) */
    void (*gate)(float *x, const float *gate, size_t n);
    /* y[i] = a * x[i] + y[i], fused */
    void (*axpy)(float *y, float a, const float *x, size_t n);
    /* Per head: decay[i] = exp(rate[i] * softplus(a[i] + dt_bias[i])), beta[i] = sigmoid(b[i]). */
    void (*delta_gates)(float *decay, float *beta, const float *a, const float *b, const float *rate,
                        const float *dt_bias, size_t n);
    /* Elementwise, for tests and small jobs. */
    void (*exp)(float *y, const float *x, size_t n);
    void (*sigmoid)(float *y, const float *x, size_t n);
    void (*silu)(float *y, const float *x, size_t n);
    void (*softplus)(float *y, const float *x, size_t n);
    void (*log1p)(float *y, const float *x, size_t n); /* 0 <= x <= 1 */

    /* y[c] = silu(sum over i of taps[i*stride + c] * rows[i][c]), i ascending, c < n. */
    void (*conv)(float *y, const float *const *rows, const float *taps, size_t kernel, size_t stride, size_t n);

    /* One token of the gated delta rule for columns 0 .. n-1 of one value head.
     * state [key_dim][stride]; q, k [key_dim]; v, y [n].  Sums over key_dim in four
     * interleaved chains (i mod 4), added (0+1)+(2+3):
     *   delta = beta * (v - decay * sum(state * k));
     *   state = fma(k, delta, decay * state);  y = sum(state * q). */
    void (*delta_token)(float *y, float *state, size_t stride, const float *q, const float *k, const float *v,
                        float decay, float beta, size_t key_dim, size_t n);

    /* Linears; see linear_layout.h for prepared rows and panels. */
    /* y[j][r] for r < n_rows, j < m (1..8): dot of weight row row0+r with the prepared x[j]. */
    void (*lin_dot)(const lin_weight *w, size_t row0, size_t n_rows, const float *const *x, unsigned m,
                    float *const *y);
    /* Weight rows row0 .. row0+n-1 (n <= 4; missing ones zero) as a panel of floats. */
    void (*lin_expand)(const lin_weight *w, size_t row0, size_t n, float *panel);
    /* The same two for formats that are decoded (k_is_decoded), whose prepared rows and panels are
     * those of f32; here n may be more, for panels one behind the other. */
    void (*block_dot)(const lin_weight *w, size_t row0, size_t n_rows, const float *const *x, unsigned m,
                      float *const *y);
    void (*block_expand)(const lin_weight *w, size_t row0, size_t n, float *panels);
    /* acc [m][4][16] += one piece of the panel times m (1..8) prepared rows; piece 0 starts from zero. */
    void (*lin_tile)(const lin_layout *lo, float *acc, const float *const *x, unsigned m, const float *panel,
                     size_t piece);
    /* sums[i] = tree sum of acc[i][16], i < n. */
    void (*lin_reduce)(float *sums, const float *acc, size_t n);

    /* scores[i*64 + j] = scale * dot(q[i], key j), i < nq (1..4), j < nk. */
    void (*scores)(float *scores, const float *const *q, unsigned nq, const kv_rows *keys, size_t nk, float scale);
    /* Turns s[0..n-1] into exp(s - max') where max' = max(*max, max s); returns their 16-lane sum;
     * *max becomes max', *rescale exp(old max - max') (0 when *max was -inf). */
    float (*softmax_block)(float *s, size_t n, float *max, float *rescale);
    /* o[i] = o[i] * rescale[i] + sum over j < nk[i] of p[i*64+j] * value j, j ascending, fused;
     * rescale 0: o is overwritten.  i < nq (1..4). */
    void (*values)(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                   const kv_rows *values);

    /* For measuring the machine: about `n` fused multiply-adds of 16 lanes from registers. */
    float (*fma_burn)(size_t n);
    /* The sum of n bytes read as floats; n a multiple of 1024. */
    float (*read_burn)(const void *p, size_t n);
} cpu_isa;

unsigned cpu_flags(void); /* detect.c: what the CPU has and the OS saves */

/* The table for the sets in `flags`; `flags` is an argument and not a global: a
 * test builds the scalar table and the best one side by side. */
void cpu_isa_init(cpu_isa *t, unsigned flags);

/* Each sets the entries it has and leaves the others as they are. */
void cpu_isa_scalar(cpu_isa *t); /* sets every entry */
void cpu_isa_avx2(cpu_isa *t);
void cpu_isa_avx512(cpu_isa *t);
void cpu_isa_neon(cpu_isa *t);

#endif
