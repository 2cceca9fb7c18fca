/* engine/generation.h - one reply: tokens drawn, shown and counted until
 * something ends it.
 *
 * Every token takes the same path, whether it was drawn from the logits of a
 * prompt, of a single step or of a window over drafts: draw, count, compare with
 * the end ids, move the channel, detokenize, look for stop strings, hand out.
 *
 * Some tokens are not drawn but told in advance: what closes reasoning that is too
 * long, and what the content is to begin with.  From when on follows from the tokens
 * before, so it is the same with drafts (which are right if they guess it). */
#ifndef ENGINE_GENERATION_H
#define ENGINE_GENERATION_H

#include "engine/channel.h"
#include "engine/constraint.h"
#include "engine/engine_parts.h"
#include "engine/logprobs.h"
#include "engine/stop.h"
#include "text/detok.h"

typedef struct generation {
    const weir_engine    *e;
    weir_generate_options opt;
    weir_sample_params    sample;
    weir_token_fn        *fn;
    void                 *user;
    weir_generate_result  result;
    uint32_t              prompt_length, limit; /* most tokens to sample */
    detok                 detok;
    channel               channel;
    stop_matcher          stop;
    str                   piece, shown, text; /* of one token: decoded, in its channel, past the stop matcher */
    token_ids             newlines;           /* ids whose text has a line break; XTC leaves them alone */
    token_ids             script;             /* tokens told in advance: n_close of the close, then the prefix */
    size_t                n_close, n_closed;  /* n_closed: of the close, up to </think> */
    size_t                forced, n_forced;   /* script[forced ..] stands from position forced_at on, n_forced of it */
    uint32_t              forced_at;          /* UINT32_MAX: nothing is forced yet */
    bool                  began;              /* the prefix has had its place */
    constraint           *form;               /* where the reply is in its grammar; NULL: it has none */
    constraint           *ahead;              /* and where the drafts are */
    logprobs              probs;
    weir_logprob          top[LOGPROBS_MAX_TOP];
} generation;

/* Checks the options (NULL: defaults) and makes ready for a reply to a prompt of
 * `prompt_length` tokens in a context of max_context. */
weir_status generation_start(generation *g, const weir_engine *e, const weir_generate_options *opt,
                             uint32_t prompt_length, weir_token_fn *fn, void *user, weir_error *err);
void        generation_end(generation *g); /* after generation_start, also when it failed */

/* The token at index `position`, which follows tokens[0 .. position-1], by its
 * logits and within `form` (NULL: no grammar).  Says nothing and counts nothing. */
weir_status generation_draw(const generation *g, constraint *form, const float *logits, const uint32_t *tokens,
                            uint32_t position, sample_workspace *ws, uint32_t *id, weir_error *err);
/* The same for draft n = 0, 1, ... of the tokens to come, which follows those before it. */
weir_status generation_guess(generation *g, uint32_t n, const float *logits, const uint32_t *tokens, uint32_t position,
                             sample_workspace *ws, uint32_t *id, weir_error *err);
/* How many of n drafts the grammar allows; what follows them can not be right. */
uint32_t generation_allowed(generation *g, const uint32_t *drafts, uint32_t n);
/* Draws and takes it for the reply: counts, shows, hands out.  *done tells that
 * the reply ends here; result.finish says why. */
weir_status generation_next(generation *g, const float *logits, const uint32_t *tokens, uint32_t position,
                            sample_workspace *ws, uint32_t *id, bool *done, weir_error *err);

#endif
