/* quant/affine.h - MLX affine quantisation, as a readable reference.
 *
 * A row's codes are one bit string, lowest bit first: code i occupies bits
 * i*b .. i*b+b-1, read as little-endian bytes.  Columns form groups of 32, 64
 * or 128; w = scale[group] * code + bias[group].  The scale may be negative. */
#ifndef QUANT_AFFINE_H
#define QUANT_AFFINE_H

#include "quant/dense.h"

typedef struct affine_row {
    uint32_t       bits, group; /* bits: 2, 3, 4, 5, 6 or 8 */
    const uint8_t *codes, *scales, *biases;
    dtype          scale_type; /* of scales and biases */
} affine_row;

/* Code i of the row. */
uint32_t affine_code(const affine_row *r, size_t i);
/* y[i] = scale * code rounded, + bias rounded; i < n, n a multiple of group. */
void affine_decode(float *y, const affine_row *r, size_t n);

#endif
