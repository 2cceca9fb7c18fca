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

/* Whether it is time to draw.  `part` of the work is done, of which `gained` since the start. */
static bool is_due(const progress *p, uint64_t now, double part, double gained)
{
    const double elapsed = (double)(now - p->start) * 1e-9;
    if (part >= 1.0 && !p->drawn) return false;
    if (now - p->start < patience_ns && !p->drawn) {
        /* Too early to bother anyone, unless the rest will take longer. */
        if (gained <= 0.0 || elapsed / gained < 1.5 || now - p->start < 2 * (uint64_t)REDRAW_NS) return false;
    }
    return !p->drawn || now - p->last >= REDRAW_NS || part >= 1.0;
}

static void draw(progress *p, uint64_t now, double part, const char *rest)
{
    char         bar[BAR_MAX + 1];
    const size_t room = terminal_columns(), width = room > 70 ? BAR_MAX : 10;
    const size_t full = part >= 1.0 ? width : (size_t)(part * (double)width);
    p->last           = now;
    p->drawn          = true;
    memset(bar, ' ', width);
    memset(bar, '#', full);
    bar[width] = '\0';
    (void)fprintf(stderr, "\r\033[K%s [%s] %3.0f%%  %s", p->label, bar, 100.0 * part, rest);
    (void)fflush(stderr);
}

void progress_show(progress *p, double done, double total)
{
    const uint64_t now  = clock_ns();
    const double   part = done / total, elapsed = (double)(now - p->start) * 1e-9;
    char           rest[64];
    if (!terminal_progress() || !is_due(p, now, part, part)) return;
    (void)snprintf(rest, sizeof rest, "%.0f s left", part > 0.0 ? elapsed / part - elapsed : 0.0);
    draw(p, now, part, rest);
}

void progress_bytes(progress *p, double done, double total, double received)
{
    const uint64_t now     = clock_ns();
    const double   elapsed = (double)(now - p->start) * 1e-9, rate = elapsed > 0.0 ? received / elapsed : 0.0;
    char           rest[120];
    if (!terminal_progress() || !is_due(p, now, done / total, received / total)) return;
    const double unit = total < 1e9 ? 1e6 : 1e9;
    const int    n    = snprintf(rest, sizeof rest, "%.2f of %.2f %s  %.1f MB/s", done / unit, total / unit,
                           total < 1e9 ? "MB" : "GB", rate * 1e-6);
    if (rate > 0.0 && n > 0 && (size_t)n < sizeof rest)
        (void)snprintf(rest + n, sizeof rest - (size_t)n, "  %.0f s left", (total - done) / rate);
    draw(p, now, done / total, rest);
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
