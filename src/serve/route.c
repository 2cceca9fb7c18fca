/* serve/route.c - see route.h. */
#include "serve/route.h"

#include <string.h>

static const route routes[] = {
    {"/chat/completions", "POST", ROUTE_KEY, true, handle_chat},
    {"/completions", "POST", ROUTE_KEY, true, handle_completions},
    {"/models", "GET", ROUTE_KEY, true, handle_models},
    {"/models/*", "GET", ROUTE_KEY, true, handle_model},
    {"/tokenize", "POST", ROUTE_KEY, true, handle_tokenize},
    {"/detokenize", "POST", ROUTE_KEY, true, handle_detokenize},
    {"/apply-template", "POST", ROUTE_KEY, true, handle_apply_template},
    {"/health", "GET", ROUTE_PUBLIC, true, handle_health},
    {"/ready", "GET", ROUTE_PUBLIC, true, handle_ready},
    {"/ping", "GET", ROUTE_PUBLIC, false, handle_health},
    {"/version", "GET", ROUTE_KEY, false, handle_version},
    {"/metrics", "GET", ROUTE_METRICS, false, handle_metrics},
    {"/", "GET", ROUTE_PUBLIC, false, handle_home},
    {"/web/*", "GET", ROUTE_PUBLIC, false, handle_web},
};

static api_dialect dialect_of(const char *path)
{
    if (strncmp(path, "/v1/messages", 12) == 0 || strncmp(path, "/messages", 9) == 0) return API_ANTHROPIC;
    return strncmp(path, "/api/", 5) == 0 ? API_OLLAMA : API_OPENAI;
}

/* Whether the path is the route's; *rest is what "*" stands for. */
static bool matches(const route *r, const char *path, const char **rest)
{
    const size_t n = strlen(r->path);
    *rest          = "";
    if (r->path[n - 1] != '*') return strcmp(r->path, path) == 0;
    if (strncmp(r->path, path, n - 1) != 0 || path[n - 1] == '\0') return false;
    *rest = path + n - 1;
    return true;
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
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const route *r = &routes[i];
        if ((v1 && !r->v1) || !matches(r, bare, &out->rest)) continue;
        if (is_method(r, method)) {
            out->route = r;
            return;
        }
        out->allow = strcmp(r->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    }
    if (out->allow != NULL)
        (void)api_fail(err, API_METHOD, NULL, "%s: expected %s, found %.20s", bare, out->allow, method);
    else
        (void)api_fail(err, API_NOT_FOUND, NULL, "%.200s: no such path", path);
}
