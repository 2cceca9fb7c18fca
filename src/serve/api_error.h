/* serve/api_error.h - what is wrong with a request, and how each dialect says it.
 *
 * One internal error; the dialect is that of the path that was asked.  Statuses follow what
 * the clients' retries make of them: what would fail again is never 429 or 5xx. */
#ifndef SERVE_API_ERROR_H
#define SERVE_API_ERROR_H

#include "base/str.h"

#include <stdint.h>

typedef enum api_dialect { API_OPENAI, API_ANTHROPIC, API_OLLAMA } api_dialect;

typedef enum api_kind {
    API_OK,
    API_INVALID, /* malformed, a wrong field, or one that is not supported */
    API_CONTEXT, /* the prompt leaves no room in the context */
    API_BUDGET,  /* would not fit the memory even alone */
    API_BAD_KEY,
    API_FORBIDDEN, /* the Host is not ours */
    API_NOT_FOUND, /* path or object */
    API_NO_MODEL,
    API_NO_RESPONSE, /* previous_response_id */
    API_METHOD,      /* the path is known, the method is not */
    API_UPGRADE,     /* another protocol is asked for */
    API_CONFLICT,    /* not as things stand: the object is there already, or in use */
    API_CANCELLED,   /* by another request */
    API_TOO_LARGE,   /* the body */
    API_QUEUE_FULL,
    API_NUMERICS, /* the computation gave no usable number: it would again */
    API_INTERNAL,
    API_UNAVAILABLE, /* shutting down */
} api_kind;

typedef struct api_error {
    api_kind kind;
    char     message[1000];
    char     param[96];       /* the field, or "" */
    uint32_t retry_after;     /* seconds; of API_QUEUE_FULL and API_UNAVAILABLE */
    uint32_t n_prompt, n_ctx; /* of API_CONTEXT */
} api_error;

/* Fills *e; param may be NULL.  Returns false, so that failing is one line. */
__attribute__((cold, format(printf, 4, 5))) bool api_fail(api_error *e, api_kind kind, const char *param,
                                                          const char *fmt, ...);
/* The same of a failure of the library, whose text begins with the field it is about. */
bool api_fail_status(api_error *e, const weir_error *err);

/* The HTTP status: Anthropic's clients know "overloaded" as 529. */
unsigned api_http_status(const api_error *e, api_dialect d);

/* Appends the JSON object that the dialect's clients expect, `{"error":...}` or their like;
 * request_id is part of Anthropic's. */
void api_error_json(const api_error *e, api_dialect d, const char *request_id, str *out);

#endif
