/* cli/reply.c - one reply; see reply.h. */
#include "cli/reply.h"

#include "base/status.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 30 };

/* A model may say anything; a terminal obeys some of it, a pipe gets the bytes. */
static void put(const char *text, size_t n)
{
    if (terminal_stdout())
        (void)cli_put_clean(stdout, text, n);
    else
        (void)fwrite(text, 1, n, stdout);
    (void)fflush(stdout);
}

static void show_reasoning(reply *r, const char *text, size_t n)
{
    if (!r->show || !terminal_stdout() || n == 0) return;
    if (!r->dim) (void)printf("%s[thinking]\n", terminal_dim());
    r->dim = true;
    put(text, n);
}

static void show_text(reply *r, const char *text, size_t n)
{
    if (!r->show || n == 0) return;
    if (r->dim) (void)printf("\n[/thinking]%s\n\n", terminal_plain());
    r->dim = false;
    put(text, n);
}

static json_t *logprob_json(const weir_model *m, uint32_t id, float logprob)
{
    size_t         n;
    const uint8_t *bytes = weir_token_bytes(m, id, &n);
    return json_pack("{s:I, s:o, s:f}", "id", (json_int_t)id, "token",
                     cli_json_text(bytes != NULL ? (const char *)bytes : "", n), "logprob", (double)logprob);
}

static void keep_logprobs(reply *r, const weir_token *t)
{
    json_t *entry = logprob_json(r->model, t->id, t->logprob), *top = json_array();
    for (uint32_t i = 0; i < t->n_top; i++)
        (void)json_array_append_new(top, logprob_json(r->model, t->top[i].id, t->top[i].logprob));
    (void)json_object_set_new(entry, "top", top);
    if (json_array_append_new(r->logprobs, entry) != 0) r->failed = true;
}

static bool on_token(void *user, const weir_token *t)
{
    reply *r = user;
    if (!r->begun) progress_end(&r->bar);
    r->begun = true;
    if (t->id != UINT32_MAX) {
        if (json_array_append_new(r->ids, json_integer(t->id)) != 0) r->failed = true;
        if (r->logprobs != NULL) keep_logprobs(r, t);
    }
    if (t->reasoning) {
        str_put(&r->reasoning, t->text, t->text_len);
        show_reasoning(r, t->text, t->text_len);
    } else {
        str_put(&r->text, t->text, t->text_len);
        show_text(r, t->text, t->text_len);
    }
    return !terminal_interrupted();
}

static bool on_progress(void *user, uint32_t done, uint32_t total)
{
    reply            *r = user;
    weir_request_info i;
    weir_request_get_info(r->request, &i);
    /* What the cache had took no time, and says nothing about the rest. */
    progress_show(&r->bar, done - i.cached_tokens, total - i.cached_tokens);
    return !terminal_interrupted();
}

static weir_status submit(reply *r, const session *s, const weir_ids *prompt, const weir_generate_options *opt,
                          weir_error *err)
{
    weir_engine_info info;
    weir_engine_get_info(s->engine, &info);
    if (prompt->n > info.max_context)
        return status_fail(err, WEIR_INVALID, "the prompt takes %zu tokens, the context (--ctx) has room for %" PRIu32,
                           prompt->n, info.max_context);
    weir_request_options q = WEIR_REQUEST_OPTIONS_INIT;
    q.adapters             = s->choices;
    q.n_adapters           = s->n_adapters;
    q.prompt               = prompt->data;
    q.n_prompt             = prompt->n;
    q.generate             = opt;
    q.token                = on_token;
    q.progress             = on_progress;
    q.user                 = r;
    return weir_engine_submit(s->engine, &q, &r->request, err);
}

/* Steps until the request is done; then *r has its info. */
static weir_status drive(reply *r, weir_engine *e, weir_error *err)
{
    weir_status st = WEIR_OK;
    for (uint32_t left = 1; st == WEIR_OK && left > 0;) {
        st = weir_engine_step(e, &left, err);
        if (terminal_interrupted()) weir_request_cancel(r->request);
    }
    weir_request_get_info(r->request, &r->info);
    const weir_status own = r->info.status;
    if (st == WEIR_OK && own == WEIR_CANCELLED && !r->begun)
        st = status_fail(err, WEIR_CANCELLED, "interrupted");
    else if (st == WEIR_OK && own != WEIR_CANCELLED && own != WEIR_OK)
        st = status_fail(err, own, "%s", r->info.error);
    r->info.error = NULL; /* the request's own */
    return st;
}

static weir_status kept_all(const reply *r, weir_error *err)
{
    TRY(str_status(&r->text, "the reply", err));
    TRY(str_status(&r->reasoning, "the reply", err));
    return r->failed ? status_fail(err, WEIR_NO_MEMORY, "the reply: out of memory") : WEIR_OK;
}

weir_status reply_run(reply *r, const session *s, const weir_ids *prompt, const weir_generate_options *opt, bool show,
                      weir_error *err)
{
    *r = (reply){.model = s->model, .show = show};
    str_init(&r->text, TEXT_MAX);
    str_init(&r->reasoning, TEXT_MAX);
    r->ids      = json_array();
    r->logprobs = opt->logprobs ? json_array() : NULL;
    r->failed   = r->ids == NULL;
    TRY(submit(r, s, prompt, opt, err));

    progress_start(&r->bar, "reading");
    const weir_status st = drive(r, s->engine, err);
    progress_end(&r->bar);
    weir_request_free(r->request);
    r->request = NULL;
    if (r->dim) (void)fputs(terminal_plain(), stdout);
    if (show) (void)fflush(stdout);
    return st == WEIR_OK ? kept_all(r, err) : st;
}

void reply_free(reply *r)
{
    if (r->text.data != NULL) str_free(&r->text);
    if (r->reasoning.data != NULL) str_free(&r->reasoning);
    json_decref(r->ids);
    json_decref(r->logprobs);
    *r = (reply){0};
}

const char *reply_finish_name(weir_finish f)
{
    switch (f) {
    case WEIR_FINISH_STOP: return "stop";
    case WEIR_FINISH_LENGTH: return "length";
    case WEIR_FINISH_CANCELLED: break;
    }
    return "cancelled";
}

double reply_decode_tps(const weir_request_info *i)
{
    return i->reply_seconds > 0.0 ? (double)i->reply.tokens / i->reply_seconds : 0.0;
}

double reply_prefill_tps(const weir_request_info *i)
{
    return i->read_seconds > 0.0 ? (double)(i->read_tokens - i->cached_tokens) / i->read_seconds : 0.0;
}
