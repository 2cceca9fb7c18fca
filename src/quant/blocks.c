/* quant/blocks.c - one block of each of GGML's types to floats, for any machine. */
#include "quant/blocks.h"

#include "base/bytes.h"
#include "base/half.h"

/* The levels of the two types whose codes are not linear. */
static const float block_iq4_levels[16]   = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const float block_mxfp4_levels[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                             0, -1, -2, -3, -4, -6, -8, -12}; /* doubled E2M1 */

static float block_half(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* ---- 32 weights ---- */

static void block_q8_0(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b);
    for (size_t j = 0; j < 32; j++) y[j] = (float)(int8_t)b[2 + j] * d;
}

static void block_q4_0(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b);
    for (size_t j = 0; j < 16; j++) y[j] = (float)((b[2 + j] & 15) - 8) * d;
    for (size_t j = 0; j < 16; j++) y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
}

static void block_q4_1(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b), m = block_half(b + 2);
    for (size_t j = 0; j < 16; j++) y[j] = (float)(b[4 + j] & 15) * d + m;
    for (size_t j = 0; j < 16; j++) y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
}

/* Codes j and j + 16 of a block with four bits in qs and the fifth in qh. */
static int block_low_five(const uint8_t *qs, uint32_t qh, unsigned j)
{
    return (qs[j] & 15) | (int)(qh >> j & 1u) << 4;
}
static int block_high_five(const uint8_t *qs, uint32_t qh, unsigned j)
{
    return qs[j] >> 4 | (int)(qh >> (j + 16) & 1u) << 4;
}

static void block_q5_0(float *restrict y, const uint8_t *restrict b)
{
    const float    d  = block_half(b);
    const uint32_t qh = load_u32(b + 2);
    for (unsigned j = 0; j < 16; j++) y[j] = (float)(block_low_five(b + 6, qh, j) - 16) * d;
    for (unsigned j = 0; j < 16; j++) y[j + 16] = (float)(block_high_five(b + 6, qh, j) - 16) * d;
}

static void block_q5_1(float *restrict y, const uint8_t *restrict b)
{
    const float    d = block_half(b), m = block_half(b + 2);
    const uint32_t qh = load_u32(b + 4);
    for (unsigned j = 0; j < 16; j++) y[j] = (float)block_low_five(b + 8, qh, j) * d + m;
    for (unsigned j = 0; j < 16; j++) y[j + 16] = (float)block_high_five(b + 8, qh, j) * d + m;
}

/* 32 nibbles through a table of levels. */
static void block_levels(float *restrict y, const uint8_t *restrict qs, const float *restrict level, float d)
{
    for (size_t j = 0; j < 16; j++) y[j] = d * level[qs[j] & 15];
    for (size_t j = 0; j < 16; j++) y[j + 16] = d * level[qs[j] >> 4];
}

static void block_iq4_nl(float *restrict y, const uint8_t *restrict b)
{
    block_levels(y, b + 2, block_iq4_levels, block_half(b));
}

static void block_mxfp4(float *restrict y, const uint8_t *restrict b)
{
    block_levels(y, b + 1, block_mxfp4_levels, e8m0_half(b[0]));
}

/* ---- 256 weights ---- */

static void block_q2_k(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b + 80), dmin = block_half(b + 82);
    for (unsigned s = 0; s < 16; s++) { /* codes of half h lie four to a byte, quarter by quarter */
        const uint8_t *qs    = b + 16 + s / 8 * 32 + s % 2 * 16;
        const unsigned shift = s % 8 / 2 * 2;
        const float    scale = d * (float)(b[s] & 15), min = dmin * (float)(b[s] >> 4);
        for (unsigned l = 0; l < 16; l++) y[16 * s + l] = scale * (float)(qs[l] >> shift & 3) - min;
    }
}

/* Scale s of sixteen with 6 bits: the low four, then the high two. */
static int block_q3_k_scale(const uint8_t *a, size_t s)
{
    const int low = s < 8 ? a[s] & 15 : a[s - 8] >> 4, high = a[8 + s % 4] >> (2 * (s / 4)) & 3;
    return (low | high << 4) - 32;
}

static void block_q3_k(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b + 108);
    for (unsigned s = 0; s < 16; s++) {
        const uint8_t *hmask = b + s % 2 * 16, *qs = b + 32 + s / 8 * 32 + s % 2 * 16;
        const unsigned shift = s % 8 / 2 * 2;
        const float    scale = d * (float)block_q3_k_scale(b + 96, s);
        for (unsigned l = 0; l < 16; l++) {
            const int q   = (qs[l] >> shift & 3) + (hmask[l] >> (s / 2) & 1) * 4 - 4;
            y[16 * s + l] = scale * (float)q;
        }
    }
}

/* Scale and minimum s of eight, 6 bits each, as Q4_K and Q5_K pack them. */
static void block_k_scale_min(const uint8_t *a, size_t s, int *sc, int *mn)
{
    if (s < 4) {
        *sc = a[s] & 63;
        *mn = a[s + 4] & 63;
    } else {
        *sc = (a[s + 4] & 15) | a[s - 4] >> 6 << 4;
        *mn = a[s + 4] >> 4 | a[s] >> 6 << 4;
    }
}

static void block_q4_k(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b), dmin = block_half(b + 2);
    for (unsigned s = 0; s < 8; s++) {
        const uint8_t *qs = b + 16 + s / 2 * 32;
        int            sc, mn;
        block_k_scale_min(b + 4, s, &sc, &mn);
        const unsigned shift = s % 2 * 4;
        const float    scale = d * (float)sc, min = dmin * (float)mn;
        for (size_t l = 0; l < 32; l++) {
            const int q   = qs[l] >> shift & 15;
            y[s * 32 + l] = scale * (float)q - min;
        }
    }
}

static void block_q5_k(float *restrict y, const uint8_t *restrict b)
{
    const uint8_t *qh = b + 16;
    const float    d = block_half(b), dmin = block_half(b + 2);
    for (unsigned s = 0; s < 8; s++) {
        const uint8_t *qs = b + 48 + s / 2 * 32;
        int            sc, mn;
        block_k_scale_min(b + 4, s, &sc, &mn);
        const unsigned shift = s % 2 * 4;
        const float    scale = d * (float)sc, min = dmin * (float)mn;
        for (size_t l = 0; l < 32; l++) {
            const int q   = (qs[l] >> shift & 15) | (qh[l] >> s & 1) << 4;
            y[s * 32 + l] = scale * (float)q - min;
        }
    }
}

static void block_q6_k(float *restrict y, const uint8_t *restrict b)
{
    const float d = block_half(b + 208);
    for (unsigned s = 0; s < 8; s++) { /* 32 weights with two scales: quarter s % 4 of a half */
        const uint8_t *ql = b + s / 4 * 64 + s % 2 * 32, *qh = b + 128 + s / 4 * 32;
        const unsigned low = s % 4 / 2 * 4, high = s % 4 * 2;
        const float    first = d * (float)(int8_t)b[192 + 2 * s], second = d * (float)(int8_t)b[193 + 2 * s];
        for (unsigned l = 0; l < 32; l++) {
            const int q   = (ql[l] >> low & 15) | (qh[l] >> high & 3) << 4;
            y[32 * s + l] = (l < 16 ? first : second) * (float)(q - 32);
        }
    }
}

static void block_iq4_xs(float *restrict y, const uint8_t *restrict b)
{
    const float    d    = block_half(b);
    const uint32_t high = load_u16(b + 2);
    for (unsigned s = 0; s < 8; s++) {
        const int sc = (b[4 + s / 2] >> (4 * (s % 2)) & 15) | (int)(high >> (2 * s) & 3u) << 4;
        block_levels(y + 32 * s, b + 8 + 16 * s, block_iq4_levels, d * (float)(sc - 32));
    }
}

void blocks_decode(float *y, const uint8_t *p, dtype t, size_t n)
{
#define BLOCK_CASE(type, decode) \
    case DTYPE_##type: \
        for (size_t i = 0; i < n; i += dtype_table[DTYPE_##type].elements, p += dtype_table[DTYPE_##type].bytes) \
            decode(y + i, p); \
        break;
    switch (t) {
        BLOCK_CASE(Q4_0, block_q4_0)
        BLOCK_CASE(Q4_1, block_q4_1)
        BLOCK_CASE(Q5_0, block_q5_0)
        BLOCK_CASE(Q5_1, block_q5_1)
        BLOCK_CASE(Q8_0, block_q8_0)
        BLOCK_CASE(Q2_K, block_q2_k)
        BLOCK_CASE(Q3_K, block_q3_k)
        BLOCK_CASE(Q4_K, block_q4_k)
        BLOCK_CASE(Q5_K, block_q5_k)
        BLOCK_CASE(Q6_K, block_q6_k)
        BLOCK_CASE(IQ4_NL, block_iq4_nl)
        BLOCK_CASE(IQ4_XS, block_iq4_xs)
        BLOCK_CASE(MXFP4, block_mxfp4)
    default: break;
    }
#undef BLOCK_CASE
}
