/* kernels/cpu/scalar/attention.c - one block of keys of the online softmax
 * (Milakov and Gimelshein, 2018; Dao et al., FlashAttention, 2022) in plain C. */
#include "base/bytes.h"
#include "base/half.h"
#include "kernels/cpu/kv_turbo.h"
#include "kernels/cpu/scalar/math.h"
#include "kernels/cpu/scalar/scalar.h"

/* scale * code + bias; the product is exact, so that it does not matter how it is added. */
static float affine(const uint8_t *pairs, size_t group, unsigned code)
{
    const uint8_t *p = pairs + 4 * group;
    return fmaf(bf16_to_f32(load_u16(p)), (float)code, bf16_to_f32(load_u16(p + 2)));
}

/* Sum and product are exact. */
static float turbo8(const uint8_t *pair, int code)
{
    return ((float)code + f16_to_f32(load_u16(pair + 2))) * f16_to_f32(load_u16(pair));
}

/* The scales behind the codes may be read for the last code's sake. */
static float turbo3(const uint8_t *row, size_t dim, size_t d, size_t group)
{
    const unsigned code = (unsigned)load_u16(row + 3 * d / 8) >> 3 * d % 8 & 7u;
    return kv_turbo_levels[code] * f16_to_f32(load_u16(row + 3 * dim / 8 + 2 * (d / group)));
}

/* Number d of row j. */
static float cached(const kv_rows *r, size_t j, size_t d)
{
    const uint8_t *row = r->at + j * k_kv_row_bytes(r->form, r->dim);
    switch (r->form.kind) {
    case K_KV_F32: return load_f32(row + 4 * d);
    case K_KV_AFFINE8: return affine(row + r->dim, d / r->form.group, row[d]);
    case K_KV_AFFINE4: return affine(row + r->dim / 2, d / r->form.group, (unsigned)row[d / 2] >> (d % 2 * 4) & 15u);
    case K_KV_TURBO8: return turbo8(row + r->dim + 4 * (d / r->form.group), (int8_t)row[d]);
    case K_KV_TURBO3: return turbo3(row, r->dim, d, r->form.group);
    default: return bf16_to_f32(load_u16(row + 2 * d));
    }
}

static void scores(float *s, const float *const *q, unsigned nq, const kv_rows *keys, size_t nk, float scale)
{
    for (unsigned i = 0; i < nq; i++)
        for (size_t j = 0; j < nk; j++) {
            float a[LANES] = {0};
            for (size_t d = 0; d < keys->dim; d++) a[d % LANES] = fmaf(q[i][d], cached(keys, j, d), a[d % LANES]);
            s[i * K_PAGE + j] = lanes_sum(a) * scale;
        }
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

static void values(float *const *o, const float *rescale, const float *p, unsigned nq, const size_t *nk,
                   const kv_rows *v)
{
    for (unsigned i = 0; i < nq; i++)
        for (size_t d = 0; d < v->dim; d++) {
            float acc = rescale[i] == 0.0f ? 0.0f : o[i][d] * rescale[i];
            for (size_t j = 0; j < nk[i]; j++) acc = fmaf(p[i * K_PAGE + j], cached(v, j, d), acc);
            o[i][d] = acc;
        }
}

void cpu_scalar_attention(cpu_isa *t)
{
    t->scores        = scores;
    t->softmax_block = softmax_block;
    t->values        = values;
}
