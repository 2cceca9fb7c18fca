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

void dense_put(uint8_t *p, dtype t, size_t i, float x)
{
    const uint16_t half = t == DTYPE_F16 ? f16_from_f32(x) : bf16_from_f32(x);
    if (t == DTYPE_F32)
        memcpy(p + 4 * i, &x, sizeof x);
    else
        memcpy(p + 2 * i, &half, sizeof half);
}

float dense_round(dtype t, float x)
{
    switch (t) {
    case DTYPE_F16: return f16_to_f32(f16_from_f32(x));
    case DTYPE_BF16: return bf16_to_f32(bf16_from_f32(x));
    default: return x;
    }
}
