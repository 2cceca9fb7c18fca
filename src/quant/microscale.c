/* quant/microscale.c - MLX's floating-point modes, decoding. */
#include "quant/microscale.h"

#include "base/half.h"

static const int8_t doubled_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float e4m3_value(uint8_t b)
{
    return f16_to_f32((uint16_t)((b & 0x80u) << 8 | (b & 0x7Fu) << 7)) * 256.0f;
}

void microscale_decode(float *y, microscale_mode mode, const uint8_t *codes, const uint8_t *scales, size_t n)
{
    const size_t group = mode == MICROSCALE_NVFP4 ? 16 : 32;
    for (size_t i = 0; i < n; i++) {
        const uint8_t s     = scales[i / group];
        const float   scale = mode == MICROSCALE_NVFP4 ? e4m3_value(s) : e8m0(s);
        if (mode == MICROSCALE_MXFP8)
            y[i] = e4m3_value(codes[i]) * scale;
        else
            y[i] = (float)doubled_e2m1[codes[i / 2] >> 4 * (i % 2) & 15] * (scale * 0.5f);
    }
}
