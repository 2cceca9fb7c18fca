/* kernels/cpu/lanes/pieces.h - a piece of 256 columns of every format that is decoded,
 * 16 weights at a time and in registers: the bits of quant/blocks.c, quant/affine.c
 * and quant/microscale.c.
 *
 * piece_open finds what the piece's weights are scaled with, piece_floats gives 16
 * of them.  With a constant format, i and half little more than loads is left of either.
 * A piece is read up to its last byte, and CODES_READ bytes from the last code of MLX's. */
#ifndef KERNELS_CPU_LANES_PIECES_H
#define KERNELS_CPU_LANES_PIECES_H

#include "base/bytes.h"
#include "base/half.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/lanes/codes.h"
#include "kernels/cpu/lanes/linear.h"
#include "quant/blocks.h"

/* Most rows of x that weights meet as they are decoded.  Under a sanitizer, with which compiling
 * these functions takes ten times as long, one: the bits of a row do not depend on the others. */
#if defined(__SANITIZE_ADDRESS__)
#define PIECE_MOST 1
#else
#define PIECE_MOST 4
#endif

enum { PAIR = 2 * LANES, PIECE_PAIRS = DECODE_PIECE / PAIR, PIECE_VECTORS = 2 * PIECE_PAIRS };

typedef struct piece {
    const uint8_t *at; /* its first block or code */
    const float   *scale, *bias;
    unsigned       pair_shift; /* MLX affine: log2 of the pairs of vectors in a group */
    _Alignas(64) float mul[LANES], add[LANES];
    uint8_t end[DECODE_PIECE * 6 / 8 + CODES_READ];
} piece;

/* ---- GGML: blocks.h has the layouts ---- */

/* Bytes that hold 4-bit numbers in order, the low one of a byte first. */
INLINE uint64_t nibbles_to_bytes(uint32_t x)
{
    uint64_t y = x;
    y          = (y | y << 16) & 0x0000FFFF0000FFFFu;
    y          = (y | y << 8) & 0x00FF00FF00FF00FFu;
    return (y | y << 4) & 0x0F0F0F0F0F0F0F0Fu;
}
/* The same for 2-bit numbers. */
INLINE uint64_t pairs_to_bytes(uint16_t x)
{
    uint64_t y = x;
    y          = (y | y << 24) & 0x000000FF000000FFu;
    y          = (y | y << 12) & 0x000F000F000F000Fu;
    return (y | y << 6) & 0x0303030303030303u;
}
INLINE uint64_t two_words(uint32_t lo, uint32_t hi)
{
    return lo | (uint64_t)hi << 32;
}

INLINE void q2_k_open(piece *p)
{
    const vb scales = vb_load(p->at);
    vf_store(p->mul, vf_mul(vf_f16(p->at + 80), vf_vb(vb_bits(scales, 0, 15))));
    vf_store(p->add, vf_mul(vf_f16(p->at + 82), vf_vb(vb_bits(scales, 4, 15))));
}

INLINE void q3_k_open(piece *p)
{
    const uint64_t low = load_u64(p->at + 96), fours = 0x0F0F0F0F0F0F0F0Fu, twos = 0x0303030303030303u;
    const uint32_t top = load_u32(p->at + 104);
    const uint64_t a   = (low & fours) | (two_words(top, top >> 2) & twos) << 4;
    const uint64_t b   = (low >> 4 & fours) | (two_words(top >> 4, top >> 6) & twos) << 4;
    vf_store(p->mul, vf_mul(vf_f16(p->at + 108), vf_vb(vb_sub(vb_make(a, b), 32))));
}

/* Eight scales, then eight minima, of 6 bits each. */
INLINE void q4_k_open(piece *p)
{
    const uint32_t a = load_u32(p->at + 4), b = load_u32(p->at + 8), c = load_u32(p->at + 12);
    const uint64_t scales = two_words(a & 0x3F3F3F3Fu, (c & 0x0F0F0F0Fu) | (a >> 6 & 0x03030303u) << 4);
    const uint64_t mins   = two_words(b & 0x3F3F3F3Fu, (c >> 4 & 0x0F0F0F0Fu) | (b >> 6 & 0x03030303u) << 4);
    vf_store(p->mul, vf_mul(vf_f16(p->at), vf_vb(vb_make(scales, scales))));
    vf_store(p->add, vf_mul(vf_f16(p->at + 2), vf_vb(vb_make(mins, mins))));
}

INLINE void q6_k_open(piece *p)
{
    vf_store(p->mul, vf_mul(vf_f16(p->at + 208), vf_vb(vb_load(p->at + 192))));
}

INLINE void iq4_xs_open(piece *p)
{
    const uint64_t scales = nibbles_to_bytes(load_u32(p->at + 4)) | pairs_to_bytes(load_u16(p->at + 2)) << 4;
    vf_store(p->mul, vf_mul(vf_f16(p->at), vf_vb(vb_sub(vb_make(scales, scales), 32))));
}

/* ---- codes of four bits ---- */

/* The numbers that codes stand for before they are scaled. */
enum levels { COUNTING, FROM_16, FROM_MINUS_16, FROM_MINUS_8, IQ4, E2M1_DOUBLED };
#ifdef LEVEL_TABLES
static const float level_numbers[][LANES] = {
#else
static const int8_t level_numbers[][LANES] = {
#endif
    [COUNTING]      = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    [FROM_16]       = {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
    [FROM_MINUS_16] = {-16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1},
    [FROM_MINUS_8]  = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
    [IQ4]           = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    [E2M1_DOUBLED]  = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};

/* How a number becomes a weight. */
enum scaling { TIMES, TIMES_PLUS, TIMES_MINUS };
INLINE vf scaled(vf number, const vf mul, const vf add, const enum scaling how)
{
    const vf product = vf_mul(mul, number);
    return how == TIMES ? product : how == TIMES_PLUS ? vf_add(product, add) : vf_sub(product, add);
}

#ifdef LEVEL_TABLES
INLINE vf all_levels(const enum levels k, const vf mul, const vf add, const enum scaling how)
{
    return scaled(vf_load(level_numbers[k]), mul, add, how);
}
#else
INLINE vf           code_floats(vb codes, const enum levels k, const vf mul, const vf add, const enum scaling how)
{
    const vb numbers = k == COUNTING       ? codes
                       : k == FROM_MINUS_8 ? vb_sub(codes, 8)
                                           : vb_lookup(level_numbers[k], codes);
    return scaled(vf_vb(numbers), mul, add, how);
}
#endif

/* Half `half` of 32 nibbles at b: the low ones, or the high ones. */
INLINE vb half_nibbles(const uint8_t *b, const int half)
{
    return vb_bits(vb_load(b), half * 4, 15);
}
INLINE vf half_floats(const uint8_t *b, const int half, const enum levels k, const vf mul, const vf add,
                      const enum scaling how)
{
#ifdef LEVEL_TABLES
    return vf_level(all_levels(k, mul, add, how), vc_half_nibbles(b, half == 1));
#else
    return code_floats(half_nibbles(b, half), k, mul, add, how);
#endif
}

/* 16 nibbles, the low one of a byte first, in E2M1. */
INLINE vf e2m1_floats(const uint8_t *b, const vf half_scale)
{
#ifdef LEVEL_TABLES
    return vf_level(all_levels(E2M1_DOUBLED, half_scale, half_scale, TIMES), vc_nibbles(b));
#else
    return code_floats(vb_nibbles(b), E2M1_DOUBLED, half_scale, half_scale, TIMES);
#endif
}

/* ---- GGML: vector 2 i + half ---- */

INLINE vf q2_k_floats(const piece *p, const int i, const int half)
{
    const vb codes = vb_bits(vb_load(p->at + 16 + i / 4 * 32 + half * 16), i % 4 * 2, 3);
    return scaled(vf_vb(codes), vf_set1(p->mul[2 * i + half]), vf_set1(p->add[2 * i + half]), TIMES_MINUS);
}

INLINE vf q3_k_floats(const piece *p, const int i, const int half)
{
    const vb low  = vb_bits(vb_load(p->at + 32 + i / 4 * 32 + half * 16), i % 4 * 2, 3);
    const vb high = vb_bits(vb_load(p->at + half * 16), i - 2, 4);
    return vf_mul(vf_set1(p->mul[2 * i + half]), vf_vb(vb_sub(vb_or(low, high), 4)));
}

/* Both halves of 32 bytes go with one nibble of them. */
INLINE vf q4_k_floats(const piece *p, const int i, const int half)
{
    const uint8_t *b = p->at + 16 + i / 2 * 32 + half * 16;
    return half_floats(b, i % 2, COUNTING, vf_set1(p->mul[i]), vf_set1(p->add[i]), TIMES_MINUS);
}

INLINE vf q5_k_floats(const piece *p, const int i, const int half)
{
    const uint8_t *qs = p->at + 48 + i / 2 * 32 + half * 16, *qh = p->at + 16 + half * 16;
    const vf       scale = vf_set1(p->mul[i]), min = vf_set1(p->add[i]);
#ifdef LEVEL_TABLES
    const vc codes = vc_fives(vc_half_nibbles(qs, i % 2 == 1), vc_shift(vc_half_nibbles(qh, false), i - 4));
    return vf_level2(all_levels(COUNTING, scale, min, TIMES_MINUS), all_levels(FROM_16, scale, min, TIMES_MINUS),
                     codes);
#else
    const vb low = half_nibbles(qs, i % 2), high = vb_bits(vb_load(qh), i - 4, 16);
    return scaled(vf_vb(vb_or(low, high)), scale, min, TIMES_MINUS);
#endif
}

INLINE vf q6_k_floats(const piece *p, const int i, const int half)
{
    const vb low  = half_nibbles(p->at + i / 4 * 64 + i % 2 * 32 + half * 16, i % 4 / 2);
    const vb high = vb_bits(vb_load(p->at + 128 + i / 4 * 32 + half * 16), i % 4 * 2 - 4, 48);
    return vf_mul(vf_set1(p->mul[2 * i + half]), vf_vb(vb_sub(vb_or(low, high), 32)));
}

INLINE vf iq4_xs_floats(const piece *p, const int i, const int half)
{
    const vf scale = vf_set1(p->mul[i]);
    return half_floats(p->at + 8 + i * 16, half, IQ4, scale, scale, TIMES);
}

/* Half of the 32 codes with four bits at qs, and the fifth ones at qh; `first` is code 0. */
INLINE vf half_fives(const uint8_t *qs, const uint8_t *qh, const int half, const enum levels first, const vf mul,
                     const vf add, const enum scaling how)
{
#ifdef LEVEL_TABLES
    const vc codes = vc_fives(vc_half_nibbles(qs, half == 1), vc_fifths(load_u32(qh), half * LANES));
    return vf_level2(all_levels(first, mul, add, how),
                     all_levels(first == COUNTING ? FROM_16 : COUNTING, mul, add, how), codes);
#else
    const vb codes = vb_or(half_nibbles(qs, half), vb_flags(qh + half * 2, 16));
    return scaled(vf_vb(first == COUNTING ? codes : vb_sub(codes, 16)), mul, add, how);
#endif
}

/* The types with a block for 32 weights. */
INLINE vf short_floats(const piece *p, size_t i, const int half, const k_format format)
{
    const uint8_t *b = p->at + i * dtype_table[k_block_type(format)].bytes;
    const vf       d = format == K_MXFP4 ? vf_set1(e8m0_half(b[0])) : vf_f16(b);
    switch (format) {
    case K_Q8_0: return vf_mul(vf_signed(b + 2 + half * 16), d);
    case K_Q4_0: return half_floats(b + 2, half, FROM_MINUS_8, d, d, TIMES);
    case K_Q4_1: return half_floats(b + 4, half, COUNTING, d, vf_f16(b + 2), TIMES_PLUS);
    case K_Q5_0: return half_fives(b + 6, b + 2, half, FROM_MINUS_16, d, d, TIMES);
    case K_Q5_1: return half_fives(b + 8, b + 4, half, COUNTING, d, vf_f16(b + 2), TIMES_PLUS);
    case K_IQ4_NL: return half_floats(b + 2, half, IQ4, d, d, TIMES);
    default: return half_floats(b + 1, half, E2M1_DOUBLED, d, d, TIMES); /* MXFP4 */
    }
}

/* ---- MLX ---- */

/* 16 scales or biases of a row that has n of them, those of a piece's groups from `first` on
 * among them: where the row allows it from 16 whole ones.  Returns where `first` is. */
INLINE const float *group_floats(float *to, const uint8_t *row, const dtype type, size_t first, size_t n)
{
    const size_t begin = first + LANES <= n ? first : n >= LANES ? n - LANES : 0;
    vf_store(to, load_float(row, type, begin, n));
    return to + (first - begin);
}

/* Codes that vf_codes would read past the weights' end come from a copy. */
INLINE void affine_open(piece *p, const lin_weight *w, size_t row, size_t at, const size_t bits)
{
    const size_t n = (w->cols - at < DECODE_PIECE ? w->cols - at : DECODE_PIECE) / 8 * bits;
    if (p->at + n + CODES_READ > w->data + w->rows * w->row_bytes) p->at = memcpy(p->end, p->at, n);
    const unsigned shift  = w->group == 32 ? 5 : w->group == 64 ? 6 : 7;
    const size_t   scales = row * w->scale_row_bytes;
    p->pair_shift         = shift - 5;
    p->scale              = group_floats(p->mul, w->scales + scales, w->scale_type, at >> shift, w->cols >> shift);
    p->bias               = group_floats(p->add, w->biases + scales, w->scale_type, at >> shift, w->cols >> shift);
}

INLINE vf affine_floats(const piece *p, size_t i, const int half, const int bits)
{
    const size_t   group = i >> p->pair_shift;
    const vf       scale = vf_set1(p->scale[group]), bias = vf_set1(p->bias[group]);
    const uint8_t *codes = p->at + (2 * i + (size_t)half) * LANES / 8 * (size_t)bits;
#ifdef LEVEL_TABLES
    if (bits == 5)
        return vf_level2(all_levels(COUNTING, scale, bias, TIMES_PLUS), all_levels(FROM_16, scale, bias, TIMES_PLUS),
                         vc_codes(codes, bits));
    if (bits < 4) { /* the next code's bits count too: every level stands there for each of them */
        static const float again[][LANES] = {[2] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
                                             [3] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}};
        return vf_level(scaled(vf_load(again[bits]), scale, bias, TIMES_PLUS), vc_codes(codes, bits));
    }
#endif
    return scaled(vf_codes(codes, bits), scale, bias, TIMES_PLUS);
}

/* The scales of groups of 32, a byte each, as powers of two (base/half.h). */
INLINE void mx_open(piece *p, const lin_weight *w, size_t row, size_t at, const k_format format)
{
    const uint8_t *scales           = w->scales + row * w->scale_row_bytes + at / 32;
    uint8_t        few[PIECE_PAIRS] = {0};
    if (w->cols - at < DECODE_PIECE) scales = memcpy(few, scales, (w->cols - at) / 32);
    for (size_t i = 0; i < PIECE_PAIRS; i++) {
        const float scale = e8m0(scales[i]);
        p->mul[i]         = format == K_MLX_MXFP4 ? scale * 0.5f : scale;
    }
}

INLINE void nvfp4_open(piece *p, const lin_weight *w, size_t row, size_t at)
{
    const uint8_t *scales     = w->scales + row * w->scale_row_bytes + at / LANES;
    uint8_t        few[LANES] = {0};
    const size_t   n          = (w->cols - at) / LANES;
    if (n < PIECE_VECTORS) scales = memcpy(few, scales, n);
    vf_store(p->mul, vf_mul(vf_e4m3(scales), vf_set1(0.5f)));
}

/* ---- any format ---- */

/* Is a piece one block, whose vectors differ in where they lie? */
INLINE bool piece_is_whole(const k_format format)
{
    return k_is_block(format) && dtype_table[k_block_type(format)].elements == DECODE_PIECE;
}

/* `p` for columns at .. at+255 of a weight row; fewer ones if the row ends. */
INLINE void piece_open(piece *p, const lin_weight *w, size_t row, size_t at, const k_format format)
{
    const uint8_t *data = w->data + row * w->row_bytes;
    if (k_is_grouped(format))
        p->at = data + at / 8 * k_code_bits(format);
    else
        p->at = data + blocks_bytes(k_block_type(format), at);
    switch (format) {
    case K_AFFINE2:
    case K_AFFINE3:
    case K_AFFINE5:
    case K_AFFINE6: affine_open(p, w, row, at, k_code_bits(format)); break;
    case K_MLX_MXFP4:
    case K_MLX_MXFP8: mx_open(p, w, row, at, format); break;
    case K_MLX_NVFP4: nvfp4_open(p, w, row, at); break;
    case K_Q2_K: q2_k_open(p); break;
    case K_Q3_K: q3_k_open(p); break;
    case K_Q4_K:
    case K_Q5_K: q4_k_open(p); break;
    case K_Q6_K: q6_k_open(p); break;
    case K_IQ4_XS: iq4_xs_open(p); break;
    default: break;
    }
}

/* Vector 2 i + half. */
INLINE vf piece_floats(const piece *p, const int i, const int half, const k_format format)
{
    const size_t v = 2 * (size_t)i + (size_t)half;
    switch (format) {
    case K_AFFINE2: return affine_floats(p, (size_t)i, half, 2);
    case K_AFFINE3: return affine_floats(p, (size_t)i, half, 3);
    case K_AFFINE5: return affine_floats(p, (size_t)i, half, 5);
    case K_AFFINE6: return affine_floats(p, (size_t)i, half, 6);
    case K_MLX_MXFP4: return e2m1_floats(p->at + v * 8, vf_set1(p->mul[i]));
    case K_MLX_MXFP8: return vf_mul(vf_e4m3(p->at + v * LANES), vf_set1(p->mul[i]));
    case K_MLX_NVFP4: return e2m1_floats(p->at + v * 8, vf_set1(p->mul[v]));
    case K_Q2_K: return q2_k_floats(p, i, half);
    case K_Q3_K: return q3_k_floats(p, i, half);
    case K_Q4_K: return q4_k_floats(p, i, half);
    case K_Q5_K: return q5_k_floats(p, i, half);
    case K_Q6_K: return q6_k_floats(p, i, half);
    case K_IQ4_XS: return iq4_xs_floats(p, i, half);
    default: return short_floats(p, (size_t)i, half, format);
    }
}

#endif
