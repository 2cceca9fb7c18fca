/* quant/affine.c - MLX affine quantisation, decoding. */
#include "quant/affine.h"

uint32_t affine_code(const affine_row *r, size_t i)
{
    const size_t bit = i * r->bits, at = bit / 8, shift = bit % 8;
    uint32_t     value = r->codes[at];
    if (shift + r->bits > 8) value |= (uint32_t)r->codes[at + 1] << 8;
    return value >> shift & ((1u << r->bits) - 1u);
}

void affine_decode(float *y, const affine_row *r, size_t n)
{
    for (size_t g = 0; g < n / r->group; g++) {
        const float scale = dense_at(r->scales, r->scale_type, g), bias = dense_at(r->biases, r->scale_type, g);
        for (size_t i = g * r->group; i < (g + 1) * r->group; i++) y[i] = scale * (float)affine_code(r, i) + bias;
    }
}
