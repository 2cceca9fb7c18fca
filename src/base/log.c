/* base/log.c - the one log sink. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static weir_log_fn *sink;
static void        *sink_user;

void weir_log_set(weir_log_fn *fn, void *user)
{
    sink      = fn;
    sink_user = user;
}

void log_line(weir_log_level level, const char *fmt, ...)
{
    if (sink == NULL) return;
    char    line[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    sink(sink_user, level, line);
}
