/* serve/replier.c - see replier.h. */
#include "serve/replier.h"

#include "base/mem.h"

#include <string.h>

void replier_init(replier *r, dialect *to, uint32_t choice, bool logprobs)
{
    *r = (replier){.to = to, .choice = choice, .logprobs = logprobs, .tool_close = UINT32_MAX};
}

void replier_free(replier *r)
{
    mem_free(r->held);
    weir_toolcall_free(r->parser);
    *r = (replier){0};
}

/* ---- events ---- */

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

static void say_content(replier *r, const char *text, size_t len)
{
    say(r,
        &(reply_event){.kind = REPLY_CONTENT, .text = text, .len = len, .logprobs = r->held, .n_logprobs = r->n_held});
    r->n_held     = 0;
    r->after_call = false;
}

/* What was held belongs to tokens of a call, or of a draft of one. */
static void on_parsed(void *user, const weir_toolcall_event *p)
{
    replier *r = user;
    if (r->over) return;
    switch (p->kind) {
    case WEIR_TOOLCALL_REASONING:
        r->n_held = 0;
        say(r, &(reply_event){.kind = REPLY_REASONING, .text = p->text, .len = p->text_len});
        break;
    case WEIR_TOOLCALL_CONTENT: say_content(r, p->text, p->text_len); break;
    case WEIR_TOOLCALL_BEGIN:
        r->in_call = true;
        say(r, &(reply_event){.kind = REPLY_CALL, .call = p->index, .call_id = p->id, .name = p->name});
        break;
    case WEIR_TOOLCALL_ARGUMENTS:
        say(r, &(reply_event){.kind = REPLY_ARGUMENTS, .call = p->index, .text = p->text, .len = p->text_len});
        break;
    case WEIR_TOOLCALL_END:
        r->n_held     = 0;
        r->in_call    = false;
        r->after_call = true;
        r->over       = r->one_call;
        say(r, &(reply_event){.kind = REPLY_CALL_END, .call = p->index});
        break;
    }
}

bool replier_find_calls(replier *r, const weir_toolcall_options *tools, bool one_call)
{
    r->one_call   = one_call;
    r->tool_close = tools->tool_close;
    return weir_toolcall_new(&r->parser, tools, on_parsed, r, NULL) == WEIR_OK;
}

/* ---- tokens ---- */

/* Whether the token may become content.  The tag that closes a call never does. */
static bool counts(const replier *r, const weir_token *t)
{
    if (!r->logprobs || t->reasoning || t->id == UINT32_MAX || r->in_call) return false;
    return !r->after_call || t->id != r->tool_close;
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
    if (r->after_call && t->id == r->tool_close) r->n_held = 0; /* what precedes the tag is of the call, too */
    if (counts(r, t)) hold(r, t);
    if (r->parser != NULL) {
        if (weir_toolcall_token(r->parser, t->id, t->text, t->text_len, t->reasoning, NULL) != WEIR_OK)
            r->failed = true;
    } else if (t->text_len > 0 && t->reasoning) {
        say(r, &(reply_event){.kind = REPLY_REASONING, .text = t->text, .len = t->text_len});
    } else if (t->text_len > 0) {
        say_content(r, t->text, t->text_len);
    }
}

/* ---- the end ---- */

static const uint32_t *asked_for(const replier *r, uint32_t id)
{
    for (size_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == id) return &r->stop_ids[i];
    return NULL;
}

void replier_end(replier *r, const weir_generate_result *result)
{
    const bool         cut  = result->finish == WEIR_FINISH_LENGTH && !r->over;
    weir_toolcall_info info = {.unfinished = ""};
    begin(r);
    if (r->parser != NULL) {
        if (weir_toolcall_finish(r->parser, !cut, NULL) != WEIR_OK) r->failed = true;
        weir_toolcall_get_info(r->parser, &info);
    }
    if (r->include_stop && result->stop != NULL) say_content(r, result->stop, strlen(result->stop));
    const bool  unfinished = cut && info.unfinished_len > 0;
    reply_event e          = {.kind       = REPLY_END,
                              .logprobs   = r->held,
                              .n_logprobs = r->in_call || r->after_call ? 0 : r->n_held,
                              .finish     = cut ? REPLY_LENGTH : REPLY_STOP,
                              .stop       = r->over ? NULL : result->stop,
                              .stop_id    = r->over ? NULL : asked_for(r, result->stop_id),
                              .unfinished = unfinished ? info.unfinished : NULL};
    if (info.calls > 0 && !unfinished) e.finish = REPLY_TOOL_CALLS;
    say(r, &e);
}
