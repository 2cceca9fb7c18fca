/* engine/step.c - weir_engine_step: compose, compute, read what came out, move on. */
#include "base/clock.h"
#include "engine/draft.h"
#include "engine/schedule.h"
#include "engine/sequence_parts.h"

#include <string.h>

/* One reply's next token, by row i of its part of the step. */
static void read_row(weir_request *r, uint32_t i, const float *logits)
{
    weir_engine *e = r->e;
    if (r->walked || r->state == WEIR_REQUEST_DONE) return;
    if (r->state == WEIR_REQUEST_REPLYING) r->item->keep = i + 1;
    const uint32_t position = r->item->span.position + i + 1, *tokens = sequence_tokens(r->s->q);
    uint32_t       id   = 0;
    bool           done = true;
    weir_error     err;
    if (r->answered == 0) r->answered = clock_ns();
    const weir_status st = generation_next(&r->g, logits, tokens, position, &e->sampler, &id, &done, &err);
    /* The next row is right if its token is the one that has just been drawn. */
    const bool draft_right = st == WEIR_OK && i + 1 < r->item->span.n && tokens[position] == id;
    r->walked              = done || !draft_right;
    if (r->state == WEIR_REQUEST_DONE) return; /* cancelled by its own callback */
    r->state   = WEIR_REQUEST_REPLYING;
    r->pending = id;
    if (st == WEIR_OK && !done) return;
    if (r->s->logits != NULL) memcpy(r->s->logits, logits, e->m.config.vocab_size * sizeof *logits);
    request_end(r, st, st == WEIR_OK ? "" : err.text);
}

/* Rows whose logits are made together. */
typedef struct wanted_rows {
    uint32_t      n, rows[HEAD_ROWS], index[HEAD_ROWS];
    weir_request *of[HEAD_ROWS];
} wanted_rows;

static weir_status read_rows(weir_engine *e, wanted_rows *w, weir_error *err)
{
    const float *logits;
    if (w->n == 0) return WEIR_OK;
    const uint64_t start = clock_ns();
    TRY(batch_logits(e, w->rows, w->n, &logits, err));
    e->compute_ns += clock_ns() - start;
    for (uint32_t i = 0; i < w->n; i++) read_row(w->of[i], w->index[i], logits + (size_t)i * e->m.config.vocab_size);
    w->n = 0;
    return WEIR_OK;
}

static weir_status read_replies(weir_engine *e, weir_error *err)
{
    wanted_rows w = {0};
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->item == NULL || r->state == WEIR_REQUEST_DONE) continue;
        const k_span *span    = &r->item->span;
        const bool    reading = r->state == WEIR_REQUEST_READING;
        if (reading && span->position + span->n < r->n_prompt) continue;
        for (uint32_t i = reading ? span->n - 1 : 0; i < span->n && !r->walked; i++) {
            w.rows[w.n]  = span->row + i;
            w.index[w.n] = i;
            w.of[w.n++]  = r;
            if (w.n == HEAD_ROWS) TRY(read_rows(e, &w, err));
        }
    }
    return read_rows(e, &w, err);
}

/* The token after the last that stays, which MTP's row of that position needs. */
static uint32_t next_token(const weir_request *r)
{
    const uint32_t length = r->item->span.position + r->item->keep;
    if (length < r->n_prompt) return r->prompt[length];
    return r->state == WEIR_REQUEST_REPLYING ? r->pending : UINT32_MAX;
}

/* The reply has come to the next of the places that are kept on the way. */
static bool new_stride(const weir_request *r, uint32_t length)
{
    return length > r->n_prompt && length / ANCHOR_STRIDE != r->anchored / ANCHOR_STRIDE;
}

void request_leave_anchor(weir_request *r)
{
    weir_engine   *e      = r->e;
    const uint32_t length = sequence_length(r->s->q);
    if (e->cache == NULL || r->no_cache || r->s->broken || length == r->anchored) return;
    if (r->state != WEIR_REQUEST_DONE && !anchors_reached(&r->anchors, length) && !new_stride(r, length)) return;
    prefix_tree_store(e->cache, r->s->adapters.origin, r->s->q);
    r->anchored = length;
}

/* After the sequences have moved on. */
static void look_after(weir_request *r)
{
    weir_engine   *e      = r->e;
    const uint32_t length = sequence_length(r->s->q), read = length < r->n_prompt ? length : r->n_prompt;
    const bool     more = read > r->read;
    e->read_tokens += read - r->read;
    r->read = read;
    request_leave_anchor(r);
    if (more && r->progress != NULL && r->state != WEIR_REQUEST_DONE && !r->progress(r->user, read, r->n_prompt))
        weir_request_cancel(r);
}

/* The step failed: so did all that were in it. */
static void end_all(weir_engine *e, weir_status st, const char *why)
{
    batch_abandon(e);
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->item == NULL) continue;
        r->s->broken = true; /* a sequence that is lent has moved on since its logits */
        request_end(r, st, why);
    }
}

/* What the step's end is to do about r. */
static void settle(weir_request *r)
{
    batch_item *it = r->item;
    if (it->window && !r->walked) it->keep = 1; /* it ended before its rows were read */
    it->next              = next_token(r);
    const uint32_t length = it->span.position + it->keep;
    /* Where nobody drafts MTP can wait, but not past a snapshot. */
    it->mtp = r->n_wanted > 0 || r->state != WEIR_REQUEST_REPLYING || new_stride(r, length);
}

static weir_status compute(weir_engine *e, weir_error *err)
{
    uint64_t start = clock_ns();
    TRY(batch_forward(e, NULL, err));
    e->compute_ns = clock_ns() - start; /* the callbacks of replies are not a part of it */
    TRY(read_replies(e, err));
    draft_choose(e, (double)e->compute_ns * 1e-9);
    for (weir_request *r = e->active.first; r != NULL; r = r->next)
        if (r->item != NULL) settle(r);
    start = clock_ns();
    TRY(batch_commit(e, err));
    e->commit_ns = clock_ns() - start - e->batch.catch_up_ns;
    return WEIR_OK;
}

static weir_status run(weir_engine *e, weir_error *err)
{
    schedule_admit(e);
    weir_status st = schedule_compose(e, err);
    if (st == WEIR_OK && e->batch.n_items == 0) return WEIR_OK;
    if (st == WEIR_OK) st = compute(e, err);
    e->n_steps++;
    if (st != WEIR_OK) {
        end_all(e, st, err->text);
        return st;
    }
    for (weir_request *r = e->active.first; r != NULL; r = r->next)
        if (r->item != NULL) look_after(r);
    draft_make(e);
    return WEIR_OK;
}

/* Those that ended during the step give their memory back after it. */
static void release_ended(weir_engine *e)
{
    for (weir_request *r = e->active.first, *next; r != NULL; r = next) {
        next    = r->next;
        r->item = NULL;
        if (r->state != WEIR_REQUEST_DONE) continue;
        request_leave_anchor(r); /* what was read stays, also of one that was cancelled */
        request_release(r);
    }
}

weir_status weir_engine_step(weir_engine *e, uint32_t *left, weir_error *err)
{
    weir_error own;
    if (err == NULL) err = &own;
    TRY(engine_idle(e, "step", err));
    e->stepping          = true;
    const weir_status st = run(e, err);
    release_ended(e);
    if (e->cache != NULL) prefix_tree_write(e->cache);
    e->stepping = false;
    if (left != NULL) *left = e->waiting.n + e->active.n;
    return st;
}
