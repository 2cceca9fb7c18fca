/* serve/completions_writer.c - events to Completions: text without roles, in chunks or whole. */
#include "base/mem.h"
#include "serve/json_out.h"
#include "serve/openai.h"
#include "serve/sse.h"

#include <string.h>

enum { TEXT_MAX = 1 << 29, FRAME_MAX = 1 << 26 };

/* The four lists of legacy log probabilities, without their brackets. */
typedef struct legacy_logprobs {
    str    tokens, values, top, offsets;
    size_t offset; /* characters of text so far */
} legacy_logprobs;

typedef struct completion_choice {
    str             text; /* the inside of a JSON string; of a whole answer only */
    legacy_logprobs l;
    reply_finish    finish;
} completion_choice;

typedef struct completions_writer {
    dialect            base;
    outlet            *out; /* the writer's share */
    openai_head        head;
    completions_form   form;
    char               request_id[129];
    completion_choice *choices; /* [form.n] */
    str                frame;
} completions_writer;

/* ---- log probabilities ---- */

static void init_logprobs(legacy_logprobs *l)
{
    str_init(&l->tokens, TEXT_MAX);
    str_init(&l->values, TEXT_MAX);
    str_init(&l->top, TEXT_MAX);
    str_init(&l->offsets, TEXT_MAX);
}

static void clear_logprobs(legacy_logprobs *l)
{
    str_clear(&l->tokens);
    str_clear(&l->values);
    str_clear(&l->top);
    str_clear(&l->offsets);
}

static void free_logprobs(legacy_logprobs *l)
{
    str_free(&l->tokens);
    str_free(&l->values);
    str_free(&l->top);
    str_free(&l->offsets);
}

static size_t characters(const weir_model *m, uint32_t id)
{
    size_t         n, count = 0;
    const uint8_t *bytes = weir_token_bytes(m, id, &n);
    for (size_t i = 0; bytes != NULL && i < n; i++) count += (bytes[i] & 0xC0) != 0x80;
    return count;
}

static void add_logprob(legacy_logprobs *l, const weir_model *m, const reply_logprob *p)
{
    if (l->tokens.len > 0) {
        str_putc(&l->tokens, ',');
        str_putc(&l->values, ',');
        str_putc(&l->top, ',');
        str_putc(&l->offsets, ',');
    }
    openai_put_token(m, p->chosen.id, &l->tokens);
    json_out_number(&l->values, (double)p->chosen.logprob);
    str_putc(&l->top, '{');
    for (uint32_t i = 0; i < p->n_top; i++) {
        if (i > 0) str_putc(&l->top, ',');
        openai_put_token(m, p->top[i].id, &l->top);
        str_putc(&l->top, ':');
        json_out_number(&l->top, (double)p->top[i].logprob);
    }
    str_putc(&l->top, '}');
    str_printf(&l->offsets, "%zu", l->offset);
    l->offset += characters(m, p->chosen.id);
}

static void put_logprobs(const completions_writer *w, const legacy_logprobs *l, str *out)
{
    if (!w->form.logprobs) {
        str_puts(out, "null");
        return;
    }
    str_puts(out, "{\"tokens\":[");
    str_put(out, l->tokens.data, l->tokens.len);
    str_puts(out, "],\"token_logprobs\":[");
    str_put(out, l->values.data, l->values.len);
    str_puts(out, "],\"top_logprobs\":[");
    str_put(out, l->top.data, l->top.len);
    str_puts(out, "],\"text_offset\":[");
    str_put(out, l->offsets.data, l->offsets.len);
    str_puts(out, "]}");
    if (l->tokens.failed || l->values.failed || l->top.failed || l->offsets.failed) out->failed = true;
}

static void note_logprobs(completions_writer *w, const reply_event *e)
{
    completion_choice *c = &w->choices[e->choice];
    for (uint32_t i = 0; w->form.logprobs && i < e->n_logprobs; i++)
        add_logprob(&c->l, w->head.weights, &e->logprobs[i]);
}

/* ---- a stream ---- */

static void open_chunk(completions_writer *w)
{
    str_clear(&w->frame);
    sse_open(&w->frame, NULL);
    str_putc(&w->frame, '{');
    openai_put_head(&w->head, "text_completion", &w->frame);
}

static void send(completions_writer *w)
{
    sse_close(&w->frame);
    if (w->frame.failed)
        outlet_hang_up(w->out); /* a frame that is left out would be a wrong answer */
    else
        (void)outlet_put(w->out, w->frame.data, w->frame.len);
}

static void put_chunk(completions_writer *w, const reply_event *e, const char *text, size_t n)
{
    completion_choice *c = &w->choices[e->choice];
    open_chunk(w);
    str_puts(&w->frame, "\"choices\":[{\"text\":");
    json_out_string(&w->frame, text, n);
    str_printf(&w->frame, ",\"index\":%u,\"logprobs\":", e->choice);
    put_logprobs(w, &c->l, &w->frame);
    clear_logprobs(&c->l);
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

static void stream_event(dialect *d, const reply_event *e)
{
    completions_writer *w    = (completions_writer *)d;
    const char         *echo = w->form.echo != NULL ? w->form.echo[e->choice] : NULL;
    if (e->kind == REPLY_BEGIN && echo != NULL) put_chunk(w, e, echo, strlen(echo));
    if (e->kind != REPLY_CONTENT && e->kind != REPLY_END) return;
    note_logprobs(w, e);
    put_chunk(w, e, e->text != NULL ? e->text : "", e->len);
}

static void stream_end(dialect *d, const reply_usage *u)
{
    completions_writer *w = (completions_writer *)d;
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
    completions_writer *w = (completions_writer *)d;
    open_chunk(w);
    openai_put_progress(p, &w->frame);
    str_putc(&w->frame, '}');
    send(w);
}

/* ---- a whole answer ---- */

static void whole_event(dialect *d, const reply_event *e)
{
    completions_writer *w    = (completions_writer *)d;
    completion_choice  *c    = &w->choices[e->choice];
    const char         *echo = w->form.echo != NULL ? w->form.echo[e->choice] : NULL;
    if (e->kind == REPLY_BEGIN && echo != NULL) json_out_escaped(&c->text, echo, strlen(echo));
    if (e->kind == REPLY_CONTENT) json_out_escaped(&c->text, e->text, e->len);
    if (e->kind == REPLY_END) c->finish = e->finish;
    note_logprobs(w, e);
}

static void whole_end(dialect *d, const reply_usage *u)
{
    completions_writer *w = (completions_writer *)d;
    str                 body;
    str_init(&body, TEXT_MAX);
    str_putc(&body, '{');
    openai_put_head(&w->head, "text_completion", &body);
    str_puts(&body, "\"choices\":[");
    for (uint32_t i = 0; i < w->form.n; i++) {
        const completion_choice *c = &w->choices[i];
        str_puts(&body, i == 0 ? "{\"text\":\"" : ",{\"text\":\"");
        str_put(&body, c->text.data, c->text.len);
        str_printf(&body, "\",\"index\":%u,\"logprobs\":", i);
        put_logprobs(w, &c->l, &body);
        str_printf(&body, ",\"finish_reason\":\"%s\"}", openai_finish(c->finish));
        if (c->text.failed) body.failed = true;
    }
    str_puts(&body, "],");
    openai_put_usage(u, &body);
    if (w->form.form.timings) openai_put_timings(u, &body);
    str_putc(&body, '}');
    answer_json(w->out, &body);
}

/* ---- both ---- */

static void completions_fail(dialect *d, const api_error *e)
{
    completions_writer *w = (completions_writer *)d;
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

static void completions_free(dialect *d)
{
    completions_writer *w = (completions_writer *)d;
    for (uint32_t i = 0; i < w->form.n; i++) {
        if (w->choices != NULL) {
            str_free(&w->choices[i].text);
            free_logprobs(&w->choices[i].l);
        }
        if (w->form.echo != NULL) mem_free(w->form.echo[i]);
    }
    mem_free(w->form.echo);
    mem_free(w->choices);
    str_free(&w->frame);
    openai_head_free(&w->head);
    outlet_release(w->out);
    mem_free(w);
}

dialect *completions_writer_new(openai_head *head, const completions_form *form, const char *request_id, outlet *out)
{
    completions_writer *w = mem_zalloc(1, sizeof *w);
    completion_choice  *c = mem_zalloc(form->n, sizeof *c);
    if (w == NULL || c == NULL) {
        mem_free(w);
        mem_free(c);
        return NULL;
    }
    w->choices = c;
    for (uint32_t i = 0; i < form->n; i++) {
        str_init(&c[i].text, TEXT_MAX);
        init_logprobs(&c[i].l);
    }
    w->form = *form;
    w->head = *head;
    w->out  = outlet_share(out);
    *head   = (openai_head){0};
    str_init(&w->frame, FRAME_MAX);
    (void)memcpy(w->request_id, request_id, strnlen(request_id, sizeof w->request_id - 1));
    w->base = (dialect){.event = form->form.stream ? stream_event : whole_event,
                        .end   = form->form.stream ? stream_end : whole_end,
                        .fail  = completions_fail,
                        .free  = completions_free};
    if (form->form.stream && form->form.progress) w->base.progress = stream_progress;
    return &w->base;
}
