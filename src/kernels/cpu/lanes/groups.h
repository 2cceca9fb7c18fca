/* kernels/cpu/lanes/groups.h - MLX's groups of codes to floats, 16 at a time: the bits of
 * quant/affine.c and quant/microscale.c. */
#ifndef KERNELS_CPU_LANES_GROUPS_H
#define KERNELS_CPU_LANES_GROUPS_H

#include "base/half.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/lanes/linear.h"

#include <string.h>

/* 16 floats of the type E4M3. */
INLINE vf vf_e4m3(const uint8_t *p)
{
    uint16_t half[LANES];
    for (size_t i = 0; i < LANES; i++) half[i] = (uint16_t)((p[i] & 0x80u) << 8 | (p[i] & 0x7Fu) << 7);
    return vf_mul(vf_load_f16(half), vf_set1(256.0f));
}

/* 16 scales or biases of a row that has n of them, those of a piece's groups from `first` on
 * among them: where the row allows it from 16 whole ones.  Returns where `first` is. */
INLINE size_t group_floats(float *to, const uint8_t *row, const dtype type, size_t first, size_t n)
{
    const size_t begin = first + LANES <= n ? first : n >= LANES ? n - LANES : 0;
    vf_store(to, load_float(row, type, begin, n));
    return first - begin;
}

/* Codes that vf_codes would read past the row's end come from a copy. */
INLINE void affine_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q, const int bits)
{
    const unsigned     shift = w->group == 32 ? 5 : w->group == 64 ? 6 : 7;
    const size_t       step = (size_t)bits * LANES / 8, begin = at / 8 * (size_t)bits, left = w->row_bytes - begin;
    const uint8_t     *codes = w->data + row * w->row_bytes + begin;
    const size_t       whole = left < CODES_READ ? 0 : (left - CODES_READ) / step + 1, vectors = n / LANES;
    const size_t       per_group = (size_t)1 << shift >> 4, scale_row = row * w->scale_row_bytes;
    _Alignas(64) float scales[LANES], biases[LANES];
    uint8_t            end[2 * CODES_READ] = {0};
    const size_t       first               = at >> shift;
    size_t             g = group_floats(scales, w->scales + scale_row, w->scale_type, first, w->cols >> shift);
    (void)group_floats(biases, w->biases + scale_row, w->scale_type, first, w->cols >> shift);
    if (whole < vectors) memcpy(end, codes + whole * step, (vectors - whole) * step);
    for (size_t v = 0; v < vectors; g++) {
        const vf scale = vf_set1(scales[g]), bias = vf_set1(biases[g]);
        for (const size_t stop = v + per_group; v < stop; v++) {
            const uint8_t *p = v < whole ? codes + v * step : end + (v - whole) * step;
            vf_store(q + v * LANES, vf_add(vf_mul(scale, vf_codes(p, bits)), bias));
        }
    }
}

INLINE void mxfp4_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q)
{
    const uint8_t *codes = w->data + row * w->row_bytes + at / 2, *scales = w->scales + row * w->scale_row_bytes;
    for (size_t i = 0; i < n; i += 32) {
        const uint32_t e    = scales[(at + i) / 32];
        const vf       half = vf_set1(f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23));
        vf_store(q + i, vf_mul(vf_e2m1(codes + i / 2), half));
        vf_store(q + i + LANES, vf_mul(vf_e2m1(codes + i / 2 + LANES / 2), half));
    }
}

INLINE void mxfp8_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q)
{
    const uint8_t *codes = w->data + row * w->row_bytes + at, *scales = w->scales + row * w->scale_row_bytes;
    for (size_t i = 0; i < n; i += 32) {
        const uint32_t e     = scales[(at + i) / 32];
        const vf       scale = vf_set1(f32_from_bits(e == 0 ? 0x00400000u : e << 23));
        vf_store(q + i, vf_mul(vf_e4m3(codes + i), scale));
        vf_store(q + i + LANES, vf_mul(vf_e4m3(codes + i + LANES), scale));
    }
}

INLINE void nvfp4_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q)
{
    const uint8_t     *codes      = w->data + row * w->row_bytes + at / 2;
    const uint8_t     *scales     = w->scales + row * w->scale_row_bytes + at / 16;
    uint8_t            few[LANES] = {0};
    _Alignas(64) float half[LANES];
    if (n < DECODE_PIECE) scales = memcpy(few, scales, n / 16);
    vf_store(half, vf_mul(vf_e4m3(scales), vf_set1(0.5f)));
    for (size_t i = 0; i < n; i += 16) vf_store(q + i, vf_mul(vf_e2m1(codes + i / 2), vf_set1(half[i / 16])));
}

/* q[i] = the weight of column at + i, i < n: as weight_decode. */
static NOINLINE void grouped_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q)
{
    switch (w->format) {
    case K_AFFINE2: affine_floats(w, row, at, n, q, 2); break;
    case K_AFFINE3: affine_floats(w, row, at, n, q, 3); break;
    case K_AFFINE5: affine_floats(w, row, at, n, q, 5); break;
    case K_AFFINE6: affine_floats(w, row, at, n, q, 6); break;
    case K_MLX_MXFP8: mxfp8_floats(w, row, at, n, q); break;
    case K_MLX_MXFP4: mxfp4_floats(w, row, at, n, q); break;
    default: nvfp4_floats(w, row, at, n, q); break;
    }
}

#endif
