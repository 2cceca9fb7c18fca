/* serve/chat_request.h - a chat as clients send it, to what weir_chat_render takes.
 *
 * Pure: nothing of the engine is touched. */
#ifndef SERVE_CHAT_REQUEST_H
#define SERVE_CHAT_REQUEST_H

#include "serve/api_error.h"
#include "serve/serve.h"

#include <jansson.h>

enum { CHAT_MAX_MESSAGES = 4096, CHAT_MAX_TOOLS = 1024 };

typedef struct chat_request_parts {
    json_t *messages;       /* array, one form for content parts, roles and reasoning */
    json_t *tools;          /* functions, in the request's order; NULL: none */
    json_t *kwargs;         /* template variables */
    bool    no_tool_calls;  /* tool_choice "none": tools are shown to the model, and not to be called */
    bool    force_call;     /* the reply has to begin with a call, */
    char   *force_name;     /* of this function; NULL: of any.  Owned */
    bool    one_call;       /* parallel_tool_calls false: the reply ends with its first call */
    size_t  tools_left_out; /* of kinds that are no functions */
} chat_request_parts;

/* False with *err filled.  Release with chat_request_free in any case. */
bool chat_request_read(const json_t *body, serve_thinking thinking, chat_request_parts *out, api_error *err);
void chat_request_free(chat_request_parts *p);

#endif
