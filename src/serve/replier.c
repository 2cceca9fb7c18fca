/* serve/replier.c - see replier.h. */
#include "serve/replier.h"

#include "base/mem.h"

#include <string.h>

void replier_init(replier *r, dialect *to, uint32_t choice, bool logprobs)
{
    *r = (replier){.to = to, .choice = choice, .logprobs = logprobs};
}

void replier_free(replier *r)
{
    mem_free(r->held);
    *r = (replier){0};
}

static void say(replier *r, reply_event *e)
{
    e->choice = r->choice;
    if (r->watch) e->now = &r->now;
    r->to->event(r->to, e);
}

static void begin(replier *r)
{
    if (r->begun) return;
    r->begun = true;
    say(r, &(reply_event){.kind = REPLY_BEGIN});
}

static void hold(replier *r, const weir_token *t)
{
    if (r->n_held == r->cap_held) {
        const uint32_t cap  = r->cap_held == 0 ? 8 : 2 * r->cap_held;
        reply_logprob *more = mem_realloc(r->held, cap, sizeof *more);
        if (more == NULL) {
            r->failed = true;
            return;
        }
        r->held     = more;
        r->cap_held = cap;
    }
    reply_logprob *l = &r->held[r->n_held++];
    l->chosen        = (weir_logprob){t->id, t->logprob};
    l->n_top         = t->n_top < 20 ? t->n_top : 20;
    if (l->n_top > 0) memcpy(l->top, t->top, l->n_top * sizeof *l->top);
}

void replier_token(replier *r, const weir_token *t)
{
    begin(r);
    if (r->logprobs && !t->reasoning && t->id != UINT32_MAX) hold(r, t);
    if (t->text_len == 0) return;
    reply_event e = {.kind = REPLY_REASONING, .text = t->text, .len = t->text_len};
    if (!t->reasoning) {
        e.kind       = REPLY_CONTENT;
        e.logprobs   = r->held;
        e.n_logprobs = r->n_held;
    }
    say(r, &e);
    if (!t->reasoning) r->n_held = 0;
}

void replier_end(replier *r, const weir_generate_result *result)
{
    begin(r);
    say(r, &(reply_event){.kind       = REPLY_END,
                          .logprobs   = r->held,
                          .n_logprobs = r->n_held,
                          .finish     = result->finish == WEIR_FINISH_LENGTH ? REPLY_LENGTH : REPLY_STOP,
                          .stop       = result->stop});
}
