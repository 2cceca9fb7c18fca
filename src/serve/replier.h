/* serve/replier.h - one choice's tokens to events.
 *
 * The one place where text of the model becomes reasoning, content and tool calls: the engine
 * tells reasoning from the rest, and calls are found by the parser of weir/toolcall.h where the
 * request has tools.  Log probabilities go out with the content that their tokens became; those
 * of reasoning and of calls are left out. */
#ifndef SERVE_REPLIER_H
#define SERVE_REPLIER_H

#include "serve/events.h"
#include "weir/toolcall.h"

typedef struct replier {
    dialect              *to;
    uint32_t              choice;
    bool                  begun, logprobs, failed; /* failed: out of memory; events were lost */
    reply_logprob        *held;                    /* of tokens whose text has not come yet */
    uint32_t              n_held, cap_held;
    weir_toolcall_parser *parser; /* NULL: text is content */
    uint32_t              tool_close;
    bool                  one_call; /* the reply ends with its first call, */
    bool                  over;     /* which has come: no more tokens are wanted */
    bool                  in_call, after_call;
    bool                  include_stop; /* the stop string is content, too */
    const uint32_t       *stop_ids;     /* [n_stop_ids] of the request, borrowed */
    size_t                n_stop_ids;
    bool                  watch; /* events tell `now` */
    reply_usage           now;
} replier;

void replier_init(replier *r, dialect *to, uint32_t choice, bool logprobs);
void replier_free(replier *r); /* all zero is allowed */

/* Looks for calls of these tools; after replier_init, and *r stays where it is.  False without memory. */
bool replier_find_calls(replier *r, const weir_toolcall_options *tools, bool one_call);

/* The next token of the reply.  None follows once r->over is set. */
void replier_token(replier *r, const weir_token *t);
/* The reply is over; where r->over is not set its result is not WEIR_FINISH_CANCELLED. */
void replier_end(replier *r, const weir_generate_result *result);

#endif
