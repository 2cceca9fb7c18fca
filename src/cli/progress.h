/* cli/progress.h - a bar with an estimate on stderr, for waits of a second and
 * more.  Draws only on a terminal. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *label;
    uint64_t    start, last; /* nanoseconds */
    bool        drawn;
} progress;

void progress_start(progress *p, const char *label);
/* `done` of `total` units, total > 0. */
void progress_show(progress *p, double done, double total);
/* The same for bytes, with how much came and how fast; `received` of those that are
 * done came since the start. */
void progress_bytes(progress *p, double done, double total, double received);
/* A line without a bar, at once, for work that cannot tell how far it is. */
void progress_note(progress *p, const char *label);
/* Removes what was drawn. */
void progress_end(progress *p);

#endif
