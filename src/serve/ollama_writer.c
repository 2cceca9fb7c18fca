/* serve/ollama_writer.c - events to Ollama's answers: an object a line, or one in all.
 *
 * Thinking and content are lines of their own; a tool call is one line, which is sent when the
 * call is complete, its arguments an object.  The last line says nothing and counts: tokens, and
 * times in nanoseconds. */
#include "base/mem.h"
#include "serve/json_out.h"
#include "serve/ollama.h"
#include "serve/openai.h"

#include <inttypes.h>
#include <string.h>

enum { TEXT_MAX = 1 << 29, LINE_MAX_BYTES = 1 << 26 };

typedef struct ollama_writer {
    dialect           base;
    outlet           *out; /* the job's share */
    ollama_kind       kind;
    bool              stream, logprobs;
    char             *model;
    const weir_model *weights;
    char              request_id[129];
    weir_ids          prompt; /* what `context` begins with */
    bool              wants_context, thinking_open;
    str               line;
    str               call;                         /* the one that is open: an element of tool_calls */
    str               content, thinking;            /* what a whole answer, and a context, has to remember */
    str               calls, entries, last_entries; /* of a whole answer; last_entries: of the last line */
    const char       *reason;
} ollama_writer;

void ollama_put_time(const struct timespec *t, str *out)
{
    struct tm day;
    char      text[32];
    (void)gmtime_r(&t->tv_sec, &day);
    if (strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &day) == 0) text[0] = '\0';
    str_printf(out, "\"%s.%09ldZ\"", text, t->tv_nsec);
}

void ollama_put_head(const char *model, str *out)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    str_puts(out, "\"model\":");
    json_out_string(out, model, strlen(model));
    str_puts(out, ",\"created_at\":");
    ollama_put_time(&now, out);
}

/* ---- parts of a line ---- */

/* What one line says; each may be empty. */
typedef struct saying {
    str content, thinking, calls, entries; /* borrowed */
} saying;

static void put_member(const char *name, const str *text, str *out)
{
    str_printf(out, "\"%s\":", name);
    json_out_string(out, text->data, text->len);
}

static void put_calls(const str *calls, str *out)
{
    if (calls->len == 0) return;
    str_puts(out, ",\"tool_calls\":[");
    str_put(out, calls->data, calls->len);
    str_putc(out, ']');
}

/* `"message":{...}` or `"response":...`, and the log probabilities. */
static void put_saying(const ollama_writer *w, const saying *s, str *out)
{
    const bool chat = w->kind == OLLAMA_CHAT;
    str_puts(out, chat ? ",\"message\":{\"role\":\"assistant\"," : ",");
    put_member(chat ? "content" : "response", &s->content, out);
    if (s->thinking.len > 0) {
        str_putc(out, ',');
        put_member("thinking", &s->thinking, out);
    }
    put_calls(&s->calls, out);
    if (chat) str_putc(out, '}');
    if (s->entries.len == 0) return;
    str_puts(out, ",\"logprobs\":[");
    str_put(out, s->entries.data, s->entries.len);
    str_putc(out, ']');
}

static uint64_t nanoseconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

/* The prompt and what was said, for a request that goes on from here: the reply as it is
 * tokenized, and the end of its turn. */
static void put_context(ollama_writer *w, str *out)
{
    static const char open[] = "<think>\n", close[] = "\n</think>\n\n", end[] = "<|im_end|>\n";
    const bool        thought = w->thinking.len > 0;
    const struct {
        const char *text;
        size_t      n;
        bool        tags;
    } parts[] = {{open, thought && !w->thinking_open ? sizeof open - 1 : 0, true},
                 {w->thinking.data, w->thinking.len, false},
                 {close, thought || w->thinking_open ? sizeof close - 1 : 0, true},
                 {w->content.data, w->content.len, false},
                 {end, sizeof end - 1, true}};
    str_puts(out, ",\"context\":[");
    for (size_t i = 0; i < w->prompt.n; i++) str_printf(out, i == 0 ? "%u" : ",%u", w->prompt.data[i]);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        weir_ids ids = {0};
        if (parts[k].n > 0 &&
            weir_tokenize(w->weights, parts[k].text, parts[k].n, parts[k].tags, &ids, NULL) != WEIR_OK)
            out->failed = true;
        for (size_t i = 0; i < ids.n; i++) str_printf(out, ",%u", ids.data[i]);
        weir_ids_free(&ids);
    }
    str_putc(out, ']');
}

/* What the last line has on top; it closes the object. */
static void put_end(ollama_writer *w, const reply_usage *u, str *out)
{
    str_printf(out, ",\"done\":true,\"done_reason\":\"%s\"", w->reason);
    if (w->wants_context) put_context(w, out);
    str_printf(out,
               ",\"total_duration\":%" PRIu64 ",\"load_duration\":%" PRIu64 ",\"prompt_eval_count\":%u,"
               "\"prompt_cached_count\":%u,\"prompt_eval_duration\":%" PRIu64 ",\"eval_count\":%u,"
               "\"eval_duration\":%" PRIu64 "}",
               nanoseconds(u->wait_seconds + u->read_seconds + u->reply_seconds), nanoseconds(u->wait_seconds),
               u->prompt, u->cached, nanoseconds(u->read_seconds), u->completion, nanoseconds(u->reply_seconds));
}

/* ---- events ---- */

static void open_line(ollama_writer *w)
{
    str_clear(&w->line);
    str_putc(&w->line, '{');
    ollama_put_head(w->model, &w->line);
}

static void send(ollama_writer *w)
{
    str_putc(&w->line, '\n');
    if (w->line.failed || w->call.failed || w->content.failed || w->thinking.failed)
        outlet_hang_up(w->out); /* a line that is left out would be a wrong answer */
    else
        (void)outlet_put(w->out, w->line.data, w->line.len);
}

static void send_saying(ollama_writer *w, const saying *s)
{
    open_line(w);
    put_saying(w, s, &w->line);
    str_puts(&w->line, ",\"done\":false}");
    send(w);
}

/* A piece of text, as if it were all of a builder. */
static str piece(const reply_event *e)
{
    return (str){.data = (char *)(uintptr_t)e->text, .len = e->len};
}

static void add_entries(const ollama_writer *w, const reply_event *e, str *out)
{
    if (!w->logprobs || e->n_logprobs == 0) return;
    if (out->len > 0) str_putc(out, ',');
    openai_put_logprobs(w->weights, e->logprobs, e->n_logprobs, out);
}

static void open_call(ollama_writer *w, const reply_event *e)
{
    str_clear(&w->call);
    str_puts(&w->call, "{\"id\":");
    json_out_string(&w->call, e->call_id, strlen(e->call_id));
    str_printf(&w->call, ",\"function\":{\"index\":%u,\"name\":", e->call);
    json_out_string(&w->call, e->name, strlen(e->name));
    str_puts(&w->call, ",\"arguments\":");
}

static void stream_text(ollama_writer *w, const reply_event *e)
{
    saying s = {0};
    if (e->kind == REPLY_REASONING)
        s.thinking = piece(e);
    else
        s.content = piece(e);
    str_clear(&w->entries);
    add_entries(w, e, &w->entries);
    s.entries = w->entries;
    send_saying(w, &s);
}

static void on_text(ollama_writer *w, const reply_event *e)
{
    if (!w->stream || w->wants_context)
        str_put(e->kind == REPLY_REASONING ? &w->thinking : &w->content, e->text, e->len);
    if (w->stream)
        stream_text(w, e);
    else
        add_entries(w, e, &w->entries);
}

static void close_call(ollama_writer *w)
{
    str_puts(&w->call, "}}");
    if (w->stream) {
        send_saying(w, &(saying){.calls = w->call});
        return;
    }
    if (w->calls.len > 0) str_putc(&w->calls, ',');
    str_put(&w->calls, w->call.data, w->call.len);
}

static void on_event(dialect *d, const reply_event *e)
{
    ollama_writer *w = (ollama_writer *)d;
    switch (e->kind) {
    case REPLY_BEGIN: break;
    case REPLY_REASONING:
    case REPLY_CONTENT: on_text(w, e); break;
    case REPLY_CALL: open_call(w, e); break;
    case REPLY_ARGUMENTS: str_put(&w->call, e->text, e->len); break;
    case REPLY_CALL_END: close_call(w); break;
    case REPLY_END:
        w->reason = e->finish == REPLY_LENGTH ? "length" : "stop";
        add_entries(w, e, w->stream ? &w->last_entries : &w->entries);
        break;
    }
}

static void stream_end(dialect *d, const reply_usage *u)
{
    ollama_writer *w = (ollama_writer *)d;
    open_line(w);
    put_saying(w, &(saying){.entries = w->last_entries}, &w->line);
    put_end(w, u, &w->line);
    send(w);
    outlet_end(w->out);
}

static void whole_end(dialect *d, const reply_usage *u)
{
    ollama_writer *w = (ollama_writer *)d;
    str            body;
    str_init(&body, TEXT_MAX);
    str_putc(&body, '{');
    ollama_put_head(w->model, &body);
    put_saying(w, &(saying){.content = w->content, .thinking = w->thinking, .calls = w->calls, .entries = w->entries},
               &body);
    put_end(w, u, &body);
    if (w->content.failed || w->thinking.failed || w->call.failed || w->calls.failed || w->entries.failed)
        body.failed = true;
    answer_json(w->out, &body);
}

/* Before the stream has begun an error has a status of its own, afterwards a line. */
static void on_fail(dialect *d, const api_error *e)
{
    ollama_writer *w = (ollama_writer *)d;
    if (!w->stream || !outlet_begun(w->out)) {
        answer_error(w->out, e, API_OLLAMA, w->request_id);
        return;
    }
    str_clear(&w->line);
    api_error_json(e, API_OLLAMA, w->request_id, &w->line);
    send(w);
    outlet_end(w->out);
}

/* ---- life ---- */

static void writer_free(dialect *d)
{
    ollama_writer *w = (ollama_writer *)d;
    str_free(&w->line);
    str_free(&w->call);
    str_free(&w->content);
    str_free(&w->thinking);
    str_free(&w->calls);
    str_free(&w->entries);
    str_free(&w->last_entries);
    weir_ids_free(&w->prompt);
    mem_free(w->model);
    outlet_release(w->out);
    mem_free(w);
}

static bool copy_ids(const weir_ids *from, weir_ids *to)
{
    to->data = mem_alloc(from->n, sizeof *to->data);
    if (to->data == NULL) return false;
    memcpy(to->data, from->data, from->n * sizeof *to->data);
    to->n = to->capacity = from->n;
    return true;
}

dialect *ollama_writer_new(const ollama_form *form, const char *request_id, outlet *out)
{
    ollama_writer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->base          = (dialect){.event = on_event, .end = whole_end, .fail = on_fail, .free = writer_free};
    w->out           = outlet_share(out);
    w->kind          = form->kind;
    w->stream        = form->stream;
    w->logprobs      = form->logprobs;
    w->weights       = form->weights;
    w->reason        = "stop";
    w->wants_context = form->prompt != NULL;
    w->thinking_open = form->thinking_open;
    w->model         = mem_strdup(form->model);
    if (form->stream) w->base.end = stream_end;
    (void)memcpy(w->request_id, request_id, strnlen(request_id, sizeof w->request_id - 1));
    str_init(&w->line, LINE_MAX_BYTES);
    str_init(&w->call, LINE_MAX_BYTES);
    str_init(&w->content, TEXT_MAX);
    str_init(&w->thinking, TEXT_MAX);
    str_init(&w->calls, TEXT_MAX);
    str_init(&w->entries, TEXT_MAX);
    str_init(&w->last_entries, TEXT_MAX);
    if (w->model == NULL || (form->prompt != NULL && !copy_ids(form->prompt, &w->prompt))) {
        writer_free(&w->base);
        return NULL;
    }
    return &w->base;
}
