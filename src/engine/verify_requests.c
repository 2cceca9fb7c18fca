/* engine/verify_requests.c - a schedule of requests that share an engine, come at
 * their times and are called off; each says what it says alone. */
#include "engine/verify_parts.h"

#include <string.h>

enum { MOST_STEPS = 2000 };

/* One submitted wish. */
typedef struct guest {
    const verify_op      *op;
    const verify_wish    *wish;
    weir_generate_options generate;
    verify_listener       heard;
    weir_request         *r; /* NULL: not yet submitted */
} guest;

typedef struct party {
    verifier              *v;
    weir_engine           *e;
    const verify_schedule *c;
    verify_outcome        *out;
    guest                  guests[VERIFY_OPS];
    uint32_t               n;
} party;

static weir_status submit(party *p, guest *g, weir_error *err)
{
    g->generate              = g->wish->generate;
    g->generate.no_drafts    = g->op->no_drafts;
    g->heard.stop_after      = g->op->off == OFF_BY_TOKEN ? g->op->until : 0;
    weir_request_options opt = WEIR_REQUEST_OPTIONS_INIT;
    opt.prompt               = g->wish->prompt;
    opt.n_prompt             = g->wish->n_prompt;
    opt.generate             = &g->generate;
    opt.priority             = g->op->priority;
    opt.no_cache             = g->op->no_cache;
    opt.adapters             = p->v->choices[g->wish->chosen].list;
    opt.n_adapters           = p->v->choices[g->wish->chosen].n;
    opt.token                = verify_listen;
    opt.user                 = &g->heard;
    return weir_engine_submit(p->e, &opt, &g->r, err);
}

/* Those whose time has come; *more tells that others are still to come. */
static weir_status come_and_go(party *p, uint32_t step, bool *more, weir_error *err)
{
    *more = false;
    for (uint32_t i = 0; i < p->c->n_ops; i++)
        if (p->c->ops[i].kind == OP_RESTART && p->c->ops[i].at == step)
            TRY(verify_engine_restart(p->v, p->e, p->c, err));
    for (uint32_t i = 0; i < p->n; i++) {
        guest *g = &p->guests[i];
        if (g->r == NULL && g->op->at <= step) TRY(submit(p, g, err));
        if (g->r == NULL) *more = true;
        if (g->r != NULL && g->op->off == OFF_BETWEEN_STEPS && g->op->until == step) weir_request_cancel(g->r);
    }
    return WEIR_OK;
}

static weir_status run(party *p, weir_error *err)
{
    bool     more = true;
    uint32_t left = 1;
    for (uint32_t step = 0; more || left > 0; step++) {
        if (step == MOST_STEPS) {
            verify_differs(p->out, 0, "requests are not done after %u steps", step);
            return WEIR_OK;
        }
        TRY(come_and_go(p, step, &more, err));
        /* Requests are let in before anything is stored: these hits are the disk's. */
        const bool     no_memory = prefix_tree_stats(p->e->cache).anchors == 0;
        const uint64_t hits      = p->e->cache_hits;
        TRY(weir_engine_step(p->e, &left, err));
        if (no_memory && p->e->cache_hits > hits) p->out->used[VERIFY_DISK] = true;
        if (p->e->batch.n_items > 1) p->out->used[VERIFY_BATCH] = true;
    }
    return WEIR_OK;
}

/* ---- what was said ---- */

/* What was heard before a request was called off is the beginning of what is said alone. */
static void compare(party *p, uint32_t i, const weir_request_info *info)
{
    const guest        *g     = &p->guests[i];
    const verify_reply *alone = &g->wish->alone, *here = &g->heard.reply;
    const uint32_t      wish = g->op->who;
    const bool          off  = info->reply.finish == WEIR_FINISH_CANCELLED;
    uint32_t            n    = 0;
    while (n < alone->n && n < here->n && digest_same(alone->said[n], here->said[n])) n++;
    if (info->status != WEIR_OK && info->status != WEIR_CANCELLED)
        verify_differs(p->out, i, "wish %u fails: %s", wish, info->error);
    else if (off && g->op->off == OFF_NEVER)
        verify_differs(p->out, i, "wish %u was called off by nobody", wish);
    else if (n < least(alone->n, here->n) && here->ids[n] == alone->ids[n])
        verify_differs(p->out, i, "wish %u: token %u has other log-probabilities or text than alone", wish, n);
    else if (n < least(alone->n, here->n))
        verify_differs(p->out, i, "wish %u: token %u is %u, and alone %u", wish, n, here->ids[n], alone->ids[n]);
    else if (off ? here->n > alone->n : here->n != alone->n || info->reply.finish != alone->finish)
        verify_differs(p->out, i, "wish %u ends after %u tokens, and alone after %u", wish, here->n, alone->n);
    else if (!off && !digest_same(here->rest, alone->rest))
        verify_differs(p->out, i, "wish %u ends in another text than alone", wish);
}

static void note(party *p, const guest *g, const weir_request_info *info)
{
    static const verify_invariant of_source[] = {
        [DRAFT_MTP] = VERIFY_MTP, [DRAFT_NGRAM] = VERIFY_NGRAM, [DRAFT_MODEL] = VERIFY_DRAFT_MODEL};
    bool *used            = p->out->used;
    used[VERIFY_REQUESTS] = true;
    if (g->wish->sample.temperature > 0 && info->reply.tokens > 0) used[VERIFY_SAMPLING] = true;
    if (info->cached_tokens > 0) used[VERIFY_CACHE] = true;
    if (g->wish->chosen != VERIFY_NONE && info->read_tokens > 0) used[VERIFY_ADAPTED] = true;
    if (info->reply.drafted > 0 && p->c->draft != DRAFT_OFF) used[of_source[p->c->draft]] = true;
    if (info->reply.finish == WEIR_FINISH_CANCELLED && info->read_tokens > 0) used[VERIFY_CANCEL] = true;
}

weir_status verify_run_requests(verifier *v, weir_engine *e, const verify_schedule *c, verify_outcome *out,
                                weir_error *err)
{
    party p = {.v = v, .e = e, .c = c, .out = out};
    for (uint32_t i = 0; i < c->n_ops; i++)
        if (c->ops[i].kind == OP_SUBMIT && v->wishes[c->ops[i].who].known)
            p.guests[p.n++] = (guest){.op = &c->ops[i], .wish = &v->wishes[c->ops[i].who]};
    const weir_status st = p.n > 0 ? run(&p, err) : WEIR_OK;
    for (uint32_t i = 0; i < p.n; i++) {
        weir_request_info info;
        if (p.guests[i].r == NULL) continue;
        if (st == WEIR_OK && !out->differs) {
            weir_request_get_info(p.guests[i].r, &info);
            compare(&p, i, &info);
            note(&p, &p.guests[i], &info);
        }
        weir_request_free(p.guests[i].r);
    }
    return st;
}
