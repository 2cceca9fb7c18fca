/* serve/models.c - GET /v1/models, and what a request's `model` and `adapter` mean. */
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/server.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { LIST_MAX = 1 << 20 };

static const serve_adapter *find_adapter(const server *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->o->n_adapters; i++)
        if (strlen(s->o->adapters[i].name) == n && strncmp(s->o->adapters[i].name, name, n) == 0)
            return &s->o->adapters[i];
    return NULL;
}

/* "a+b": those add up, in this order. */
static bool add_adapters(const server *s, const char *names, job_options *out, api_error *err)
{
    for (const char *at = names;; at++) {
        const size_t         n = strcspn(at, "+");
        const serve_adapter *a = find_adapter(s, at, n);
        if (a == NULL)
            return api_fail(err, API_INVALID, "adapter", "adapter: expected one that is served, found \"%.*s\"", (int)n,
                            at);
        if (out->n_adapters == WEIR_MAX_ADAPTERS)
            return api_fail(err, API_INVALID, "adapter", "adapter: expected at most %d", WEIR_MAX_ADAPTERS);
        out->adapters[out->n_adapters++] = a->choice;
        at += n;
        if (*at == '\0') return true;
    }
}

bool choose_adapters(const server *s, const json_t *body, job_options *out, api_error *err)
{
    fields      f       = {.object = body, .where = "", .err = err};
    const char *adapter = NULL, *model = NULL;
    (void)field_string(&f, "adapter", &adapter);
    (void)field_string(&f, "model", &model);
    if (f.failed) return false;
    if (adapter != NULL) return strcmp(adapter, "none") == 0 || add_adapters(s, adapter, out, err);
    if (model == NULL) return true;
    /* NAME of an adapter, or MODEL:NAME.  Any other model is ours: clients write all sorts. */
    const size_t n = strlen(s->o->model_id);
    if (strncmp(model, s->o->model_id, n) == 0 && model[n] == ':') model += n + 1;
    const serve_adapter *a = find_adapter(s, model, strlen(model));
    if (a != NULL) out->adapters[out->n_adapters++] = a->choice;
    return true;
}

static void put_model(const server *s, const char *id, const char *parent, str *out)
{
    const uint32_t ctx = s->engine.max_context;
    str_puts(out, "{\"id\":");
    json_out_string(out, id, strlen(id));
    str_printf(out, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"weir\",\"root\":", s->created);
    json_out_string(out, s->o->model_id, strlen(s->o->model_id));
    str_puts(out, ",\"parent\":");
    if (parent == NULL)
        str_puts(out, "null");
    else
        json_out_string(out, parent, strlen(parent));
    str_printf(out,
               ",\"max_model_len\":%u,\"context_window\":%u,\"context_length\":%u,\"capabilities\":[\"completion\"%s],"
               "\"status\":{\"value\":\"loaded\"},\"meta\":{\"vocab_type\":2,\"n_vocab\":%u,\"n_ctx_train\":%u,"
               "\"n_embd\":%u,\"n_params\":%" PRIu64 ",\"size\":%" PRIu64 "},\"aliases\":[],\"lora\":%s}",
               ctx, ctx, ctx, s->model.has_chat_template ? ",\"chat\"" : "", s->model.vocab_size, s->model.max_position,
               s->model.hidden_size, s->model.parameters, s->model.weights_bytes, parent == NULL ? "false" : "true");
}

/* ---- Anthropic's form, for clients that say its version ---- */

static bool wants_anthropic(const http_request *r)
{
    return r->header(r, "anthropic-version") != NULL;
}

static void put_anthropic_model(const server *s, const char *id, str *out)
{
    char         date[40] = "";
    struct tm    t;
    const time_t created = (time_t)s->created;
    if (gmtime_r(&created, &t) != NULL) (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    str_puts(out, "{\"type\":\"model\",\"id\":");
    json_out_string(out, id, strlen(id));
    str_puts(out, ",\"display_name\":");
    json_out_string(out, id, strlen(id));
    str_printf(out, ",\"created_at\":\"%s\",\"lifecycle\":\"active\",\"max_input_tokens\":%u,\"max_tokens\":%u}", date,
               s->engine.max_context - 1, s->engine.max_context);
}

static void list_anthropic_models(const server *s, outlet *out)
{
    const size_t n    = s->o->n_adapters;
    const char  *last = n > 0 ? s->o->adapters[n - 1].name : s->o->model_id;
    str          body;
    str_init(&body, LIST_MAX);
    str_puts(&body, "{\"data\":[");
    put_anthropic_model(s, s->o->model_id, &body);
    for (size_t i = 0; i < n; i++) {
        str_putc(&body, ',');
        put_anthropic_model(s, s->o->adapters[i].name, &body);
    }
    str_puts(&body, "],\"has_more\":false,\"first_id\":");
    json_out_string(&body, s->o->model_id, strlen(s->o->model_id));
    str_puts(&body, ",\"last_id\":");
    json_out_string(&body, last, strlen(last));
    str_putc(&body, '}');
    answer_json(out, &body);
}

/* ---- both ---- */

void handle_models(server *s, const http_request *r, const char *rest, outlet *out)
{
    str body;
    (void)rest;
    if (wants_anthropic(r)) {
        list_anthropic_models(s, out);
        return;
    }
    str_init(&body, LIST_MAX);
    str_puts(&body, "{\"object\":\"list\",\"data\":[");
    put_model(s, s->o->model_id, NULL, &body);
    for (size_t i = 0; i < s->o->n_adapters; i++) {
        str_putc(&body, ',');
        put_model(s, s->o->adapters[i].name, s->o->model_id, &body);
    }
    str_puts(&body, "]}");
    answer_json(out, &body);
}

void handle_model(server *s, const http_request *r, const char *rest, outlet *out)
{
    str        body;
    api_error  err;
    const bool own = strcmp(rest, s->o->model_id) == 0;
    if (!own && find_adapter(s, rest, strlen(rest)) == NULL) {
        (void)api_fail(&err, API_NO_MODEL, "model", "model \"%.200s\" not found", rest);
        answer_error(out, &err, wants_anthropic(r) ? API_ANTHROPIC : API_OPENAI, r->id);
        return;
    }
    str_init(&body, LIST_MAX);
    if (wants_anthropic(r))
        put_anthropic_model(s, rest, &body);
    else
        put_model(s, rest, own ? NULL : s->o->model_id, &body);
    answer_json(out, &body);
}
