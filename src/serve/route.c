/* serve/route.c - see route.h. */
#include "serve/route.h"

#include <stdio.h>
#include <string.h>

static const route routes[] = {
    {"/chat/completions", "POST", ROUTE_KEY, true, handle_chat},
    {"/completions", "POST", ROUTE_KEY, true, handle_completions},
    {"/messages", "POST", ROUTE_KEY, true, handle_messages},
    {"/messages/count_tokens", "POST", ROUTE_KEY, true, handle_count_tokens},
    {"/responses", "POST", ROUTE_KEY, true, handle_responses},
    {"/responses", "GET", ROUTE_KEY, true, handle_responses_upgrade},
    {"/responses/input_tokens", "POST", ROUTE_KEY, true, handle_responses_tokens},
    {"/responses/compact", "POST", ROUTE_KEY, true, handle_responses_compact},
    {"/responses/*/input_items", "GET", ROUTE_KEY, true, handle_response_items},
    {"/responses/*/cancel", "POST", ROUTE_KEY, true, handle_response_cancel},
    {"/responses/*", "GET", ROUTE_KEY, true, handle_response},
    {"/responses/*", "DELETE", ROUTE_KEY, true, handle_response_delete},
    {"/models", "GET", ROUTE_KEY, true, handle_models},
    {"/models/*", "GET", ROUTE_KEY, true, handle_model},
    {"/tokenize", "POST", ROUTE_KEY, true, handle_tokenize},
    {"/detokenize", "POST", ROUTE_KEY, true, handle_detokenize},
    {"/apply-template", "POST", ROUTE_KEY, true, handle_apply_template},
    {"/adapters", "GET", ROUTE_KEY, true, handle_adapters},
    {"/adapters", "POST", ROUTE_ADMIN, true, handle_adapter_load},
    {"/adapters/*", "DELETE", ROUTE_ADMIN, true, handle_adapter_delete},
    {"/load_lora_adapter", "POST", ROUTE_ADMIN, true, handle_vllm_load},
    {"/unload_lora_adapter", "POST", ROUTE_ADMIN, true, handle_vllm_unload},
    {"/lora-adapters", "GET", ROUTE_KEY, false, handle_lora_list},
    {"/lora-adapters", "POST", ROUTE_ADMIN, false, handle_lora_set},
    {"/requests/*", "DELETE", ROUTE_KEY, true, handle_request_cancel},
    {"/fit", "GET", ROUTE_KEY, true, handle_fit},
    {"/props", "GET", ROUTE_KEY, false, handle_props},
    {"/slots", "GET", ROUTE_KEY, false, handle_slots},
    {"/health", "GET", ROUTE_PUBLIC, true, handle_health},
    {"/ready", "GET", ROUTE_PUBLIC, true, handle_ready},
    {"/ping", "GET", ROUTE_PUBLIC, false, handle_health},
    {"/version", "GET", ROUTE_KEY, false, handle_version},
    {"/metrics", "GET", ROUTE_METRICS, false, handle_metrics},
    {"/", "GET", ROUTE_PUBLIC, false, handle_home},
    {"/web/*", "GET", ROUTE_PUBLIC, false, handle_web},
    {"/api/version", "GET", ROUTE_KEY, false, handle_ollama_version},
    {"/api/tags", "GET", ROUTE_KEY, false, handle_ollama_tags},
    {"/api/ps", "GET", ROUTE_KEY, false, handle_ollama_ps},
    {"/api/show", "POST", ROUTE_KEY, false, handle_ollama_show},
    {"/api/chat", "POST", ROUTE_KEY, false, handle_ollama_chat},
    {"/api/generate", "POST", ROUTE_KEY, false, handle_ollama_generate},
    {"/api/embed", "POST", ROUTE_KEY, false, handle_ollama_embed},
    {"/api/embeddings", "POST", ROUTE_KEY, false, handle_ollama_embed},
    {"/api/pull", "POST", ROUTE_KEY, false, handle_ollama_pull},
    {"/api/copy", "POST", ROUTE_KEY, false, handle_ollama_change},
    {"/api/delete", "DELETE", ROUTE_KEY, false, handle_ollama_change},
    {"/api/push", "POST", ROUTE_KEY, false, handle_ollama_change},
    {"/api/create", "POST", ROUTE_KEY, false, handle_ollama_refused},
    {"/api/blobs/*", "POST", ROUTE_KEY, false, handle_ollama_refused},
};

static api_dialect dialect_of(const char *path)
{
    if (strncmp(path, "/v1/messages", 12) == 0 || strncmp(path, "/messages", 9) == 0) return API_ANTHROPIC;
    return strncmp(path, "/api/", 5) == 0 ? API_OLLAMA : API_OPENAI;
}

/* Whether the path is the route's; the n_rest bytes at path + rest are what "*" stands for. */
static bool matches(const route *r, const char *path, size_t *rest, size_t *n_rest)
{
    const char  *star = strchr(r->path, '*');
    const size_t n    = strlen(path);
    *rest             = n;
    *n_rest           = 0;
    if (star == NULL) return strcmp(r->path, path) == 0;
    const size_t before = (size_t)(star - r->path), behind = strlen(star + 1);
    if (n <= before + behind || strncmp(r->path, path, before) != 0 || strcmp(path + n - behind, star + 1) != 0)
        return false;
    *rest   = before;
    *n_rest = n - before - behind;
    return true;
}

/* One more method that the path has. */
static void allow(route_match *m, const route *r)
{
    const char  *more = strcmp(r->method, "GET") == 0 ? "GET, HEAD" : r->method;
    const size_t n    = strlen(m->allow);
    (void)snprintf(m->allow + n, sizeof m->allow - n, "%s, ", more);
}

static bool is_method(const route *r, const char *method)
{
    return strcmp(r->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

void route_find(const char *method, const char *path, char *scratch, route_match *out, api_error *err)
{
    size_t n = strlen(path);
    *out     = (route_match){.dialect = dialect_of(path), .rest = ""};
    memcpy(scratch, path, n + 1);
    if (n > 1 && scratch[n - 1] == '/') scratch[n - 1] = '\0';
    const bool  v1   = strncmp(scratch, "/v1/", 4) == 0;
    const char *bare = v1 ? scratch + 3 : scratch;
    size_t      rest, n_rest;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const route *r = &routes[i];
        if ((v1 && !r->v1) || !matches(r, bare, &rest, &n_rest)) continue;
        if (is_method(r, method)) {
            scratch[(v1 ? 3 : 0) + rest + n_rest] = '\0';
            out->rest                             = bare + rest;
            out->route                            = r;
            return;
        }
        allow(out, r);
    }
    const size_t known = strlen(out->allow);
    if (known > 0) (void)snprintf(out->allow + known, sizeof out->allow - known, "OPTIONS");
    if (known > 0)
        (void)api_fail(err, API_METHOD, NULL, "%s: expected %s, found %.20s", bare, out->allow, method);
    else
        (void)api_fail(err, API_NOT_FOUND, NULL, "%.200s: no such path", path);
}
