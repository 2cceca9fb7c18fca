/* serve/adapters.c - loading, listing and removing adapters: weir's paths, vLLM's and llama.cpp's. */
#include "serve/adapter_shelf.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/server.h"

#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 1 << 20, MAX_SCALES = 1024 };

static const char *state_word(adapter_state s)
{
    static const char *const words[] = {"loading", "ready", "leaving"};
    return words[s];
}

static void put_adapter(const adapter_view *v, str *out)
{
    str_printf(out, "{\"id\":%u,\"name\":", v->id);
    json_out_string(out, v->name, strlen(v->name));
    str_puts(out, ",\"path\":");
    json_out_string(out, v->path, strlen(v->path));
    str_printf(out, ",\"rank\":%u,\"scale\":", v->info.max_rank);
    json_out_number(out, (double)v->scale);
    str_printf(out, ",\"bytes\":%llu,\"hash\":\"", (unsigned long long)v->info.bytes);
    for (size_t i = 0; i < sizeof v->info.hash; i++) str_printf(out, "%02x", v->info.hash[i]);
    str_printf(out, "\",\"refs\":%u,\"state\":\"%s\",\"loaded\":%s}", v->refs, state_word(v->state),
               v->state == ADAPTER_READY ? "true" : "false");
}

/* ---- answers that come later ---- */

static void tell_loaded(outlet *out, const adapter_view *v)
{
    str body;
    str_init(&body, LIST_MAX);
    put_adapter(v, &body);
    answer_json(out, &body);
}

static void tell_removed(outlet *out, const adapter_view *v)
{
    str body;
    str_init(&body, LIST_MAX);
    str_printf(&body, "{\"id\":%u,\"name\":", v->id);
    json_out_string(&body, v->name, strlen(v->name));
    str_puts(&body, ",\"deleted\":true}");
    answer_json(out, &body);
}

static void tell_text(outlet *out, const adapter_view *v, const char *done)
{
    str body;
    str_init(&body, LIST_MAX);
    str_printf(&body, "Success: LoRA adapter '%s' %s successfully.", v->name, done);
    outlet_answer(out, body.failed ? 500 : 200, "text/plain; charset=utf-8", body.data, body.len);
    str_free(&body);
}

static void tell_vllm_loaded(outlet *out, const adapter_view *v)
{
    tell_text(out, v, "added");
}

static void tell_vllm_removed(outlet *out, const adapter_view *v)
{
    tell_text(out, v, "removed");
}

static adapter_answer answer_to(const http_request *r, outlet *out, void (*tell)(outlet *, const adapter_view *))
{
    adapter_answer a = {.out = out, .tell = tell};
    (void)snprintf(a.request_id, sizeof a.request_id, "%s", r->id);
    return a;
}

/* ---- requests ---- */

static bool need(fields *f, const char *key, const char **out)
{
    return field_string(f, key, out) || (!f->failed && field_wrong(f, key, "expected a string, found none"));
}

static bool load(server *s, const http_request *r, const json_t *body, bool vllm, outlet *out, api_error *err)
{
    fields               f    = {.object = body, .where = "", .err = err};
    const char          *name = NULL, *path = NULL;
    double               scale = 1;
    const adapter_answer a     = answer_to(r, out, vllm ? tell_vllm_loaded : tell_loaded);
    if (!need(&f, vllm ? "lora_name" : "id", &name) || !need(&f, vllm ? "lora_path" : "path", &path)) return false;
    if (!vllm) (void)field_real(&f, "scale", -100, 100, &scale);
    return !f.failed && adapter_shelf_load(s->adapters, name, path, (float)scale, &a, err);
}

/* Parses the body and answers what goes wrong. */
static void with_body(server *s, const http_request *r, outlet *out,
                      bool (*act)(server *, const http_request *, const json_t *, outlet *, api_error *))
{
    json_t   *body = NULL;
    api_error err;
    if (!body_parse(r->body, r->n_body, &body, &err) || !act(s, r, body, out, &err))
        answer_error(out, &err, API_OPENAI, r->id);
    json_decref(body);
}

static bool load_own(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    return load(s, r, body, false, out, err);
}

static bool load_vllm(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    return load(s, r, body, true, out, err);
}

static bool unload_vllm(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    fields               f    = {.object = body, .where = "", .err = err};
    const char          *name = NULL;
    const adapter_answer a    = answer_to(r, out, tell_vllm_removed);
    return need(&f, "lora_name", &name) && adapter_shelf_unload(s->adapters, name, &a, err);
}

void handle_adapter_load(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    with_body(s, r, out, load_own);
}

void handle_vllm_load(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    with_body(s, r, out, load_vllm);
}

void handle_vllm_unload(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    with_body(s, r, out, unload_vllm);
}

void handle_adapter_delete(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error            err;
    const adapter_answer a = answer_to(r, out, tell_removed);
    if (!adapter_shelf_unload(s->adapters, rest, &a, &err)) answer_error(out, &err, API_OPENAI, r->id);
}

/* ---- lists ---- */

typedef struct listing {
    str  body;
    bool first;
} listing;

static void add_own(void *user, const adapter_view *v)
{
    listing *l = user;
    if (!l->first) str_putc(&l->body, ',');
    l->first = false;
    put_adapter(v, &l->body);
}

/* llama.cpp's scale is what holds where a request chooses none. */
static void add_llama(void *user, const adapter_view *v)
{
    listing *l = user;
    if (v->state != ADAPTER_READY) return;
    if (!l->first) str_putc(&l->body, ',');
    l->first = false;
    str_printf(&l->body, "{\"id\":%u,\"name\":", v->id);
    json_out_string(&l->body, v->name, strlen(v->name));
    str_puts(&l->body, ",\"path\":");
    json_out_string(&l->body, v->path, strlen(v->path));
    str_puts(&l->body, ",\"scale\":");
    json_out_number(&l->body, (double)v->usual);
    str_putc(&l->body, '}');
}

static void answer_list(server *s, outlet *out, void (*add)(void *, const adapter_view *))
{
    listing l = {.first = true};
    str_init(&l.body, LIST_MAX);
    str_putc(&l.body, '[');
    adapter_shelf_each(s->adapters, add, &l);
    str_putc(&l.body, ']');
    answer_json(out, &l.body);
}

void handle_adapters(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)r;
    (void)rest;
    answer_list(s, out, add_own);
}

void handle_lora_list(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)r;
    (void)rest;
    answer_list(s, out, add_llama);
}

/* A list is llama.cpp's whole body; body_parse takes objects. */
void handle_lora_set(server *s, const http_request *r, const char *rest, outlet *out)
{
    adapter_scale scales[MAX_SCALES];
    api_error     err;
    json_t       *list = json_loadb(r->body != NULL ? r->body : "", r->n_body, 0, NULL);
    const size_t  n    = json_array_size(list);
    bool          ok   = json_is_array(list) && n <= MAX_SCALES;
    (void)rest;
    if (!ok) (void)api_fail(&err, API_INVALID, NULL, "expected a list of {\"id\": N, \"scale\": X}");
    for (size_t i = 0; ok && i < n; i++) {
        fields f     = {.object = json_array_get(list, i), .where = "", .err = &err};
        double scale = 0;
        ok = (field_whole(&f, "id", 0, UINT32_MAX, &scales[i].id) && field_real(&f, "scale", -100, 100, &scale)) ||
             (!f.failed && field_wrong(&f, "id", "expected id and scale, found one of them"));
        scales[i].scale = (float)scale;
    }
    if (ok) ok = adapter_shelf_set_usual(s->adapters, scales, n, &err);
    json_decref(list);
    if (ok)
        answer_list(s, out, add_llama);
    else
        answer_error(out, &err, API_OPENAI, r->id);
}
