/* engine/draft_ngram.c - guesses by looking up what followed the last time (ngram.h). */
#include "engine/draft.h"

/* The index holds all that was read, and the token to come. */
static void catch_up(weir_request *r)
{
    const uint32_t *tokens = sequence_tokens(r->s->q), n = sequence_length(r->s->q) + 1;
    while (r->index.n < n && ngram_push(&r->index, tokens[r->index.n])) {
    }
}

weir_status draft_from_text(weir_engine *e, weir_error *err)
{
    (void)err;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->n_wanted == 0) continue;
        catch_up(r);
        r->n_drafts = ngram_draft(&r->index, r->drafts, r->n_wanted);
        r->n_drafts = generation_allowed(&r->g, r->drafts, r->n_drafts);
    }
    return WEIR_OK;
}
