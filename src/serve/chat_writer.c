/* serve/chat_writer.c - events to Chat Completions: chunks as they come, or one object.
 *
 * Chunks of a choice: the role once; then reasoning, content or tool calls, one kind each, none
 * empty; then the finish reason.  Reasoning goes out under both names that clients read,
 * reasoning_content and reasoning. */
#include "base/mem.h"
#include "serve/json_out.h"
#include "serve/openai.h"
#include "serve/sse.h"

#include <string.h>

enum { TEXT_MAX = 1 << 29, FRAME_MAX = 1 << 26 };

/* What a whole answer has to remember of a choice; JSON that is only wrapped at the end. */
typedef struct chat_choice {
    str          content, reasoning; /* the insides of JSON strings */
    str          calls;              /* members of tool_calls */
    str          call;               /* the one that is still open */
    str          unfinished;         /* what was cut off of it, as the inside of a JSON string */
    str          logprobs;           /* entries */
    reply_finish finish;
    str          stop; /* JSON */
} chat_choice;

typedef struct chat_writer {
    dialect     base;
    outlet     *out; /* the job's share */
    openai_head head;
    chat_form   form;
    char        request_id[129];
    void (*write)(dialect *d, const reply_event *e);
    bool        *thinking; /* [n], with inline_reasoning: the choice's content is inside <think> */
    chat_choice *choices;  /* of a whole answer only */
    str          frame;
} chat_writer;

/* ---- a stream ---- */

static void open_chunk(chat_writer *w)
{
    str_clear(&w->frame);
    sse_open(&w->frame, NULL);
    str_putc(&w->frame, '{');
    openai_put_head(&w->head, "chat.completion.chunk", &w->frame);
}

static void send(chat_writer *w)
{
    sse_close(&w->frame);
    if (w->frame.failed) {
        outlet_hang_up(w->out); /* a frame that is left out would be a wrong answer */
        return;
    }
    (void)outlet_put(w->out, w->frame.data, w->frame.len);
}

/* Everything of the chunk up to the inside of "delta". */
static void open_delta(chat_writer *w, uint32_t choice)
{
    open_chunk(w);
    str_printf(&w->frame, "\"choices\":[{\"index\":%u,\"delta\":{", choice);
}

static void close_delta(chat_writer *w, const reply_event *e)
{
    str_puts(&w->frame, "},\"logprobs\":");
    if (w->form.logprobs && e->n_logprobs > 0) {
        str_puts(&w->frame, "{\"content\":[");
        openai_put_logprobs(w->head.weights, e->logprobs, e->n_logprobs, &w->frame);
        str_puts(&w->frame, "],\"refusal\":null}");
    } else {
        str_puts(&w->frame, "null");
    }
    str_puts(&w->frame, ",\"finish_reason\":");
    if (e->kind == REPLY_END) {
        str_printf(&w->frame, "\"%s\",\"stop_reason\":", openai_finish(e->finish));
        openai_put_stop(e, &w->frame);
    } else {
        str_puts(&w->frame, "null");
    }
    str_puts(&w->frame, "}]");
    openai_put_now(&w->form.form, e, &w->frame);
    str_putc(&w->frame, '}');
    send(w);
}

static void put_text(chat_writer *w, const char *name, const reply_event *e)
{
    str_printf(&w->frame, "\"%s\":", name);
    json_out_string(&w->frame, e->text, e->len);
}

/* Up to the inside of the arguments. */
static void put_call_head(str *out, const reply_event *e)
{
    str_puts(out, "\"id\":");
    json_out_string(out, e->call_id, strlen(e->call_id));
    str_puts(out, ",\"type\":\"function\",\"function\":{\"name\":");
    json_out_string(out, e->name, strlen(e->name));
    str_puts(out, ",\"arguments\":\"");
}

static void stream_event(dialect *d, const reply_event *e)
{
    chat_writer *w = (chat_writer *)d;
    if (e->kind == REPLY_CALL_END) return;
    open_delta(w, e->choice);
    switch (e->kind) {
    case REPLY_BEGIN: str_puts(&w->frame, "\"role\":\"assistant\",\"content\":\"\""); break;
    case REPLY_REASONING:
        put_text(w, "reasoning_content", e);
        str_putc(&w->frame, ',');
        put_text(w, "reasoning", e);
        break;
    case REPLY_CONTENT: put_text(w, "content", e); break;
    case REPLY_CALL:
        str_printf(&w->frame, "\"tool_calls\":[{\"index\":%u,", e->call);
        put_call_head(&w->frame, e);
        str_puts(&w->frame, "\"}}]");
        break;
    case REPLY_ARGUMENTS:
        str_printf(&w->frame, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", e->call);
        json_out_string(&w->frame, e->text, e->len);
        str_puts(&w->frame, "}}]");
        break;
    case REPLY_CALL_END:
    case REPLY_END: break;
    }
    close_delta(w, e);
}

static void stream_end(dialect *d, const reply_usage *u)
{
    chat_writer *w = (chat_writer *)d;
    if (w->form.form.include_usage) {
        open_chunk(w);
        openai_put_last(&w->form.form, u, &w->frame);
        str_putc(&w->frame, '}');
        send(w);
    }
    (void)outlet_put(w->out, "data: [DONE]\n\n", 14);
    outlet_end(w->out);
}

static void stream_progress(dialect *d, const reply_progress *p)
{
    chat_writer *w = (chat_writer *)d;
    open_chunk(w);
    openai_put_progress(p, &w->frame);
    str_putc(&w->frame, '}');
    send(w);
}

/* ---- a whole answer ---- */

static void whole_event(dialect *d, const reply_event *e)
{
    chat_writer *w = (chat_writer *)d;
    chat_choice *c = &w->choices[e->choice];
    switch (e->kind) {
    case REPLY_BEGIN: break;
    case REPLY_REASONING: json_out_escaped(&c->reasoning, e->text, e->len); break;
    case REPLY_CONTENT: json_out_escaped(&c->content, e->text, e->len); break;
    case REPLY_CALL:
        str_clear(&c->call);
        str_puts(&c->call, c->calls.len > 0 ? ",{" : "{");
        put_call_head(&c->call, e);
        break;
    case REPLY_ARGUMENTS: json_out_escaped(&c->call, e->text, e->len); break;
    case REPLY_CALL_END: /* one that is cut off is none */
        str_puts(&c->call, "\"}}");
        str_put(&c->calls, c->call.data, c->call.len);
        break;
    case REPLY_END:
        c->finish = e->finish;
        if (e->unfinished != NULL) json_out_escaped(&c->unfinished, e->unfinished, strlen(e->unfinished));
        openai_put_stop(e, &c->stop);
        break;
    }
    if (!w->form.logprobs || e->n_logprobs == 0) return;
    if (c->logprobs.len > 0) str_putc(&c->logprobs, ',');
    openai_put_logprobs(w->head.weights, e->logprobs, e->n_logprobs, &c->logprobs);
}

enum { CHOICE_STRINGS = 7 };

static void strings_of(chat_choice *c, str *all[CHOICE_STRINGS])
{
    str *const list[CHOICE_STRINGS] = {&c->content,    &c->reasoning, &c->calls, &c->call,
                                       &c->unfinished, &c->logprobs,  &c->stop};
    memcpy(all, list, sizeof list);
}

static bool lost_memory(chat_choice *c)
{
    str *all[CHOICE_STRINGS];
    strings_of(c, all);
    for (size_t i = 0; i < CHOICE_STRINGS; i++)
        if (all[i]->failed) return true;
    return false;
}

static void put_message(const chat_choice *c, str *out)
{
    str_puts(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->calls.len > 0 && c->content.len == 0)
        str_puts(out, "null");
    else
        str_printf(out, "\"%s\"", c->content.data);
    str_puts(out, ",\"refusal\":null,\"annotations\":[]");
    if (c->reasoning.len > 0) {
        str_puts(out, ",\"reasoning_content\":\"");
        str_put(out, c->reasoning.data, c->reasoning.len);
        str_puts(out, "\",\"reasoning\":\"");
        str_put(out, c->reasoning.data, c->reasoning.len);
        str_putc(out, '"');
    }
    if (c->calls.len > 0) {
        str_puts(out, ",\"tool_calls\":[");
        str_put(out, c->calls.data, c->calls.len);
        str_putc(out, ']');
    }
    if (c->unfinished.len > 0) str_printf(out, ",\"x_unfinished_tool_call\":\"%s\"", c->unfinished.data);
    str_putc(out, '}');
}

static void put_choice(const chat_writer *w, uint32_t i, str *out)
{
    chat_choice *c = &w->choices[i];
    str_printf(out, "%s{\"index\":%u,", i == 0 ? "" : ",", i);
    put_message(c, out);
    str_puts(out, ",\"logprobs\":");
    if (w->form.logprobs) {
        str_puts(out, "{\"content\":[");
        str_put(out, c->logprobs.data, c->logprobs.len);
        str_puts(out, "],\"refusal\":null}");
    } else {
        str_puts(out, "null");
    }
    str_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":%s}", openai_finish(c->finish), c->stop.data);
    if (lost_memory(c)) out->failed = true;
}

static void whole_end(dialect *d, const reply_usage *u)
{
    chat_writer *w = (chat_writer *)d;
    str          body;
    str_init(&body, TEXT_MAX);
    str_putc(&body, '{');
    openai_put_head(&w->head, "chat.completion", &body);
    str_puts(&body, "\"choices\":[");
    for (uint32_t i = 0; i < w->form.n; i++) put_choice(w, i, &body);
    str_puts(&body, "],");
    openai_put_usage(u, &body);
    if (w->form.form.timings) openai_put_timings(u, &body);
    str_putc(&body, '}');
    answer_json(w->out, &body);
}

/* ---- both ---- */

static void write_text(chat_writer *w, const reply_event *like, const char *text, size_t n)
{
    reply_event e = *like;
    e.kind        = REPLY_CONTENT;
    e.text        = text;
    e.len         = n;
    e.n_logprobs  = 0;
    w->write(&w->base, &e);
}

/* Reasoning as a part of the content, between its tags. */
static void inline_event(chat_writer *w, const reply_event *e)
{
    static const char open[] = "<think>\n", shut[] = "\n</think>\n\n";
    bool             *in = &w->thinking[e->choice];
    if (e->kind == REPLY_REASONING) {
        if (!*in) write_text(w, e, open, strlen(open));
        *in = true;
        write_text(w, e, e->text, e->len);
        return;
    }
    if (*in && (e->kind != REPLY_END || e->finish != REPLY_LENGTH)) { /* what the limit cut off stays open */
        write_text(w, e, shut, strlen(shut));
        *in = false;
    }
    w->write(&w->base, e);
}

static void on_event(dialect *d, const reply_event *e)
{
    chat_writer *w = (chat_writer *)d;
    if (w->thinking != NULL)
        inline_event(w, e);
    else
        w->write(d, e);
}

/* Before the stream has begun an error has a status of its own, afterwards a frame; no [DONE]
 * follows it. */
static void chat_fail(dialect *d, const api_error *e)
{
    chat_writer *w = (chat_writer *)d;
    if (!w->form.form.stream || !outlet_begun(w->out)) {
        answer_error(w->out, e, API_OPENAI, w->request_id);
        return;
    }
    str_clear(&w->frame);
    sse_open(&w->frame, NULL);
    api_error_json(e, API_OPENAI, w->request_id, &w->frame);
    send(w);
    outlet_end(w->out);
}

static void chat_free(dialect *d)
{
    chat_writer *w = (chat_writer *)d;
    for (uint32_t i = 0; w->choices != NULL && i < w->form.n; i++) {
        str *all[CHOICE_STRINGS];
        strings_of(&w->choices[i], all);
        for (size_t k = 0; k < CHOICE_STRINGS; k++) str_free(all[k]);
    }
    mem_free(w->choices);
    mem_free(w->thinking);
    str_free(&w->frame);
    openai_head_free(&w->head);
    outlet_release(w->out);
    mem_free(w);
}

dialect *chat_writer_new(openai_head *head, const chat_form *form, const char *request_id, outlet *out)
{
    chat_writer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->form = *form;
    str_init(&w->frame, FRAME_MAX);
    w->out   = outlet_share(out);
    w->base  = (dialect){.event = on_event, .end = whole_end, .fail = chat_fail, .free = chat_free};
    w->write = whole_event;
    (void)memcpy(w->request_id, request_id, strnlen(request_id, sizeof w->request_id - 1));
    if (form->form.stream) {
        w->write    = stream_event;
        w->base.end = stream_end;
        if (form->form.progress) w->base.progress = stream_progress;
    } else {
        w->choices = mem_zalloc(form->n, sizeof *w->choices);
    }
    if (form->inline_reasoning) w->thinking = mem_zalloc(form->n, sizeof *w->thinking);
    if ((!form->form.stream && w->choices == NULL) || (form->inline_reasoning && w->thinking == NULL)) {
        chat_free(&w->base);
        return NULL;
    }
    for (uint32_t i = 0; w->choices != NULL && i < form->n; i++) {
        str *all[CHOICE_STRINGS];
        strings_of(&w->choices[i], all);
        for (size_t k = 0; k < CHOICE_STRINGS; k++) str_init(all[k], TEXT_MAX);
    }
    w->head = *head;
    *head   = (openai_head){0};
    return &w->base;
}
