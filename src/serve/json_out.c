/* serve/json_out.c - see json_out.h. */
#include "serve/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put_control(str *out, unsigned char c)
{
    switch (c) {
    case '\n': str_puts(out, "\\n"); break;
    case '\t': str_puts(out, "\\t"); break;
    case '\r': str_puts(out, "\\r"); break;
    case '\b': str_puts(out, "\\b"); break;
    case '\f': str_puts(out, "\\f"); break;
    default: str_printf(out, "\\u%04x", (unsigned)c);
    }
}

void json_out_escaped(str *out, const char *bytes, size_t n)
{
    size_t plain = 0; /* bytes[plain .. i) can go as they are */
    for (size_t i = 0; i < n;) {
        const unsigned char c   = (unsigned char)bytes[i];
        const size_t        len = c < 0x80 ? 1 : utf8_sequence(bytes + i, n - i);
        const bool          own = len == 0 || c < 0x20 || c == '"' || c == '\\';
        if (!own) {
            i += len;
            continue;
        }
        str_put(out, bytes + plain, i - plain);
        if (len == 0)
            str_puts(out, "\xEF\xBF\xBD");
        else if (c < 0x20)
            put_control(out, c);
        else
            str_printf(out, "\\%c", c);
        plain = ++i;
    }
    str_put(out, bytes + plain, n - plain);
}

void json_out_string(str *out, const char *bytes, size_t n)
{
    str_putc(out, '"');
    json_out_escaped(out, bytes, n);
    str_putc(out, '"');
}

void json_out_number(str *out, double v)
{
    char text[40];
    if (!isfinite(v)) v = v < 0 ? -9999.0 : 0.0;
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    str_puts(out, text);
}
