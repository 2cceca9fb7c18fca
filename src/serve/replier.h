/* serve/replier.h - one choice's tokens to events.
 *
 * The one place where text of the model becomes reasoning, content and tool calls.  Tool calls
 * are not looked for yet: what the model writes of them is content. */
#ifndef SERVE_REPLIER_H
#define SERVE_REPLIER_H

#include "serve/events.h"

typedef struct replier {
    dialect       *to;
    uint32_t       choice;
    bool           begun, logprobs, failed;
    reply_logprob *held; /* of tokens whose text has not come yet */
    uint32_t       n_held, cap_held;
    bool           watch; /* events tell `now` */
    reply_usage    now;
} replier;

void replier_init(replier *r, dialect *to, uint32_t choice, bool logprobs);
void replier_free(replier *r);

/* The next token of the reply. */
void replier_token(replier *r, const weir_token *t);
/* The reply is over; its result is not WEIR_FINISH_CANCELLED. */
void replier_end(replier *r, const weir_generate_result *result);

#endif
