/* kernels/cpu/lanes/attention.h - scalar/attention.c on 16 lanes.  Up to four
 * queries (the heads that share a key head) use every key and value that is
 * loaded. */
#ifndef KERNELS_CPU_LANES_ATTENTION_H
#define KERNELS_CPU_LANES_ATTENTION_H

#include "kernels/cpu/lanes/math.h"

INLINE vf cached(const void *p, size_t i, size_t lanes, const bool bf16)
{
    if (bf16) {
        const uint8_t *at = (const uint8_t *)p + 2 * i;
        return lanes == LANES ? vf_load_bf16(at) : vf_load_bf16_n(at, lanes);
    }
    const float *at = (const float *)p + i;
    return lanes == LANES ? vf_load(at) : vf_load_n(at, lanes);
}

/* NQ queries times NK keys; sums[i][j]. */
INLINE void score_tile(float *s, const float *const *q, const int nq, const void *keys, size_t key0, const int nk,
                       size_t dim, float scale, const bool bf16)
{
    vf acc[ATTENTION_TILE][SCORE_KEYS];
    UNROLL for (int i = 0; i < nq; i++) UNROLL for (int j = 0; j < nk; j++) acc[i][j] = vf_zero();
    for (size_t d = 0; d < dim; d += LANES) {
        const size_t lanes = dim - d < LANES ? dim - d : LANES;
        vf           k[SCORE_KEYS];
        UNROLL for (int j = 0; j < nk; j++) k[j] = cached(keys, (key0 + (size_t)j) * dim + d, lanes, bf16);
        UNROLL for (int i = 0; i < nq; i++)
        {
            const vf v = lanes == LANES ? vf_load(q[i] + d) : vf_load_n(q[i] + d, lanes);
            UNROLL for (int j = 0; j < nk; j++) acc[i][j] = vf_fma(v, k[j], acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < nq; i++) UNROLL for (int j = 0; j < nk; j++) s[(size_t)i * K_PAGE + key0 + (size_t)j] =
        vf_sum(acc[i][j]) * scale;
}

INLINE void scores(float *s, const float *const *q, const int nq, const void *keys, size_t nk, size_t dim, float scale,
                   const bool bf16)
{
    size_t j = 0;
    for (; j + SCORE_KEYS <= nk; j += SCORE_KEYS) score_tile(s, q, nq, keys, j, SCORE_KEYS, dim, scale, bf16);
    for (; j < nk; j++) score_tile(s, q, nq, keys, j, 1, dim, scale, bf16);
}

INLINE void scores_any(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim,
                       float scale, const bool bf16)
{
    switch (nq) {
    case 1: scores(s, q, 1, keys, nk, dim, scale, bf16); break;
    case 2: scores(s, q, 2, keys, nk, dim, scale, bf16); break;
    case 3: scores(s, q, 3, keys, nk, dim, scale, bf16); break;
    default: scores(s, q, 4, keys, nk, dim, scale, bf16); break;
    }
}

static void scores_bf16(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim,
                        float scale)
{
    scores_any(s, q, nq, keys, nk, dim, scale, true);
}

static void scores_f32(float *s, const float *const *q, unsigned nq, const void *keys, size_t nk, size_t dim,
                       float scale)
{
    scores_any(s, q, nq, keys, nk, dim, scale, false);
}

static float softmax_block(float *s, size_t n, float *max, float *rescale)
{
    float m = *max;
    for (size_t j = 0; j < n; j++) m = s[j] > m ? s[j] : m;
    *rescale     = *max == -INFINITY ? 0.0f : math_exp(*max - m);
    *max         = m;
    vf       sum = vf_zero();
    const vf vm  = vf_set1(m);
    size_t   j   = 0;
    for (; j + LANES <= n; j += LANES) {
        const vf p = vf_exp(vf_sub(vf_load(s + j), vm));
        vf_store(s + j, p);
        sum = vf_add(sum, p);
    }
    if (j < n) {
        vf_store_n(s + j, vf_exp(vf_sub(vf_load_n(s + j, n - j), vm)), n - j);
        sum = vf_add(sum, vf_load_n(s + j, n - j)); /* the tail's other lanes add zero */
    }
    return vf_sum(sum);
}

/* NV vectors of the outputs of NQ queries, from value d on. */
INLINE void value_tile(float *const *o, const float *rescale, const float *p, const int nq, const size_t *nk,
                       const void *v, size_t dim, size_t d, const int nv, const size_t lanes, const bool bf16)
{
    vf     acc[ATTENTION_TILE][VALUE_TILE];
    size_t common = nk[0];
    UNROLL for (int i = 0; i < nq; i++)
    {
        common = nk[i] < common ? nk[i] : common;
        UNROLL for (int c = 0; c < nv; c++)
        {
            const float *at = o[i] + d + c * LANES;
            acc[i][c]       = rescale[i] == 0.0f
                                  ? vf_zero()
                                  : vf_mul(lanes == LANES ? vf_load(at) : vf_load_n(at, lanes), vf_set1(rescale[i]));
        }
    }
    for (size_t j = 0; j < common; j++) {
        vf x[VALUE_TILE];
        UNROLL for (int c = 0; c < nv; c++) x[c] = cached(v, j * dim + d + (size_t)c * LANES, lanes, bf16);
        UNROLL for (int i = 0; i < nq; i++)
        {
            const vf pj                                   = vf_set1(p[(size_t)i * K_PAGE + j]);
            UNROLL for (int c = 0; c < nv; c++) acc[i][c] = vf_fma(pj, x[c], acc[i][c]);
        }
    }
    UNROLL for (int i = 0; i < nq; i++)
    {
        for (size_t j = common; j < nk[i]; j++) { /* queries that see more keys than the first */
            const vf pj = vf_set1(p[(size_t)i * K_PAGE + j]);
            UNROLL for (int c = 0; c < nv; c++) acc[i][c] =
                vf_fma(pj, cached(v, j * dim + d + (size_t)c * LANES, lanes, bf16), acc[i][c]);
        }
        UNROLL for (int c = 0; c < nv; c++)
        {
            float *at = o[i] + d + c * LANES;
            if (lanes == LANES)
                vf_store(at, acc[i][c]);
            else
                vf_store_n(at, acc[i][c], lanes);
        }
    }
}

INLINE void values(float *const *o, const float *rescale, const float *p, const int nq, const size_t *nk, const void *v,
                   size_t dim, const bool bf16)
{
    size_t d = 0;
    for (; d + VALUE_TILE * LANES <= dim; d += VALUE_TILE * LANES)
        value_tile(o, rescale, p, nq, nk, v, dim, d, VALUE_TILE, LANES, bf16);
    for (; d + LANES <= dim; d += LANES) value_tile(o, rescale, p, nq, nk, v, dim, d, 1, LANES, bf16);
    if (d < dim) value_tile(o, rescale, p, nq, nk, v, dim, d, 1, dim - d, bf16);
}

INLINE void values_any(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                       const void *v, size_t dim, const bool bf16)
{
    switch (nq) {
    case 1: values(o, rescale, p, 1, nk, v, dim, bf16); break;
    case 2: values(o, rescale, p, 2, nk, v, dim, bf16); break;
    case 3: values(o, rescale, p, 3, nk, v, dim, bf16); break;
    default: values(o, rescale, p, 4, nk, v, dim, bf16); break;
    }
}

static void values_bf16(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                        const void *v, size_t dim)
{
    values_any(o, rescale, p, nq, nk, v, dim, true);
}

static void values_f32(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                       const void *v, size_t dim)
{
    values_any(o, rescale, p, nq, nk, v, dim, false);
}

INLINE void lanes_attention(cpu_isa *t)
{
    t->scores_bf16   = scores_bf16;
    t->scores_f32    = scores_f32;
    t->softmax_block = softmax_block;
    t->values_bf16   = values_bf16;
    t->values_f32    = values_f32;
}

#endif
