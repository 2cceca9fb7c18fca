/* engine/logprobs.h - log probabilities of the model's own distribution.
 *
 * Values are the log-softmax of the raw logits: before bias, penalties, bans
 * and temperature.  They are functions of the logits alone, with the same bits
 * on every machine.  Nothing allocates; any thread may call. */
#ifndef ENGINE_LOGPROBS_H
#define ENGINE_LOGPROBS_H

#include "weir/base.h"

enum { LOGPROBS_MAX_TOP = 20 };

typedef struct token_logprob {
    uint32_t id;
    double   logprob; /* natural logarithm, at most 0; -inf is possible */
} token_logprob;

typedef struct logprobs {
    token_logprob chosen;
    token_logprob top[LOGPROBS_MAX_TOP]; /* likeliest first, the lower id on ties */
    uint32_t      n_top;                 /* as asked, fewer when fewer tokens are possible */
} logprobs;

/* Log probabilities of token `chosen` and of the n_top likeliest among the
 * first n_valid of the logits (padding behind them is not looked at).
 * WEIR_NUMERICS when a logit is NaN or +inf or all are -inf; WEIR_INVALID when
 * n_top > LOGPROBS_MAX_TOP or chosen >= n_valid. */
weir_status logprobs_compute(logprobs *out, const float *logits, uint32_t n_valid, uint32_t chosen, uint32_t n_top,
                             weir_error *err);

#endif
