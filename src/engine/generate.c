/* engine/generate.c - weir/generate.h: a reply in the caller's own sequence, by the
 * same steps as requests. */
#include "base/clock.h"
#include "engine/draft.h"
#include "engine/schedule.h"
#include "engine/sequence_parts.h"

/* The first token comes from logits that are already there. */
static weir_status first_token(weir_request *r, weir_error *err)
{
    const weir_sequence *s = r->s;
    bool                 done;
    r->e->stepping = true; /* for the callback */
    const weir_status st =
        generation_next(&r->g, s->logits, sequence_tokens(s->q), r->n_prompt, &r->e->sampler, &r->pending, &done, err);
    r->e->stepping = false;
    TRY(st);
    r->admitted = r->answered = clock_ns();
    if (done) {
        request_end(r, WEIR_OK, "");
        return WEIR_OK;
    }
    draft_join(r);
    r->state = WEIR_REQUEST_REPLYING;
    request_list_add(&r->e->active, r);
    return WEIR_OK;
}

static weir_status run(weir_request *r, weir_error *err)
{
    TRY(first_token(r, err));
    while (r->state != WEIR_REQUEST_DONE) TRY(weir_engine_step(r->e, NULL, err));
    if (r->error.status != WEIR_OK) return status_fail(err, r->error.status, "%s", r->error.text);
    return WEIR_OK;
}

weir_status weir_generate(weir_sequence *s, const weir_generate_options *opt, weir_token_fn *fn, void *user,
                          weir_generate_result *result, weir_error *err)
{
    weir_engine   *e      = s->e;
    const uint32_t length = weir_sequence_length(s);
    TRY(engine_idle(e, "generate", err));
    if (length == 0) return status_fail(err, WEIR_INVALID, "generate: expected a sequence that has read something");
    if (s->broken) return status_fail(err, WEIR_INVALID, "sequence: a step failed; reset or rewind it first");
    weir_request r  = {.e        = e,
                       .prompt   = NULL,
                       .n_prompt = length,
                       .read     = length,
                       .cached   = length,
                       .other    = UINT32_MAX,
                       .no_cache = true,
                       .s        = s,
                       .lent     = true};
    weir_status  st = generation_start(&r.g, e, opt, length, fn, user, err);
    if (st == WEIR_OK) st = run(&r, err);
    if (st != WEIR_OK) request_end(&r, st, "");
    request_release(&r);
    generation_end(&r.g);
    if (result != NULL) *result = r.g.result;
    return st;
}
