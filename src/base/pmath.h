/* base/pmath.h - exp, log, sin and cos with the same bits on every machine.
 *
 * libm's results differ between C libraries, versions and CPUs, so text that
 * was sampled through it would too.  These are built from IEEE-754 double
 * + - * / and bit patterns only: no libm, no fused multiply-add, no tables, no
 * state.  That fixes the bits as long as the compiler does not contract or
 * reorder (-ffp-contract=off, no fast-math) and the rounding mode is nearest.
 *
 * Error: at most 1 unit in the last place (0.75 for exp, 0.85 for log, 0.79 for
 * sin and cos, over three million arguments each).  Any thread may call them. */
#ifndef BASE_PMATH_H
#define BASE_PMATH_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "pmath needs double arithmetic without excess precision"
#endif

/* e^x.  Over- and underflow give inf and 0, subnormal results are rounded
 * once; exp(NaN) is NaN. */
double pmath_exp(double x);

/* Natural logarithm.  log(0) is -inf, log of a negative number NaN. */
double pmath_log(double x);

/* Sine and cosine of x radians for |x| <= PMATH_MAX_ANGLE; NaN beyond, where the
 * reduction would lose digits (and for inf and NaN).  pmath_sincos gives the
 * bits of the two single calls. */
#define PMATH_MAX_ANGLE 1e7
double pmath_sin(double x);
double pmath_cos(double x);
void   pmath_sincos(double x, double *sine, double *cosine);

static inline double pmath_from_bits(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static inline uint64_t pmath_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

/* Adding it leaves the nearest integer in the low bits of the sum. */
#define PMATH_ROUND 0x1.8p52

/* exp without its scale: e^x = y * 2^k, y in [0.70, 1.42], for |x| <= 746.
 * k is left in the low bits of *k_bits.
 *
 * x = k ln2 + r + r_low, |r| <= ln2/2; the product k * ln2_high is exact because
 * that constant has 42 bits.  e^r is its Taylor sum up to r^14 / 14!, 1 + r
 * being added last with its rounding error carried along. */
static inline double pmath_exp_reduced(double x, uint64_t *k_bits)
{
    const double shifted = x * 0x1.71547652b82fep+0 + PMATH_ROUND;
    const double k       = shifted - PMATH_ROUND;
    const double high = x - k * 0x1.62e42fefa3800p-1, low = k * 0x1.ef35793c76730p-45;
    const double r = high - low, r_low = (high - r) - low;

    double p = 1.0 / 87178291200.0;
    p        = p * r + 1.0 / 6227020800.0;
    p        = p * r + 1.0 / 479001600.0;
    p        = p * r + 1.0 / 39916800.0;
    p        = p * r + 1.0 / 3628800.0;
    p        = p * r + 1.0 / 362880.0;
    p        = p * r + 1.0 / 40320.0;
    p        = p * r + 1.0 / 5040.0;
    p        = p * r + 1.0 / 720.0;
    p        = p * r + 1.0 / 120.0;
    p        = p * r + 1.0 / 24.0;
    p        = p * r + 1.0 / 6.0;
    p        = p * r + 0.5;

    const double sum = 1.0 + r, lost = (1.0 - sum) + r;
    *k_bits = pmath_bits(shifted);
    return sum + (lost + (r_low + r * r * p));
}

/* pmath_exp for |x| <= 708 without branches, so that a loop over it vectorises.
 * Outside that range the result is unspecified. */
static inline double pmath_exp_normal(double x)
{
    uint64_t     k;
    const double y = pmath_exp_reduced(x, &k);
    return pmath_from_bits(pmath_bits(y) + (k << 52));
}

#endif
