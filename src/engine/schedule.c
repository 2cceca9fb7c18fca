/* engine/schedule.c - see schedule.h. */
#include "engine/schedule.h"

#include "base/clock.h"
#include "engine/draft.h"
#include "engine/sequence_parts.h"

#include <string.h>

enum {
    OVERTAKEN_MOST = 4,
    COALESCE_LEAST = 64, /* tokens that are worth waiting for somebody else to read */
    AGING_STEPS    = 8   /* without a part in the step, and a prompt counts as half as long */
};

/* ---- joining ---- */

static uint32_t common_prefix(const weir_request *a, const weir_request *b)
{
    const uint32_t most = a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt;
    uint32_t       n    = 0;
    while (n < most && a->prompt[n] == b->prompt[n]) n++;
    return n;
}

/* True when another prompt that begins the same is being read right now: its next
 * anchors will serve this one as well. */
static bool better_wait(weir_request *r, uint32_t cached)
{
    for (weir_request *a = r->e->active.first; a != NULL; a = a->next) {
        if (a->state != WEIR_REQUEST_READING || a->no_cache || a->priority < r->priority) continue;
        if (memcmp(a->adapters.origin, r->adapters.origin, sizeof r->adapters.origin) != 0) continue;
        uint32_t common = common_prefix(a, r);
        if (common >= r->n_prompt) common = r->n_prompt - 1;
        if (common < cached + COALESCE_LEAST || sequence_length(a->s->q) >= common) continue;
        if (common < a->n_prompt) anchors_add(&a->anchors, common);
        return true;
    }
    return false;
}

typedef enum admission { ADMITTED, NO_ROOM, BETTER_LATER } admission;

/* Lets r in, or ends it: there is room, but something else is wrong. */
static void join(weir_request *r, const prefix_hit *hit, bool use_cache, weir_status st, weir_error *err)
{
    weir_engine *e = r->e;
    request_list_remove(&e->waiting, r);
    r->admitted = clock_ns();
    if (st == WEIR_OK && use_cache) {
        e->cache_lookups++;
        r->cached = r->read = r->anchored = sequence_take_cached(r->s, hit);
        r->known                          = hit->matched;
        r->other                          = hit->other;
        e->cache_hits += r->cached > 0;
        e->cache_tokens += r->cached;
        st = anchors_plan(&r->anchors, r->prompt, r->n_prompt, r->cached, hit->matched, e->message_start, err);
    }
    if (st != WEIR_OK) {
        request_end(r, st, err->text);
        request_release(r);
        return;
    }
    draft_join(r);
    r->state = WEIR_REQUEST_READING;
    r->fed   = e->n_steps;
    request_list_add(&e->active, r);
}

static admission admit(weir_request *r)
{
    weir_engine *e         = r->e;
    prefix_hit   hit       = {0};
    const bool   use_cache = e->cache != NULL && !r->no_cache;
    if (use_cache) prefix_tree_find(e->cache, r->adapters.origin, r->prompt, r->n_prompt - 1, &hit);
    if (use_cache && better_wait(r, hit.length)) return BETTER_LATER;
    weir_error        err;
    const weir_status st = sequence_open(&r->s, e, request_positions(r), false, &err);
    if (st == WEIR_NO_MEMORY && e->active.n > 0) return NO_ROOM; /* somebody will leave */
    if (st == WEIR_OK) sequence_take_adapters(r->s, &r->adapters);
    join(r, &hit, use_cache, st, &err);
    return ADMITTED;
}

void schedule_admit(weir_engine *e)
{
    weir_request *blocked = NULL; /* the first that does not fit */
    for (weir_request *r = e->waiting.first, *next; r != NULL; r = next) {
        next = r->next;
        if (e->active.n >= e->info.max_sequences) return;
        if (blocked != NULL && blocked->overtaken == OVERTAKEN_MOST) return;
        const admission a = admit(r);
        if (a == ADMITTED && blocked != NULL) blocked->overtaken++;
        if (a == NO_ROOM && blocked == NULL) blocked = r;
    }
}

/* ---- the next step ---- */

static weir_status add_reply(weir_request *r, weir_error *err)
{
    uint32_t ids[1 + DRAFT_MAX] = {r->pending};
    for (uint32_t i = 0; i < r->n_drafts; i++) ids[1 + i] = r->drafts[i];
    return batch_add(r->e, r->s, ids, 1 + r->n_drafts, r->n_drafts > 0, &r->item, err);
}

static uint32_t left_to_read(const weir_request *r)
{
    return r->n_prompt - sequence_length(r->s->q);
}

/* What the prompt counts as: the steps that it waited make it shorter. */
static uint32_t weight(const weir_request *r)
{
    const uint64_t waited = (r->e->n_steps - r->fed) / AGING_STEPS;
    return left_to_read(r) >> (waited > 31 ? 31 : waited);
}

static weir_request *next_reader(const weir_engine *e)
{
    weir_request *best = NULL;
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        if (r->state != WEIR_REQUEST_READING || r->item != NULL) continue;
        if (best == NULL || r->priority > best->priority || (r->priority == best->priority && weight(r) < weight(best)))
            best = r;
    }
    return best;
}

/* A part of the prompt that ends at the next anchor at the latest. */
static weir_status add_reader(weir_request *r, uint32_t room, weir_error *err)
{
    const uint32_t at = sequence_length(r->s->q), left = left_to_read(r), stop = anchors_distance(&r->anchors, at);
    uint32_t       n = left < room ? left : room;
    if (n > stop) n = stop;
    r->fed = r->e->n_steps;
    return batch_add(r->e, r->s, r->prompt + at, n, false, &r->item, err);
}

weir_status schedule_compose(weir_engine *e, weir_error *err)
{
    batch_clear(e);
    for (weir_request *r = e->active.first; r != NULL; r = r->next) {
        r->item   = NULL;
        r->walked = false;
        if (r->state == WEIR_REQUEST_REPLYING) TRY(add_reply(r, err));
    }
    const uint32_t room = e->batch.max_rows - e->batch.n_rows;
    const uint32_t most = e->batch.n_rows + (room < e->info.chunk ? room : e->info.chunk);
    for (weir_request *r; e->batch.n_rows < most && (r = next_reader(e)) != NULL;)
        TRY(add_reader(r, most - e->batch.n_rows, err));
    return WEIR_OK;
}
