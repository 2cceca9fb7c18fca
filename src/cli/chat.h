/* cli/chat.h - the interactive half of `weir run`. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/options.h"
#include "cli/session.h"
#include "cli/talk.h"
#include "weir/generate.h"

/* Talks until the input ends, on the session's engine, which was opened with
 * `e`, and keeps the conversation in `t`; returns an exit code. */
int chat_run(const session *s, const options *o, const weir_engine_options *e, const weir_sample_params *sample,
             const talk *t);

#endif
