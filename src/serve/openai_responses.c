/* serve/openai_responses.c - POST /v1/responses, and what asks for those that are over. */
#include "base/mem.h"
#include "serve/body.h"
#include "serve/calls.h"
#include "serve/chat_request.h"
#include "serve/generation.h"
#include "serve/prompt.h"
#include "serve/responses.h"
#include "serve/responses_request.h"
#include "serve/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ANSWER_MAX = 1 << 29, LIST_DEFAULT = 20, LIST_MOST = 100 };

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

/* ---- what was said before ---- */

static bool add_stored(json_t *history, const stored_response *r)
{
    json_error_t je;
    json_t      *items = json_loads(r->items, 0, &je), *response = json_loads(r->response, 0, &je);
    json_t      *output = json_object_get(response, "output");
    const bool   ok     = json_is_array(items) && json_is_array(output) && json_array_extend(history, items) == 0 &&
                    json_array_extend(history, output) == 0;
    json_decref(items);
    json_decref(response);
    return ok;
}

/* *out: the items of a chain of responses, new; NULL where there is none. */
static bool read_history(const server *s, const char *previous, json_t **out, api_error *err)
{
    stored_response *chain;
    size_t           n;
    *out = NULL;
    if (previous == NULL) return true;
    if (!response_store_chain(s->responses, previous, &chain, &n))
        return api_fail(err, API_NO_RESPONSE, "previous_response_id",
                        "previous_response_id: \"%.80s\" is not stored, or what it continues is not any more",
                        previous);
    bool ok = (*out = json_array()) != NULL;
    for (size_t i = 0; i < n && ok; i++) ok = add_stored(*out, &chain[i]);
    stored_responses_free(chain, n);
    return ok || no_memory(err);
}

/* ---- a request ---- */

/* Everything that a request comes to; release with asked_free. */
typedef struct asked {
    openai_form        form;
    openai_head        head;
    responses_request  q;
    chat_request_parts parts;
    job_options        o;
    weir_prompt        prompt;
} asked;

static void asked_free(asked *a)
{
    openai_head_free(&a->head);
    responses_request_free(&a->q);
    chat_request_free(&a->parts);
    job_options_free(&a->o);
    weir_prompt_free(&a->prompt);
}

static bool read_options(const server *s, asked *a, api_error *err)
{
    if (!generation_read(s, a->q.chat, &a->o, err)) return false;
    a->o.logprobs     = a->q.logprobs;
    a->o.top_logprobs = a->q.top_logprobs;
    return calls_read(s, &a->parts, NULL, &a->o, err);
}

static bool read_request(const server *s, const json_t *body, asked *a, api_error *err)
{
    json_t    *history = NULL;
    const bool ok      = openai_read_form(s, body, "resp_", &a->form, &a->head, err) &&
                    responses_request_read(body, &a->q, err) && read_history(s, a->q.previous, &history, err) &&
                    responses_request_fold(&a->q, body, history, err) &&
                    chat_request_read(a->q.chat, s->o->thinking, &a->parts, err) && read_options(s, a, err) &&
                    prompt_render(s, &a->parts, &a->prompt, err);
    json_decref(history);
    return ok;
}

/* A copy that mem_free releases. */
static char *dumped(const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT), *own = text != NULL ? mem_strdup(text) : NULL;
    free(text);
    return own;
}

static dialect *make_writer(server *s, const http_request *r, const json_t *body, asked *a, outlet *out)
{
    const responses_request *q    = &a->q;
    responses_form           form = {.stream   = a->form.stream,
                                     .summary  = q->summary,
                                     .logprobs = q->logprobs,
                                     .one_call = q->one_call,
                                     .limited  = q->limited,
                                     .told     = json_incref(q->tools.told),
                                     .store    = s->responses};
    str_init(&form.before, ANSWER_MAX);
    str_init(&form.behind, ANSWER_MAX);
    responses_put_echo(body, q, a->head.model, &a->o.sample, &form.before, &form.behind);
    if (q->store) form.items = dumped(q->items);
    if (q->previous != NULL) form.previous = mem_strdup(q->previous);
    dialect *d = NULL;
    if ((!q->store || form.items != NULL) && (q->previous == NULL || form.previous != NULL))
        d = responses_writer_new(&a->head, &form, r->id, out);
    responses_form_free(&form);
    return d;
}

/* Takes `d`. */
static bool submit(server *s, const http_request *r, asked *a, dialect *d, outlet *out, api_error *err)
{
    weir_ids *prompts = mem_zalloc(1, sizeof *prompts);
    if (prompts == NULL) {
        d->free(d);
        return no_memory(err);
    }
    a->o.thinking_open = a->prompt.thinking_open;
    prompts[0]         = a->prompt.ids;
    a->prompt.ids      = (weir_ids){0};
    job *j             = job_new(&a->o, prompts, 1, d, out);
    if (j == NULL) return no_memory(err);
    j->path        = "/v1/responses";
    j->received_ns = r->received_ns;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", r->id);
    if (a->form.stream) j->stream_type = SSE_TYPE;
    j->comments = true;
    if (engine_loop_submit(s->loop, j, err)) return true;
    job_free(j);
    return false;
}

static void put_headers(const asked *a, outlet *out)
{
    char text[160];
    if (a->form.stream) outlet_header(out, "Connection", "close"); /* clients wait for the end of the stream */
    if (a->q.tools.left_out + a->q.left_out == 0) return;
    (void)snprintf(text, sizeof text, "299 - \"left out: %zu tools and %zu items of kinds that are not served\"",
                   a->q.tools.left_out, a->q.left_out);
    outlet_header(out, "Warning", text);
}

static bool serve_response(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    asked a  = {0};
    bool  ok = read_request(s, body, &a, err);
    if (ok) {
        const bool fits = prompt_fits(s, a.prompt.ids.n, err);
        dialect   *d    = fits || a.form.stream ? make_writer(s, r, body, &a, out) : NULL;
        ok              = d != NULL || (fits && no_memory(err));
        if (ok) put_headers(&a, out);
        if (ok && !fits) { /* clients look for it in the stream */
            outlet_expect_stream(out, SSE_TYPE, false);
            (d->fail)(d, err);
            d->free(d);
        } else if (ok) {
            ok = submit(s, r, &a, d, out, err);
        }
    }
    asked_free(&a);
    return ok;
}

void handle_responses(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    api_error err;
    (void)rest;
    if (!body_parse(r->body, r->n_body, &body, &err) || !serve_response(s, r, body, out, &err))
        answer_error(out, &err, API_OPENAI, r->id);
    json_decref(body);
}

void handle_responses_tokens(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    asked     a    = {0};
    api_error err;
    str       text;
    (void)rest;
    str_init(&text, ANSWER_MAX);
    if (body_parse(r->body, r->n_body, &body, &err) && read_request(s, body, &a, &err)) {
        str_printf(&text, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", a.prompt.ids.n);
        answer_json(out, &text);
    } else {
        answer_error(out, &err, API_OPENAI, r->id);
    }
    asked_free(&a);
    json_decref(body);
}

/* Newer clients try a WebSocket first, and take the event stream when they are told at once. */
void handle_responses_upgrade(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error   err;
    const char *to = r->header(r, "Upgrade");
    (void)s;
    (void)rest;
    if (to != NULL && strcasecmp(to, "websocket") == 0) {
        (void)api_fail(&err, API_UPGRADE, NULL, "WebSocket is not served: POST with \"stream\": true");
        outlet_header(out, "Connection", "close");
    } else {
        (void)api_fail(&err, API_METHOD, NULL, "/responses: expected POST, found %.20s", r->method);
        outlet_header(out, "Allow", "POST, OPTIONS");
    }
    answer_error(out, &err, API_OPENAI, r->id);
}

/* Clients that may shorten a history on the server do it themselves where the path is not there. */
void handle_responses_compact(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error err;
    (void)s;
    (void)rest;
    (void)api_fail(&err, API_NOT_FOUND, NULL, "%.200s: no such path", r->path);
    answer_error(out, &err, API_OPENAI, r->id);
}

/* ---- those that are over ---- */

static bool find(const server *s, const http_request *r, const char *id, stored_response *found, outlet *out)
{
    api_error err;
    if (response_store_get(s->responses, id, found)) return true;
    (void)api_fail(&err, API_NOT_FOUND, NULL, "response \"%.80s\" not found", id);
    answer_error(out, &err, API_OPENAI, r->id);
    return false;
}

void handle_response(server *s, const http_request *r, const char *rest, outlet *out)
{
    stored_response found;
    str             text;
    if (!find(s, r, rest, &found, out)) return;
    str_init(&text, ANSWER_MAX);
    str_puts(&text, found.response);
    answer_json(out, &text);
    stored_response_free(&found);
}

void handle_response_delete(server *s, const http_request *r, const char *rest, outlet *out)
{
    stored_response found;
    str             text;
    if (!find(s, r, rest, &found, out)) return;
    (void)response_store_delete(s->responses, rest);
    str_init(&text, ANSWER_MAX);
    str_printf(&text, "{\"id\":\"%s\",\"object\":\"response.deleted\",\"deleted\":true}", found.id);
    answer_json(out, &text);
    stored_response_free(&found);
}

/* Only what runs in the background could be cancelled so; who waits for a response hangs up. */
void handle_response_cancel(server *s, const http_request *r, const char *rest, outlet *out)
{
    stored_response found;
    api_error       err;
    if (!find(s, r, rest, &found, out)) return;
    stored_response_free(&found);
    (void)api_fail(&err, API_INVALID, NULL, "response \"%.80s\" is over: expected one that runs in the background",
                   rest);
    answer_error(out, &err, API_OPENAI, r->id);
}

/* ---- a list of items ---- */

typedef struct page {
    bool   backwards; /* the newest first */
    size_t from, n;   /* in the order of the list */
    size_t limit;
} page;

static const json_t *item_at(const json_t *items, const page *p, size_t i)
{
    return json_array_get(items, p->backwards ? json_array_size(items) - 1 - i : i);
}

static const char *id_of(const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    return id != NULL ? id : "";
}

static bool read_page(const http_request *r, const json_t *items, page *p, api_error *err)
{
    const char  *order = r->argument(r, "order"), *limit = r->argument(r, "limit"), *after = r->argument(r, "after");
    const size_t total = json_array_size(items);
    *p                 = (page){.backwards = order == NULL || strcmp(order, "asc") != 0, .limit = LIST_DEFAULT};
    if (limit != NULL) {
        char      *end;
        const long n = strtol(limit, &end, 10);
        if (end == limit || *end != '\0' || n < 1 || n > LIST_MOST)
            return api_fail(err, API_INVALID, "limit", "limit: expected 1 to %d, found \"%.20s\"", LIST_MOST, limit);
        p->limit = (size_t)n;
    }
    if (after != NULL) {
        while (p->from < total && strcmp(id_of(item_at(items, p, p->from)), after) != 0) p->from++;
        if (p->from == total)
            return api_fail(err, API_INVALID, "after", "after: expected an item's id, found \"%.80s\"", after);
        p->from++;
    }
    p->n = total - p->from < p->limit ? total - p->from : p->limit;
    return true;
}

static json_t *make_list(const json_t *items, const page *p)
{
    json_t *data = json_array();
    for (size_t i = 0; i < p->n; i++)
        (void)json_array_append(data, (json_t *)(uintptr_t)item_at(items, p, p->from + i));
    const char *first = p->n > 0 ? id_of(json_array_get(data, 0)) : NULL;
    const char *last  = p->n > 0 ? id_of(json_array_get(data, p->n - 1)) : NULL;
    return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", data, "first_id", first, "last_id", last,
                     "has_more", (int)(p->from + p->n < json_array_size(items)));
}

void handle_response_items(server *s, const http_request *r, const char *rest, outlet *out)
{
    stored_response found;
    json_error_t    je;
    api_error       err;
    page            p;
    str             text;
    if (!find(s, r, rest, &found, out)) return;
    json_t *items = json_loads(found.items, 0, &je);
    if (read_page(r, items, &p, &err)) {
        json_t *list = make_list(items, &p);
        char   *json = list != NULL ? json_dumps(list, JSON_COMPACT) : NULL;
        str_init(&text, ANSWER_MAX);
        str_puts(&text, json != NULL ? json : "");
        if (json == NULL) text.failed = true;
        answer_json(out, &text);
        free(json);
        json_decref(list);
    } else {
        answer_error(out, &err, API_OPENAI, r->id);
    }
    json_decref(items);
    stored_response_free(&found);
}
