/* base/str.h - a string builder that is told its maximum at birth.
 *
 * The first failure (no memory, over the maximum) sticks: later calls do
 * nothing and str_status() tells.  `data` always ends in NUL and is never NULL
 * after str_init. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/status.h"

#include <stdbool.h>

typedef struct str {
    char  *data;
    size_t len; /* without the NUL */
    size_t cap, max;
    bool   failed;
} str;

void                                       str_init(str *s, size_t max);
void                                       str_free(str *s); /* leaves it as after str_init */
void                                       str_clear(str *s);
void                                       str_put(str *s, const void *bytes, size_t n);
void                                       str_puts(str *s, const char *text);
void                                       str_putc(str *s, char c);
__attribute__((format(printf, 2, 3))) void str_printf(str *s, const char *fmt, ...);

/* WEIR_OK, or WEIR_NO_MEMORY with a text that names `what`. */
weir_status str_status(const str *s, const char *what, weir_error *err);
/* Gives the text to the caller (mem_free) and empties the builder. */
char *str_take(str *s);

/* The length of the valid UTF-8 sequence at s (1..4), or 0.  Rejects overlong
 * forms, surrogates and what lies past U+10FFFF.  n: bytes available. */
size_t utf8_sequence(const char *s, size_t n);
/* True when all n bytes are valid UTF-8. */
bool utf8_valid(const char *s, size_t n);

#endif
