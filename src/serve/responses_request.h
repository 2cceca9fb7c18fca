/* serve/responses_request.h - a request of OpenAI's Responses API, as the same one of Chat
 * Completions.
 *
 * Pure.  What both dialects have is read in one place, from Chat's form (chat_request.h,
 * generation.h); here is what differs, and how a response repeats the request. */
#ifndef SERVE_RESPONSES_REQUEST_H
#define SERVE_RESPONSES_REQUEST_H

#include "serve/responses_tools.h"

#include "base/str.h"
#include "weir/request.h"

typedef struct responses_request {
    bool            store, logprobs;
    bool            one_call; /* parallel_tool_calls false: what follows a first call is dropped */
    bool            summary;  /* reasoning goes out as its summary, which is the whole of it */
    bool            limited;  /* by max_output_tokens, not only by the context */
    uint32_t        top_logprobs;
    const char     *previous; /* previous_response_id, borrowed from the body, or NULL */
    json_t         *items;    /* the input's own, as they are kept (responses_items.h) */
    responses_tools tools;    /* also what the model's names stand for */
    json_t         *chat;     /* the body of Chat Completions; NULL before responses_request_fold */
    size_t          left_out; /* items that a model cannot read */
} responses_request;

/* Reads everything but what was said before.  False with *err; release with
 * responses_request_free in any case. */
bool responses_request_read(const json_t *body, responses_request *out, api_error *err);
/* Fills in `chat`.  `history` is an array of items that come before the input, or NULL. */
bool responses_request_fold(responses_request *r, const json_t *body, const json_t *history, api_error *err);
void responses_request_free(responses_request *r);

/* Appends the members of a response that repeat the request: those before "output" and behind
 * it, without commas at the ends. */
void responses_put_echo(const json_t *body, const responses_request *r, const char *model, const weir_sample_params *p,
                        str *before, str *behind);

#endif
