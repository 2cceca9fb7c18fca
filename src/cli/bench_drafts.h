/* cli/bench_drafts.h - `weir bench --text`: what drafts bring on a text. */
#ifndef CLI_BENCH_DRAFTS_H
#define CLI_BENCH_DRAFTS_H

#include "cli/options.h"
#include "cli/session.h"

/* Generates greedily after prompts cut from --text, without drafts and with
 * them in turn, and prints both speeds.  `s` has its model open.  Returns an
 * exit code: CLI_FAILED also when a reply differed. */
int bench_drafts(session *s, const options *o);

#endif
