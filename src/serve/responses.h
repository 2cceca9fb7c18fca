/* serve/responses.h - the Responses API's dialect. */
#ifndef SERVE_RESPONSES_H
#define SERVE_RESPONSES_H

#include "serve/openai.h"
#include "serve/response_store.h"

/* How a client wants its response, and what is remembered of the request for it. */
typedef struct responses_form {
    bool            stream, summary, logprobs, one_call, limited; /* responses_request.h */
    str             before, behind;                               /* of responses_put_echo; owned */
    json_t         *told;                                         /* responses_tools.told; owned, or NULL */
    char           *previous;                                     /* owned, or NULL */
    char           *items; /* JSON of the input's items; owned.  NULL: nothing is stored */
    response_store *store;
} responses_form;

void responses_form_free(responses_form *f); /* all zero is allowed */

/* A dialect that writes to `out`; takes what *head and *form own.  NULL without memory. */
dialect *responses_writer_new(openai_head *head, responses_form *form, const char *request_id, outlet *out);

#endif
