/* cli/reply.h - one request: its prompt is read, its reply shown as it comes, and kept. */
#ifndef CLI_REPLY_H
#define CLI_REPLY_H

#include "base/str.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "weir/request.h"
#include "weir/text.h"

#include <jansson.h>

typedef struct reply {
    str               text, reasoning;
    json_t           *ids;      /* array of the sampled ids */
    json_t           *logprobs; /* array, NULL unless asked for */
    weir_request_info info;     /* at the end; its error is told by reply_run */

    /* While it runs. */
    const weir_model *model;
    weir_request     *request;
    progress          bar;
    bool              show, dim, begun, failed;
} reply;

/* Submits the prompt and runs the engine until the reply is over.  With `show`
 * the answer goes to stdout, flushed token by token; reasoning only when stdout
 * is a terminal, dimmed.  Ctrl-C ends it within a step: with WEIR_CANCELLED
 * while the prompt is read, with WEIR_OK and WEIR_FINISH_CANCELLED once the
 * reply has begun.  What came before a failure is kept: release with reply_free
 * in any case. */
weir_status reply_run(reply *r, const session *s, const weir_ids *prompt, const weir_generate_options *opt, bool show,
                      weir_error *err);
void        reply_free(reply *r); /* all zero is allowed */

/* "stop", "length" or "cancelled". */
const char *reply_finish_name(weir_finish f);
/* Tokens per second of the reply, and of what was read of its prompt; 0 where
 * there were none. */
double reply_decode_tps(const weir_request_info *i);
double reply_prefill_tps(const weir_request_info *i);

#endif
