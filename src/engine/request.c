/* engine/request.c - weir/request.h: queue, cancel, ask. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/draft.h"
#include "engine/schedule.h"

#include <stdio.h>
#include <string.h>

enum { PRIORITY_MOST = 100 };

/* ---- lists ---- */

void request_list_add(request_list *l, weir_request *r)
{
    weir_request *before = l->last;
    while (before != NULL && before->priority < r->priority) before = before->prev;
    r->prev                                         = before;
    r->next                                         = before != NULL ? before->next : l->first;
    *(r->prev != NULL ? &r->prev->next : &l->first) = r;
    *(r->next != NULL ? &r->next->prev : &l->last)  = r;
    l->n++;
}

void request_list_remove(request_list *l, weir_request *r)
{
    *(r->prev != NULL ? &r->prev->next : &l->first) = r->next;
    *(r->next != NULL ? &r->next->prev : &l->last)  = r->prev;
    r->prev = r->next = NULL;
    l->n--;
}

/* ---- beginning ---- */

uint32_t request_positions(const weir_request *r)
{
    const uint32_t max  = r->e->info.max_context;
    const uint64_t need = (uint64_t)r->n_prompt + r->g.limit - 1;
    return need < max ? (uint32_t)need : max;
}

static weir_status check_options(const weir_engine *e, const weir_request_options *o, weir_error *err)
{
    if (o->size != sizeof *o)
        return status_fail(err, WEIR_INVALID, "weir_request_options.size: expected %zu, found %zu", sizeof *o, o->size);
    if (o->n_prompt == 0 || o->prompt == NULL)
        return status_fail(err, WEIR_INVALID, "prompt: expected at least one token");
    if (o->n_prompt > e->info.max_context)
        return status_fail(err, WEIR_INVALID, "prompt: expected at most %u tokens (max_context), found %zu",
                           e->info.max_context, o->n_prompt);
    if (o->priority < -PRIORITY_MOST || o->priority > PRIORITY_MOST)
        return status_fail(err, WEIR_INVALID, "priority: expected -100 to 100, found %d", o->priority);
    for (size_t i = 0; i < o->n_prompt; i++)
        if (o->prompt[i] >= e->m.config.vocab_size)
            return status_fail(err, WEIR_INVALID, "prompt: id %u at index %zu: expected less than vocab_size = %u",
                               o->prompt[i], i, e->m.config.vocab_size);
    return WEIR_OK;
}

static weir_status check_room(const weir_request *r, weir_error *err)
{
    const uint32_t need = request_positions(r);
    if (need <= r->e->info.pool_context) return WEIR_OK;
    return status_fail(err, WEIR_NO_MEMORY, "request: %u positions are needed, the engine has %llu (pool_context)",
                       need, (unsigned long long)r->e->info.pool_context);
}

static weir_status prepare(weir_request *r, const weir_request_options *o, weir_error *err)
{
    r->prompt = mem_alloc(o->n_prompt, sizeof *r->prompt);
    if (r->prompt == NULL) return status_fail(err, WEIR_NO_MEMORY, "request: out of memory");
    memcpy(r->prompt, o->prompt, o->n_prompt * sizeof *r->prompt);
    r->n_prompt = (uint32_t)o->n_prompt;
    r->other    = UINT32_MAX;
    TRY(adapters_choose(&r->adapters, &r->e->adapters, o->adapters, o->n_adapters, err));
    TRY(generation_start(&r->g, r->e, o->generate, r->n_prompt, o->token, o->user, err));
    return check_room(r, err);
}

weir_status weir_engine_submit(weir_engine *e, const weir_request_options *opt, weir_request **out, weir_error *err)
{
    *out = NULL;
    TRY(check_options(e, opt, err));
    weir_request *r = mem_zalloc(1, sizeof *r);
    if (r == NULL) return status_fail(err, WEIR_NO_MEMORY, "request: out of memory");
    r->e                 = e;
    r->priority          = opt->priority;
    r->no_cache          = opt->no_cache;
    r->progress          = opt->progress;
    r->user              = opt->user;
    r->submitted         = clock_ns();
    const weir_status st = prepare(r, opt, err);
    if (st != WEIR_OK) {
        r->state = WEIR_REQUEST_DONE;
        weir_request_free(r);
        return st;
    }
    adapters_hold(&e->adapters, &r->adapters);
    request_list_add(&e->waiting, r);
    *out = r;
    return WEIR_OK;
}

/* ---- ending ---- */

void request_end(weir_request *r, weir_status st, const char *why)
{
    if (r->state == WEIR_REQUEST_DONE) return;
    r->state        = WEIR_REQUEST_DONE;
    r->error.status = st;
    (void)snprintf(r->error.text, sizeof r->error.text, "%s", why);
    r->ended = clock_ns();
    adapters_let_go(&r->e->adapters, &r->adapters); /* its sequence may have them still */
}

void request_release(weir_request *r)
{
    weir_engine *e = r->e;
    if (r->s == NULL) return;
    if (r->prev != NULL || r->next != NULL || e->active.first == r) request_list_remove(&e->active, r);
    draft_leave(r);
    if (!r->lent) weir_sequence_free(r->s);
    r->s = NULL;
    anchors_free(&r->anchors);
}

void weir_request_cancel(weir_request *r)
{
    if (r->state == WEIR_REQUEST_DONE) return;
    const bool waiting = r->state == WEIR_REQUEST_WAITING;
    r->g.result.finish = WEIR_FINISH_CANCELLED;
    request_end(r, WEIR_CANCELLED, "cancelled");
    if (waiting) request_list_remove(&r->e->waiting, r);
    /* Within a step others still need what it has: release_ended follows. */
    if (!waiting && !r->e->stepping) {
        request_leave_anchor(r);
        request_release(r);
    }
}

void weir_request_free(weir_request *r)
{
    if (r == NULL) return;
    weir_request_cancel(r);
    generation_end(&r->g);
    mem_free(r->prompt);
    mem_free(r);
}

/* ---- asking ---- */

static double seconds(uint64_t from, uint64_t to)
{
    return from == 0 ? 0 : (double)((to != 0 ? to : clock_ns()) - from) * 1e-9;
}

void weir_request_get_info(const weir_request *r, weir_request_info *out)
{
    *out = (weir_request_info){.state         = r->state,
                               .status        = r->error.status,
                               .error         = r->error.text,
                               .prompt_tokens = r->n_prompt,
                               .read_tokens   = r->read,
                               .cached_tokens = r->cached,
                               .known_tokens  = r->known,
                               .known_other   = r->other,
                               .reply         = r->g.result,
                               .wait_seconds  = seconds(r->submitted, r->admitted != 0 ? r->admitted : r->ended),
                               .read_seconds  = seconds(r->admitted, r->answered != 0 ? r->answered : r->ended),
                               .reply_seconds = seconds(r->answered, r->ended)};
}

void weir_engine_cache_info(const weir_engine *e, weir_cache_info *out)
{
    *out = (weir_cache_info){.lookups       = e->cache_lookups,
                             .hits          = e->cache_hits,
                             .cached_tokens = e->cache_tokens,
                             .read_tokens   = e->read_tokens};
    if (e->cache == NULL) return;
    const prefix_stats s = prefix_tree_stats(e->cache);
    out->anchors         = s.anchors;
    out->memory_bytes    = s.snapshot_bytes + s.page_bytes;
    out->memory_limit    = e->cache_limit;
    out->disk_anchors    = s.disk_anchors;
    out->disk_bytes      = s.disk_bytes;
    out->disk_limit      = s.disk_budget;
}
