/* include/weir/generate.h - sample tokens until something ends the reply. */
#ifndef WEIR_GENERATE_H
#define WEIR_GENERATE_H

#include "weir/grammar.h"
#include "weir/sample.h"
#include "weir/sequence.h"

/* A token id and the natural logarithm of its probability. */
typedef struct weir_logprob {
    uint32_t id;
    float    logprob;
} weir_logprob;

typedef struct weir_generate_options {
    size_t                    size;       /* sizeof(weir_generate_options) */
    const weir_sample_params *sample;     /* NULL: greedy */
    uint32_t                  max_tokens; /* 0: as many as the context has room for */
    const char *const        *stop;       /* strings that end the reply and are not part of it */
    size_t                    n_stop;
    uint32_t                  top_logprobs;  /* 0..20 alternatives per token */
    bool                      logprobs;      /* compute them at all */
    bool                      keep_special;  /* give special tokens as text too */
    bool                      thinking_open; /* the prompt ends inside <think> (weir_prompt) */
    bool                      raw; /* plain completion: stop strings apply to all text, not to content only (reasoning
                                      and tool calls apart), and there is no reasoning */
    bool no_drafts;                /* leave the engine's draft source out */

    const uint32_t *stop_ids; /* ids that end the reply besides the model's own, at most 64; they have no text */
    size_t          n_stop_ids;

    /* With limit_reasoning, the token after the reasoning_budget-th of the reasoning is the
     * first of reasoning_close, whatever the model would have said (0: the reply begins so).
     * These ids hold that of </think>; NULL: those of "\n</think>\n\n". */
    bool            limit_reasoning;
    uint32_t        reasoning_budget;
    const uint32_t *reasoning_close;
    size_t          n_reasoning_close;
    /* Ids that the content begins with.  Behind reasoning that the model closes itself they
     * follow what stands behind </think> in reasoning_close; while no </think> comes, they
     * have no place. */
    const uint32_t *prefix; /* not with a grammar */
    size_t          n_prefix;
    /* What the text keeps to; NULL: nothing.  Borrowed: it must live as long as the generation.  The
     * reasoning stays free; the reply ends as soon as nothing may follow.  Where no token may come next
     * the generation fails with WEIR_INVALID. */
    const weir_grammar *grammar;
} weir_generate_options;

#define WEIR_GENERATE_OPTIONS_INIT \
    { \
        .size = sizeof(weir_generate_options) \
    }

/* One sampled token.  `text` is what can be shown now (complete characters, a
 * possible beginning of a stop string held back), so it may be empty or belong
 * to earlier tokens too; the deltas of a run join to its whole text.  The
 * last event of a run has id UINT32_MAX and brings what was held back; it does
 * not come after the callback itself has stopped the run. */
typedef struct weir_token {
    uint32_t            id, position; /* position: index of the token in the sequence */
    const char         *text;
    size_t              text_len;
    bool                reasoning; /* inside <think> ... </think> */
    bool                forced;    /* of reasoning_close or prefix: not drawn */
    float               logprob;   /* of the raw logits; 0 unless asked for */
    const weir_logprob *top;       /* top_logprobs of them, best first */
    uint32_t            n_top;
} weir_token;

/* Return false to stop after this token. */
typedef bool weir_token_fn(void *user, const weir_token *t);

typedef enum weir_finish { WEIR_FINISH_STOP, WEIR_FINISH_LENGTH, WEIR_FINISH_CANCELLED } weir_finish;

typedef struct weir_generate_result {
    weir_finish finish;
    uint32_t    tokens;            /* sampled, the end token apart */
    uint32_t    reasoning_tokens;  /* of these, inside the reasoning */
    const char *stop;              /* the stop string that ended it, or NULL (an end id, or no stop) */
    uint32_t    stop_id;           /* the end id, or the one of stop_ids, that ended it; else UINT32_MAX */
    uint32_t    drafted, accepted; /* tokens proposed by the draft source, and of these right */
} weir_generate_result;

/* Samples from the logits of `s` (which must not be empty), feeding each token
 * back, until an end id, a stop string, max_tokens, the end of the context or
 * the callback ends it.  The last sampled token is not read into the sequence:
 * weir_sequence_length() counts the others.  `opt` may be NULL; `result` too. */
WEIR_API weir_status weir_generate(weir_sequence *s, const weir_generate_options *opt, weir_token_fn *fn, void *user,
                                   weir_generate_result *result, weir_error *err);

#endif
