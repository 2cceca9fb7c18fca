/* serve/ollama_chat.c - POST /api/chat and /api/generate. */
#include "base/mem.h"
#include "serve/body.h"
#include "serve/calls.h"
#include "serve/generation.h"
#include "serve/json_out.h"
#include "serve/ollama.h"
#include "serve/prompt.h"

#include <stdio.h>
#include <string.h>

enum { LOAD_MAX = 64 << 10 };

/* ---- the prompt ---- */

static uint32_t limit_of(const server *s, const ollama_request *q)
{
    return q->num_ctx > 0 && q->num_ctx < s->engine.max_context ? q->num_ctx : s->engine.max_context;
}

static bool fits(size_t n, uint32_t limit, api_error *err)
{
    if (n < limit) return true;
    (void)api_fail(err, API_CONTEXT, "messages", "prompt is too long: %zu tokens > %u maximum", n, limit - 1);
    err->n_prompt = (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX);
    err->n_ctx    = limit;
    return false;
}

static bool render_without(const server *s, const chat_request_parts *parts, size_t turns, weir_prompt *out,
                           api_error *err)
{
    chat_request_parts fewer = *parts;
    fewer.messages           = ollama_drop_turns(parts->messages, turns);
    weir_prompt_free(out);
    *out          = (weir_prompt){0};
    const bool ok = fewer.messages != NULL ? prompt_render(s, &fewer, out, err)
                                           : api_fail(err, API_INTERNAL, NULL, "out of memory");
    json_decref(fewer.messages);
    return ok;
}

/* Leaves out the fewest turns with which the chat fits; where none do, the error is fits'. */
static bool render_fitting(const server *s, const ollama_request *q, const chat_request_parts *parts, weir_prompt *out,
                           api_error *err)
{
    const uint32_t limit = limit_of(s, q);
    if (!prompt_render(s, parts, out, err)) return false;
    if (out->ids.n < limit || !q->truncate) return fits(out->ids.n, limit, err);
    size_t least = 1, most = ollama_count_turns(parts->messages);
    while (least < most) {
        const size_t half = least + (most - least) / 2;
        if (!render_without(s, parts, half, out, err)) return false;
        if (out->ids.n < limit)
            most = half;
        else
            least = half + 1;
    }
    return render_without(s, parts, most, out, err) && fits(out->ids.n, limit, err);
}

/* Puts the ids of an earlier answer's `context` before the prompt. */
static bool put_before(const server *s, const json_t *context, weir_ids *ids, api_error *err)
{
    const size_t n = json_array_size(context), all = n + ids->n;
    if (n == 0) return true;
    uint32_t *data = mem_alloc(all, sizeof *data);
    if (data == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(context, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= s->model.vocab_size) {
            mem_free(data);
            return api_fail(err, API_INVALID, "context",
                            "context: expected token ids below %u, found another at index %zu", s->model.vocab_size, i);
        }
        data[i] = (uint32_t)json_integer_value(v);
    }
    if (ids->n > 0) memcpy(data + n, ids->data, ids->n * sizeof *data);
    weir_ids_free(ids);
    *ids = (weir_ids){.data = data, .n = all, .capacity = all};
    return true;
}

static bool make_prompt(const server *s, const ollama_request *q, const chat_request_parts *parts, weir_prompt *out,
                        api_error *err)
{
    weir_error we;
    if (!q->raw)
        return render_fitting(s, q, parts, out, err) && put_before(s, q->context, &out->ids, err) &&
               fits(out->ids.n, limit_of(s, q), err);
    if (weir_tokenize(s->o->model, q->prompt, strlen(q->prompt), true, &out->ids, &we) != WEIR_OK)
        return api_fail_status(err, &we);
    return fits(out->ids.n, limit_of(s, q), err);
}

/* ---- the job ---- */

static bool read_options(const server *s, const ollama_request *q, const chat_request_parts *parts, job_options *o,
                         api_error *err)
{
    if (!generation_read(s, q->body, o, err) || !form_apply(s->o->model, &q->form, o, err)) return false;
    o->logprobs     = q->logprobs;
    o->top_logprobs = q->top_logprobs;
    o->raw          = q->raw;
    return q->raw || calls_read(s, parts, NULL, o, err);
}

/* Takes *o and the ids of *p, which fit. */
static bool submit(server *s, const http_request *r, const ollama_request *q, ollama_kind kind, job_options *o,
                   weir_prompt *p, outlet *out, api_error *err)
{
    const uint32_t room = limit_of(s, q) - (uint32_t)p->ids.n;
    if (!o->max_tokens_given || o->max_tokens > room) o->max_tokens = room;
    o->thinking_open          = p->thinking_open;
    const ollama_form form    = {.kind          = kind,
                                 .stream        = q->stream,
                                 .logprobs      = q->logprobs,
                                 .thinking_open = o->thinking_open,
                                 .model         = q->model,
                                 .weights       = s->o->model,
                                 .prompt        = kind == OLLAMA_GENERATE && !q->raw ? &p->ids : NULL};
    dialect          *d       = ollama_writer_new(&form, r->id, out);
    weir_ids         *prompts = mem_zalloc(1, sizeof *prompts);
    if (d == NULL || prompts == NULL) {
        if (d != NULL) d->free(d);
        mem_free(prompts);
        return api_fail(err, API_INTERNAL, NULL, "out of memory");
    }
    prompts[0] = p->ids;
    p->ids     = (weir_ids){0};
    job *j     = job_new(o, prompts, 1, d, out);
    if (j == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    j->path        = kind == OLLAMA_CHAT ? "/api/chat" : "/api/generate";
    j->received_ns = r->received_ns;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", r->id);
    if (q->stream) j->stream_type = OLLAMA_LINES;
    if (engine_loop_submit(s->loop, j, err)) return true;
    job_free(j);
    return false;
}

/* Nothing is asked: the model is there already, and stays. */
static void answer_load(const ollama_request *q, ollama_kind kind, outlet *out)
{
    str body;
    str_init(&body, LOAD_MAX);
    str_putc(&body, '{');
    ollama_put_head(q->model, &body);
    str_puts(&body,
             kind == OLLAMA_CHAT ? ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}" : ",\"response\":\"\"");
    str_printf(&body, ",\"done\":true,\"done_reason\":\"%s\"}", q->unload ? "unload" : "load");
    answer_json(out, &body);
}

static bool serve_reply(server *s, const http_request *r, const json_t *body, ollama_kind kind, outlet *out,
                        api_error *err)
{
    ollama_request     q     = {0};
    chat_request_parts parts = {0};
    job_options        o     = {0};
    weir_prompt        p     = {0};
    bool               ok    = ollama_request_read(s, body, kind, &q, err);
    if (ok && q.load)
        answer_load(&q, kind, out);
    else
        ok = ok && (q.raw || chat_request_read(q.body, s->o->thinking, &parts, err)) &&
             read_options(s, &q, &parts, &o, err) && make_prompt(s, &q, &parts, &p, err) &&
             submit(s, r, &q, kind, &o, &p, out, err);
    ollama_request_free(&q);
    chat_request_free(&parts);
    job_options_free(&o);
    weir_prompt_free(&p);
    return ok;
}

static void handle(server *s, const http_request *r, ollama_kind kind, outlet *out)
{
    json_t   *body = NULL;
    api_error err;
    if (!body_parse(r->body, r->n_body, &body, &err) || !serve_reply(s, r, body, kind, out, &err))
        answer_error(out, &err, API_OLLAMA, r->id);
    json_decref(body);
}

void handle_ollama_chat(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    handle(s, r, OLLAMA_CHAT, out);
}

void handle_ollama_generate(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    handle(s, r, OLLAMA_GENERATE, out);
}
