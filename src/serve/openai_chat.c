/* serve/openai_chat.c - POST /v1/chat/completions. */
#include "base/mem.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/openai.h"
#include "serve/prompt.h"
#include "serve/sse.h"

#include <stdio.h>

static bool read_logprobs(const json_t *body, job_options *o, api_error *err)
{
    fields  f   = {.object = body, .where = "", .err = err};
    int64_t top = 0;
    bool    all = false;
    (void)field_bool(&f, "logprobs", &o->logprobs);
    if (field_whole(&f, "top_logprobs", 0, 20, &top) && top > 0 && !o->logprobs)
        (void)field_wrong(&f, "top_logprobs", "expected logprobs: true beside it");
    if (field_bool(&f, "logprobs_all", &all) && all)
        (void)field_wrong(&f, "logprobs_all", "only those of the content are served");
    o->top_logprobs = (uint32_t)top;
    return !f.failed;
}

/* tool_choice "none": the model sees the tools, and cannot begin a call. */
static bool ban_tool_calls(const server *s, job_options *o, api_error *err)
{
    if (s->tool_call == UINT32_MAX) return true;
    if (o->bias == NULL) o->bias = mem_alloc(1, sizeof *o->bias);
    if (o->bias == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id != s->tool_call) continue;
        o->bias[i].bias = -100;
        return true;
    }
    o->bias[o->n_bias++] = (weir_logit_bias){s->tool_call, -100};
    return true;
}

static bool read_options(const server *s, const json_t *body, const chat_request_parts *parts, job_options *o,
                         api_error *err)
{
    if (!generation_read(s, body, o, err) || !read_logprobs(body, o, err)) return false;
    if (o->max_tokens_given && o->max_tokens == 0)
        return api_fail(err, API_INVALID, "max_tokens", "max_tokens: expected at least 1, found 0");
    if (o->grammar != NULL && parts->tools != NULL && !parts->no_tool_calls)
        return api_fail(
            err, API_INVALID, "tools",
            "tools: expected none, or tool_choice \"none\", beside a form of the reply: within it there are "
            "no calls");
    return !parts->no_tool_calls || ban_tool_calls(s, o, err);
}

/* Takes *o, the ids of *p and what *head owns. */
static bool submit(server *s, const http_request *r, job_options *o, weir_prompt *p, openai_head *head,
                   const openai_form *form, outlet *out, api_error *err)
{
    dialect  *d = chat_writer_new(head, &(chat_form){.form = *form, .n = o->n, .logprobs = o->logprobs}, r->id, out);
    weir_ids *prompts = mem_zalloc(1, sizeof *prompts);
    if (d == NULL || prompts == NULL) {
        if (d != NULL) d->free(d);
        mem_free(prompts);
        return api_fail(err, API_INTERNAL, NULL, "out of memory");
    }
    o->thinking_open = p->thinking_open;
    prompts[0]       = p->ids;
    p->ids           = (weir_ids){0};
    job *j           = job_new(o, prompts, 1, d, out);
    if (j == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    j->path        = "/v1/chat/completions";
    j->received_ns = r->received_ns;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", r->id);
    if (form->stream) j->stream_type = SSE_TYPE;
    j->comments = true;
    if (engine_loop_submit(s->loop, j, err)) return true;
    job_free(j);
    return false;
}

static bool serve_chat(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    chat_request_parts parts = {0};
    job_options        o     = {0};
    weir_prompt        p     = {0};
    openai_head        head  = {0};
    openai_form        form;
    bool               ok = openai_read_form(s, body, "chatcmpl-", &form, &head, err) &&
              chat_request_read(body, s->o->thinking, &parts, err) && read_options(s, body, &parts, &o, err) &&
              prompt_render(s, &parts, &p, err) && prompt_fits(s, p.ids.n, err);
    if (ok && parts.tools_left_out > 0)
        outlet_header(out, "Warning", "299 - \"tools that are no functions are left out\"");
    if (ok) ok = submit(s, r, &o, &p, &head, &form, out, err);
    chat_request_free(&parts);
    job_options_free(&o);
    weir_prompt_free(&p);
    openai_head_free(&head);
    return ok;
}

void handle_chat(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    api_error err;
    (void)rest;
    if (!body_parse(r->body, r->n_body, &body, &err) || !serve_chat(s, r, body, out, &err))
        answer_error(out, &err, API_OPENAI, r->id);
    json_decref(body);
}
