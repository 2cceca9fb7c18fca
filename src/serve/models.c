/* serve/models.c - GET /v1/models, and what a request's `model` and `adapter` mean. */
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LIST_MAX = 1 << 20, MAX_LORA = 64 };

static bool hold(job_options *out, const adapter_taken *t, const char *field, api_error *err)
{
    if (out->n_adapters == WEIR_MAX_ADAPTERS) {
        adapter_release(t->held);
        return api_fail(err, API_INVALID, field, "%s: expected at most %d adapters", field, WEIR_MAX_ADAPTERS);
    }
    out->adapters[out->n_adapters] = t->choice;
    out->held[out->n_adapters++]   = t->held;
    return true;
}

/* "a+b": those add up, in this order. */
static bool add_named(const server *s, const char *names, job_options *out, api_error *err)
{
    for (const char *at = names;; at++) {
        const size_t  n = strcspn(at, "+");
        adapter_taken t;
        if (!adapter_take(s->adapters, at, n, &t))
            return api_fail(err, API_INVALID, "adapter", "adapter: expected one that is served, found \"%.*s\"", (int)n,
                            at);
        if (!hold(out, &t, "adapter", err)) return false;
        at += n;
        if (*at == '\0') return true;
    }
}

/* llama.cpp's: [{"id": N or NAME, "scale": X}]; what is not listed is left out. */
static bool add_scaled(const server *s, const json_t *list, job_options *out, api_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        char          where[32];
        fields        f    = {.object = json_array_get(list, i), .where = where, .err = err};
        const json_t *name = json_object_get(f.object, "id");
        int64_t       id   = -1;
        double        scale;
        adapter_taken t = {0};
        (void)snprintf(where, sizeof where, "lora[%zu]", i);
        if (!json_is_string(name)) (void)field_whole(&f, "id", 0, UINT32_MAX, &id);
        const bool found = !f.failed && (json_is_string(name) ? adapter_take(s->adapters, json_string_value(name),
                                                                             json_string_length(name), &t)
                                                              : adapter_take_id(s->adapters, id, &t));
        if (!found) return field_wrong(&f, "id", "expected an adapter that is served");
        scale = (double)t.choice.scale;
        (void)field_real(&f, "scale", -100, 100, &scale);
        t.choice.scale = (float)scale;
        if (f.failed || scale == 0.0) adapter_release(t.held);
        if (f.failed) return false;
        if (scale != 0.0 && !hold(out, &t, "lora", err)) return false;
    }
    return true;
}

/* NAME of an adapter, or MODEL:NAME.  Any other model is ours, as clients write all sorts, unless
 * the server is strict.  With `take` its adapter is held. */
static bool add_of_model(const server *s, const char *model, bool take, job_options *out, api_error *err)
{
    const size_t  n    = strlen(s->o->model_id);
    const bool    own  = strncmp(model, s->o->model_id, n) == 0;
    const char   *name = own && model[n] == ':' ? model + n + 1 : model;
    adapter_taken t;
    if (adapter_take(s->adapters, name, strlen(name), &t)) {
        if (take) return hold(out, &t, "model", err);
        adapter_release(t.held);
        return true;
    }
    if (s->o->strict_model && strcmp(model, s->o->model_id) != 0)
        return api_fail(err, API_NO_MODEL, "model", "model \"%.200s\" not found", model);
    return true;
}

bool choose_adapters(const server *s, const json_t *body, job_options *out, api_error *err)
{
    fields        f       = {.object = body, .where = "", .err = err};
    const char   *adapter = NULL, *model = NULL;
    const json_t *lora = NULL;
    adapter_taken usual[WEIR_MAX_ADAPTERS];
    (void)field_string(&f, "adapter", &adapter);
    (void)field_array(&f, "lora", MAX_LORA, &lora);
    (void)field_string(&f, "model", &model);
    if (f.failed) return false;
    const bool chosen = adapter != NULL || lora != NULL;
    if (model != NULL && !add_of_model(s, model, !chosen, out, err)) return false;
    if (adapter != NULL) return strcmp(adapter, "none") == 0 || add_named(s, adapter, out, err);
    if (lora != NULL) return add_scaled(s, lora, out, err);
    if (out->n_adapters > 0) return true;
    const size_t n = adapter_take_usual(s->adapters, usual);
    for (size_t i = 0; i < n; i++) (void)hold(out, &usual[i], "adapter", err);
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

typedef struct model_list {
    const server *s;
    str           body;
    char          last[256]; /* the last one's name */
} model_list;

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

static void add_anthropic_model(void *user, const adapter_view *v)
{
    model_list *l = user;
    if (v->state != ADAPTER_READY) return;
    str_putc(&l->body, ',');
    put_anthropic_model(l->s, v->name, &l->body);
    (void)snprintf(l->last, sizeof l->last, "%s", v->name);
}

static void list_anthropic_models(const server *s, outlet *out)
{
    model_list l = {.s = s};
    (void)snprintf(l.last, sizeof l.last, "%s", s->o->model_id);
    str_init(&l.body, LIST_MAX);
    str_puts(&l.body, "{\"data\":[");
    put_anthropic_model(s, s->o->model_id, &l.body);
    adapter_shelf_each(s->adapters, add_anthropic_model, &l);
    str_puts(&l.body, "],\"has_more\":false,\"first_id\":");
    json_out_string(&l.body, s->o->model_id, strlen(s->o->model_id));
    str_puts(&l.body, ",\"last_id\":");
    json_out_string(&l.body, l.last, strlen(l.last));
    str_putc(&l.body, '}');
    answer_json(out, &l.body);
}

/* ---- both ---- */

static void add_model(void *user, const adapter_view *v)
{
    model_list *l = user;
    if (v->state != ADAPTER_READY) return;
    str_putc(&l->body, ',');
    put_model(l->s, v->name, l->s->o->model_id, &l->body);
}

void handle_models(server *s, const http_request *r, const char *rest, outlet *out)
{
    model_list l = {.s = s};
    (void)rest;
    if (wants_anthropic(r)) {
        list_anthropic_models(s, out);
        return;
    }
    str_init(&l.body, LIST_MAX);
    str_puts(&l.body, "{\"object\":\"list\",\"data\":[");
    put_model(s, s->o->model_id, NULL, &l.body);
    adapter_shelf_each(s->adapters, add_model, &l);
    str_puts(&l.body, "]}");
    answer_json(out, &l.body);
}

void handle_model(server *s, const http_request *r, const char *rest, outlet *out)
{
    str           body;
    api_error     err;
    adapter_taken t   = {0};
    const bool    own = strcmp(rest, s->o->model_id) == 0;
    if (!own && !adapter_take(s->adapters, rest, strlen(rest), &t)) {
        (void)api_fail(&err, API_NO_MODEL, "model", "model \"%.200s\" not found", rest);
        answer_error(out, &err, wants_anthropic(r) ? API_ANTHROPIC : API_OPENAI, r->id);
        return;
    }
    adapter_release(t.held);
    str_init(&body, LIST_MAX);
    if (wants_anthropic(r))
        put_anthropic_model(s, rest, &body);
    else
        put_model(s, rest, own ? NULL : s->o->model_id, &body);
    answer_json(out, &body);
}
