/* kernels/cpu/lanes/math.h - scalar/math.h on 16 lanes, operation by operation. */
#ifndef KERNELS_CPU_LANES_MATH_H
#define KERNELS_CPU_LANES_MATH_H

#include "kernels/cpu/scalar/math.h"

INLINE vf vf_exp(vf x)
{
    x          = vf_max(vf_set1(MATH_EXP_LO), x);
    x          = vf_min(vf_set1(MATH_EXP_HI), x);
    const vf t = vf_fma(x, vf_set1(MATH_LOG2E), vf_set1(MATH_ROUND));
    const vf n = vf_sub(t, vf_set1(MATH_ROUND));
    const vf r = vf_fma(n, vf_set1(-MATH_LN2_LO), vf_fma(n, vf_set1(-MATH_LN2_HI), x));
    vf       p = vf_set1(math_exp_c[0]);
    for (int i = 1; i < 6; i++) p = vf_fma(p, r, vf_set1(math_exp_c[i]));
    p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f));
    return vf_scale_pow2(p, t);
}

INLINE vf vf_log1p(vf x)
{
    const vf s = vf_div(x, vf_add(vf_set1(2.0f), x));
    const vf z = vf_mul(s, s);
    vf       p = vf_set1(math_atanh_c[0]);
    for (int i = 1; i < 7; i++) p = vf_fma(p, z, vf_set1(math_atanh_c[i]));
    return vf_fma(p, vf_mul(s, z), vf_add(s, s));
}

INLINE vf vf_sigmoid(vf x)
{
    return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), vf_exp(vf_neg(x))));
}

INLINE vf vf_silu(vf x)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(x))));
}

INLINE vf vf_softplus(vf x)
{
    return vf_add(vf_max(x, vf_zero()), vf_log1p(vf_exp(vf_neg(vf_abs(x)))));
}

#endif
