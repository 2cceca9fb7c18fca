/* serve/sse.h - frames of an event stream.
 *
 * A frame is an optional "event: NAME" line, one "data: JSON" line and an empty one.  The JSON
 * is written between sse_open and sse_close, on one line, as json_out.h writes it. */
#ifndef SERVE_SSE_H
#define SERVE_SSE_H

#include "base/str.h"

#define SSE_TYPE "text/event-stream; charset=utf-8"

static inline void sse_open(str *out, const char *event)
{
    if (event != NULL) str_printf(out, "event: %s\n", event);
    str_puts(out, "data: ");
}

static inline void sse_close(str *out)
{
    str_puts(out, "\n\n");
}

#endif
