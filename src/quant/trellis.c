/* quant/trellis.c - packed trellis weights, decoding. */
#include "quant/trellis.h"

#include "base/bytes.h"
#include "base/half.h"

uint32_t trellis_state(const uint8_t *block, uint32_t bits, uint32_t t)
{
    const uint32_t bit = (TRELLIS_BLOCK - 1 - t) * bits, words = TRELLIS_BLOCK * bits / 32, at = bit / 32;
    const uint32_t next = at + 1 == words ? 0 : at + 1; /* the end runs into the start */
    const uint64_t both = (uint64_t)load_u32(block + 4 * (size_t)next) << 32 | load_u32(block + 4 * (size_t)at);
    return (uint32_t)(both >> bit % 32) & (TRELLIS_STATES - 1);
}

int32_t trellis_level(uint32_t state)
{
    const uint32_t x = state * (uint32_t)TRELLIS_MULTIPLIER + (uint32_t)TRELLIS_ADDEND;
    return (int32_t)((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24)) - TRELLIS_BYTES_MEAN;
}

float trellis_code(uint32_t state)
{
    return (float)trellis_level(state) / TRELLIS_DIVISOR;
}

float trellis_weight(uint32_t state, float scale)
{
    return bf16_to_f32(bf16_from_f32(trellis_code(state) * scale));
}

/* scale / 147.8, but for two of the 1024 significands that a half may have: there the code's own
 * rounding takes a weight over the middle between two neighbours, and the next lower factor
 * follows it. */
float trellis_factor(float scale)
{
    const uint32_t significand = f32_bits(scale) >> 13 & 1023u;
    const float    factor      = scale / TRELLIS_DIVISOR;
    return significand == 377 || significand == 667 ? f32_from_bits(f32_bits(factor) - 1) : factor;
}

void trellis_decode(float *y, const uint8_t *row, uint32_t bits, uint16_t scale, size_t at, size_t n)
{
    const float s = f16_to_f32(scale);
    for (size_t i = at; i < at + n; i++) {
        const uint8_t *block = row + i / TRELLIS_BLOCK * trellis_block_bytes(bits);
        *y++                 = trellis_weight(trellis_state(block, bits, (uint32_t)(i % TRELLIS_BLOCK)), s);
    }
}
