/* cli/reply.h - generates one reply, shows it as it comes, and keeps it. */
#ifndef CLI_REPLY_H
#define CLI_REPLY_H

#include "base/str.h"
#include "weir/generate.h"
#include "weir/text.h"

#include <jansson.h>

typedef struct reply {
    str                  text, reasoning;
    json_t              *ids;      /* array of the sampled ids */
    json_t              *logprobs; /* array, NULL unless asked for */
    weir_generate_result result;
    double               seconds;

    /* While it runs. */
    const weir_model *model;
    bool              show, dim, failed;
} reply;

/* Generates from the logits of `s`.  With `show` the answer goes to stdout,
 * flushed token by token; reasoning only when stdout is a terminal, dimmed.
 * Ctrl-C ends it with WEIR_FINISH_CANCELLED.  What came before a failure is
 * kept: release with reply_free in any case. */
weir_status reply_generate(reply *r, const weir_model *m, weir_sequence *s, const weir_generate_options *opt, bool show,
                           weir_error *err);
void        reply_free(reply *r); /* all zero is allowed */

/* "stop", "length" or "cancelled". */
const char *reply_finish_name(weir_finish f);
/* Tokens per second, 0 when nothing was generated. */
double reply_tps(const reply *r);

#endif
