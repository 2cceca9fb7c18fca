/* cli/reading.h - scores long lists of tokens in pieces of about half a second,
 * so that progress shows and Ctrl-C is heard.  How a list is cut changes no
 * result. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "cli/progress.h"
#include "weir/sequence.h"

/* As weir_sequence_score; `rows` shows the progress, and hears Ctrl-C.
 * WEIR_CANCELLED when it stopped the work, also behind the last row. */
weir_status reading_score(weir_sequence *s, const uint32_t *ids, size_t n, bool hidden, weir_rows_fn *rows, void *user,
                          weir_error *err);

#endif
