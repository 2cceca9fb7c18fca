/* serve/status_pages.c - GET /health, /ready, /version, /metrics: how the server is. */
#include "serve/server.h"

#include <string.h>

enum { METRICS_MAX = 1 << 20, HEALTH_MAX = 4096 };

/* Whether it takes requests: not while it shuts down.  A model is loaded before the server listens. */
static bool takes_requests(server *s, const http_request *r, outlet *out)
{
    api_error err;
    if (!atomic_load(&s->draining)) return true;
    (void)api_fail(&err, API_UNAVAILABLE, NULL, "the server is shutting down");
    err.retry_after = 1;
    answer_error(out, &err, API_OPENAI, r->id);
    return false;
}

void handle_health(server *s, const http_request *r, const char *rest, outlet *out)
{
    const char *detail = r->argument(r, "detail");
    str         body;
    (void)rest;
    if (!takes_requests(s, r, out)) return;
    str_init(&body, HEALTH_MAX);
    str_puts(&body, "{\"status\":\"ok\"");
    if (detail != NULL && strcmp(detail, "0") != 0) {
        metrics_state now;
        metrics_get_state(s->metrics, &now);
        const uint32_t idle = now.running < s->engine.max_sequences ? s->engine.max_sequences - now.running : 0;
        str_printf(&body,
                   ",\"slots_idle\":%u,\"slots_processing\":%u,\"queue\":%u,\"positions\":%llu,\"pool_context\":%llu,"
                   "\"cache_bytes\":%llu",
                   idle, now.running, now.waiting, (unsigned long long)now.positions, (unsigned long long)now.pool,
                   (unsigned long long)now.cache.memory_bytes);
    }
    str_putc(&body, '}');
    answer_json(out, &body);
}

/* What Ollama's clients look for: whether somebody is there. */
void handle_root(server *s, const http_request *r, const char *rest, outlet *out)
{
    static const char running[] = "Ollama is running";
    (void)rest;
    if (takes_requests(s, r, out)) outlet_answer(out, 200, "text/plain; charset=utf-8", running, sizeof running - 1);
}

void handle_ready(server *s, const http_request *r, const char *rest, outlet *out)
{
    str body;
    (void)rest;
    if (!takes_requests(s, r, out)) return;
    str_init(&body, HEALTH_MAX);
    str_puts(&body, "{\"status\":\"ready\"}");
    answer_json(out, &body);
}

void handle_version(server *s, const http_request *r, const char *rest, outlet *out)
{
    str body;
    (void)s;
    (void)r;
    (void)rest;
    str_init(&body, HEALTH_MAX);
    str_printf(&body, "{\"version\":\"%s\"}", weir_version());
    answer_json(out, &body);
}

void handle_metrics(server *s, const http_request *r, const char *rest, outlet *out)
{
    str body;
    (void)r;
    (void)rest;
    str_init(&body, METRICS_MAX);
    metrics_text(s->metrics, &body);
    outlet_answer(out, body.failed ? 500 : 200, "text/plain; version=0.0.4; charset=utf-8", body.data, body.len);
    str_free(&body);
}
