/* serve/calls.h - what a request says about tool calls, to how its reply is drawn and read.
 *
 * The tools stay in the prompt whatever the choice is, so that the cache has it. */
#ifndef SERVE_CALLS_H
#define SERVE_CALLS_H

#include "serve/chat_request.h"
#include "serve/server.h"

/* Adds to *o, which generation_read has filled: where no calls are wanted, the token <tool_call> is
 * banned.  `id_prefix` (static) begins the ids of calls; NULL: "call_".  False with *err filled. */
bool calls_read(const server *s, const chat_request_parts *parts, const char *id_prefix, job_options *o,
                api_error *err);

#endif
