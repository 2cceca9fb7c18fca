/* serve/responses_tools.h - the tools of a Responses request, as functions for the template.
 *
 * Pure.  A model knows functions.  A custom tool becomes one with a single string, `input`; the
 * tools of a namespace become `namespace.name`; the built-in shell becomes `shell`.  Tools that
 * run on the service of somebody else are left out, never refused. */
#ifndef SERVE_RESPONSES_TOOLS_H
#define SERVE_RESPONSES_TOOLS_H

#include "serve/api_error.h"

#include <jansson.h>

typedef struct responses_tools {
    json_t *functions; /* array, in Chat Completions' form */
    json_t *told;      /* name as the model says it -> {"custom": bool, "namespace"?, "name"}, of those that differ */
    size_t  left_out;
} responses_tools;

/* `tools` may be NULL.  `choice` is tool_choice, or NULL: its allowed_tools are the only ones that
 * are shown.  False with *err; release with responses_tools_free in any case. */
bool responses_tools_read(const json_t *tools, const json_t *choice, responses_tools *out, api_error *err);
void responses_tools_free(responses_tools *t);

#endif
