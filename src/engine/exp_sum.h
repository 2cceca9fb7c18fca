/* engine/exp_sum.h - the sum of many exponentials, in an order that never changes.
 *
 * Entry i goes to lane i % 16 in order of i; at the end lanes 8..15 are added to
 * 0..7, then 4..7 to 0..3, and so on.  Sixteen independent sums keep vector
 * registers busy and cost less rounding than one. */
#ifndef ENGINE_EXP_SUM_H
#define ENGINE_EXP_SUM_H

#include <stdint.h>

enum { EXP_SUM_LANES = 16, EXP_SUM_BLOCK = 256 };

typedef struct exp_sum {
    double lane[EXP_SUM_LANES]; /* start from all zero */
} exp_sum;

/* Adds exp(x[i]) for i < n <= EXP_SUM_BLOCK, x[i] <= 0; x is overwritten.  Only the
 * last call may have an n that is not a multiple of 16.  Below -708 an x counts as
 * -708, which changes no bit of a sum that is at least 1. */
void exp_sum_add(exp_sum *s, double x[EXP_SUM_BLOCK], uint32_t n);

double exp_sum_total(const exp_sum *s);

#endif
