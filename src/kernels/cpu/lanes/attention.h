/* kernels/cpu/lanes/attention.h - scalar/attention.c on 16 lanes.  Up to four
 * queries (the heads that share a key head) use every key and value that is
 * loaded. */
#ifndef KERNELS_CPU_LANES_ATTENTION_H
#define KERNELS_CPU_LANES_ATTENTION_H

#include "kernels/cpu/lanes/math.h"

/* What the loops know of the rows beside their kind, which is a constant. */
typedef struct row_layout {
    const uint8_t *at;
    size_t         dim, stride; /* bytes from one row to the next */
    unsigned       shift;       /* log2 of the group of codes */
} row_layout;

INLINE row_layout layout_of(const kv_rows *r)
{
    const unsigned group = r->form.group;
    return (row_layout){.at     = r->at,
                        .dim    = r->dim,
                        .stride = k_kv_row_bytes(r->form, r->dim),
                        .shift  = group == 32   ? 5
                                  : group == 64 ? 6
                                                : 7};
}

INLINE bool is_coded(const k_kv_kind kind)
{
    return kind != K_KV_BF16 && kind != K_KV_F32;
}

/* What a group has in common. */
typedef struct group_scale {
    vf scale, bias; /* TURBO8: the zero point */
} group_scale;

/* Of the group that number d of row j is in; nothing of forms without groups. */
INLINE group_scale row_scale(const row_layout *r, size_t j, size_t d, const k_kv_kind kind)
{
    const uint8_t *row = r->at + j * r->stride;
    group_scale    g   = {vf_zero(), vf_zero()};
    switch (kind) {
    case K_KV_AFFINE8: vf_pair(row + r->dim + 4 * (d >> r->shift), &g.scale, &g.bias); break;
    case K_KV_AFFINE4: vf_pair(row + r->dim / 2 + 4 * (d >> r->shift), &g.scale, &g.bias); break;
    case K_KV_TURBO8:
        g.scale = vf_f16(row + r->dim + 4 * (d >> r->shift));
        g.bias  = vf_f16(row + r->dim + 4 * (d >> r->shift) + 2);
        break;
    case K_KV_TURBO3: g.scale = vf_f16(row + 3 * r->dim / 8 + 2 * (d >> r->shift)); break;
    default: break;
    }
    return g;
}

/* Numbers d .. d+lanes-1 of row j.  Rows of codes have whole vectors alone, each in one group. */
INLINE vf cached(const row_layout *r, size_t j, size_t d, size_t lanes, group_scale g, const k_kv_kind kind)
{
    const uint8_t *row = r->at + j * r->stride;
    switch (kind) {
    case K_KV_AFFINE8: return vf_fma(g.scale, vf_bytes(row + d), g.bias);
    case K_KV_AFFINE4: return vf_fma(g.scale, vf_nibbles(row + d / 2), g.bias);
    case K_KV_TURBO8: return vf_mul(vf_add(vf_signed(row + d), g.bias), g.scale);
    case K_KV_TURBO3: return vf_mul(vf_levels(row + 3 * d / 8), g.scale);
    case K_KV_BF16: return lanes == LANES ? vf_load_bf16(row + 2 * d) : vf_load_bf16_n(row + 2 * d, lanes);
    default: return lanes == LANES ? vf_load_f32(row + 4 * d) : vf_load_f32_n(row + 4 * d, lanes);
    }
}

/* NQ queries times NK keys; sums[i][j]. */
INLINE void score_tile(float *s, const float *const *q, const int nq, const row_layout *keys, size_t key0, const int nk,
                       float scale, const k_kv_kind kind)
{
    const size_t dim = keys->dim;
    vf           acc[ATTENTION_TILE][SCORE_KEYS];
    UNROLL for (int i = 0; i < nq; i++) UNROLL for (int j = 0; j < nk; j++) acc[i][j] = vf_zero();
    for (size_t d = 0; d < dim;) {
        const size_t end = is_coded(kind) ? d + ((size_t)1 << keys->shift) : dim;
        group_scale  g[SCORE_KEYS];
        UNROLL for (int j = 0; j < nk; j++) g[j] = row_scale(keys, key0 + (size_t)j, d, kind);
        for (; d < end; d += LANES) {
            const size_t lanes = end - d < LANES ? end - d : LANES;
            vf           k[SCORE_KEYS];
            UNROLL for (int j = 0; j < nk; j++) k[j] = cached(keys, key0 + (size_t)j, d, lanes, g[j], kind);
            UNROLL for (int i = 0; i < nq; i++)
            {
                const vf v = lanes == LANES ? vf_load(q[i] + d) : vf_load_n(q[i] + d, lanes);
                UNROLL for (int j = 0; j < nk; j++) acc[i][j] = vf_fma(v, k[j], acc[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < nq; i++) UNROLL for (int j = 0; j < nk; j++) s[(size_t)i * K_PAGE + key0 + (size_t)j] =
        vf_sum(acc[i][j]) * scale;
}

INLINE void scores_of(float *s, const float *const *q, const int nq, const row_layout *keys, size_t nk, float scale,
                      const k_kv_kind kind)
{
    size_t j = 0;
    for (; j + SCORE_KEYS <= nk; j += SCORE_KEYS) score_tile(s, q, nq, keys, j, SCORE_KEYS, scale, kind);
    for (; j < nk; j++) score_tile(s, q, nq, keys, j, 1, scale, kind);
}

INLINE void scores_kind(float *s, const float *const *q, unsigned nq, const kv_rows *keys, size_t nk, float scale,
                        const k_kv_kind kind)
{
    const row_layout r = layout_of(keys);
    switch (nq) {
    case 1: scores_of(s, q, 1, &r, nk, scale, kind); break;
    case 2: scores_of(s, q, 2, &r, nk, scale, kind); break;
    case 3: scores_of(s, q, 3, &r, nk, scale, kind); break;
    default: scores_of(s, q, 4, &r, nk, scale, kind); break;
    }
}

static void scores(float *s, const float *const *q, unsigned nq, const kv_rows *keys, size_t nk, float scale)
{
    switch (keys->form.kind) {
    case K_KV_F32: scores_kind(s, q, nq, keys, nk, scale, K_KV_F32); break;
    case K_KV_AFFINE8: scores_kind(s, q, nq, keys, nk, scale, K_KV_AFFINE8); break;
    case K_KV_AFFINE4: scores_kind(s, q, nq, keys, nk, scale, K_KV_AFFINE4); break;
    case K_KV_TURBO8: scores_kind(s, q, nq, keys, nk, scale, K_KV_TURBO8); break;
    default: scores_kind(s, q, nq, keys, nk, scale, K_KV_BF16); break;
    }
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

INLINE vf value_at(const row_layout *v, size_t j, size_t d, size_t lanes, const k_kv_kind kind)
{
    return cached(v, j, d, lanes, row_scale(v, j, d, kind), kind);
}

/* NV vectors of the outputs of NQ queries, from value d on. */
INLINE void value_tile(float *const *o, const float *rescale, const float *p, const int nq, const size_t *nk,
                       const row_layout *v, size_t d, const int nv, const size_t lanes, const k_kv_kind kind)
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
        UNROLL for (int c = 0; c < nv; c++) x[c] = value_at(v, j, d + (size_t)c * LANES, lanes, kind);
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
                vf_fma(pj, value_at(v, j, d + (size_t)c * LANES, lanes, kind), acc[i][c]);
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

INLINE void values_of(float *const *o, const float *rescale, const float *p, const int nq, const size_t *nk,
                      const row_layout *v, const k_kv_kind kind)
{
    size_t d = 0;
    for (; d + VALUE_TILE * LANES <= v->dim; d += VALUE_TILE * LANES)
        value_tile(o, rescale, p, nq, nk, v, d, VALUE_TILE, LANES, kind);
    for (; d + LANES <= v->dim; d += LANES) value_tile(o, rescale, p, nq, nk, v, d, 1, LANES, kind);
    if (d < v->dim) value_tile(o, rescale, p, nq, nk, v, d, 1, v->dim - d, kind);
}

INLINE void values_kind(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                        const kv_rows *v, const k_kv_kind kind)
{
    const row_layout r = layout_of(v);
    switch (nq) {
    case 1: values_of(o, rescale, p, 1, nk, &r, kind); break;
    case 2: values_of(o, rescale, p, 2, nk, &r, kind); break;
    case 3: values_of(o, rescale, p, 3, nk, &r, kind); break;
    default: values_of(o, rescale, p, 4, nk, &r, kind); break;
    }
}

static void values(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                   const kv_rows *v)
{
    switch (v->form.kind) {
    case K_KV_F32: values_kind(o, rescale, p, nq, nk, v, K_KV_F32); break;
    case K_KV_AFFINE8: values_kind(o, rescale, p, nq, nk, v, K_KV_AFFINE8); break;
    case K_KV_AFFINE4: values_kind(o, rescale, p, nq, nk, v, K_KV_AFFINE4); break;
    case K_KV_TURBO3: values_kind(o, rescale, p, nq, nk, v, K_KV_TURBO3); break;
    default: values_kind(o, rescale, p, nq, nk, v, K_KV_BF16); break;
    }
}

INLINE void lanes_attention(cpu_isa *t)
{
    t->scores        = scores;
    t->softmax_block = softmax_block;
    t->values        = values;
}

#endif
