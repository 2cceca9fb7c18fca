/* engine/exp_sum.c - limits, exponentials, additions: a loop each over a block that
 * stays in the first cache, because compilers vectorise them only when apart. */
#include "engine/exp_sum.h"

#include "base/pmath.h"

void exp_sum_add(exp_sum *s, double x[EXP_SUM_BLOCK], uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = x[i] < -708.0 ? -708.0 : x[i];
    for (uint32_t i = 0; i < n; i++) x[i] = pmath_exp_normal(x[i]);

    uint32_t i = 0;
    for (; i + EXP_SUM_LANES <= n; i += EXP_SUM_LANES)
        for (uint32_t j = 0; j < EXP_SUM_LANES; j++) s->lane[j] += x[i + j];
    for (uint32_t j = 0; i < n; i++, j++) s->lane[j] += x[i];
}

double exp_sum_total(const exp_sum *s)
{
    exp_sum t = *s;
    for (uint32_t half = EXP_SUM_LANES / 2; half > 0; half /= 2)
        for (uint32_t j = 0; j < half; j++) t.lane[j] += t.lane[j + half];
    return t.lane[0];
}
