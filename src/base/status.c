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

/* Messages quote names and values from files, and messages go to terminals:
 * control characters (C0, DEL, and C1 as UTF-8 has them) become '?'. */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++) {
        if (*p < 0x20 || *p == 0x7F)
            *p = '?';
        else if (p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            p[0] = p[1] = '?';
    }
}

weir_status status_fail(weir_error *err, weir_status st, const char *fmt, ...)
{
    if (err == NULL) return st;
    err->status = st;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    make_printable(err->text);
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
    make_printable(text);
    memcpy(err->text, text, sizeof text);
    err->status = st;
    return st;
}
