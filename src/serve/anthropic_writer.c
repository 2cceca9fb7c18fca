/* serve/anthropic_writer.c - events to Messages: frames as they come, or one object.
 *
 * The reply is blocks, one open at a time: thinking, text, tool_use.  A block opens with the first
 * event of its kind and closes with the first of another; a call is a block of its own.  Streams
 * and whole answers walk through the same blocks, so that the ones join to the others. */
#include "base/mem.h"
#include "serve/anthropic.h"
#include "serve/json_out.h"
#include "serve/sse.h"

#include <string.h>

enum { TEXT_MAX = 1 << 29, FRAME_MAX = 1 << 26 };

const char anthropic_ping[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

typedef enum block_kind { NO_BLOCK, THINKING, TEXT, TOOL_USE } block_kind;

typedef struct writer {
    dialect        base;
    outlet        *out; /* the job's share */
    anthropic_head head;
    char           request_id[129];
    bool           started; /* message_start is out */
    block_kind     open;
    bool           arguments; /* the open call has some */
    uint32_t       n_blocks;  /* the open one included */
    str            frame;     /* of a stream */
    str            content;   /* of a whole answer: the blocks, JSON */
    size_t         complete;  /* bytes of content before the open block */
    reply_finish   finish;
    str            stop; /* JSON */
} writer;

/* ---- what both have ---- */

/* What the cache had, what it has now, and the rest: together the prompt. */
static void put_usage(const writer *w, uint32_t prompt, uint32_t cached, uint32_t output, str *out)
{
    const uint32_t created = w->head.kept > cached ? w->head.kept - cached : 0;
    str_printf(out,
               "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":%u,\"cache_read_input_tokens\":%u,"
               "\"output_tokens\":%u",
               prompt - cached - created, created, cached, output);
}

static void put_head(const writer *w, str *out)
{
    str_printf(out, "\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", w->head.id);
    json_out_string(out, w->head.model, strlen(w->head.model));
}

/* A reply that was cut though it might have been longer has filled the context. */
static void put_stop(const writer *w, const reply_usage *u, str *out)
{
    const char *reason = w->finish == REPLY_TOOL_CALLS ? "tool_use" : "end_turn";
    if (w->finish == REPLY_LENGTH)
        reason = w->head.max_tokens != 0 && u->completion >= w->head.max_tokens ? "max_tokens"
                                                                                : "model_context_window_exceeded";
    const bool stopped = w->finish == REPLY_STOP && w->stop.len > 0;
    str_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stopped ? "stop_sequence" : reason);
    if (stopped)
        str_put(out, w->stop.data, w->stop.len);
    else
        str_puts(out, "null");
}

static void take_end(writer *w, const reply_event *e)
{
    w->finish = e->finish;
    if (e->stop != NULL) json_out_string(&w->stop, e->stop, strlen(e->stop));
}

static void put_call(const reply_event *e, str *out)
{
    str_puts(out, "\"type\":\"tool_use\",\"id\":");
    json_out_string(out, e->call_id, strlen(e->call_id));
    str_puts(out, ",\"name\":");
    json_out_string(out, e->name, strlen(e->name));
    str_puts(out, ",\"input\":");
}

static void fail_memory(writer *w)
{
    api_error e;
    (void)api_fail(&e, API_INTERNAL, NULL, "out of memory");
    answer_error(w->out, &e, API_ANTHROPIC, w->request_id);
}

/* ---- a stream ---- */

static void open_frame(writer *w, const char *type)
{
    str_clear(&w->frame);
    sse_open(&w->frame, type);
    str_printf(&w->frame, "{\"type\":\"%s\"", type);
}

static void send(writer *w)
{
    sse_close(&w->frame);
    if (w->frame.failed)
        outlet_hang_up(w->out); /* a frame that is left out would be a wrong answer */
    else
        (void)outlet_put(w->out, w->frame.data, w->frame.len);
}

static void start(writer *w, uint32_t prompt, uint32_t cached)
{
    if (w->started) return;
    w->started = true;
    open_frame(w, "message_start");
    str_puts(&w->frame, ",\"message\":{");
    put_head(w, &w->frame);
    str_puts(&w->frame, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(w, prompt, cached, 1, &w->frame);
    str_puts(&w->frame, "}}}");
    send(w);
    (void)outlet_put(w->out, anthropic_ping, strlen(anthropic_ping));
}

static void open_delta(writer *w, const char *type, const char *field)
{
    open_frame(w, "content_block_delta");
    str_printf(&w->frame, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", w->n_blocks - 1, type, field);
}

static void send_delta(writer *w, const char *type, const char *field, const char *text, size_t len)
{
    open_delta(w, type, field);
    json_out_string(&w->frame, text, len);
    str_puts(&w->frame, "}}");
    send(w);
}

static void stream_close(writer *w)
{
    if (w->open == NO_BLOCK) return;
    if (w->open == THINKING)
        send_delta(w, "signature_delta", "signature", w->head.signature, strlen(w->head.signature));
    open_frame(w, "content_block_stop");
    str_printf(&w->frame, ",\"index\":%u}", w->n_blocks - 1);
    send(w);
    w->open = NO_BLOCK;
}

static void stream_open(writer *w, block_kind kind, const reply_event *e)
{
    if (w->open == kind) return;
    stream_close(w);
    w->open      = kind;
    w->arguments = false;
    open_frame(w, "content_block_start");
    str_printf(&w->frame, ",\"index\":%u,\"content_block\":{", w->n_blocks++);
    if (kind == THINKING)
        str_puts(&w->frame, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"");
    else if (kind == TEXT)
        str_puts(&w->frame, "\"type\":\"text\",\"text\":\"\"");
    else
        put_call(e, &w->frame);
    str_puts(&w->frame, kind == TOOL_USE ? "{}}}" : "}}");
    send(w);
}

static void stream_event(dialect *d, const reply_event *e)
{
    writer *w = (writer *)d;
    switch (e->kind) {
    case REPLY_BEGIN: start(w, e->now->prompt, e->now->cached); break;
    case REPLY_REASONING:
        stream_open(w, THINKING, e);
        if (!w->head.omit_thinking) send_delta(w, "thinking_delta", "thinking", e->text, e->len);
        break;
    case REPLY_CONTENT:
        stream_open(w, TEXT, e);
        send_delta(w, "text_delta", "text", e->text, e->len);
        break;
    case REPLY_CALL: stream_open(w, TOOL_USE, e); break;
    case REPLY_ARGUMENTS:
        w->arguments = true;
        send_delta(w, "input_json_delta", "partial_json", e->text, e->len);
        break;
    case REPLY_CALL_END: /* nothing is no JSON */
        if (!w->arguments) send_delta(w, "input_json_delta", "partial_json", "{}", 2);
        stream_close(w);
        break;
    case REPLY_END:
        stream_close(w);
        take_end(w, e);
        break;
    }
}

static void stream_progress(dialect *d, const reply_progress *p)
{
    start((writer *)d, p->total, p->cached);
}

static void stream_end(dialect *d, const reply_usage *u)
{
    writer *w = (writer *)d;
    open_frame(w, "message_delta");
    str_puts(&w->frame, ",\"delta\":{");
    put_stop(w, u, &w->frame);
    str_puts(&w->frame, "},");
    put_usage(w, u->prompt, u->cached, u->completion, &w->frame);
    str_puts(&w->frame, "}}");
    if (w->stop.failed) w->frame.failed = true;
    send(w);
    open_frame(w, "message_stop");
    str_putc(&w->frame, '}');
    send(w);
    outlet_end(w->out);
}

/* ---- a whole answer ---- */

static void whole_close(writer *w)
{
    str *s = &w->content;
    switch (w->open) {
    case NO_BLOCK: return;
    case THINKING: str_printf(s, "\",\"signature\":\"%s\"}", w->head.signature); break;
    case TEXT: str_puts(s, "\"}"); break;
    case TOOL_USE: str_puts(s, w->arguments ? "}" : "{}}"); break;
    }
    w->open = NO_BLOCK;
}

static void whole_open(writer *w, block_kind kind, const reply_event *e)
{
    str *s = &w->content;
    if (w->open == kind) return;
    whole_close(w);
    w->open      = kind;
    w->arguments = false;
    w->complete  = s->len;
    str_puts(s, w->n_blocks++ == 0 ? "{" : ",{");
    if (kind == THINKING)
        str_puts(s, "\"type\":\"thinking\",\"thinking\":\"");
    else if (kind == TEXT)
        str_puts(s, "\"type\":\"text\",\"text\":\"");
    else
        put_call(e, s);
}

/* A call that was cut off has no whole input: it is left out. */
static void drop_open_call(writer *w)
{
    if (w->open != TOOL_USE || w->content.failed) return;
    w->content.len               = w->complete;
    w->content.data[w->complete] = '\0';
    w->open                      = NO_BLOCK;
}

static void whole_event(dialect *d, const reply_event *e)
{
    writer *w = (writer *)d;
    switch (e->kind) {
    case REPLY_BEGIN: break;
    case REPLY_REASONING:
        whole_open(w, THINKING, e);
        if (!w->head.omit_thinking) json_out_escaped(&w->content, e->text, e->len);
        break;
    case REPLY_CONTENT:
        whole_open(w, TEXT, e);
        json_out_escaped(&w->content, e->text, e->len);
        break;
    case REPLY_CALL: whole_open(w, TOOL_USE, e); break;
    case REPLY_ARGUMENTS: /* a JSON object on one line, in pieces */
        w->arguments = true;
        str_put(&w->content, e->text, e->len);
        break;
    case REPLY_CALL_END: whole_close(w); break;
    case REPLY_END:
        drop_open_call(w);
        whole_close(w);
        take_end(w, e);
        break;
    }
}

static void whole_end(dialect *d, const reply_usage *u)
{
    writer *w = (writer *)d;
    str     body;
    str_init(&body, TEXT_MAX);
    str_putc(&body, '{');
    put_head(w, &body);
    str_puts(&body, ",\"content\":[");
    str_put(&body, w->content.data, w->content.len);
    str_puts(&body, "],");
    put_stop(w, u, &body);
    str_putc(&body, ',');
    put_usage(w, u->prompt, u->cached, u->completion, &body);
    str_puts(&body, ",\"service_tier\":\"standard\"}}");
    if (body.failed || w->content.failed || w->stop.failed)
        fail_memory(w);
    else
        answer_json(w->out, &body);
    str_free(&body);
}

/* ---- both ---- */

static void writer_fail(dialect *d, const api_error *e)
{
    writer *w = (writer *)d;
    if (!w->head.stream || !outlet_begun(w->out)) {
        answer_error(w->out, e, API_ANTHROPIC, w->request_id);
        return;
    }
    str_clear(&w->frame);
    sse_open(&w->frame, "error");
    api_error_json(e, API_ANTHROPIC, w->request_id, &w->frame);
    send(w);
    outlet_end(w->out);
}

static void writer_free(dialect *d)
{
    writer *w = (writer *)d;
    str_free(&w->frame);
    str_free(&w->content);
    str_free(&w->stop);
    mem_free(w->head.model);
    outlet_release(w->out);
    mem_free(w);
}

dialect *anthropic_writer_new(anthropic_head *head, const char *request_id, outlet *out)
{
    writer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->base = (dialect){.event = whole_event, .end = whole_end, .fail = writer_fail, .free = writer_free};
    if (head->stream) {
        w->base.event    = stream_event;
        w->base.end      = stream_end;
        w->base.progress = stream_progress;
    }
    w->out = outlet_share(out);
    str_init(&w->frame, FRAME_MAX);
    str_init(&w->content, TEXT_MAX);
    str_init(&w->stop, FRAME_MAX);
    (void)memcpy(w->request_id, request_id, strnlen(request_id, sizeof w->request_id - 1));
    w->head = *head;
    *head   = (anthropic_head){0};
    return &w->base;
}
