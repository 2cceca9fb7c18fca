/* serve/ollama_models.c - GET /api/version, /api/tags, /api/ps, POST /api/show, and what a server
 * of one model does not do: fetch, make, copy and delete models, and embed. */
#include "base/json.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/ollama.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LIST_MAX = 1 << 20 };

/* Clients ask which features a server has by its version: this is the one whose API this is. */
static const char api_version[] = "0.13.0-weir";

/* ---- names ---- */

/* Whether the first n bytes of `name` are `own`. */
static bool is_name(const char *name, size_t n, const char *own)
{
    return strlen(own) == n && strncasecmp(name, own, n) == 0;
}

/* The served name that the first n bytes of `name` are, or NULL. */
static const char *find_name(const server *s, const char *name, size_t n)
{
    const serve_options *o = s->o;
    if (is_name(name, n, o->model_id)) return o->model_id;
    const size_t id = strlen(o->model_id);
    if (n > id && strncasecmp(name, o->model_id, id) == 0 && name[id] == ':') { /* MODEL:ADAPTER */
        name += id + 1;
        n -= id + 1;
    }
    for (size_t i = 0; i < o->n_adapters; i++)
        if (is_name(name, n, o->adapters[i].name)) return o->adapters[i].name;
    return NULL;
}

bool ollama_find_model(const server *s, const json_t *body, const char **name, const char **served, api_error *err)
{
    static const char latest[] = ":latest";
    fields            f        = {.object = body, .where = "", .err = err};
    *name                      = NULL;
    if (!field_string(&f, "model", name)) (void)field_string(&f, "name", name);
    if (f.failed) return false;
    if (*name == NULL || **name == '\0') return api_fail(err, API_INVALID, "model", "model is required");
    const size_t n = strlen(*name), tag = sizeof latest - 1;
    *served = find_name(s, *name, n);
    if (*served == NULL && n > tag && strcasecmp(*name + n - tag, latest) == 0) *served = find_name(s, *name, n - tag);
    return *served != NULL || api_fail(err, API_NO_MODEL, "model", "model \"%.200s\" not found", *name);
}

/* ---- what a model is ---- */

static const char *family(const server *s)
{
    return s->model.moe ? "qwen35moe" : "qwen35";
}

static void put_details(const server *s, const char *parent, str *out)
{
    const double n    = (double)s->model.parameters;
    const char  *unit = n >= 1e9 ? "B" : n >= 1e6 ? "M" : "K";
    const double size = n / (n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3);
    str_puts(out, "\"details\":{\"parent_model\":");
    json_out_string(out, parent, strlen(parent));
    str_printf(out,
               ",\"format\":\"%s\",\"family\":\"%s\",\"families\":[\"%s\"],\"parameter_size\":\"%.*f%s\","
               "\"quantization_level\":",
               strcmp(s->model.layout, "gguf") == 0 ? "gguf" : "safetensors", family(s), family(s), size < 100 ? 1 : 0,
               size, unit);
    json_out_string(out, s->model.weight_format, strlen(s->model.weight_format));
    str_putc(out, '}');
}

/* 64 hexadecimal digits that stand for a served name and what it is made of. */
static void put_digest(const server *s, const char *name, str *out)
{
    for (uint64_t part = 0; part < 4; part++) {
        uint64_t h = 14695981039346656037u + part; /* FNV-1a */
        for (const char *c = s->fingerprint; *c != '\0'; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
        for (const char *c = name; *c != '\0'; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
        str_printf(out, "%016" PRIx64, h);
    }
}

static void put_modified(const server *s, str *out)
{
    str_puts(out, "\"modified_at\":");
    ollama_put_time(&(struct timespec){.tv_sec = (time_t)s->created}, out);
}

/* `"name":...,"model":...,"size":...,"digest":...,"details":{...}`; names have a tag here. */
static void put_model(const server *s, const char *name, str *out)
{
    static const char *const keys[] = {"name", "model"};
    const char              *tag    = strchr(name, ':') != NULL ? "" : ":latest";
    for (size_t i = 0; i < 2; i++) {
        str_printf(out, "\"%s\":\"", keys[i]);
        json_out_escaped(out, name, strlen(name));
        str_printf(out, "%s\",", tag);
    }
    str_printf(out, "\"size\":%" PRIu64 ",\"digest\":\"", s->model.weights_bytes);
    put_digest(s, name, out);
    str_puts(out, "\",");
    put_details(s, name == s->o->model_id ? "" : s->o->model_id, out);
}

/* The i-th served name, the model's own first; NULL behind the last. */
static const char *served_name(const server *s, size_t i)
{
    if (i == 0) return s->o->model_id;
    return i <= s->o->n_adapters ? s->o->adapters[i - 1].name : NULL;
}

void handle_ollama_tags(server *s, const http_request *r, const char *rest, outlet *out)
{
    str         body;
    const char *name;
    (void)r;
    (void)rest;
    str_init(&body, LIST_MAX);
    str_puts(&body, "{\"models\":[");
    for (size_t i = 0; (name = served_name(s, i)) != NULL; i++) {
        str_puts(&body, i == 0 ? "{" : ",{");
        put_model(s, name, &body);
        str_putc(&body, ',');
        put_modified(s, &body);
        str_putc(&body, '}');
    }
    str_puts(&body, "]}");
    answer_json(out, &body);
}

/* What is loaded: everything that is served, for good. */
void handle_ollama_ps(server *s, const http_request *r, const char *rest, outlet *out)
{
    str            body;
    const char    *name;
    const uint64_t device = strcmp(s->engine.device, "cpu") != 0 ? s->model.weights_bytes : 0;
    (void)r;
    (void)rest;
    str_init(&body, LIST_MAX);
    str_puts(&body, "{\"models\":[");
    for (size_t i = 0; (name = served_name(s, i)) != NULL; i++) {
        str_puts(&body, i == 0 ? "{" : ",{");
        put_model(s, name, &body);
        str_printf(&body,
                   ",\"expires_at\":\"2999-12-31T23:59:59.000000000Z\",\"size_vram\":%" PRIu64
                   ",\"context_length\":%u}",
                   device, s->engine.max_context);
    }
    str_puts(&body, "]}");
    answer_json(out, &body);
}

/* ---- /api/show ---- */

/* How tokens are drawn where a request says nothing, a line each. */
static void put_parameters(const weir_sample_params *p, str *out)
{
    const struct {
        const char *name;
        double      value;
    } each[] = {{"temperature", p->temperature},
                {"top_k", p->top_k},
                {"top_p", p->top_p},
                {"min_p", p->min_p},
                {"repeat_penalty", p->repetition_penalty},
                {"presence_penalty", p->presence_penalty},
                {"frequency_penalty", p->frequency_penalty}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        str_printf(out, "%s%s ", i == 0 ? "" : "\\n", each[i].name);
        json_out_number(out, each[i].value);
    }
}

static void put_info(const server *s, str *out)
{
    const weir_model_info *m = &s->model;
    const char            *a = family(s);
    str_printf(out,
               "\"model_info\":{\"general.architecture\":\"%s\",\"general.parameter_count\":%" PRIu64
               ",\"%s.context_length\":%u,\"%s.embedding_length\":%u,\"%s.block_count\":%u,"
               "\"%s.feed_forward_length\":%u,\"%s.attention.head_count\":%u,\"%s.attention.head_count_kv\":%u,"
               "\"%s.attention.key_length\":%u,\"%s.attention.value_length\":%u,\"%s.vocab_size\":%u",
               a, m->parameters, a, s->engine.max_context, a, m->hidden_size, a, m->n_layers, a, m->intermediate_size,
               a, m->n_heads, a, m->n_kv_heads, a, m->head_dim, a, m->head_dim, a, m->vocab_size);
    if (m->moe)
        str_printf(out, ",\"%s.expert_count\":%u,\"%s.expert_used_count\":%u", a, m->n_experts, a,
                   m->experts_per_token);
    str_putc(out, '}');
}

static void put_show(const server *s, const char *served, str *out)
{
    str_puts(out, "{\"modelfile\":\"FROM ");
    json_out_escaped(out, served, strlen(served));
    str_puts(out, "\",\"parameters\":\"");
    put_parameters(&s->o->sample, out);
    str_puts(out, "\",\"template\":\"\",\"license\":\"\",");
    put_modified(s, out);
    str_putc(out, ',');
    put_details(s, served == s->o->model_id ? "" : s->o->model_id, out);
    str_putc(out, ',');
    put_info(s, out);
    str_printf(out, ",\"capabilities\":[\"completion\"%s%s]}",
               s->model.has_chat_template && s->tool_call != UINT32_MAX ? ",\"tools\"" : "",
               s->model.has_chat_template ? ",\"thinking\"" : "");
}

/* ---- requests about one model ---- */

/* Answers about the served model that is asked for. */
typedef bool answerer(const server *s, const json_t *body, const char *served, str *out, api_error *err);

static void answer_about(server *s, const http_request *r, const char *key, answerer *make, outlet *out)
{
    json_t     *body = NULL;
    const char *name, *served;
    api_error   err;
    str         text;
    str_init(&text, LIST_MAX);
    bool ok = body_parse(r->body, r->n_body, &body, &err);
    if (ok && json_object_get(body, key) != NULL) /* /api/copy names its model by another key */
        ok = json_object_set(body, "model", json_object_get(body, key)) == 0 ||
             api_fail(&err, API_INTERNAL, NULL, "out of memory");
    if (ok && ollama_find_model(s, body, &name, &served, &err) && make(s, body, served, &text, &err))
        answer_json(out, &text);
    else
        answer_error(out, &err, API_OLLAMA, r->id);
    str_free(&text);
    json_decref(body);
}

static bool show(const server *s, const json_t *body, const char *served, str *out, api_error *err)
{
    (void)body;
    (void)err;
    put_show(s, served, out);
    return true;
}

static bool embed(const server *s, const json_t *body, const char *served, str *out, api_error *err)
{
    (void)s;
    (void)body;
    (void)out;
    return api_fail(err, API_INVALID, NULL, "%.200s does not support embeddings", served);
}

static bool change(const server *s, const json_t *body, const char *served, str *out, api_error *err)
{
    (void)s;
    (void)body;
    (void)served;
    (void)out;
    return api_fail(err, API_INVALID, NULL, "not supported: this server has the model that it was started with");
}

void handle_ollama_show(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer_about(s, r, "model", show, out);
}

void handle_ollama_embed(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer_about(s, r, "model", embed, out);
}

/* /api/copy, /api/delete, /api/push. */
void handle_ollama_change(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer_about(s, r, "source", change, out);
}

static bool read_stream(const json_t *body, bool *stream, api_error *err)
{
    fields f = {.object = body, .where = "", .err = err};
    (void)field_bool(&f, "stream", stream);
    return !f.failed;
}

/* What is here need not be fetched; nothing else can be. */
void handle_ollama_pull(server *s, const http_request *r, const char *rest, outlet *out)
{
    static const char done[] = "{\"status\":\"success\"}\n";
    json_t           *body   = NULL;
    const char       *name, *served;
    api_error         err;
    bool              stream = true;
    (void)rest;
    if (body_parse(r->body, r->n_body, &body, &err) && ollama_find_model(s, body, &name, &served, &err) &&
        read_stream(body, &stream, &err)) {
        outlet_answer(out, 200, stream ? OLLAMA_LINES : "application/json; charset=utf-8", done, sizeof done - 1);
    } else {
        if (err.kind == API_NO_MODEL) (void)change(s, body, name, NULL, &err);
        answer_error(out, &err, API_OLLAMA, r->id);
    }
    json_decref(body);
}

/* /api/create, /api/blobs. */
void handle_ollama_refused(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error err;
    (void)rest;
    (void)change(s, NULL, "", NULL, &err);
    answer_error(out, &err, API_OLLAMA, r->id);
}

void handle_ollama_version(server *s, const http_request *r, const char *rest, outlet *out)
{
    str body;
    (void)s;
    (void)r;
    (void)rest;
    str_init(&body, LIST_MAX);
    str_printf(&body, "{\"version\":\"%s\"}", api_version);
    answer_json(out, &body);
}
