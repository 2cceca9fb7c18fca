/* cli/terminal.h - the terminal, signals, and the library's log lines. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Looks at stdin, stdout, stderr and NO_COLOR, takes over the signals and sends
 * the library's log to stderr: warnings and errors, with `quiet` errors only.
 * Once, before anything else.
 *
 * SIGINT (Ctrl-C), SIGTERM and SIGHUP set flags, so that whoever writes a file or
 * has changed the terminal can clean up; SIGHUP stays ignored where it was
 * (nohup).  SIGXFSZ is ignored: the write fails then, and is cleaned up after. */
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

/* True after Ctrl-C until terminal_interrupt_clear(), and for good once
 * terminal_ended().  Three signals without a clearing end the process the hard
 * way. */
bool terminal_interrupted(void);
void terminal_interrupt_clear(void);
/* SIGTERM or SIGHUP came: clean up and leave. */
bool terminal_ended(void);
/* From now on a hang-up (SIGHUP) is no end: terminal_hung_up tells of it, once. */
void terminal_take_hang_ups(void);
bool terminal_hung_up(void);
/* The terminal's size changed since the last call. */
bool terminal_resized(void);

#endif
