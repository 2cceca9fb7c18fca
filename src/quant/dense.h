/* quant/dense.h - plain floating-point storage: f32, IEEE half, bfloat16. */
#ifndef QUANT_DENSE_H
#define QUANT_DENSE_H

#include <stddef.h>
#include <stdint.h>

typedef enum dense_type { DENSE_F32, DENSE_F16, DENSE_BF16 } dense_type;

/* Bytes of one element. */
static inline size_t dense_bytes(dense_type t)
{
    return t == DENSE_F32 ? 4 : 2;
}

/* Element i of the little-endian array at p, any alignment. */
float dense_at(const uint8_t *p, dense_type t, size_t i);
/* y[i] = element i, i < n. */
void dense_decode(float *y, const uint8_t *p, dense_type t, size_t n);

#endif
