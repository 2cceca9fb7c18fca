/* quant/blocks.c - GGML's block types, decoding; blocks.h has the layouts. */
#include "quant/blocks.h"

#include "base/bytes.h"
#include "base/half.h"

/* The levels of the two types whose codes are not linear. */
static const int8_t iq4_levels[16]   = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t mxfp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; /* doubled E2M1 */

static float half_at(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* ---- 32 weights ---- */

static void q8_0(float *y, const uint8_t *b)
{
    const float d = half_at(b);
    for (size_t j = 0; j < 32; j++) y[j] = (float)(int8_t)b[2 + j] * d;
}

static void q4_0(float *y, const uint8_t *b)
{
    const float d = half_at(b);
    for (size_t j = 0; j < 16; j++) {
        y[j]      = (float)((b[2 + j] & 15) - 8) * d;
        y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
}

static void q4_1(float *y, const uint8_t *b)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (size_t j = 0; j < 16; j++) {
        y[j]      = (float)(b[4 + j] & 15) * d + m;
        y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
}

/* Code j of a block with four bits in qs and the fifth in qh. */
static int five_bits(const uint8_t *qs, uint32_t qh, size_t j)
{
    const int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    return low | (int)(qh >> j & 1u) << 4;
}

static void q5_0(float *y, const uint8_t *b)
{
    const float    d  = half_at(b);
    const uint32_t qh = load_u32(b + 2);
    for (size_t j = 0; j < 32; j++) y[j] = (float)(five_bits(b + 6, qh, j) - 16) * d;
}

static void q5_1(float *y, const uint8_t *b)
{
    const float    d = half_at(b), m = half_at(b + 2);
    const uint32_t qh = load_u32(b + 4);
    for (size_t j = 0; j < 32; j++) y[j] = (float)five_bits(b + 8, qh, j) * d + m;
}

/* 32 nibbles through a table of levels. */
static void levels(float *y, const uint8_t *qs, const int8_t *level, float d)
{
    for (size_t j = 0; j < 16; j++) {
        y[j]      = d * (float)level[qs[j] & 15];
        y[j + 16] = d * (float)level[qs[j] >> 4];
    }
}

static void iq4_nl(float *y, const uint8_t *b)
{
    levels(y, b + 2, iq4_levels, half_at(b));
}

static void mxfp4(float *y, const uint8_t *b)
{
    const uint32_t e = b[0];
    levels(y, b + 1, mxfp4_levels, f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23));
}

/* ---- 256 weights ---- */

static void q2_k(float *y, const uint8_t *b)
{
    const uint8_t *scales = b, *qs = b + 16;
    const float    d = half_at(b + 80), dmin = half_at(b + 82);
    for (size_t i = 0; i < 256; i++) {
        const int   q  = qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
        const float sc = d * (float)(scales[i / 16] & 15), mn = dmin * (float)(scales[i / 16] >> 4);
        y[i] = sc * (float)q - mn;
    }
}

/* Scale s of sixteen with 6 bits: the low four, then the high two. */
static int q3_k_scale(const uint8_t *a, size_t s)
{
    const int low = s < 8 ? a[s] & 15 : a[s - 8] >> 4, high = a[8 + s % 4] >> (2 * (s / 4)) & 3;
    return (low | high << 4) - 32;
}

static void q3_k(float *y, const uint8_t *b)
{
    const uint8_t *hmask = b, *qs = b + 32;
    const float    d = half_at(b + 108);
    for (size_t i = 0; i < 256; i++) {
        const int   low  = qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
        const int   high = hmask[i % 32] >> (i / 32) & 1;
        const float sc   = d * (float)q3_k_scale(b + 96, i / 16);
        y[i]             = sc * (float)(low - (high != 0 ? 0 : 4));
    }
}

/* Scale and minimum s of eight, 6 bits each, as Q4_K and Q5_K pack them. */
static void k_scale_min(const uint8_t *a, size_t s, int *sc, int *mn)
{
    if (s < 4) {
        *sc = a[s] & 63;
        *mn = a[s + 4] & 63;
    } else {
        *sc = (a[s + 4] & 15) | a[s - 4] >> 6 << 4;
        *mn = a[s + 4] >> 4 | a[s] >> 6 << 4;
    }
}

static void q4_k(float *y, const uint8_t *b)
{
    const float d = half_at(b), dmin = half_at(b + 2);
    for (size_t s = 0; s < 8; s++) {
        const uint8_t *qs = b + 16 + s / 2 * 32;
        int            sc, mn;
        k_scale_min(b + 4, s, &sc, &mn);
        const float scale = d * (float)sc, min = dmin * (float)mn;
        for (size_t l = 0; l < 32; l++) {
            const int q   = s % 2 == 0 ? qs[l] & 15 : qs[l] >> 4;
            y[s * 32 + l] = scale * (float)q - min;
        }
    }
}

static void q5_k(float *y, const uint8_t *b)
{
    const uint8_t *qh = b + 16;
    const float    d = half_at(b), dmin = half_at(b + 2);
    for (size_t s = 0; s < 8; s++) {
        const uint8_t *qs = b + 48 + s / 2 * 32;
        int            sc, mn;
        k_scale_min(b + 4, s, &sc, &mn);
        const float scale = d * (float)sc, min = dmin * (float)mn;
        for (size_t l = 0; l < 32; l++) {
            const int low = s % 2 == 0 ? qs[l] & 15 : qs[l] >> 4;
            y[s * 32 + l] = scale * (float)(low | (qh[l] >> s & 1) << 4) - min;
        }
    }
}

static void q6_k(float *y, const uint8_t *b)
{
    const float d = half_at(b + 208);
    for (size_t h = 0; h < 2; h++) {
        const uint8_t *ql = b + 64 * h, *qh = b + 128 + 32 * h, *scales = b + 192 + 8 * h;
        for (size_t r = 0; r < 128; r++) {
            const size_t l = r % 32, p = r / 32; /* a quarter is 32 weights, two scales */
            const int    low   = p < 2 ? ql[l + 32 * p] & 15 : ql[l + 32 * (p - 2)] >> 4;
            const int    high  = qh[l] >> (2 * p) & 3;
            const float  scale = d * (float)(int8_t)scales[r / 16];
            y[h * 128 + r]     = scale * (float)((low | high << 4) - 32);
        }
    }
}

static void iq4_xs(float *y, const uint8_t *b)
{
    const float    d    = half_at(b);
    const uint32_t high = load_u16(b + 2);
    for (size_t s = 0; s < 8; s++) {
        const int sc = (b[4 + s / 2] >> (4 * (s % 2)) & 15) | (int)(high >> (2 * s) & 3u) << 4;
        levels(y + 32 * s, b + 8 + 16 * s, iq4_levels, d * (float)(sc - 32));
    }
}

void blocks_decode(float *y, const uint8_t *p, dtype t, size_t n)
{
    typedef void            decode_fn(float *y, const uint8_t *block);
    static decode_fn *const functions[DTYPE_COUNT] = {
        [DTYPE_Q4_0] = q4_0,   [DTYPE_Q4_1] = q4_1, [DTYPE_Q5_0] = q5_0,     [DTYPE_Q5_1] = q5_1,
        [DTYPE_Q8_0] = q8_0,   [DTYPE_Q2_K] = q2_k, [DTYPE_Q3_K] = q3_k,     [DTYPE_Q4_K] = q4_k,
        [DTYPE_Q5_K] = q5_k,   [DTYPE_Q6_K] = q6_k, [DTYPE_IQ4_NL] = iq4_nl, [DTYPE_IQ4_XS] = iq4_xs,
        [DTYPE_MXFP4] = mxfp4,
    };
    const size_t elements = dtype_table[t].elements, bytes = dtype_table[t].bytes;
    for (size_t i = 0; i < n; i += elements, p += bytes) functions[t](y + i, p);
}
