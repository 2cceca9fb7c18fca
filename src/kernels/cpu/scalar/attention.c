/* kernels/cpu/scalar/attention.c - one block of keys of the online softmax
 * (Milakov and Gimelshein, 2018; Dao et al., FlashAttention, 2022) in plain C. */
#include "base/bytes.h"
#include "base/half.h"
#include "kernels/cpu/scalar/math.h"
#include "kernels/cpu/scalar/scalar.h"

static float cached(const void *p, size_t i, bool bf16)
{
    const uint8_t *b = p;
    return bf16 ? bf16_to_f32(load_u16(b + 2 * i)) : load_f32(b + 4 * i);
}

static void scores(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim, float scale,
                   bool bf16)
{
    for (unsigned i = 0; i < nq; i++)
        for (size_t j = 0; j < nk; j++) {
            float a[LANES] = {0};
            for (size_t d = 0; d < dim; d++)
                a[d % LANES] = fmaf(q[i][d], cached(keys, j * dim + d, bf16), a[d % LANES]);
            s[i * K_PAGE + j] = lanes_sum(a) * scale;
        }
}

static void scores_bf16(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim,
                        float scale)
{
    scores(s, q, nq, keys, nk, dim, scale, true);
}

static void scores_f32(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim,
                       float scale)
{
    scores(s, q, nq, keys, nk, dim, scale, false);
}

static float softmax_block(float *s, size_t n, float *max, float *rescale)
{
    float m = *max;
    for (size_t j = 0; j < n; j++) m = s[j] > m ? s[j] : m;
    *rescale       = *max == -INFINITY ? 0.0f : math_exp(*max - m);
    *max           = m;
    float a[LANES] = {0};
    for (size_t j = 0; j < n; j++) {
        s[j] = math_exp(s[j] - m);
        a[j % LANES] += s[j];
    }
    return lanes_sum(a);
}

static void values(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk, const void *v,
                   size_t dim, bool bf16)
{
    for (unsigned i = 0; i < nq; i++)
        for (size_t d = 0; d < dim; d++) {
            float acc = rescale[i] == 0.0f ? 0.0f : o[i][d] * rescale[i];
            for (size_t j = 0; j < nk[i]; j++) acc = fmaf(p[i * K_PAGE + j], cached(v, j * dim + d, bf16), acc);
            o[i][d] = acc;
        }
}

static void values_bf16(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                        const void *v, size_t dim)
{
    values(o, rescale, p, nq, nk, v, dim, true);
}

static void values_f32(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                       const void *v, size_t dim)
{
    values(o, rescale, p, nq, nk, v, dim, false);
}

void cpu_scalar_attention(cpu_isa *t)
{
    t->scores_bf16   = scores_bf16;
    t->scores_f32    = scores_f32;
    t->softmax_block = softmax_block;
    t->values_bf16   = values_bf16;
    t->values_f32    = values_f32;
}
