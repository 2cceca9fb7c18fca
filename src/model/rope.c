/* model/rope.c - rotary frequencies (Su et al., 2021) and YaRN (Peng et al., 2023).
 *
 * Built from + - * / and pmath, so that the table has the same bits everywhere. */
#include "base/pmath.h"
#include "model/model.h"

void rope_frequencies(double *inv_freq, uint32_t rotary_dim, double theta)
{
    const double log_theta = pmath_log(theta);
    for (uint32_t i = 0; i < rotary_dim / 2; i++) inv_freq[i] = pmath_exp(-(2.0 * i / rotary_dim) * log_theta);
}

/* The frequency index at which a wave turns beta times within the original context. */
static double index_of_turns(double beta, uint32_t rotary_dim, const rope_yarn *y)
{
    const double two_pi = 6.283185307179586476925286766559;
    return rotary_dim * pmath_log(y->original_positions / (beta * two_pi)) / (2.0 * pmath_log(y->theta));
}

void rope_apply_yarn(double *inv_freq, uint32_t rotary_dim, const rope_yarn *y)
{
    double lo = __builtin_floor(index_of_turns(y->beta_fast, rotary_dim, y));
    double hi = __builtin_ceil(index_of_turns(y->beta_slow, rotary_dim, y));
    if (lo < 0.0) lo = 0.0;
    if (hi > rotary_dim - 1.0) hi = rotary_dim - 1.0;
    if (lo == hi) hi += 0.001;
    for (uint32_t i = 0; i < rotary_dim / 2; i++) {
        double ramp = (i - lo) / (hi - lo);
        ramp        = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        inv_freq[i] = inv_freq[i] * ((1.0 - ramp) + ramp / y->factor);
    }
}
