/* cli/reply.c - one reply; see reply.h. */
#include "cli/reply.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/terminal.h"

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

weir_status reply_generate(reply *r, const weir_model *m, weir_sequence *s, const weir_generate_options *opt, bool show,
                           weir_error *err)
{
    *r = (reply){.model = m, .show = show};
    str_init(&r->text, TEXT_MAX);
    str_init(&r->reasoning, TEXT_MAX);
    r->ids      = json_array();
    r->logprobs = opt->logprobs ? json_array() : NULL;

    const uint64_t start = clock_ns();
    weir_status    st    = weir_generate(s, opt, on_token, r, &r->result, err);
    r->seconds           = (double)(clock_ns() - start) * 1e-9;
    if (r->dim) (void)fputs(terminal_plain(), stdout);
    if (show) (void)fflush(stdout);
    if (st == WEIR_CANCELLED) { /* while a token was being read */
        r->result.finish = WEIR_FINISH_CANCELLED;
        st               = WEIR_OK;
    }
    if (st == WEIR_OK) st = str_status(&r->text, "the reply", err);
    if (st == WEIR_OK) st = str_status(&r->reasoning, "the reply", err);
    if (st == WEIR_OK && (r->failed || r->ids == NULL))
        st = status_fail(err, WEIR_NO_MEMORY, "the reply: out of memory");
    return st;
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

double reply_tps(const reply *r)
{
    return r->seconds > 0.0 ? (double)r->result.tokens / r->seconds : 0.0;
}
