/* serve/prompt.h - a chat of a request to token ids. */
#ifndef SERVE_PROMPT_H
#define SERVE_PROMPT_H

#include "serve/chat_request.h"
#include "serve/server.h"

/* Renders with the checkpoint's template.  False with *err filled; release with weir_prompt_free. */
bool prompt_render(const server *s, const chat_request_parts *parts, weir_prompt *out, api_error *err);
/* False (API_CONTEXT) where a prompt of n tokens leaves no room in the context. */
bool prompt_fits(const server *s, size_t n, api_error *err);

#endif
