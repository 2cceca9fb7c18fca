/* base/str.c - bounded string builder and UTF-8 checks. */
#include "base/str.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char empty_text[1]; /* what an empty builder shows; never written */

void str_init(str *s, size_t max)
{
    *s = (str){.data = empty_text, .max = max};
}

void str_free(str *s)
{
    if (s->data != empty_text) mem_free(s->data);
    str_init(s, s->max);
}

void str_clear(str *s)
{
    s->len    = 0;
    s->failed = false;
    if (s->data != empty_text) s->data[0] = '\0';
}

/* Room for n more bytes and the NUL. */
static bool reserve(str *s, size_t n)
{
    if (s->failed) return false;
    if (n > s->max || s->len > s->max - n) {
        s->failed = true;
        return false;
    }
    const size_t need = s->len + n + 1;
    if (need <= s->cap) return true;
    size_t cap = s->cap < 32 ? 64 : s->cap * 2;
    if (cap < need) cap = need;
    char *p = mem_realloc(s->data == empty_text ? NULL : s->data, cap, 1);
    if (p == NULL) {
        s->failed = true;
        return false;
    }
    s->data = p;
    s->cap  = cap;
    return true;
}

void str_put(str *s, const void *bytes, size_t n)
{
    if (n == 0 || !reserve(s, n)) return;
    memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void str_puts(str *s, const char *text)
{
    str_put(s, text, strlen(text));
}

void str_putc(str *s, char c)
{
    str_put(s, &c, 1);
}

void str_printf(str *s, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0 && reserve(s, (size_t)n)) {
        (void)vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

weir_status str_status(const str *s, const char *what, weir_error *err)
{
    if (!s->failed) return WEIR_OK;
    return status_fail(err, WEIR_NO_MEMORY, "%s: longer than %zu bytes, or out of memory", what, s->max);
}

char *str_take(str *s)
{
    char *p = s->data == empty_text ? mem_strdup("") : s->data;
    str_init(s, s->max);
    return p;
}

size_t utf8_sequence(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    size_t   len;
    uint32_t cp, least;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        len = 2, cp = p[0] & 0x1Fu, least = 0x80;
    } else if ((p[0] & 0xF0u) == 0xE0) {
        len = 3, cp = p[0] & 0x0Fu, least = 0x800;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        len = 4, cp = p[0] & 0x07u, least = 0x10000;
    } else {
        return 0;
    }
    if (n < len) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0u) != 0x80) return 0;
        cp = cp << 6 | (p[i] & 0x3Fu);
    }
    if (cp < least || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) return 0;
    return len;
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t len = utf8_sequence(s + i, n - i);
        if (len == 0) return false;
        i += len;
    }
    return true;
}
