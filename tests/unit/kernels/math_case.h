/* tests/unit/kernels/math_case.h - how far a function is from the truth: at most
 * 2 units in the last place from the correctly rounded value. */
#ifndef TESTS_KERNELS_MATH_CASE_H
#define TESTS_KERNELS_MATH_CASE_H

#include "support/cmocka.h"

#include "base/half.h"
#include "kernels/cpu/isa.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ULP = 2 };

typedef void each_fn(float *y, const float *x, size_t n);

/* Floats in order of value, both zeros at 0. */
static inline int64_t place(float x)
{
    const uint32_t u = f32_bits(x);
    return (u >> 31) != 0 ? -(int64_t)(u & 0x7FFFFFFFu) : (int64_t)u;
}

/* Distances of one function: in floats from the correctly rounded one, and in
 * units of the result's last place (those of subnormals are 2^-149) from the truth. */
typedef struct worst {
    int64_t steps;
    double  ulp;
    float   x;
    size_t  n;
} worst;

static inline double ulp_of(double y)
{
    int exponent;
    (void)frexp(y, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static inline void compare(worst *w, const char *name, float x, float found, double truth)
{
    w->n++;
    const float expected = (float)truth;
    if (isnan(expected) || isnan(found)) {
        if (!isnan(expected) || !isnan(found))
            fail_msg("%s(%a): expected %a, found %a", name, (double)x, truth, (double)found);
        return;
    }
    const int64_t steps = llabs(place(found) - place(expected));
    if (steps > MAX_ULP) fail_msg("%s(%a): expected %a, found %a", name, (double)x, truth, (double)found);
    if (steps > w->steps) w->steps = steps;
    const double ulp = isinf(found) || isinf(expected) ? 0.0 : fabs((double)found - truth) / ulp_of(truth);
    if (ulp > w->ulp) {
        w->ulp = ulp;
        w->x   = x;
    }
}

static inline void report(const char *name, const worst *w)
{
    (void)printf("%s: %zu values, at most %lld from the correctly rounded float; %.3f ulp from the truth, at %a\n",
                 name, w->n, (long long)w->steps, w->ulp, (double)w->x);
}

#endif
