/* cli/line_input.h - the messages a user types or pipes in.
 *
 * On a terminal lines are edited (libedit) and remembered in the history file;
 * otherwise they are just read. */
#ifndef CLI_LINE_INPUT_H
#define CLI_LINE_INPUT_H

#include "base/str.h"

typedef struct line_input line_input;

typedef enum line_result {
    LINE_TEXT,        /* a message */
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
    LINE_END,         /* Ctrl-D, the end of the input, or terminal_ended() */
} line_result;

/* Loads the history.  Without a place for it there is none. */
weir_status line_input_open(line_input **out, weir_error *err);
void        line_input_close(line_input *in); /* saves the history; NULL is allowed */

/* Reads one message into *text, without its last newline.  It goes on over
 * lines that end in a backslash, and over lines that are already waiting
 * behind, as those of a paste are. */
line_result line_input_read(line_input *in, str *text);

#endif
