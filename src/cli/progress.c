/* cli/progress.c - the progress bar; see progress.h. */
#include "cli/progress.h"

#include "base/clock.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>

enum { BAR_MAX = 30, REDRAW_NS = 100 * 1000 * 1000 };
static const uint64_t patience_ns = 1000u * 1000u * 1000u;

void progress_start(progress *p, const char *label)
{
    *p = (progress){.label = label, .start = clock_ns()};
}

void progress_show(progress *p, double done, double total)
{
    if (!terminal_progress()) return;
    const uint64_t now     = clock_ns();
    const double   elapsed = (double)(now - p->start) * 1e-9, part = done / total;
    if (part >= 1.0 && !p->drawn) return;
    if (now - p->start < patience_ns && !p->drawn) {
        /* Too early to bother anyone, unless the rest will take longer. */
        if (part <= 0.0 || elapsed / part < 1.5 || now - p->start < 2 * (uint64_t)REDRAW_NS) return;
    }
    if (p->drawn && now - p->last < REDRAW_NS && done < total) return;
    p->last  = now;
    p->drawn = true;

    char         bar[BAR_MAX + 1];
    const size_t room = terminal_columns(), width = room > 70 ? BAR_MAX : 10;
    const size_t full = part >= 1.0 ? width : (size_t)(part * (double)width);
    memset(bar, ' ', width);
    memset(bar, '#', full);
    bar[width]            = '\0';
    const double estimate = part > 0.0 ? elapsed / part - elapsed : 0.0;
    (void)fprintf(stderr, "\r\033[K%s [%s] %3.0f%%  %.0f s left", p->label, bar, 100.0 * part, estimate);
    (void)fflush(stderr);
}

void progress_note(progress *p, const char *label)
{
    progress_start(p, label);
    if (!terminal_progress()) return;
    (void)fprintf(stderr, "\r\033[K%s", label);
    (void)fflush(stderr);
    p->drawn = true;
}

void progress_end(progress *p)
{
    if (p->drawn) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    p->drawn = false;
}
