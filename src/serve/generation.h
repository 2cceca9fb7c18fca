/* serve/generation.h - the fields of a request that say how a reply is drawn.
 *
 * One reader for all dialects that have OpenAI's names and those of vLLM and llama.cpp on top.
 * What would change the reply and is not known here is refused by name, never ignored. */
#ifndef SERVE_GENERATION_H
#define SERVE_GENERATION_H

#include "serve/server.h"

/* Reads into *out, which begins with the server's defaults; the caller frees it in any case
 * (job_options_free).  False with *err filled. */
bool generation_read(const server *s, const json_t *body, job_options *out, api_error *err);

#endif
