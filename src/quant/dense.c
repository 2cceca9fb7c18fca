/* quant/dense.c - plain floating-point storage. */
#include "quant/dense.h"

#include "base/bytes.h"
#include "base/half.h"

float dense_at(const uint8_t *p, dtype t, size_t i)
{
    switch (t) {
    case DTYPE_F32: return load_f32(p + 4 * i);
    case DTYPE_F16: return f16_to_f32(load_u16(p + 2 * i));
    case DTYPE_BF16: return bf16_to_f32(load_u16(p + 2 * i));
    default: return 0.0f;
    }
}

void dense_decode(float *y, const uint8_t *p, dtype t, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = dense_at(p, t, i);
}
