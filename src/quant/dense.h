/* quant/dense.h - plain floating-point storage: f32, IEEE half, bfloat16. */
#ifndef QUANT_DENSE_H
#define QUANT_DENSE_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* Is it one of the three?  The functions below take no others. */
static inline bool dense_is(dtype t)
{
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

/* Element i of the little-endian array at p, any alignment. */
float dense_at(const uint8_t *p, dtype t, size_t i);
/* y[i] = element i, i < n. */
void dense_decode(float *y, const uint8_t *p, dtype t, size_t n);
/* Element i becomes x, to nearest, ties to even. */
void dense_put(uint8_t *p, dtype t, size_t i, float x);
/* x rounded to the type and back. */
float dense_round(dtype t, float x);

#endif
