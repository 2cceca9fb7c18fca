/* serve/responses_writer.c - events to the Responses API: one object, or events that build it up.
 *
 * A reply becomes items, one open at a time: reasoning, messages and calls, in the order in which
 * they come.  Whole answer and stream make the same items; the stream tells of each as it grows,
 * every event with the next number.  A client may take its history from the events that close
 * items, so those hold all of the item. */
#include "base/mem.h"
#include "serve/json_out.h"
#include "serve/responses.h"
#include "serve/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TEXT_MAX = 1 << 29, FRAME_MAX = 1 << 29 };

typedef enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_FUNCTION, ITEM_CUSTOM } item_kind;

typedef struct responses_writer {
    dialect        base;
    outlet        *out; /* the job's share */
    openai_head    head;
    responses_form form;
    char           request_id[129];
    str            frame;
    uint32_t       sequence;
    bool           created; /* the stream's first events are out */

    item_kind open;
    uint32_t  index; /* of the open item, or of the next */
    char      item_id[40];
    str       text;      /* the open item's: the inside of a JSON string */
    str       arguments; /* of a custom tool, as the model wrote them: an object around the input */
    str       logprobs;  /* entries of the open message */
    str       call;      /* members of the open call: call_id, namespace; */
    str       name;      /* and its name, a JSON string */

    str          output; /* the closed items */
    uint32_t     n_calls;
    bool         answered; /* there is more than reasoning */
    bool         dropping; /* a second call, where one is allowed */
    reply_finish finish;
} responses_writer;

/* ---- frames ---- */

static void send(responses_writer *w)
{
    sse_close(&w->frame);
    if (w->frame.failed) {
        outlet_hang_up(w->out); /* a frame that is left out would be a wrong answer */
        return;
    }
    (void)outlet_put(w->out, w->frame.data, w->frame.len);
}

static void open_event(responses_writer *w, const char *type)
{
    str_clear(&w->frame);
    sse_open(&w->frame, type);
    str_printf(&w->frame, "{\"type\":\"%s\",\"sequence_number\":%u", type, w->sequence++);
}

static void close_event(responses_writer *w)
{
    str_putc(&w->frame, '}');
    send(w);
}

/* An event of the open item, up to what is particular to it. */
static void open_item_event(responses_writer *w, const char *type)
{
    open_event(w, type);
    str_printf(&w->frame, ",\"item_id\":\"%s\",\"output_index\":%u", w->item_id, w->index);
}

static void put_quoted(str *out, const str *inside)
{
    str_putc(out, '"');
    str_put(out, inside->data, inside->len);
    str_putc(out, '"');
    if (inside->failed) out->failed = true;
}

/* ---- the response object ---- */

static void put_usage(const reply_usage *u, str *out)
{
    str_printf(out,
               "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},\"output_tokens\":%u,"
               "\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%u}",
               u->prompt, u->cached, u->completion, u->reasoning, u->prompt + u->completion);
}

/* What `error` says; stored parsers of clients act on these codes. */
static const char *error_code(api_kind kind)
{
    switch (kind) {
    case API_CONTEXT: return "context_length_exceeded";
    case API_QUEUE_FULL: return "rate_limit_exceeded";
    case API_INVALID:
    case API_BUDGET: return "invalid_prompt";
    default: return "server_error";
    }
}

/* `u` and `e` may be NULL. */
static void put_response(const responses_writer *w, const char *status, const reply_usage *u, const api_error *e,
                         str *out)
{
    str_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64 ",\"completed_at\":", w->head.id,
               w->head.created);
    if (strcmp(status, "completed") == 0)
        str_printf(out, "%" PRId64, (int64_t)time(NULL));
    else
        str_puts(out, "null");
    str_printf(out, ",\"status\":\"%s\",\"background\":false,\"error\":", status);
    if (e != NULL) {
        str_printf(out, "{\"code\":\"%s\",\"message\":", error_code(e->kind));
        json_out_string(out, e->message, strlen(e->message));
        str_putc(out, '}');
    } else {
        str_puts(out, "null");
    }
    str_printf(out, ",\"incomplete_details\":%s,",
               strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    str_put(out, w->form.before.data, w->form.before.len);
    str_puts(out, ",\"output\":[");
    str_put(out, w->output.data, w->output.len);
    str_puts(out, "],");
    str_put(out, w->form.behind.data, w->form.behind.len);
    str_puts(out, ",\"usage\":");
    if (u != NULL)
        put_usage(u, out);
    else
        str_puts(out, "null");
    str_putc(out, '}');
    if (w->output.failed || w->form.before.failed || w->form.behind.failed) out->failed = true;
}

static void send_response(responses_writer *w, const char *type, const char *status, const reply_usage *u,
                          const api_error *e)
{
    open_event(w, type);
    str_puts(&w->frame, ",\"response\":");
    put_response(w, status, u, e, &w->frame);
    close_event(w);
}

static void create(responses_writer *w)
{
    if (w->created || !w->form.stream) return;
    w->created = true;
    send_response(w, "response.created", "in_progress", NULL, NULL);
    send_response(w, "response.in_progress", "in_progress", NULL, NULL);
}

/* ---- items ---- */

static void put_text_part(const responses_writer *w, str *out)
{
    str_puts(out, "{\"type\":\"output_text\",\"text\":");
    put_quoted(out, &w->text);
    str_puts(out, ",\"annotations\":[],\"logprobs\":[");
    str_put(out, w->logprobs.data, w->logprobs.len);
    str_puts(out, "]}");
    if (w->logprobs.failed) out->failed = true;
}

static void put_reasoning_part(const responses_writer *w, str *out)
{
    str_printf(out, "{\"type\":\"%s\",\"text\":", w->form.summary ? "summary_text" : "reasoning_text");
    put_quoted(out, &w->text);
    str_putc(out, '}');
}

static void put_reasoning(const responses_writer *w, bool begun, str *out)
{
    str_puts(out, "\"summary\":[");
    if (!begun && w->form.summary) put_reasoning_part(w, out);
    str_puts(out, "],\"content\":[");
    if (!begun && !w->form.summary) put_reasoning_part(w, out);
    str_puts(out, "],\"encrypted_content\":null");
}

/* The open item; one that has just begun has no parts yet. */
static void put_item(const responses_writer *w, const char *status, str *out)
{
    static const char *const types[] = {[ITEM_NONE]      = "",
                                        [ITEM_REASONING] = "reasoning",
                                        [ITEM_MESSAGE]   = "message",
                                        [ITEM_FUNCTION]  = "function_call",
                                        [ITEM_CUSTOM]    = "custom_tool_call"};
    const bool               begun   = strcmp(status, "in_progress") == 0;
    str_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",", w->item_id, types[w->open], status);
    switch (w->open) {
    case ITEM_NONE: break;
    case ITEM_REASONING: put_reasoning(w, begun, out); break;
    case ITEM_MESSAGE:
        str_puts(out, "\"role\":\"assistant\",\"content\":[");
        if (!begun) put_text_part(w, out);
        str_putc(out, ']');
        break;
    case ITEM_FUNCTION:
    case ITEM_CUSTOM:
        str_put(out, w->call.data, w->call.len);
        str_puts(out, ",\"name\":");
        str_put(out, w->name.data, w->name.len);
        str_printf(out, ",\"%s\":", w->open == ITEM_CUSTOM ? "input" : "arguments");
        put_quoted(out, &w->text);
        if (w->call.failed || w->name.failed) out->failed = true;
        break;
    }
    str_putc(out, '}');
}

static void send_item(responses_writer *w, const char *type, const char *status)
{
    if (!w->form.stream) return;
    open_event(w, type);
    str_printf(&w->frame, ",\"output_index\":%u,\"item\":", w->index);
    put_item(w, status, &w->frame);
    close_event(w);
}

/* The event around a part, begun or done: the text is all there is by then. */
static void send_part(responses_writer *w, const char *type)
{
    if (!w->form.stream) return;
    open_item_event(w, type);
    str_printf(&w->frame, ",\"%s\":0,\"part\":", w->open == ITEM_MESSAGE ? "content_index" : "summary_index");
    if (w->open == ITEM_MESSAGE)
        put_text_part(w, &w->frame);
    else
        put_reasoning_part(w, &w->frame);
    close_event(w);
}

static void open_item(responses_writer *w, item_kind kind)
{
    static const char *const prefixes[] = {[ITEM_NONE]      = "",
                                           [ITEM_REASONING] = "rs_",
                                           [ITEM_MESSAGE]   = "msg_",
                                           [ITEM_FUNCTION]  = "fc_",
                                           [ITEM_CUSTOM]    = "ctc_"};
    w->open                             = kind;
    if (kind != ITEM_REASONING) w->answered = true;
    random_id(prefixes[kind], w->item_id, sizeof w->item_id);
    str_clear(&w->text);
    str_clear(&w->arguments);
    str_clear(&w->logprobs);
    send_item(w, "response.output_item.added", "in_progress");
    if (kind == ITEM_MESSAGE) send_part(w, "response.content_part.added");
    if (kind == ITEM_REASONING && w->form.summary) send_part(w, "response.reasoning_summary_part.added");
}

/* ---- texts of items ---- */

/* How the growing text of a kind is told. */
static const char *stem(const responses_writer *w)
{
    switch (w->open) {
    case ITEM_REASONING: return w->form.summary ? "response.reasoning_summary_text" : "response.reasoning_text";
    case ITEM_MESSAGE: return "response.output_text";
    case ITEM_FUNCTION: return "response.function_call_arguments";
    case ITEM_CUSTOM: return "response.custom_tool_call_input";
    case ITEM_NONE: break;
    }
    return "";
}

/* `response.X.delta` or `.done`, up to what is particular to it. */
static void open_text_event(responses_writer *w, const char *what)
{
    char type[80];
    (void)snprintf(type, sizeof type, "%s.%s", stem(w), what);
    open_item_event(w, type);
    if (w->open == ITEM_MESSAGE || (w->open == ITEM_REASONING && !w->form.summary))
        str_puts(&w->frame, ",\"content_index\":0");
    else if (w->open == ITEM_REASONING)
        str_puts(&w->frame, ",\"summary_index\":0");
}

static void put_entries(responses_writer *w, const reply_event *e, str *out)
{
    if (w->form.logprobs) openai_put_logprobs(w->head.weights, e->logprobs, e->n_logprobs, out);
}

static void grow(responses_writer *w, const reply_event *e)
{
    json_out_escaped(&w->text, e->text, e->len);
    if (w->open == ITEM_MESSAGE && w->form.logprobs && e->n_logprobs > 0) {
        if (w->logprobs.len > 0) str_putc(&w->logprobs, ',');
        put_entries(w, e, &w->logprobs);
    }
    if (!w->form.stream) return;
    open_text_event(w, "delta");
    str_puts(&w->frame, ",\"delta\":");
    json_out_string(&w->frame, e->text, e->len);
    if (w->open == ITEM_MESSAGE) {
        str_puts(&w->frame, ",\"logprobs\":[");
        put_entries(w, e, &w->frame);
        str_putc(&w->frame, ']');
    }
    close_event(w);
}

/* What a custom tool gets: the string in the object that the model wrote; where there is none, all
 * of what it wrote. */
static void unwrap_input(responses_writer *w)
{
    json_error_t  je;
    json_t       *object = json_loadb(w->arguments.data, w->arguments.len, 0, &je);
    const json_t *input  = json_object_get(object, "input");
    const char   *text   = json_is_string(input) ? json_string_value(input) : w->arguments.data;
    const size_t  n      = json_is_string(input) ? json_string_length(input) : w->arguments.len;
    if (w->arguments.failed) w->text.failed = true;
    if (n > 0) grow(w, &(reply_event){.text = text, .len = n});
    json_decref(object);
}

static void send_text_done(responses_writer *w)
{
    if (!w->form.stream) return;
    open_text_event(w, "done");
    str_printf(&w->frame, ",\"%s\":",
               w->open == ITEM_FUNCTION ? "arguments"
               : w->open == ITEM_CUSTOM ? "input"
                                        : "text");
    put_quoted(&w->frame, &w->text);
    if (w->open == ITEM_MESSAGE) {
        str_puts(&w->frame, ",\"logprobs\":[");
        str_put(&w->frame, w->logprobs.data, w->logprobs.len);
        str_putc(&w->frame, ']');
    } else if (w->open == ITEM_FUNCTION) {
        str_puts(&w->frame, ",\"name\":");
        str_put(&w->frame, w->name.data, w->name.len);
    }
    close_event(w);
}

static void close_item(responses_writer *w, const char *status)
{
    if (w->open == ITEM_NONE) return;
    if (w->open == ITEM_CUSTOM) unwrap_input(w);
    send_text_done(w);
    if (w->open == ITEM_MESSAGE) send_part(w, "response.content_part.done");
    if (w->open == ITEM_REASONING && w->form.summary) send_part(w, "response.reasoning_summary_part.done");
    send_item(w, "response.output_item.done", status);
    if (w->output.len > 0) str_putc(&w->output, ',');
    put_item(w, status, &w->output);
    w->open = ITEM_NONE;
    w->index++;
}

static void say(responses_writer *w, item_kind kind, const reply_event *e)
{
    if (w->open != kind) {
        close_item(w, "completed");
        open_item(w, kind);
    }
    grow(w, e);
}

/* ---- calls ---- */

static void begin_call(responses_writer *w, const reply_event *e)
{
    const json_t *note = json_object_get(w->form.told, e->name), *ns = json_object_get(note, "namespace");
    const char   *name = note != NULL ? json_string_value(json_object_get(note, "name")) : e->name;
    close_item(w, "completed");
    if (w->form.one_call && w->n_calls > 0) {
        w->dropping = true;
        return;
    }
    w->n_calls++;
    str_clear(&w->call);
    str_puts(&w->call, "\"call_id\":");
    json_out_string(&w->call, e->call_id, strlen(e->call_id));
    if (json_is_string(ns)) {
        str_puts(&w->call, ",\"namespace\":");
        json_out_string(&w->call, json_string_value(ns), json_string_length(ns));
    }
    str_clear(&w->name);
    json_out_string(&w->name, name, strlen(name));
    open_item(w, json_is_true(json_object_get(note, "custom")) ? ITEM_CUSTOM : ITEM_FUNCTION);
}

/* ---- the dialect ---- */

static void responses_event(dialect *d, const reply_event *e)
{
    responses_writer *w = (responses_writer *)d;
    create(w);
    if (w->dropping && e->kind != REPLY_END) return;
    switch (e->kind) {
    case REPLY_BEGIN: break;
    case REPLY_REASONING: say(w, ITEM_REASONING, e); break;
    case REPLY_CONTENT: say(w, ITEM_MESSAGE, e); break;
    case REPLY_CALL: begin_call(w, e); break;
    case REPLY_ARGUMENTS:
        if (w->open == ITEM_CUSTOM)
            str_put(&w->arguments, e->text, e->len);
        else if (w->open == ITEM_FUNCTION)
            grow(w, e);
        break;
    case REPLY_CALL_END: close_item(w, "completed"); break;
    case REPLY_END:
        w->finish = e->finish;
        if (w->open == ITEM_MESSAGE && w->form.logprobs && e->n_logprobs > 0) {
            if (w->logprobs.len > 0) str_putc(&w->logprobs, ',');
            put_entries(w, e, &w->logprobs);
        }
        close_item(w, e->finish == REPLY_LENGTH ? "incomplete" : "completed");
        break;
    }
}

/* Keeps the response, before its client can ask for it. */
static void keep(responses_writer *w, const str *object)
{
    if (w->form.items == NULL || object->failed) return;
    stored_response r = {.id       = mem_strdup(w->head.id),
                         .previous = w->form.previous,
                         .items    = w->form.items,
                         .response = mem_strndup(object->data, object->len)};
    w->form.previous = w->form.items = NULL;
    if (r.id != NULL && r.response != NULL)
        response_store_put(w->form.store, &r);
    else
        stored_response_free(&r);
}

/* A client that set no limit and got nothing but reasoning has to shorten what it sends: it is told
 * as of a prompt that is too long, which is what clients act upon. */
static bool is_overflow(const responses_writer *w)
{
    return w->form.stream && w->finish == REPLY_LENGTH && !w->form.limited && !w->answered;
}

static void responses_end(dialect *d, const reply_usage *u)
{
    responses_writer *w          = (responses_writer *)d;
    const bool        incomplete = w->finish == REPLY_LENGTH;
    const char       *status     = incomplete ? "incomplete" : "completed";
    api_error         e;
    str               object;
    if (is_overflow(w)) {
        (void)api_fail(&e, API_CONTEXT, NULL, "the context was full before the reasoning ended");
        send_response(w, "response.failed", "failed", u, &e);
        outlet_end(w->out);
        return;
    }
    str_init(&object, TEXT_MAX);
    put_response(w, status, u, NULL, &object);
    keep(w, &object);
    if (!w->form.stream) {
        answer_json(w->out, &object);
        return;
    }
    open_event(w, incomplete ? "response.incomplete" : "response.completed");
    str_puts(&w->frame, ",\"response\":");
    str_put(&w->frame, object.data, object.len);
    if (object.failed) w->frame.failed = true;
    close_event(w);
    outlet_end(w->out);
    str_free(&object);
}

/* Before the stream has begun an error has a status of its own; but a prompt that is too long is
 * told in the stream, where clients look for it. */
static void responses_fail(dialect *d, const api_error *e)
{
    responses_writer *w = (responses_writer *)d;
    if (!w->form.stream || (!outlet_begun(w->out) && e->kind != API_CONTEXT)) {
        answer_error(w->out, e, API_OPENAI, w->request_id);
        return;
    }
    create(w);
    send_response(w, "response.failed", "failed", NULL, e);
    outlet_end(w->out);
}

void responses_form_free(responses_form *f)
{
    str_free(&f->before);
    str_free(&f->behind);
    json_decref(f->told);
    mem_free(f->previous);
    mem_free(f->items);
    *f = (responses_form){0};
}

static void responses_free(dialect *d)
{
    responses_writer *w = (responses_writer *)d;
    str_free(&w->frame);
    str_free(&w->text);
    str_free(&w->arguments);
    str_free(&w->logprobs);
    str_free(&w->call);
    str_free(&w->name);
    str_free(&w->output);
    responses_form_free(&w->form);
    openai_head_free(&w->head);
    outlet_release(w->out);
    mem_free(w);
}

dialect *responses_writer_new(openai_head *head, responses_form *form, const char *request_id, outlet *out)
{
    responses_writer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->out  = outlet_share(out);
    w->base = (dialect){.event = responses_event, .end = responses_end, .fail = responses_fail, .free = responses_free};
    w->head = *head;
    w->form = *form;
    *head   = (openai_head){0};
    *form   = (responses_form){0};
    str_init(&w->frame, FRAME_MAX);
    str_init(&w->text, TEXT_MAX);
    str_init(&w->arguments, TEXT_MAX);
    str_init(&w->logprobs, TEXT_MAX);
    str_init(&w->call, TEXT_MAX);
    str_init(&w->name, TEXT_MAX);
    str_init(&w->output, TEXT_MAX);
    (void)memcpy(w->request_id, request_id, strnlen(request_id, sizeof w->request_id - 1));
    return &w->base;
}
