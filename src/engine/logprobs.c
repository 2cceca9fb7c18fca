/* engine/logprobs.c - log-softmax in a fixed order of summation.
 *
 * log p_i = (z_i - z_max) - log(sum of exp(z_j - z_max)), all in double; the
 * sum runs over the ids in order, in the 16 lanes of exp_sum.h. */
#include "engine/logprobs.h"

#include "base/pmath.h"
#include "base/status.h"
#include "engine/candidates.h"
#include "engine/exp_sum.h"

#include <inttypes.h>

static double log_sum_exp(const float *z, uint32_t n, double z_max)
{
    exp_sum sum = {0};
    for (uint32_t begin = 0; begin < n; begin += EXP_SUM_BLOCK) {
        double         x[EXP_SUM_BLOCK];
        const uint32_t size = n - begin < EXP_SUM_BLOCK ? n - begin : EXP_SUM_BLOCK;
        for (uint32_t i = 0; i < size; i++) x[i] = (double)z[begin + i] - z_max;
        exp_sum_add(&sum, x, size);
    }
    return pmath_log(exp_sum_total(&sum));
}

weir_status logprobs_compute(logprobs *out, const float *logits, uint32_t n_valid, uint32_t chosen, uint32_t n_top,
                             weir_error *err)
{
    if (n_top > LOGPROBS_MAX_TOP)
        return status_fail(err, WEIR_INVALID, "top_logprobs: expected 0 to %d, found %" PRIu32, LOGPROBS_MAX_TOP,
                           n_top);
    if (chosen >= n_valid)
        return status_fail(err, WEIR_INVALID, "logprobs: expected a token id below %" PRIu32 ", found %" PRIu32,
                           n_valid, chosen);
    float max;
    if (!logits_max(logits, n_valid, &max)) return status_fail(err, WEIR_NUMERICS, "logits: NaN or infinity");
    if (max == -__builtin_inff()) return status_fail(err, WEIR_NUMERICS, "logits: all are -infinity");

    const double z_max = (double)max, log_sum = log_sum_exp(logits, n_valid, z_max);
    out->chosen = (token_logprob){chosen, ((double)logits[chosen] - z_max) - log_sum};

    candidate best[LOGPROBS_MAX_TOP];
    out->n_top = candidates_best(best, n_top, logits, n_valid);
    for (uint32_t i = 0; i < out->n_top; i++)
        out->top[i] = (token_logprob){best[i].id, ((double)best[i].z - z_max) - log_sum};
    return WEIR_OK;
}
