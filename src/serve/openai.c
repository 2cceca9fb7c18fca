/* serve/openai.c - see openai.h. */
#include "serve/openai.h"

#include "base/mem.h"
#include "serve/fields.h"
#include "serve/json_out.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

bool openai_read_form(const server *s, const json_t *body, const char *id_prefix, openai_form *form, openai_head *head,
                      api_error *err)
{
    fields        f     = {.object = body, .where = "", .err = err};
    const char   *model = s->o->model_id;
    const json_t *options;
    *form = (openai_form){0};
    *head = (openai_head){.created = (int64_t)time(NULL), .fingerprint = s->fingerprint, .weights = s->o->model};
    random_id(id_prefix, head->id, sizeof head->id);
    (void)field_bool(&f, "stream", &form->stream);
    (void)field_bool(&f, "timings_per_token", &form->every_timings);
    (void)field_bool(&f, "return_progress", &form->progress);
    form->timings = form->every_timings || form->progress;
    (void)field_string(&f, "model", &model);
    if (field_object(&f, "stream_options", &options)) {
        fields of = {.object = options, .where = "stream_options", .err = err, .failed = f.failed};
        (void)field_bool(&of, "include_usage", &form->include_usage);
        (void)field_bool(&of, "continuous_usage_stats", &form->every_usage);
        f.failed = of.failed;
    }
    if (f.failed) return false;
    head->model = mem_strdup(model);
    return head->model != NULL || api_fail(err, API_INTERNAL, NULL, "out of memory");
}

bool openai_watches(const openai_form *f)
{
    return f->stream && (f->every_usage || f->timings);
}

void openai_head_free(openai_head *h)
{
    mem_free(h->model);
    *h = (openai_head){0};
}

void openai_put_head(const openai_head *h, const char *object, str *out)
{
    str_printf(out, "\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", h->id, object, h->created);
    json_out_string(out, h->model, strlen(h->model));
    str_printf(out, ",\"system_fingerprint\":\"%s\",\"service_tier\":\"default\",", h->fingerprint);
}

void openai_put_usage(const reply_usage *u, str *out)
{
    str_printf(
        out,
        "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%u},\"completion_tokens_details\":{\"reasoning_tokens\":%u,"
        "\"accepted_prediction_tokens\":%u,\"rejected_prediction_tokens\":%u}}",
        u->prompt, u->completion, u->prompt + u->completion, u->cached, u->reasoning, 0u, 0u);
}

const char *openai_finish(reply_finish f)
{
    switch (f) {
    case REPLY_STOP: return "stop";
    case REPLY_LENGTH: return "length";
    case REPLY_TOOL_CALLS: break;
    }
    return "tool_calls";
}

/* Milliseconds of n tokens, under llama.cpp's names. */
static void put_times(const char *name, uint32_t n, double seconds, str *out)
{
    str_printf(out, ",\"%s_n\":%u,\"%s_ms\":", name, n, name);
    json_out_number(out, seconds * 1e3);
    str_printf(out, ",\"%s_per_token_ms\":", name);
    json_out_number(out, n > 0 ? seconds * 1e3 / n : 0);
    str_printf(out, ",\"%s_per_second\":", name);
    json_out_number(out, seconds > 0 ? n / seconds : 0);
}

void openai_put_timings(const reply_usage *u, str *out)
{
    str_printf(out, ",\"timings\":{\"cache_n\":%u", u->cached);
    put_times("prompt", u->prompt - u->cached, u->read_seconds, out);
    put_times("predicted", u->completion, u->reply_seconds, out);
    str_printf(out, ",\"draft_n\":%u,\"draft_n_accepted\":%u}", u->drafted, u->accepted);
}

void openai_put_now(const openai_form *f, const reply_event *e, str *out)
{
    if (f->every_usage && e->now != NULL) {
        str_putc(out, ',');
        openai_put_usage(e->now, out);
    } else if (f->include_usage) {
        str_puts(out, ",\"usage\":null");
    }
    if (e->now != NULL && (f->every_timings || (f->timings && e->kind == REPLY_END))) openai_put_timings(e->now, out);
}

void openai_put_progress(const reply_progress *p, str *out)
{
    str_printf(out, "\"choices\":[],\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%.0f}",
               p->total, p->cached, p->done, p->seconds * 1e3);
}

void openai_put_last(const openai_form *f, const reply_usage *u, str *out)
{
    str_puts(out, "\"choices\":[],");
    openai_put_usage(u, out);
    if (f->timings) openai_put_timings(u, out);
}

void openai_put_stop(const reply_event *e, str *out)
{
    if (e->stop != NULL)
        json_out_string(out, e->stop, strlen(e->stop));
    else if (e->stop_id != NULL)
        str_printf(out, "%u", *e->stop_id);
    else
        str_puts(out, "null");
}

void openai_put_token(const weir_model *m, uint32_t id, str *out)
{
    size_t         n;
    const uint8_t *bytes = weir_token_bytes(m, id, &n);
    json_out_string(out, bytes != NULL ? (const char *)bytes : "", n);
}

static void put_one(const weir_model *m, const weir_logprob *l, str *out)
{
    size_t         n;
    const uint8_t *bytes = weir_token_bytes(m, l->id, &n);
    str_puts(out, "\"token\":");
    openai_put_token(m, l->id, out);
    str_puts(out, ",\"logprob\":");
    json_out_number(out, (double)l->logprob);
    str_puts(out, ",\"bytes\":[");
    for (size_t i = 0; bytes != NULL && i < n; i++) str_printf(out, i == 0 ? "%u" : ",%u", bytes[i]);
    str_putc(out, ']');
}

void openai_put_logprobs(const weir_model *m, const reply_logprob *l, uint32_t n, str *out)
{
    for (uint32_t i = 0; i < n; i++) {
        str_puts(out, i == 0 ? "{" : ",{");
        put_one(m, &l[i].chosen, out);
        str_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < l[i].n_top; k++) {
            str_puts(out, k == 0 ? "{" : ",{");
            put_one(m, &l[i].top[k], out);
            str_putc(out, '}');
        }
        str_puts(out, "]}");
    }
}
