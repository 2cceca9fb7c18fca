/* cli/terminal.h - the terminal, Ctrl-C, and the library's log lines. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Looks at stdin, stdout, stderr and NO_COLOR, takes over Ctrl-C and sends the
 * library's log to stderr: warnings and errors, with `quiet` errors only.  Once,
 * before anything else. */
void terminal_init(bool quiet);

bool terminal_stdin(void);
bool terminal_stdout(void);
/* stderr is a terminal and may carry progress (not --quiet). */
bool terminal_progress(void);
/* Columns of the terminal; 80 when it does not tell. */
size_t terminal_columns(void);

/* Control sequences for stdout, "" where colour is not wanted. */
const char *terminal_dim(void);
const char *terminal_plain(void);

/* True after Ctrl-C until terminal_interrupt_clear().  Pressing it three times
 * without that ends the process the hard way. */
bool terminal_interrupted(void);
void terminal_interrupt_clear(void);

#endif
