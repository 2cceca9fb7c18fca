/* serve/api_error.c - see api_error.h. */
#include "serve/api_error.h"

#include "serve/json_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* How a kind is told; the order is that of api_kind. */
static const struct {
    unsigned    status;
    const char *openai_type, *openai_code, *anthropic_type;
} words[] = {
    [API_OK]          = {200, "", NULL, ""},
    [API_INVALID]     = {400, "invalid_request_error", NULL, "invalid_request_error"},
    [API_CONTEXT]     = {400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"},
    [API_BUDGET]      = {400, "invalid_request_error", "context_over_budget", "invalid_request_error"},
    [API_BAD_KEY]     = {401, "authentication_error", "invalid_api_key", "authentication_error"},
    [API_FORBIDDEN]   = {403, "permission_error", NULL, "permission_error"},
    [API_NOT_FOUND]   = {404, "invalid_request_error", "not_found", "not_found_error"},
    [API_NO_MODEL]    = {404, "invalid_request_error", "model_not_found", "not_found_error"},
    [API_NO_RESPONSE] = {404, "invalid_request_error", "previous_response_not_found", "not_found_error"},
    [API_METHOD]      = {405, "invalid_request_error", "method_not_allowed", "invalid_request_error"},
    [API_UPGRADE]     = {426, "invalid_request_error", "upgrade_not_served", "invalid_request_error"},
    [API_CONFLICT]    = {409, "invalid_request_error", "conflict", "invalid_request_error"},
    [API_CANCELLED]   = {499, "invalid_request_error", "cancelled", "invalid_request_error"},
    [API_TOO_LARGE]   = {413, "invalid_request_error", "request_too_large", "request_too_large"},
    [API_QUEUE_FULL]  = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
    [API_NUMERICS]    = {500, "server_error", "numerics", "api_error"},
    [API_INTERNAL]    = {500, "server_error", "internal", "api_error"},
    [API_UNAVAILABLE] = {503, "unavailable_error", "unavailable", "overloaded_error"},
};

bool api_fail(api_error *e, api_kind kind, const char *param, const char *fmt, ...)
{
    va_list ap;
    *e = (api_error){.kind = kind};
    if (param != NULL) (void)snprintf(e->param, sizeof e->param, "%s", param);
    va_start(ap, fmt);
    (void)vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    /* The message may quote the request, and was cut at some byte: only whole characters go out. */
    size_t n = 0;
    for (size_t len; e->message[n] != '\0'; n += len) {
        len = utf8_sequence(e->message + n, strlen(e->message + n));
        if (len == 0) break;
    }
    e->message[n] = '\0';
    return false;
}

/* "messages[2].role: expected ..." is about messages[2].role. */
static void param_of(char *param, size_t size, const char *text)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789_.[]";
    const size_t      n      = strspn(text, name);
    if (n > 0 && n < size && text[n] == ':') (void)snprintf(param, size, "%.*s", (int)n, text);
}

bool api_fail_status(api_error *e, const weir_error *err)
{
    char     param[96] = "";
    api_kind kind      = API_INTERNAL;
    param_of(param, sizeof param, err->text);
    switch (err->status) {
    case WEIR_INVALID:
    case WEIR_FORMAT:
    case WEIR_UNSUPPORTED: kind = API_INVALID; break;
    case WEIR_NO_MEMORY: kind = API_BUDGET; break;
    case WEIR_NUMERICS: kind = API_NUMERICS; break;
    case WEIR_OK:
    case WEIR_IO:
    case WEIR_CANCELLED: break;
    }
    return api_fail(e, kind, param, "%s", err->text);
}

unsigned api_http_status(const api_error *e, api_dialect d)
{
    return e->kind == API_UNAVAILABLE && d == API_ANTHROPIC ? 529 : words[e->kind].status;
}

static void put_string_or_null(str *out, const char *text)
{
    if (text == NULL || text[0] == '\0')
        str_puts(out, "null");
    else
        json_out_string(out, text, strlen(text));
}

static void put_openai(const api_error *e, str *out)
{
    str_puts(out, "{\"error\":{\"message\":");
    json_out_string(out, e->message, strlen(e->message));
    str_printf(out, ",\"type\":\"%s\",\"param\":", words[e->kind].openai_type);
    put_string_or_null(out, e->param);
    str_puts(out, ",\"code\":");
    put_string_or_null(out, words[e->kind].openai_code);
    if (e->kind == API_CONTEXT) str_printf(out, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", e->n_prompt, e->n_ctx);
    str_puts(out, "}}");
}

void api_error_json(const api_error *e, api_dialect d, const char *request_id, str *out)
{
    switch (d) {
    case API_OPENAI: put_openai(e, out); break;
    case API_ANTHROPIC:
        str_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", words[e->kind].anthropic_type);
        json_out_string(out, e->message, strlen(e->message));
        str_puts(out, "},\"request_id\":");
        json_out_string(out, request_id, strlen(request_id));
        str_putc(out, '}');
        break;
    case API_OLLAMA:
        str_puts(out, "{\"error\":");
        json_out_string(out, e->message, strlen(e->message));
        str_putc(out, '}');
        break;
    }
}
