/* base/pmath.c - exp, log, sin and cos from IEEE arithmetic alone.
 *
 * Each function reduces its argument to a small interval (W. J. Cody and W.
 * Waite, Software Manual for the Elementary Functions, 1980), sums the Taylor
 * series there, and adds the leading term last together with the rounding error
 * that this addition makes.  So nearly all of the error is the one final
 * rounding.  Taylor coefficients are used, not minimax ones: they cost a term
 * or two more and can be checked by looking at them. */
#include "base/pmath.h"

static const double INF = __builtin_inf(), NOT_A_NUMBER = __builtin_nan("");

/* 2^k for -1022 <= k <= 1023. */
static double power_of_two(int64_t k)
{
    return pmath_from_bits((uint64_t)(k + 1023) << 52);
}

double pmath_exp(double x)
{
    if (x >= -708.0 && x <= 708.0) return pmath_exp_normal(x);
    if (x != x) return x;
    if (x > 710.0) return INF;
    if (x < -746.0) return 0.0;

    uint64_t     bits;
    const double y = pmath_exp_reduced(x, &bits);
    const double k = (x * 0x1.71547652b82fep+0 + PMATH_ROUND) - PMATH_ROUND;
    /* In two factors: 2^k alone may not exist.  Only the last product rounds. */
    const int64_t half = (int64_t)k / 2;
    return y * power_of_two(half) * power_of_two((int64_t)k - half);
}

/* log(x) = k ln2 + log(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).  With
 * s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R),
 * R = 2/3 s^2 + 2/5 s^4 + ..., which keeps the large terms f and f^2/2 apart
 * from the series. */
double pmath_log(double x)
{
    if (!(x > 0.0)) return x == 0.0 ? -INF : NOT_A_NUMBER;
    if (x == INF) return x;

    int64_t k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    /* Moves the cut between binades from 1 to sqrt(1/2). */
    const uint64_t root = 0x3FE6A09E667F3BCDu;
    const uint64_t bits = pmath_bits(x) + (0x3FF0000000000000u - root);
    k += (int64_t)(bits >> 52) - 1023;
    const double f = pmath_from_bits((bits & 0x000FFFFFFFFFFFFFu) + root) - 1.0;

    const double s = f / (2.0 + f), z = s * s;
    double       p = 2.0 / 25.0;
    p              = p * z + 2.0 / 23.0;
    p              = p * z + 2.0 / 21.0;
    p              = p * z + 2.0 / 19.0;
    p              = p * z + 2.0 / 17.0;
    p              = p * z + 2.0 / 15.0;
    p              = p * z + 2.0 / 13.0;
    p              = p * z + 2.0 / 11.0;
    p              = p * z + 2.0 / 9.0;
    p              = p * z + 2.0 / 7.0;
    p              = p * z + 2.0 / 5.0;
    p              = p * z + 2.0 / 3.0;
    p *= z;

    const double half_square = 0.5 * f * f, n = (double)k;
    const double n_ln2 = n * 0x1.62e42fefa3800p-1; /* exact: 42 bits times 11 */
    const double sum = n_ln2 + f, lost = (n_ln2 - sum) + f;
    return sum + (lost - (half_square - (s * (half_square + p) + n * 0x1.ef35793c76730p-45)));
}

/* An angle less a multiple of pi/2: |r + low| <= pi/4, quarter counts mod 4. */
typedef struct reduced {
    double  r, low;
    int64_t quarter;
} reduced;

/* a + b without loss: *sum rounded, the rest returned (Knuth's two-sum). */
static double two_sum(double a, double b, double *sum)
{
    const double s = a + b, t = s - a;
    *sum = s;
    return (a - (s - t)) + (b - t);
}

/* x - n pi/2 with pi/2 in parts of 30 bits: |n| < 2^23 for |x| <= 1e7, so the
 * products with the first three are exact; the fourth leaves 2^-120, while no
 * double in this range is nearer than 2^-60 to a multiple of pi/2. */
static reduced reduce(double x)
{
    const double n = (x * 0x1.45f306dc9c883p-1 + PMATH_ROUND) - PMATH_ROUND;
    const double a = x - n * 0x1.921fb54800000p+0; /* exact: near neighbours */

    double       b, c, d;
    const double b_low = two_sum(a, n * 0x1.de973dc800000p-31, &b);
    const double c_low = two_sum(b, n * 0x1.9d9cceb800000p-62, &c);
    /* Both rests are exact; what is left is added from small to large. */
    const double rest = two_sum(b_low, c_low, &d) + n * 0x1.1fc8f8cbb5bf7p-93;
    double       e, r;
    const double e_low = two_sum(c, d, &e);
    const double r_low = two_sum(e, e_low + rest, &r);
    return (reduced){.r = r, .low = r_low, .quarter = (int64_t)n};
}

static double sine_near_zero(double r, double low)
{
    const double z = r * r;
    double       p = 1.0 / 355687428096000.0;
    p              = p * z - 1.0 / 1307674368000.0;
    p              = p * z + 1.0 / 6227020800.0;
    p              = p * z - 1.0 / 39916800.0;
    p              = p * z + 1.0 / 362880.0;
    p              = p * z - 1.0 / 5040.0;
    p              = p * z + 1.0 / 120.0;
    p              = p * z - 1.0 / 6.0;
    return r + (r * z * p + low * (1.0 - 0.5 * z));
}

static double cosine_near_zero(double r, double low)
{
    const double z = r * r;
    double       p = 1.0 / 6402373705728000.0;
    p              = 1.0 / 20922789888000.0 - p * z;
    p              = p * z - 1.0 / 87178291200.0;
    p              = p * z + 1.0 / 479001600.0;
    p              = p * z - 1.0 / 3628800.0;
    p              = p * z + 1.0 / 40320.0;
    p              = p * z - 1.0 / 720.0;
    p              = p * z + 1.0 / 24.0;

    const double half = 0.5 * z, main = 1.0 - half, lost = (1.0 - main) - half;
    return main + (lost + (z * z * p - r * low));
}

static double quarter_sine(const reduced *a, int64_t quarter)
{
    const double v = (quarter & 1) ? cosine_near_zero(a->r, a->low) : sine_near_zero(a->r, a->low);
    return (quarter & 2) ? -v : v;
}

void pmath_sincos(double x, double *sine, double *cosine)
{
    if (!(x >= -PMATH_MAX_ANGLE && x <= PMATH_MAX_ANGLE)) {
        *sine = *cosine = NOT_A_NUMBER;
        return;
    }
    const reduced a = reduce(x);
    /* sin(-0) is -0, which the sums above would lose. */
    *sine   = x == 0.0 ? x : quarter_sine(&a, a.quarter);
    *cosine = quarter_sine(&a, a.quarter + 1);
}

double pmath_sin(double x)
{
    double sine, cosine;
    pmath_sincos(x, &sine, &cosine);
    return sine;
}

double pmath_cos(double x)
{
    double sine, cosine;
    pmath_sincos(x, &sine, &cosine);
    return cosine;
}
