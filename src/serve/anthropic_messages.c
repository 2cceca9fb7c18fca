/* serve/anthropic_messages.c - POST /v1/messages and /v1/messages/count_tokens. */
#include "base/mem.h"
#include "serve/anthropic.h"
#include "serve/body.h"
#include "serve/calls.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/prompt.h"
#include "serve/sse.h"

#include <stdio.h>
#include <string.h>

enum { COUNT_MAX = 256 };

/* A request on its way; all of it is released by request_free. */
typedef struct request {
    anthropic_form     form;
    json_t            *chat; /* the body as that of a chat */
    chat_request_parts parts;
    weir_prompt        prompt;
    job_options        o;
} request;

static void request_free(request *q)
{
    json_decref(q->chat);
    chat_request_free(&q->parts);
    weir_prompt_free(&q->prompt);
    job_options_free(&q->o);
}

/* Clients that ask for no thinking do not expect any: the template's word does not count here. */
static serve_thinking default_thinking(const server *s)
{
    return s->o->thinking == SERVE_THINK_ON ? SERVE_THINK_ON : SERVE_THINK_OFF;
}

static bool read_prompt(const server *s, const json_t *body, request *q, api_error *err)
{
    return anthropic_chat(body, &q->chat, &q->form, err) &&
           chat_request_read(q->chat, default_thinking(s), &q->parts, err) &&
           prompt_render(s, &q->parts, &q->prompt, err);
}

static bool read_options(const server *s, request *q, api_error *err)
{
    if (!generation_read(s, q->chat, &q->o, err)) return false;
    if (q->o.max_tokens_given && q->o.max_tokens == 0)
        return api_fail(err, API_INVALID, "max_tokens", "max_tokens: expected at least 1, found 0");
    q->o.thinking_open = q->prompt.thinking_open;
    q->o.watch         = true;
    if (q->form.limit_thinking) {
        q->o.limit_reasoning  = true;
        q->o.reasoning_budget = q->form.thinking_budget;
    }
    return calls_read(s, &q->parts, "toolu_", &q->o, err);
}

/* How much of the prompt is in the cache once it was read: the engine stores it before the last
 * message begins, which is the assistant's (engine/anchors.h). */
static uint32_t kept(const server *s, const request *q)
{
    const weir_ids *ids = &q->prompt.ids;
    if (!q->form.marked || q->o.no_cache || !s->caches) return 0;
    for (size_t i = ids->n; i-- > 1;)
        if (ids->data[i] == s->message_start) return (uint32_t)i;
    return 0;
}

static bool make_writer(const server *s, const http_request *r, const request *q, outlet *out, dialect **d,
                        api_error *err)
{
    fields         f     = {.object = q->chat, .where = "", .err = err};
    const char    *model = s->o->model_id;
    anthropic_head head  = {.stream        = q->form.stream,
                            .omit_thinking = q->form.omit_thinking,
                            .max_tokens    = q->o.max_tokens,
                            .kept          = kept(s, q)};
    (void)field_string(&f, "model", &model);
    if (f.failed) return false;
    random_id("msg_", head.id, sizeof head.id);
    random_id("", head.signature, sizeof head.signature);
    head.model = mem_strdup(model);
    *d         = head.model != NULL ? anthropic_writer_new(&head, r->id, out) : NULL;
    mem_free(head.model);
    return *d != NULL || api_fail(err, API_INTERNAL, NULL, "out of memory");
}

static bool submit(server *s, const http_request *r, request *q, outlet *out, api_error *err)
{
    dialect *d;
    if (!make_writer(s, r, q, out, &d, err)) return false;
    weir_ids *prompts = mem_zalloc(1, sizeof *prompts);
    if (prompts == NULL) {
        d->free(d);
        return api_fail(err, API_INTERNAL, NULL, "out of memory");
    }
    prompts[0]    = q->prompt.ids;
    q->prompt.ids = (weir_ids){0};
    job *j        = job_new(&q->o, prompts, 1, d, out);
    if (j == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    j->path        = "/v1/messages";
    j->received_ns = r->received_ns;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", r->id);
    if (q->form.stream) j->stream_type = SSE_TYPE;
    j->comments = true;
    outlet_keep_alive(out, anthropic_ping);
    if (engine_loop_submit(s->loop, j, err)) return true;
    job_free(j);
    return false;
}

void handle_messages(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    request   q    = {0};
    api_error err;
    (void)rest;
    bool ok = body_parse(r->body, r->n_body, &body, &err) && read_prompt(s, body, &q, &err) &&
              read_options(s, &q, &err) && prompt_fits(s, q.prompt.ids.n, &err);
    if (ok && q.parts.tools_left_out > 0)
        outlet_header(out, "Warning", "299 - \"tools of kinds that are not served are left out\"");
    if (!ok || !submit(s, r, &q, out, &err)) answer_error(out, &err, API_ANTHROPIC, r->id);
    request_free(&q);
    json_decref(body);
}

void handle_count_tokens(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    request   q    = {0};
    api_error err;
    str       text;
    (void)rest;
    str_init(&text, COUNT_MAX);
    if (body_parse(r->body, r->n_body, &body, &err) && read_prompt(s, body, &q, &err)) {
        str_printf(&text, "{\"input_tokens\":%zu}", q.prompt.ids.n);
        answer_json(out, &text);
    } else {
        answer_error(out, &err, API_ANTHROPIC, r->id);
    }
    str_free(&text);
    request_free(&q);
    json_decref(body);
}
