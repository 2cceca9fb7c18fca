/* kernels/cpu/scalar/rows.c - norms, activations and the convolution in plain C. */
#include "kernels/cpu/scalar/math.h"
#include "kernels/cpu/scalar/scalar.h"

static float sum_squares(const float *x, size_t n)
{
    float a[LANES] = {0};
    for (size_t i = 0; i < n; i++) a[i % LANES] = fmaf(x[i], x[i], a[i % LANES]);
    return lanes_sum(a);
}

static void rmsnorm(float *y, const float *x, const float *gain, size_t n, float eps)
{
    const float r = 1.0f / sqrtf(sum_squares(x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * gain[i];
}

static void l2norm(float *y, const float *x, size_t n, float eps, float scale)
{
    const float r = scale / sqrtf(sum_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r;
}

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

static void swiglu(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_silu(gate[i]) * up[i];
}

static void gate(float *x, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= math_sigmoid(g[i]);
}

static void axpy(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

static void delta_gates(float *decay, float *beta, const float *a, const float *b, const float *rate,
                        const float *dt_bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        decay[i] = math_exp(rate[i] * math_softplus(a[i] + dt_bias[i]));
        beta[i]  = math_sigmoid(b[i]);
    }
}

static void each_exp(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_exp(x[i]);
}

static void each_sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_sigmoid(x[i]);
}

static void each_silu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_silu(x[i]);
}

static void each_softplus(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_softplus(x[i]);
}

static void each_log1p(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = math_log1p(x[i]);
}

static void conv(float *y, const float *const *rows, const float *taps, size_t kernel, size_t stride, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        float acc = taps[c] * rows[0][c];
        for (size_t i = 1; i < kernel; i++) acc = fmaf(taps[i * stride + c], rows[i][c], acc);
        y[c] = math_silu(acc);
    }
}

/* The sum only keeps the work from being optimised away. */
static float fma_burn(size_t n)
{
    float a[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < LANES; l++) a[l] = fmaf(a[l], 0.5f, 1.0f);
    return lanes_sum(a);
}

static float read_burn(const void *p, size_t n)
{
    const float *x        = p;
    float        a[LANES] = {0};
    for (size_t i = 0; i < n / sizeof *x; i += LANES)
        for (size_t l = 0; l < LANES; l++) a[l] += x[i + l];
    return lanes_sum(a);
}

void cpu_scalar_rows(cpu_isa *t)
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
