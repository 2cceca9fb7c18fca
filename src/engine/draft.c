/* engine/draft.c - see draft.h. */
#include "engine/draft.h"

#include "base/clock.h"
#include "base/log.h"

const char *draft_source_name(draft_source s)
{
    static const char *const names[] = {
        [DRAFT_OFF] = "off", [DRAFT_MTP] = "mtp", [DRAFT_NGRAM] = "ngram", [DRAFT_MODEL] = "model"};
    return names[s];
}

weir_status draft_open(weir_engine *e, const plan *p, weir_error *err)
{
    draft_length_init(&e->drafting);
    if (p->draft != DRAFT_MODEL) return WEIR_OK;
    plan d;
    TRY(plan_drafter(&d, p, err));
    d.opt.max_context = e->info.max_context;
    return engine_open(&e->drafter, p->opt.draft_model, &d, err);
}

void draft_close(weir_engine *e)
{
    weir_engine_close(e->drafter);
    e->drafter = NULL;
}

static weir_status join(weir_request *r, weir_error *err)
{
    switch (r->e->draft) {
    case DRAFT_OFF:
    case DRAFT_MTP: return WEIR_OK;
    case DRAFT_NGRAM: return ngram_init(&r->index, request_positions(r) + 1, err);
    case DRAFT_MODEL: return draft_model_join(r, r->e->drafter, err);
    }
    return WEIR_OK;
}

void draft_join(weir_request *r)
{
    weir_error err;
    draft_length_row_init(&r->drafting, &r->e->drafting);
    r->no_drafts = r->g.opt.no_drafts;
    if (r->no_drafts || join(r, &err) == WEIR_OK) return;
    /* Guesses are never needed. */
    log_line(WEIR_LOG_WARN, "drafts: a request goes without: %s", err.text);
    draft_leave(r);
    r->no_drafts = true;
}

void draft_leave(weir_request *r)
{
    ngram_free(&r->index);
    weir_sequence_free(r->guesser);
    r->guesser = NULL;
}

void draft_take(weir_request *r, const float *logits)
{
    /* Guesses stand behind the last token, where the next step will have them. */
    const uint32_t ahead = 1 + r->n_drafts, position = sequence_length(r->s->q) + ahead;
    uint32_t       id;
    if (generation_guess(&r->g, r->n_drafts, logits, sequence_tokens(r->s->q), position, &r->e->sampler, &id, NULL) !=
        WEIR_OK) {
        r->n_wanted = r->n_drafts;
        return;
    }
    sequence_guess(r->s->q, ahead, id);
    r->drafts[r->n_drafts++] = id;
}

/* What became of the drafts of the step in flight. */
static void learn(weir_engine *e, double seconds)
{
    e->only_replies = true;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->item == NULL) continue;
        if (r->item->span.position < r->n_prompt) e->only_replies = false;
        if (r->n_drafts == 0 || !r->walked) continue;
        const uint32_t accepted = r->item->keep - 1;
        r->g.result.drafted += r->n_drafts;
        r->g.result.accepted += accepted;
        draft_length_outcome(&e->drafting, &r->drafting, r->n_drafts, accepted);
    }
    if (e->only_replies && e->batch.n_rows <= DRAFT_MAX_ROWS)
        draft_length_step_took(&e->drafting, e->batch.n_rows, seconds);
}

static uint32_t min32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The most guesses that could be of use to r. */
static uint32_t most_drafts(const weir_request *r)
{
    const bool replied = r->item != NULL && r->state == WEIR_REQUEST_REPLYING;
    if (!replied || r->no_drafts || r->s->broken || (r->guesser != NULL && r->guesser->broken)) return 0;
    /* The last token needs no room and no guess after it. */
    const uint32_t left = r->g.limit - r->g.result.tokens;
    const uint32_t room = sequence_room(r->s->q) - r->item->keep;
    if (left == 0 || room == 0) return 0;
    return min32(r->e->info.max_drafts, min32(left - 1, room - 1));
}

/* As many as fit, for measuring. */
static void choose_most(weir_engine *e)
{
    uint32_t rows = e->decode_rows - e->active.n;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        r->n_wanted = min32(most_drafts(r), rows);
        rows -= r->n_wanted;
    }
}

/* What is expected to pay (draft_length.h).  Rows that may have no drafts count
 * as well: they are a part of the step. */
static void choose_worthwhile(weir_engine *e)
{
    draft_row *rows[DRAFT_MAX_ROWS];
    uint32_t   n = 0;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->state != WEIR_REQUEST_REPLYING) continue;
        if (n == DRAFT_MAX_ROWS) return; /* so many gain nothing */
        r->drafting.source = (uint8_t)(e->draft - DRAFT_MTP);
        r->drafting.limit  = (uint8_t)most_drafts(r);
        rows[n++]          = &r->drafting;
    }
    draft_length_choose(&e->drafting, rows, n);
    for (weir_request *r = e->active.first; r != NULL; r = r->next)
        if (r->state == WEIR_REQUEST_REPLYING) r->n_wanted = r->drafting.n_drafts;
}

static weir_status ask(weir_engine *e, weir_error *err)
{
    switch (e->draft) {
    case DRAFT_OFF: break;
    case DRAFT_MTP: return draft_mtp(e, err);
    case DRAFT_NGRAM: return draft_from_text(e, err);
    case DRAFT_MODEL: return draft_from_model(e, e->drafter, err);
    }
    return WEIR_OK;
}

void draft_choose(weir_engine *e, double seconds)
{
    if (e->draft == DRAFT_OFF) return;
    learn(e, seconds);
    for (weir_request *r = e->active.first; r != NULL; r = r->next) r->n_drafts = r->n_wanted = 0;
    (e->fixed_drafts ? choose_most : choose_worthwhile)(e);
}

void draft_make(weir_engine *e)
{
    uint32_t   wanted = 0, made = 0;
    weir_error err;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->state != WEIR_REQUEST_REPLYING) r->n_wanted = 0; /* it ended meanwhile */
        wanted += r->n_wanted;
        if (r->n_wanted > 0) sequence_guess(r->s->q, 0, r->pending);
    }
    if (wanted == 0) return;
    const uint64_t    start = clock_ns();
    const weir_status st    = ask(e, &err);
    const double      took  = (double)(clock_ns() - start + e->commit_ns) * 1e-9;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (st != WEIR_OK) r->n_drafts = 0;
        made += r->n_drafts;
    }
    if (st != WEIR_OK) log_line(WEIR_LOG_WARN, "drafts: %s", err.text);
    if (made > 0 && e->only_replies)
        draft_length_draft_took(&e->drafting, (uint32_t)(e->draft - DRAFT_MTP), made, took);
}
