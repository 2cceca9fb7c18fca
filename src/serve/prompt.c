/* serve/prompt.c - see prompt.h. */
#include "serve/prompt.h"

#include <stdlib.h>

bool prompt_render(const server *s, const chat_request_parts *parts, weir_prompt *out, api_error *err)
{
    weir_error we;
    char      *messages = json_dumps(parts->messages, JSON_COMPACT);
    char      *tools    = parts->tools != NULL ? json_dumps(parts->tools, JSON_COMPACT) : NULL;
    char      *kwargs   = json_dumps(parts->kwargs, JSON_COMPACT);
    *out                = (weir_prompt){0};
    bool ok             = messages != NULL && kwargs != NULL && (parts->tools == NULL || tools != NULL);
    if (!ok)
        (void)api_fail(err, API_INTERNAL, NULL, "out of memory");
    else if (weir_chat_render(s->o->model, messages, tools, kwargs, out, &we) != WEIR_OK)
        ok = api_fail_status(err, &we);
    free(messages);
    free(tools);
    free(kwargs);
    return ok;
}

bool prompt_fits(const server *s, size_t n, api_error *err)
{
    if (n < s->engine.max_context) return true;
    (void)api_fail(err, API_CONTEXT, "messages", "prompt is too long: %zu tokens > %u maximum", n,
                   s->engine.max_context - 1);
    err->n_prompt = (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX);
    err->n_ctx    = s->engine.max_context;
    return false;
}
