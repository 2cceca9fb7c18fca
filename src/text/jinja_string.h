/* text/jinja_string.h - strings that remember where their bytes came from.
 *
 * Positions are bytes here and characters in templates; u_offset converts.
 * Slices share memory; a jbuf collects pieces together with their marks. */
#ifndef TEXT_JINJA_STRING_H
#define TEXT_JINJA_STRING_H

#include "text/jinja_value.h"

#include <string.h>

static inline jstr js(const char *literal)
{
    return (jstr){.p = literal, .len = strlen(literal)};
}
/* Bytes [from, to). */
static inline jstr js_slice(jstr s, size_t from, size_t to)
{
    return (jstr){.p = s.p + from, .len = to - from, .marks = s.marks == NULL ? NULL : s.marks + from, .mark = s.mark};
}
static inline bool js_is(jstr s, const char *literal)
{
    return strlen(literal) == s.len && memcmp(s.p, literal, s.len) == 0;
}
static inline bool js_equal(jstr a, jstr b)
{
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}
/* Order of code points, which is the order of UTF-8 bytes. */
int js_compare(jstr a, jstr b);
/* First / last place of `needle` at or after `from` / at all; SIZE_MAX: nowhere. */
size_t js_find(jstr s, jstr needle, size_t from);
size_t js_rfind(jstr s, jstr needle);
bool   js_starts(jstr s, jstr prefix);
bool   js_ends(jstr s, jstr suffix);
/* Without the characters of `chars` (NULL: white space) at the chosen ends.  The
 * work, up to s.len * chars->len, is not counted: see jinja_strip. */
jstr js_strip(jstr s, const jstr *chars, bool left, bool right);
/* 0 or 1 when all bytes agree, otherwise the mark of the first. */
uint8_t js_mark_at(jstr s, size_t i);

/* The line that begins at *at: its text ends at *to, the next one begins at the
 * new *at (str.splitlines' line ends).  false behind the last one. */
bool js_next_line(jstr s, size_t *at, size_t *to);

/* Characters of s; byte offset of character k <= length. */
size_t u_length(jstr s);
size_t u_offset(jstr s, size_t k);
/* Decodes the character at byte i (valid UTF-8) and steps i past it. */
int32_t u_next(jstr s, size_t *i);
/* str.isspace() of one character; str.isprintable(). */
bool u_space(int32_t c);
bool u_printable(int32_t c);

typedef struct jbuf {
    char    *p;
    uint8_t *m;
    size_t   len, cap;
} jbuf;

void jbuf_put(jinja *j, jbuf *b, jstr s);
/* n bytes, all with the same mark. */
void               jbuf_bytes(jinja *j, jbuf *b, const char *p, size_t n, uint8_t mark);
void               jbuf_char(jinja *j, jbuf *b, int32_t c, uint8_t mark); /* encodes UTF-8 */
static inline jstr jbuf_str(const jbuf *b)
{
    return (jstr){.p = b->p == NULL ? "" : b->p, .len = b->len, .marks = b->m};
}
jstr js_concat(jinja *j, jstr a, jstr b);
jstr js_repeat(jinja *j, jstr s, int64_t times);
/* js_strip with its work counted. */
jstr jinja_strip(jinja *j, jstr s, const jstr *chars, bool left, bool right);
/* At most `max` replacements; max < 0: all. */
jstr js_replace(jinja *j, jstr s, jstr old, jstr new, int64_t max);

typedef enum js_case { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE, CASE_TITLE_FILTER } js_case;
jstr js_change_case(jinja *j, jstr s, js_case how);

#endif
