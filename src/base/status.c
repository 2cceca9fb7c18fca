/* base/status.c - status texts and error messages. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *weir_status_text(weir_status st)
{
    switch (st) {
#define X(name, text) \
    case WEIR_##name: return text;
        WEIR_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

#define VERSION_STR_(a, b, c) #a "." #b "." #c
#define VERSION_STR(a, b, c) VERSION_STR_(a, b, c)

const char *weir_version(void)
{
    return VERSION_STR(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
}

weir_status status_fail(weir_error *err, weir_status st, const char *fmt, ...)
{
    if (err == NULL) return st;
    err->status = st;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return st;
}

weir_status status_prefix(weir_error *err, weir_status st, const char *fmt, ...)
{
    if (err == NULL) return st;
    char    text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const size_t n = strnlen(text, sizeof text - 1);
    (void)snprintf(text + n, sizeof text - n, ": %s", err->text);
    memcpy(err->text, text, sizeof text);
    err->status = st;
    return st;
}
