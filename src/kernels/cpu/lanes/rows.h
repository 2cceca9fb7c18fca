/* kernels/cpu/lanes/rows.h - norms, activations and the convolution on 16 lanes. */
#ifndef KERNELS_CPU_LANES_ROWS_H
#define KERNELS_CPU_LANES_ROWS_H

#include "kernels/cpu/lanes/math.h"

/* y[i] = f(x[i]) with a masked tail; `expr` is in terms of v and i. */
#define EACH_LANE(n, y, expr) \
    do { \
        size_t i = 0; \
        for (; i + LANES <= (n); i += LANES) { \
            const size_t lanes = LANES; \
            vf_store((y) + i, (expr)); \
            (void)lanes; \
        } \
        if (i < (n)) { \
            const size_t lanes = (n)-i; \
            vf_store_n((y) + i, (expr), lanes); \
        } \
    } while (0)
#define AT(p) (lanes == LANES ? vf_load((p) + i) : vf_load_n((p) + i, lanes))

INLINE float sum_squares(const float *x, size_t n)
{
    vf     a = vf_zero();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vf v = vf_load(x + i);
        a          = vf_fma(v, v, a);
    }
    if (i < n) {
        const vf v = vf_load_n(x + i, n - i);
        a          = vf_fma(v, v, a);
    }
    return vf_sum(a);
}

static void rmsnorm(float *y, const float *x, const float *gain, size_t n, float eps)
{
    const vf r = vf_set1(1.0f / sqrtf(sum_squares(x, n) / (float)n + eps));
    EACH_LANE(n, y, vf_mul(vf_mul(AT(x), r), AT(gain)));
}

static void l2norm(float *y, const float *x, size_t n, float eps, float scale)
{
    const vf r = vf_set1(scale / sqrtf(sum_squares(x, n) + eps));
    EACH_LANE(n, y, vf_mul(AT(x), r));
}

static void add(float *x, const float *y, size_t n)
{
    EACH_LANE(n, x, vf_add(AT(x), AT(y)));
}

static void swiglu(float *y, const float *gate_, const float *up, size_t n)
{
    EACH_LANE(n, y, vf_mul(vf_silu(AT(gate_)), AT(up)));
}

static void gate(float *x, const float *g, size_t n)
{
    EACH_LANE(n, x, vf_mul(AT(x), vf_sigmoid(AT(g))));
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_fma(vf_set1(a), AT(x), AT(y)));
}

static void delta_gates(float *decay, float *beta, const float *a, const float *b, const float *rate,
                        const float *dt_bias, size_t n)
{
    EACH_LANE(n, decay, vf_exp(vf_mul(AT(rate), vf_softplus(vf_add(AT(a), AT(dt_bias))))));
    EACH_LANE(n, beta, vf_sigmoid(AT(b)));
}

static void each_exp(float *y, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_exp(AT(x)));
}

static void each_sigmoid(float *y, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_sigmoid(AT(x)));
}

static void each_silu(float *y, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_silu(AT(x)));
}

static void each_softplus(float *y, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_softplus(AT(x)));
}

static void each_log1p(float *y, const float *x, size_t n)
{
    EACH_LANE(n, y, vf_log1p(AT(x)));
}

INLINE vf conv_lanes(const float *const *rows, const float *taps, size_t kernel, size_t stride, size_t i, size_t lanes)
{
    vf acc = vf_mul(AT(taps), AT(rows[0]));
    for (size_t t = 1; t < kernel; t++) acc = vf_fma(AT(taps + t * stride), AT(rows[t]), acc);
    return vf_silu(acc);
}

static void conv(float *y, const float *const *rows, const float *taps, size_t kernel, size_t stride, size_t n)
{
    EACH_LANE(n, y, conv_lanes(rows, taps, kernel, stride, i, lanes));
}

/* Twelve chains hide the latency of two FMA ports.  All lanes start apart: where
 * a vector is two registers, equal halves would become one, at half the work. */
static float fma_burn(size_t n)
{
    enum { CHAINS = BURN_CHAINS };
    static const float lane[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf                 a[CHAINS];
    const vf           half = vf_set1(0.5f), one = vf_set1(1.0f);
    UNROLL for (int c = 0; c < CHAINS; c++) a[c] = vf_add(vf_load(lane), vf_set1((float)(c * LANES)));
    for (size_t i = 0; i < n; i += CHAINS) {
        UNROLL for (int c = 0; c < CHAINS; c++) a[c] = vf_fma(a[c], half, one);
    }
    vf sum                                      = a[0];
    UNROLL for (int c = 1; c < CHAINS; c++) sum = vf_add(sum, a[c]);
    return vf_sum(sum);
}

static float read_burn(const void *p, size_t n)
{
    const float *x    = p;
    vf           a[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    for (size_t i = 0; i < n / sizeof *x; i += 4 * LANES) {
        PREFETCH((const char *)(x + i) + 8192);
        PREFETCH((const char *)(x + i) + 8192 + 64);
        PREFETCH((const char *)(x + i) + 8192 + 128);
        PREFETCH((const char *)(x + i) + 8192 + 192);
        UNROLL for (size_t c = 0; c < 4; c++) a[c] = vf_add(a[c], vf_load(x + i + c * LANES));
    }
    return vf_sum(vf_add(vf_add(a[0], a[1]), vf_add(a[2], a[3])));
}

INLINE void lanes_rows(cpu_isa *t)
{
    t->rmsnorm     = rmsnorm;
    t->l2norm      = l2norm;
    t->add         = add;
    t->swiglu      = swiglu;
    t->gate        = gate;
    t->axpy        = axpy;
    t->delta_gates = delta_gates;
    t->exp         = each_exp;
    t->sigmoid     = each_sigmoid;
    t->silu        = each_silu;
    t->softplus    = each_softplus;
    t->log1p       = each_log1p;
    t->conv        = conv;
    t->fma_burn    = fma_burn;
    t->read_burn   = read_burn;
}

#endif
