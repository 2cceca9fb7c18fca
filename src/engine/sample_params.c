/* engine/sample_params.c - the ranges of the sampling parameters, and fresh seeds. */
#include "base/status.h"
#include "engine/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

/* A number that must lie in [min, max]; NaN never does. */
typedef struct ranged {
    const char *name;
    double      value, min, max;
} ranged;

static weir_status check_range(const ranged *r, weir_error *err)
{
    if (r->value >= r->min && r->value <= r->max) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s: expected %g to %g, found %g", r->name, r->min, r->max, r->value);
}

static weir_status check_bias(const weir_sample_params *p, uint32_t n_vocab, weir_error *err)
{
    if (p->n_logit_bias > 0 && p->logit_bias == NULL)
        return status_fail(err, WEIR_INVALID, "logit_bias: expected %zu entries, found none", p->n_logit_bias);
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const weir_logit_bias b = p->logit_bias[i];
        if (n_vocab > 0 && b.id >= n_vocab)
            return status_fail(err, WEIR_INVALID, "logit_bias: expected a token id below %" PRIu32 ", found %" PRIu32,
                               n_vocab, b.id);
        if (!(b.bias >= -100.0f && b.bias <= 100.0f))
            return status_fail(err, WEIR_INVALID, "logit_bias: expected -100 to 100 for token %" PRIu32 ", found %g",
                               b.id, (double)b.bias);
    }
    return WEIR_OK;
}

weir_status weir_sample_params_check(const weir_sample_params *p, uint32_t n_vocab, weir_error *err)
{
    if (p->size != sizeof *p)
        return status_fail(err, WEIR_INVALID, "size: expected %zu, found %zu", sizeof *p, p->size);

    const ranged fields[] = {
        {"temperature", p->temperature, 0, 5},
        {"top_p", p->top_p, 0, 1},
        {"min_p", p->min_p, 0, 1},
        {"presence_penalty", p->presence_penalty, -2, 2},
        {"frequency_penalty", p->frequency_penalty, -2, 2},
        {"xtc_probability", p->xtc_probability, 0, 1},
        {"xtc_threshold", p->xtc_threshold, 0, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) TRY(check_range(&fields[i], err));

    if (p->top_k < -1) return status_fail(err, WEIR_INVALID, "top_k: expected -1 or more, found %" PRId32, p->top_k);
    if (!(p->repetition_penalty > 0 && p->repetition_penalty <= 1e6))
        return status_fail(err, WEIR_INVALID, "repetition_penalty: expected above 0 to 1e6, found %g",
                           p->repetition_penalty);
    if (p->choice >= WEIR_MAX_CHOICES)
        return status_fail(err, WEIR_INVALID, "choice: expected 0 to %d, found %" PRIu32, WEIR_MAX_CHOICES - 1,
                           p->choice);
    return check_bias(p, n_vocab, err);
}

weir_status sample_fresh_seed(uint64_t *seed, weir_error *err)
{
    /* Requests of up to 256 bytes are never cut short. */
    if (getrandom(seed, sizeof *seed, 0) == (ssize_t)sizeof *seed) return WEIR_OK;
    return status_fail(err, WEIR_IO, "seed: no entropy from the system: %s", strerror(errno));
}
