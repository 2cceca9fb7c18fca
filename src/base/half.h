/* base/half.h - bfloat16 and IEEE binary16 as 16-bit patterns. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

/* To nearest, ties to even; NaN stays NaN. */
static inline uint16_t bf16_from_f32(float f)
{
    const uint32_t u = f32_bits(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

static inline float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 31u, man = h & 0x3FFu;
    if (exp == 31) return f32_from_bits(sign | 0x7F800000u | man << 13);
    if (exp != 0) return f32_from_bits(sign | (exp + 112) << 23 | man << 13);
    const float tiny = (float)man * 0x1p-24f; /* zero and subnormals: exact */
    return f32_from_bits(sign | f32_bits(tiny));
}

/* To nearest, ties to even; what is too large becomes infinity, NaN stays NaN. */
static inline uint16_t f16_from_f32(float f)
{
    const uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (a >> 13 & 0x3FFu));
    if (a >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520, halfway past the largest */
    if (a >= 0x38800000u) return (uint16_t)(sign | (a - 0x38000000u + 0xFFFu + (a >> 13 & 1u)) >> 13);
    /* Below 2^-14 the steps are 2^-24: adding 1/2, whose own steps they are, rounds to them. */
    return (uint16_t)(sign | (f32_bits(f32_from_bits(a) + 0.5f) - 0x3F000000u));
}

/* 2^(e - 127), the shared scale of microscaling formats (E8M0), and half of it. */
static inline float e8m0(uint32_t e)
{
    const uint32_t bits = e << 23;
    return f32_from_bits(bits > 0x00400000u ? bits : 0x00400000u);
}
static inline float e8m0_half(uint32_t e)
{
    return f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

#endif
