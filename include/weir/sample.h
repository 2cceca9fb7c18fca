/* include/weir/sample.h - how the next token is chosen from the logits.
 *
 * The steps, in this order: logit bias; repetition, then presence and frequency
 * penalty; bans (end-of-text, ids without a token, a grammar); temperature; top_k; top_p; min_p; XTC;
 * one draw.  The same parameters, seed and token history give the same token
 * on every machine, whatever else the engine is doing. */
#ifndef WEIR_SAMPLE_H
#define WEIR_SAMPLE_H

#include "weir/base.h"

#include <stdbool.h>

/* Added to the logit of one token; -100 and below bans the token. */
typedef struct weir_logit_bias {
    uint32_t id;
    float    bias; /* -100 to 100 */
} weir_logit_bias;

enum { WEIR_MAX_CHOICES = 16 };

/* Start from WEIR_SAMPLE_PARAMS_INIT, which changes nothing: the model's own
 * distribution, a new seed for every generation. */
typedef struct weir_sample_params {
    size_t size; /* sizeof(weir_sample_params): the struct may grow */

    /* Divides the logits: below 1 bolder, above 1 wilder.  0 takes the most
     * likely token, the lowest id on ties, and uses no randomness.  0 to 5. */
    double temperature;
    /* Keeps the k most likely tokens, the lower id on ties.  0 or -1: all. */
    int32_t top_k;
    /* Keeps the fewest most likely tokens whose probabilities sum to at least
     * this, the one that crosses included.  0 to 1; 1: all. */
    double top_p;
    /* Keeps tokens at least this fraction as likely as the likeliest.  0 to 1; 0: all. */
    double min_p;

    /* Each distinct token of the window has its logit divided (if positive) or
     * multiplied (if negative) by this.  Above 0; 1: off.  The window is the
     * last repetition_window tokens of prompt and generated text; 0: all. */
    double   repetition_penalty;
    uint32_t repetition_window;
    /* Subtracted once from the logit of every token that was generated within
     * the last presence_window tokens (0: all).  -2 to 2; 0: off. */
    double   presence_penalty;
    uint32_t presence_window;
    /* Subtracted from a token's logit once per occurrence among the last
     * frequency_window generated tokens (0: all).  -2 to 2; 0: off. */
    double   frequency_penalty;
    uint32_t frequency_window;
    /* Presence and frequency see the prompt as well, as llama.cpp and Ollama
     * have it.  Off: generated tokens only, as OpenAI and vLLM have it. */
    bool penalize_prompt;

    /* XTC, "exclude top choices": with this probability (0 to 1; 0: off) all
     * tokens of at least xtc_threshold (0 to 1) are dropped save the least
     * likely of them; end-of-text and newline tokens are never dropped. */
    double xtc_probability;
    double xtc_threshold;

    /* Picks the random numbers.  With fresh_seed the engine replaces it by
     * entropy from the system when generation starts. */
    uint64_t seed;
    bool     fresh_seed;
    /* Which of several answers to one request this is, 0 to 15: each has its
     * own random numbers under one seed. */
    uint32_t choice;

    /* n_logit_bias entries, each id at most once.  Borrowed: must live as long as the generation. */
    const weir_logit_bias *logit_bias;
    size_t                 n_logit_bias;

    /* No end-of-text token before this many tokens are generated. */
    uint32_t min_tokens;
    /* No end-of-text token at all. */
    bool ignore_eos;
} weir_sample_params;

#define WEIR_SAMPLE_PARAMS_INIT \
    { \
        .size = sizeof(weir_sample_params), .temperature = 1, .top_p = 1, .repetition_penalty = 1, \
        .xtc_threshold = 0.1, .fresh_seed = true \
    }

/* Checks every field against the range given above, ids against n_vocab (0:
 * not checked).  WEIR_INVALID with "field: expected range, found value". */
WEIR_API weir_status weir_sample_params_check(const weir_sample_params *p, uint32_t n_vocab, weir_error *err);

#endif
