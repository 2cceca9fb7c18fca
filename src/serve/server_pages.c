/* serve/server_pages.c - GET /fit, /props, /slots, and DELETE /v1/requests/ID: the server from outside. */
#include "serve/json_out.h"
#include "serve/server.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE_MAX = 1 << 20 };

void handle_request_cancel(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error err;
    if (strlen(rest) >= sizeof r->id)
        (void)api_fail(&err, API_NOT_FOUND, NULL, "no such request is running or waiting");
    else if (engine_loop_cancel(s->loop, rest, r->id, out, &err))
        return;
    answer_error(out, &err, API_OPENAI, r->id);
}

void handle_fit(server *s, const http_request *r, const char *rest, outlet *out)
{
    const weir_fit *f = &s->o->fit;
    str             body;
    (void)r;
    (void)rest;
    str_init(&body, PAGE_MAX);
    str_printf(&body,
               "{\"weights_bytes\":%" PRIu64 ",\"kv_bytes_per_token\":%" PRIu64 ",\"kv_start_bytes\":%" PRIu64
               ",\"state_bytes_per_sequence\":%" PRIu64 ",\"snapshot_bytes\":%" PRIu64 ",\"cache_bytes\":%" PRIu64,
               f->weights_bytes, f->kv_bytes_per_token, f->kv_start_bytes, f->state_bytes_per_sequence,
               f->snapshot_bytes, f->cache_bytes);
    str_printf(&body,
               ",\"draft_bytes\":%" PRIu64 ",\"adapter_bytes\":%" PRIu64 ",\"workspace_bytes\":%" PRIu64
               ",\"total_bytes\":%" PRIu64 ",\"max_context\":%u,\"fits\":%s,\"n_ctx\":%u,\"max_sequences\":%u,"
               "\"pool_context\":%" PRIu64 "}",
               f->draft_bytes, f->adapter_bytes, f->workspace_bytes, f->total_bytes, f->max_context,
               f->fits ? "true" : "false", s->engine.max_context, s->engine.max_sequences, s->engine.pool_context);
    answer_json(out, &body);
}

/* The last part of a path: a client need not know the machine's folders. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

void handle_props(server *s, const http_request *r, const char *rest, outlet *out)
{
    const weir_sample_params *p = &s->o->sample;
    str                       body;
    const char               *path = last_part(s->model.path);
    (void)r;
    (void)rest;
    str_init(&body, PAGE_MAX);
    str_printf(&body,
               "{\"default_generation_settings\":{\"n_ctx\":%u,\"params\":{\"temperature\":", s->engine.max_context);
    json_out_number(&body, p->temperature);
    str_puts(&body, ",\"top_p\":");
    json_out_number(&body, p->top_p);
    str_puts(&body, ",\"min_p\":");
    json_out_number(&body, p->min_p);
    str_printf(&body, ",\"top_k\":%d}},\"total_slots\":%u,\"model_alias\":", p->top_k, s->engine.max_sequences);
    json_out_string(&body, s->o->model_id, strlen(s->o->model_id));
    str_puts(&body, ",\"model_path\":");
    json_out_string(&body, path, strlen(path));
    str_printf(&body,
               ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":\"weir %s\",\"is_sleeping\":false}",
               weir_version());
    answer_json(out, &body);
}

/* As many as replies at once; which one a reply has is nobody's business here, only how many work. */
void handle_slots(server *s, const http_request *r, const char *rest, outlet *out)
{
    metrics_state now;
    str           body;
    (void)r;
    (void)rest;
    metrics_get_state(s->metrics, &now);
    str_init(&body, PAGE_MAX);
    str_putc(&body, '[');
    for (uint32_t i = 0; i < s->engine.max_sequences; i++)
        str_printf(&body, "%s{\"id\":%u,\"n_ctx\":%u,\"is_processing\":%s}", i == 0 ? "" : ",", i,
                   s->engine.max_context, i < now.running ? "true" : "false");
    str_putc(&body, ']');
    answer_json(out, &body);
}
