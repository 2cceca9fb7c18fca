/* kernels/cpu/scalar/math.h - exp, log1p, sigmoid, silu, softplus in single
 * precision from +, -, *, /, fma and bit patterns: the definition that the
 * vector sets repeat lane by lane (lanes/math.h), at most 2 ulp from the correctly
 * rounded value.
 *
 * exp: Cody-Waite reduction by ln 2 in two parts, then the degree-7 Taylor
 * polynomial on |r| <= ln2/2 (its remainder is below 2^-27), scaled in two
 * steps so that subnormal results round once.
 * log1p on [0, 1]: 2 atanh(s) with s = x / (2 + x) <= 1/3, odd series in s whose
 * first term 2s is written x - s x, so that the error of s counts little.
 * sigmoid and silu of negative x divide by 2^-32 (1 + e^-x), which does not
 * overflow, and scale afterwards, so that subnormal results round once too. */
#ifndef KERNELS_CPU_SCALAR_MATH_H
#define KERNELS_CPU_SCALAR_MATH_H

#include "base/half.h"

#include <math.h>

#define MATH_LOG2E 0x1.715476p+0f
#define MATH_LN2_HI 0x1.62e4p-1f /* 14 bits: n * LN2_HI is exact */
#define MATH_LN2_LO 0x1.7f7d1cp-20f
#define MATH_ROUND 0x1.8p23f /* adding it rounds to an integer, ties to even */
#define MATH_EXP_LO -104.0f  /* below: the result is 0 */
#define MATH_EXP_HI 110.0f   /* above: infinity, but finite times 2^-32 */

static const float math_exp_c[]   = {/* 1/7! ... 1/0! */
                                   0x1.a01a02p-13f, 0x1.6c16c2p-10f, 0x1.111112p-7f, 0x1.555556p-5f,
                                   0x1.555556p-3f,  0x1p-1f,         1.0f,           1.0f};
static const float math_atanh_c[] = {/* 2/15 ... 2/3 of the series 2(s + s^3/3 + ...) */
                                     0x1.111112p-3f, 0x1.3b13b2p-3f, 0x1.745d18p-3f, 0x1.c71c72p-3f,
                                     0x1.24924ap-2f, 0x1.99999ap-2f, 0x1.555556p-1f};

/* e^x * 2^k; k is 0 or -32. */
static inline float math_exp_scaled(float x, float k)
{
    x             = x < MATH_EXP_LO ? MATH_EXP_LO : x;
    x             = x > MATH_EXP_HI ? MATH_EXP_HI : x;
    const float t = fmaf(x, MATH_LOG2E, MATH_ROUND);
    const float n = t - MATH_ROUND;
    const float r = fmaf(n, -MATH_LN2_LO, fmaf(n, -MATH_LN2_HI, x));
    float       p = math_exp_c[0];
    for (int i = 1; i < 8; i++) p = fmaf(p, r, math_exp_c[i]);
    const uint32_t i      = f32_bits(t + k) - f32_bits(MATH_ROUND); /* n + k in two's complement */
    const uint32_t half   = (uint32_t)((int32_t)i >> 1);
    const float    scale1 = f32_from_bits((half + 127u) << 23);
    const float    scale2 = f32_from_bits((i - half + 127u) << 23);
    return p * scale1 * scale2;
}

static inline float math_exp(float x)
{
    return math_exp_scaled(x, 0.0f);
}

static inline float math_log1p(float x)
{
    const float s = x / (2.0f + x);
    const float z = s * s;
    float       p = math_atanh_c[0];
    for (int i = 1; i < 7; i++) p = fmaf(p, z, math_atanh_c[i]);
    return fmaf(s, fmaf(p, z, -x), x);
}

/* y / (1 + e^-x) for |y| <= max(1, |x|). */
static inline float math_over_1_plus_exp(float y, float x)
{
    const float c = signbit(x) ? 0x1p-32f : 1.0f, k = signbit(x) ? -32.0f : 0.0f;
    return y / (c + math_exp_scaled(-x, k)) * c;
}

static inline float math_sigmoid(float x)
{
    return math_over_1_plus_exp(1.0f, x);
}

static inline float math_silu(float x)
{
    const float low = x < -MATH_EXP_HI ? -MATH_EXP_HI : x; /* from there on the result is -0 */
    return math_over_1_plus_exp(low, x);
}

static inline float math_softplus(float x)
{
    const float a = x < 0.0f ? -x : x;
    return (x > 0.0f ? x : 0.0f) + math_log1p(math_exp(-a));
}

#endif
