/* engine/sample_row.c - what is done to single logits before any comparison:
 * bias, penalties for repetition, bans.
 *
 * Each token of the history is visited once per penalty and touches one logit,
 * so the cost is that of the window, not of the vocabulary.  Penalties are computed
 * in double and rounded to float once each. */
#include "engine/sample.h"

#include <string.h>

static const float BANNED = -__builtin_inff();

/* A suffix of prompt and generated tokens, read as one list. */
typedef struct window {
    const uint32_t *prompt, *generated;
    size_t          n_prompt, begin, end;
} window;

static window last_tokens(const sample_input *in, uint32_t length, bool with_prompt)
{
    const size_t n_prompt = with_prompt ? in->n_prompt : 0, n = n_prompt + in->n_generated;
    return (window){.prompt    = in->prompt,
                    .generated = in->generated,
                    .n_prompt  = n_prompt,
                    .begin     = length == 0 || length > n ? 0 : n - length,
                    .end       = n};
}

static uint32_t window_at(const window *w, size_t i)
{
    return i < w->n_prompt ? w->prompt[i] : w->generated[i - w->n_prompt];
}

static void add_bias(float *z, const sample_input *in)
{
    const weir_sample_params *p = in->params;
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const weir_logit_bias b = p->logit_bias[i];
        if (b.id < in->n_valid) z[b.id] = b.bias <= -100.0f ? BANNED : z[b.id] + b.bias;
    }
}

static void penalize_repetition(float *z, const sample_input *in, uint32_t *seen)
{
    const double r = in->params->repetition_penalty;
    const window w = last_tokens(in, in->params->repetition_window, true);
    for (size_t i = w.begin; i < w.end; i++) {
        const uint32_t id = window_at(&w, i);
        if (id >= in->n_valid || seen[id] != 0) continue;
        seen[id]       = 1;
        const double v = z[id];
        z[id]          = (float)(v > 0 ? v / r : v * r);
    }
    for (size_t i = w.begin; i < w.end; i++) {
        const uint32_t id = window_at(&w, i);
        if (id < in->n_valid) seen[id] = 0;
    }
}

/* seen[id] is the count within the frequency window, with the top bit set when
 * the token is in the presence window.  The windows are suffixes of one list,
 * so the longer one visits every token that has something to be subtracted. */
static void penalize_presence_and_frequency(float *z, const sample_input *in, uint32_t *seen)
{
    const weir_sample_params *p       = in->params;
    const uint32_t            PRESENT = 1u << 31;

    window longest = {0};
    if (p->frequency_penalty != 0) {
        const window w = last_tokens(in, p->frequency_window, p->penalize_prompt);
        for (size_t i = w.begin; i < w.end; i++)
            if (window_at(&w, i) < in->n_valid) seen[window_at(&w, i)]++;
        longest = w;
    }
    if (p->presence_penalty != 0) {
        const window w = last_tokens(in, p->presence_window, p->penalize_prompt);
        for (size_t i = w.begin; i < w.end; i++)
            if (window_at(&w, i) < in->n_valid) seen[window_at(&w, i)] |= PRESENT;
        if (longest.end == 0 || w.begin < longest.begin) longest = w;
    }
    for (size_t i = longest.begin; i < longest.end; i++) {
        const uint32_t id = window_at(&longest, i);
        if (id >= in->n_valid || seen[id] == 0) continue;
        const double count = seen[id] & ~PRESENT, present = (seen[id] & PRESENT) ? 1 : 0;
        z[id]    = (float)((double)z[id] - (p->presence_penalty * present + p->frequency_penalty * count));
        seen[id] = 0;
    }
}

static bool eos_banned(const sample_input *in)
{
    return in->n_eos > 0 && (in->params->ignore_eos || in->n_generated < in->params->min_tokens);
}

static void ban_disallowed(float *z, const uint64_t *allowed, uint32_t n)
{
    for (uint32_t base = 0; base < n; base += 64) {
        const uint64_t word = allowed[base / 64];
        if (word == UINT64_MAX) continue;
        const uint32_t end = n - base < 64 ? n - base : 64;
        for (uint32_t i = 0; i < end; i++) z[base + i] = word >> i & 1 ? z[base + i] : BANNED;
    }
}

bool sample_row_plain(const sample_input *in)
{
    const weir_sample_params *p = in->params;
    return p->n_logit_bias == 0 && p->repetition_penalty == 1 && p->presence_penalty == 0 &&
           p->frequency_penalty == 0 && !eos_banned(in) && in->allowed == NULL;
}

void sample_row_process(float *z, const sample_input *in, sample_workspace *ws)
{
    const weir_sample_params *p = in->params;
    add_bias(z, in);
    if (p->repetition_penalty != 1) penalize_repetition(z, in, ws->seen);
    if (p->presence_penalty != 0 || p->frequency_penalty != 0) penalize_presence_and_frequency(z, in, ws->seen);
    if (eos_banned(in)) {
        for (size_t i = 0; i < in->n_eos; i++)
            if (in->eos[i] < in->n_valid) z[in->eos[i]] = BANNED;
    }
    if (in->allowed != NULL) ban_disallowed(z, in->allowed, in->n_valid);
}
