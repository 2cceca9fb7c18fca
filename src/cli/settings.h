/* cli/settings.h - options from a file and from the environment, for a command that runs as a service.
 *
 * The command's own table of options is the list of what may be said: `--max-queue 8` is
 * `max-queue = 8` on a line of the file, and WEIR_MAX_QUEUE=8 in the environment.  The command
 * line goes before the environment, and that before the file; an option that may be given several
 * times is taken whole from one of them. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "cli/options.h"

typedef struct settings_texts {
    char  *kept[ARG_LIST_MAX]; /* what the options' strings point into; owned */
    size_t n;
} settings_texts;

/* Reads the file that o->config names (NULL: the one of WEIR_CONFIG, if any) and then the
 * environment into *o.  On failure a message stands in out->message, with the line or the variable.
 * `texts` is to live as long as *o, and is released in any case. */
bool settings_read(options *o, const arg_group *const *groups, settings_texts *texts, arg_result *out);
void settings_free(settings_texts *texts);

/* Prints *o to stdout as such a file: what differs from the defaults, and the other names as comments.
 * Keys are not shown. */
void settings_print(const options *o, const arg_group *const *groups);

#endif
