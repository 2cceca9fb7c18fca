/* quant/affine.h - MLX affine quantisation, as a readable reference.
 *
 * A row's codes are one bit string, lowest bit first: code i occupies bits
 * i*b .. i*b+b-1, read as little-endian bytes.  Columns form groups of 32, 64
 * or 128; w = scale[group] * code + bias[group].  The scale may be negative. */
#ifndef QUANT_AFFINE_H
#define QUANT_AFFINE_H

#include "quant/dense.h"

/* Any of the widths and group sizes that exist? */
static inline bool affine_is(uint32_t bits, uint32_t group)
{
    return bits <= 8 && (0x17Cu >> bits & 1u) != 0 && (group == 32 || group == 64 || group == 128);
}

typedef struct affine_row {
    uint32_t       bits, group; /* bits: 2, 3, 4, 5, 6 or 8 */
    const uint8_t *codes, *scales, *biases;
    dtype          scale_type; /* of scales and biases */
} affine_row;

/* Code i of the row. */
uint32_t affine_code(const affine_row *r, size_t i);
/* y[i] = scale * code rounded, + bias rounded; i < n, n a multiple of group. */
void affine_decode(float *y, const affine_row *r, size_t n);

/* Where a row is written: n * bits / 8 bytes of codes, n / group scales and biases. */
typedef struct affine_target {
    uint32_t bits, group;
    uint8_t *codes, *scales, *biases;
    dtype    scale_type;
} affine_target;

/* Quantises the n numbers of a row, n a multiple of group.  False when one of
 * them is not finite, or too large for its group's range to be; what was
 * written is of no use then. */
bool affine_encode(const affine_target *r, const float *x, size_t n);

#endif
