/* quant/trellis_encode.h - packed trellis weights (quant/trellis.h), encoding.
 *
 * Whatever symbols a block stores are a walk through the states; encoding finds the
 * walk whose numbers, S * code(state), are nearest to the weights, S the row's scale. */
#ifndef QUANT_TRELLIS_ENCODE_H
#define QUANT_TRELLIS_ENCODE_H

#include "quant/trellis.h"

#include <stdbool.h>

/* Any of the widths that are made? */
static inline bool trellis_encode_is(uint32_t bits)
{
    return bits >= 2 && bits <= 4;
}

/* What the encoder reads all the time, for one width; 48 KiB. */
typedef struct trellis_encode_tables {
    uint32_t bits;
    bool     wide;     /* use registers of 256 bits */
    double   per_size; /* 1 / sqrt(mean of code^2) */
    float    of_state[TRELLIS_STATES];
    /* code and code^2 in the order of the steps */
    float code[TRELLIS_STATES], square[TRELLIS_STATES];
} trellis_encode_tables;

/* `wide` is for tests, and simd_wide() otherwise: the result is the same. */
void trellis_encode_prepare(trellis_encode_tables *t, uint32_t bits, bool wide);

/* *scale becomes the scale of the n numbers of a row, as half precision bits,
 * and x what is left for the blocks: x / S.  A row whose scale is 0 in half
 * precision stays as it is and is 0 when decoded.  False when a number is not
 * finite, or the scale too large for half precision. */
bool trellis_encode_scale(uint16_t *scale, float *x, size_t n, const trellis_encode_tables *t);

/* Floats of `work` that each thread needs for trellis_encode_blocks: 2 MiB with 2 bits. */
static inline size_t trellis_encode_work(uint32_t bits)
{
    return (size_t)2 * TRELLIS_BLOCK << (TRELLIS_STATE_BITS - bits);
}

/* n blocks of 32 * bits bytes for 256 finite numbers each, already divided by
 * the scale.  A block depends on its own numbers alone; two at a time are made
 * faster than one. */
void trellis_encode_blocks(uint8_t *out, const float *x, size_t n, const trellis_encode_tables *t, float *work);

#endif
