/* serve/openai_chat.c - POST /v1/chat/completions. */
#include "base/mem.h"
#include "serve/body.h"
#include "serve/calls.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/openai.h"
#include "serve/prompt.h"
#include "serve/sse.h"

#include <stdio.h>
#include <string.h>

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

/* llama.cpp's word for where reasoning goes. */
static bool read_reasoning_format(const json_t *body, bool *in_content, api_error *err)
{
    fields      f        = {.object = body, .where = "", .err = err};
    const char *format   = "auto";
    bool        separate = true; /* SGLang's */
    (void)field_bool(&f, "separate_reasoning", &separate);
    (void)field_string(&f, "reasoning_format", &format);
    if (!f.failed && strcmp(format, "none") != 0 && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0)
        (void)field_wrong(&f, "reasoning_format", "expected none, auto or deepseek, found \"%.40s\"", format);
    *in_content = !separate || strcmp(format, "none") == 0;
    return !f.failed;
}

/* No reasoning at all is the template's to say: it closes the block in the prompt. */
static bool skip_reasoning(const job_options *o, json_t *kwargs, api_error *err)
{
    if (!o->limit_reasoning || o->reasoning_budget > 0) return true;
    return json_object_set_new(kwargs, "enable_thinking", json_false()) == 0 ||
           api_fail(err, API_INTERNAL, NULL, "out of memory");
}

static bool read_options(const server *s, const json_t *body, const chat_request_parts *parts, job_options *o,
                         api_error *err)
{
    if (!generation_read(s, body, o, err) || !read_logprobs(body, o, err)) return false;
    if (o->max_tokens_given && o->max_tokens == 0)
        return api_fail(err, API_INVALID, "max_tokens", "max_tokens: expected at least 1, found 0");
    return calls_read(s, parts, NULL, o, err) && skip_reasoning(o, parts->kwargs, err);
}

/* Takes *o, the ids of *p and what *head owns. */
static bool submit(server *s, const http_request *r, job_options *o, weir_prompt *p, openai_head *head,
                   const chat_form *form, outlet *out, api_error *err)
{
    dialect  *d       = chat_writer_new(head, form, r->id, out);
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
    if (form->form.stream) j->stream_type = SSE_TYPE;
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
    chat_form          form  = {0};
    bool               ok    = openai_read_form(s, body, "chatcmpl-", &form.form, &head, err) &&
              read_reasoning_format(body, &form.inline_reasoning, err) &&
              chat_request_read(body, s->o->thinking, &parts, err) && read_options(s, body, &parts, &o, err) &&
              prompt_render(s, &parts, &p, err) && prompt_fits(s, p.ids.n, err);
    if (ok && parts.tools_left_out > 0)
        outlet_header(out, "Warning", "299 - \"tools that are no functions are left out\"");
    form.n        = o.n;
    form.logprobs = o.logprobs;
    o.watch       = openai_watches(&form.form);
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
