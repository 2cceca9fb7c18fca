/* engine/sample.h - logits to token id: a pure function.
 *
 * The result depends on what sample_input holds and on nothing else: not on the
 * batch, the thread, earlier draws, or the machine (exp and log are pmath's,
 * random bits are Philox's).  weir/sample.h has the order of the steps.
 *
 * The draw is Gumbel-max: the token with the largest x + g, where x is its
 * scaled logit and g = -log(-log(u)), has exactly the probability softmax(x).
 * u belongs to (seed, choice, position, token id), so a drafter that guesses the
 * distribution well and uses the same u tends to guess the same token.
 *
 * Nothing here allocates: the caller gives a workspace, one per thread. */
#ifndef ENGINE_SAMPLE_H
#define ENGINE_SAMPLE_H

#include "engine/candidates.h"
#include "weir/sample.h"

typedef struct sample_input {
    const float *logits;   /* [n_logits], not changed */
    uint32_t     n_logits; /* rows of the head, at most the workspace's n_vocab */
    uint32_t     n_valid;  /* ids of the tokenizer; rows from here on are padding and never chosen */

    const weir_sample_params *params; /* passed weir_sample_params_check */

    /* What the penalties look at, drafts accepted so far included: a verified
     * token must meet the penalties it would have met one at a time.  Ids from
     * n_valid on are ignored. */
    const uint32_t *prompt, *generated;
    size_t          n_prompt, n_generated;

    uint32_t position; /* absolute index in the sequence of the token to be drawn */

    const uint32_t *eos; /* ids that end the text */
    size_t          n_eos;
    const uint32_t *newlines; /* ids XTC must not drop, besides eos */
    size_t          n_newlines;
    /* Grammar and other hard constraints: bit id % 64 of word id / 64 set =
     * allowed, ceil(n_valid / 64) words.  NULL: everything is allowed. */
    const uint64_t *allowed;
} sample_input;

typedef struct sample_workspace {
    uint32_t   n_vocab;
    float     *z;    /* [n_vocab]: the logits after bias, penalties and bans */
    uint32_t  *seen; /* [n_vocab]: penalty counts; all zero between calls */
    candidate *c;    /* [n_vocab] */
} sample_workspace;

/* The tokens left after all filters.  Borrowed from the workspace until its next use. */
typedef struct sample_set {
    const candidate *c; /* sorted best first when top_k or top_p was on, else by id */
    uint32_t         n; /* at least 1 */
    float            z_max;
    double           temperature;
} sample_set;

/* Bytes for a vocabulary of n_vocab rows. */
size_t sample_workspace_bytes(uint32_t n_vocab);

/* Lays a workspace out in `memory` (8-byte aligned, zeroed, of that size, owned by the caller). */
void sample_workspace_init(sample_workspace *ws, void *memory, uint32_t n_vocab);

/* Every step but the draw.  WEIR_NUMERICS when a logit is NaN or +inf or no
 * token is left; WEIR_INVALID when n_valid or n_logits do not fit. */
weir_status sample_filter(sample_set *out, const sample_input *in, sample_workspace *ws, weir_error *err);

/* The draw from a filtered set, by the seed, choice and position of `in`. */
uint32_t sample_draw(const sample_set *set, const sample_input *in);

/* sample_filter and sample_draw. */
weir_status sample_token(uint32_t *id, const sample_input *in, sample_workspace *ws, weir_error *err);

/* Log of the sum of exp((z - z_max) / temperature) over the set.  The log
 * probability of c[i] within the set is (z - z_max) / temperature less this. */
double sample_set_log_total(const sample_set *set);

/* Steps 2 to 4 (sample_row.c): bias, penalties and bans on z[n_valid], in place.
 * sample_row_plain tells that they would change nothing. */
bool sample_row_plain(const sample_input *in);
void sample_row_process(float *z, const sample_input *in, sample_workspace *ws);

/* A seed from the system's entropy (sample_params.c). */
weir_status sample_fresh_seed(uint64_t *seed, weir_error *err);

#endif
