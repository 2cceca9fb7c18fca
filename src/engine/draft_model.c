/* engine/draft_model.c - guesses of a smaller model with the same tokens.
 *
 * It reads what the reply's sequence has read and its last token, and guesses
 * on from there aside (sequence_detour): what it has read stays right. */
#include "engine/batch.h"
#include "engine/draft.h"
#include "engine/sequence_parts.h"

weir_status draft_model_join(weir_request *r, weir_engine *drafter, weir_error *err)
{
    const uint32_t *ids = r->lent ? sequence_tokens(r->s->q) : r->prompt, vocab = drafter->m.config.vocab_size;
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (ids[i] >= vocab)
            return status_fail(err, WEIR_INVALID, "draft model: expected ids less than vocab_size = %u, found %u",
                               vocab, ids[i]);
    return sequence_open(&r->guesser, drafter, request_positions(r), false, err);
}

/* The requests that still want guesses. */
typedef struct guessers {
    weir_engine   *e, *drafter;
    weir_request **of;
    uint32_t       n;
} guessers;

/* Reads what is new, as much as one step of the drafter takes, and leaves in
 * `of` those that are up to date, and their last rows in `rows`. */
static weir_status catch_up(guessers *g, uint32_t *rows, weir_error *err)
{
    uint32_t n = 0;
    batch_clear(g->drafter);
    for (weir_request *r = g->e->active.first; r != NULL; r = r->next) {
        if (r->n_wanted == 0) continue;
        const uint32_t at = sequence_length(r->guesser->q), to = sequence_length(r->s->q) + 1;
        const uint32_t room = g->drafter->batch.max_rows - g->drafter->batch.n_rows;
        const uint32_t now  = to - at < room ? to - at : room;
        if (now == 0) continue;
        batch_item *it;
        TRY(batch_add(g->drafter, r->guesser, sequence_tokens(r->s->q) + at, now, false, &it, err));
        if (at + now < to) continue;
        rows[n]    = it->span.row + it->span.n - 1;
        g->of[n++] = r;
    }
    g->n = n;
    if (g->drafter->batch.n_items == 0) return WEIR_OK;
    return batch_forward(g->drafter, NULL, err);
}

static weir_status guess(guessers *g, const uint32_t *rows, weir_error *err)
{
    const uint32_t V = g->drafter->m.config.vocab_size;
    for (uint32_t i = 0; i < g->n; i += HEAD_ROWS) {
        const uint32_t n = g->n - i < HEAD_ROWS ? g->n - i : HEAD_ROWS;
        const float   *logits;
        TRY(batch_logits(g->drafter, rows + i, n, &logits, err));
        for (uint32_t j = 0; j < n; j++) draft_take(g->of[i + j], logits + (size_t)j * V);
    }
    return WEIR_OK;
}

/* Those that want more read their guess. */
static weir_status go_on(guessers *g, uint32_t *rows, weir_error *err)
{
    uint32_t n = 0;
    batch_clear(g->drafter);
    for (uint32_t i = 0; i < g->n; i++) {
        weir_request *r = g->of[i];
        if (r->n_drafts == r->n_wanted) continue;
        batch_item *it;
        g->of[n] = r;
        TRY(batch_add(g->drafter, r->guesser, &r->drafts[r->n_drafts - 1], 1, false, &it, err));
        rows[n++] = it->span.row;
    }
    g->n = n;
    return n == 0 ? WEIR_OK : batch_forward(g->drafter, NULL, err);
}

static weir_status guess_aside(guessers *g, uint32_t *rows, weir_error *err)
{
    for (uint32_t i = 0; i < g->n; i++) TRY(sequence_detour(g->of[i]->guesser->q, err));
    for (;;) {
        TRY(go_on(g, rows, err));
        if (g->n == 0) return WEIR_OK;
        TRY(guess(g, rows, err));
        TRY(batch_commit(g->drafter, err));
    }
}

weir_status draft_from_model(weir_engine *e, weir_engine *drafter, weir_error *err)
{
    guessers  g    = {.e = e, .drafter = drafter, .of = e->chain};
    uint32_t *rows = e->batch.drafted;
    TRY(catch_up(&g, rows, err));
    if (drafter->batch.n_items == 0) return WEIR_OK;
    TRY(guess(&g, rows, err));
    TRY(batch_commit(drafter, err));
    const weir_status st = guess_aside(&g, rows, err);
    for (weir_request *r = e->active.first; r != NULL; r = r->next)
        if (r->guesser != NULL) sequence_return(r->guesser->q);
    return st;
}
