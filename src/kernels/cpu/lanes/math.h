/* kernels/cpu/lanes/math.h - scalar/math.h on 16 lanes, operation by operation. */
#ifndef KERNELS_CPU_LANES_MATH_H
#define KERNELS_CPU_LANES_MATH_H

#include "kernels/cpu/scalar/math.h"

INLINE vf vf_exp_scaled(vf x, vf k)
{
    x          = vf_max(vf_set1(MATH_EXP_LO), x);
    x          = vf_min(vf_set1(MATH_EXP_HI), x);
    const vf t = vf_fma(x, vf_set1(MATH_LOG2E), vf_set1(MATH_ROUND));
    const vf n = vf_sub(t, vf_set1(MATH_ROUND));
    const vf r = vf_fma(n, vf_set1(-MATH_LN2_LO), vf_fma(n, vf_set1(-MATH_LN2_HI), x));
    vf       p = vf_set1(math_exp_c[0]);
    for (int i = 1; i < 8; i++) p = vf_fma(p, r, vf_set1(math_exp_c[i]));
    return vf_scale_pow2(p, vf_add(t, k));
}

INLINE vf vf_exp(vf x)
{
    return vf_exp_scaled(x, vf_zero());
}

INLINE vf vf_log1p(vf x)
{
    const vf s = vf_div(x, vf_add(vf_set1(2.0f), x));
    const vf z = vf_mul(s, s);
    vf       p = vf_set1(math_atanh_c[0]);
    for (int i = 1; i < 7; i++) p = vf_fma(p, z, vf_set1(math_atanh_c[i]));
    return vf_fma(s, vf_fma(p, z, vf_neg(x)), x);
}

INLINE vf vf_over_1_plus_exp(vf y, vf x)
{
    const vf c = vf_by_sign(x, vf_set1(0x1p-32f), vf_set1(1.0f)), k = vf_by_sign(x, vf_set1(-32.0f), vf_zero());
    return vf_mul(vf_div(y, vf_add(c, vf_exp_scaled(vf_neg(x), k))), c);
}

INLINE vf vf_sigmoid(vf x)
{
    return vf_over_1_plus_exp(vf_set1(1.0f), x);
}

INLINE vf vf_silu(vf x)
{
    return vf_over_1_plus_exp(vf_max(vf_set1(-MATH_EXP_HI), x), x);
}

INLINE vf vf_softplus(vf x)
{
    return vf_add(vf_max(x, vf_zero()), vf_log1p(vf_exp(vf_neg(vf_abs(x)))));
}

#endif
