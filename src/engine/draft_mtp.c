/* engine/draft_mtp.c - guesses of the model's own MTP head (model/mtp.c).
 *
 * The head's row for a reply's last token was made with the step
 * (batch_commit): its output guesses the token after.  Further guesses feed the
 * head its own output and the guess; those rows are overwritten when the true
 * hidden rows are there. */
#include "engine/draft.h"

/* The requests that still want guesses, a row each. */
typedef struct chain {
    weir_engine   *e;
    weir_request **of;
    uint32_t      *row; /* of work.drafted */
    uint32_t       n;
} chain;

/* A guess for every request of the chain out of its row. */
static weir_status guess(const chain *c, weir_error *err)
{
    weir_engine   *e = c->e;
    const uint32_t V = e->m.config.vocab_size;
    for (uint32_t i = 0; i < c->n; i += HEAD_ROWS) {
        const uint32_t n = c->n - i < HEAD_ROWS ? c->n - i : HEAD_ROWS;
        model_mtp_head(&e->m, e->k, &e->w, c->row + i, n);
        const float *logits = e->k->buf_host(e->k, e->w.logits);
        TRY(e->k->finish(e->k, err));
        for (uint32_t j = 0; j < n; j++) draft_take(c->of[i + j], logits + (size_t)j * V);
    }
    return WEIR_OK;
}

/* Drops those that have what they want, and runs the head over the rest. */
static weir_status go_on(chain *c, weir_error *err)
{
    weir_engine *e = c->e;
    batch       *b = &e->batch;
    uint32_t     n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        weir_request *r = c->of[i];
        if (r->n_drafts == r->n_wanted) continue;
        const uint32_t position = sequence_length(r->s->q) + r->n_drafts - 1;
        TRY(sequence_aside(r->s->q, position, 1, n, &b->more[n], err));
        b->mtp_ids[n]  = r->drafts[r->n_drafts - 1];
        b->mtp_from[n] = c->row[i];
        c->of[n++]     = r;
    }
    c->n = n;
    if (n == 0) return WEIR_OK;
    e->step = (k_step){.n_rows = n, .n_spans = n, .ids = b->mtp_ids, .spans = b->more};
    model_mtp(&e->m, e->k, &e->step, e->st, &e->w, e->w.drafted, b->mtp_from);
    for (uint32_t i = 0; i < n; i++) c->row[i] = i;
    return WEIR_OK;
}

weir_status draft_mtp(weir_engine *e, weir_error *err)
{
    batch *b = &e->batch;
    chain  c = {.e = e, .of = e->chain, .row = b->drafted};
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->n_wanted == 0) continue;
        c.row[c.n]  = r->item->drafted_row;
        c.of[c.n++] = r;
    }
    while (c.n > 0) {
        TRY(guess(&c, err));
        TRY(go_on(&c, err));
    }
    return e->k->finish(e->k, err);
}
