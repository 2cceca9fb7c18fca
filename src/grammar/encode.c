/* grammar/encode.c - ranges of code points as edges over bytes. */
#include "grammar/encode.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

static uint32_t new_node(automaton *a, uint32_t beside)
{
    return a->failed ? 0 : automaton_node(a, a->nodes[beside].rule);
}

/* from --n continuation bytes of any value--> to */
static void any_tail(automaton *a, uint32_t from, unsigned n, uint32_t to)
{
    for (; n > 1 && !a->failed; n--) {
        const uint32_t next = new_node(a, from);
        automaton_bytes_edge(a, from, 0x80, 0xBF, next);
        from = next;
    }
    automaton_bytes_edge(a, from, 0x80, 0xBF, to);
}

/* Sequences of n bytes from lo to hi, in order. */
static void byte_range(automaton *a, uint32_t from, const uint8_t *lo, const uint8_t *hi, unsigned n, uint32_t to)
{
    static const uint8_t least[3] = {0x80, 0x80, 0x80}, most[3] = {0xBF, 0xBF, 0xBF};
    if (a->failed) return;
    if (n == 1) {
        automaton_bytes_edge(a, from, lo[0], hi[0], to);
        return;
    }
    if (lo[0] == hi[0]) {
        const uint32_t next = new_node(a, from);
        automaton_bytes_edge(a, from, lo[0], lo[0], next);
        byte_range(a, next, lo + 1, hi + 1, n - 1, to);
        return;
    }
    unsigned first = lo[0], last = hi[0];
    if (memcmp(lo + 1, least, n - 1) != 0) {
        const uint32_t next = new_node(a, from);
        automaton_bytes_edge(a, from, lo[0], lo[0], next);
        byte_range(a, next, lo + 1, most, n - 1, to);
        first++;
    }
    if (memcmp(hi + 1, most, n - 1) != 0) {
        const uint32_t next = new_node(a, from);
        automaton_bytes_edge(a, from, hi[0], hi[0], next);
        byte_range(a, next, least, hi + 1, n - 1, to);
        last--;
    }
    if (first > last) return;
    const uint32_t next = new_node(a, from);
    automaton_bytes_edge(a, from, (uint8_t)first, (uint8_t)last, next);
    any_tail(a, next, n - 1, to);
}

static unsigned utf8_encode(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    const unsigned n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (unsigned i = n - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3F));
    out[0] = (uint8_t)((0xF00 >> n & 0xFF) | cp);
    return n;
}

static void plain_range(automaton *a, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    /* Code points of one length of UTF-8, without the surrogates. */
    static const uint32_t parts[][2] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, CODE_POINT_MOST}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t l = lo > parts[i][0] ? lo : parts[i][0], h = hi < parts[i][1] ? hi : parts[i][1];
        uint8_t        x[4], y[4];
        if (l > h) continue;
        const unsigned n = utf8_encode(l, x);
        (void)utf8_encode(h, y);
        byte_range(a, from, x, y, n, to);
    }
}

/* The one way to write a character that cannot stand for itself. */
static void escaped(automaton *a, uint32_t from, uint32_t cp, uint32_t to)
{
    static const char plain[] = "\"\\\b\t\n\f\r", letter[] = "\"\\btnfr";
    char              text[8];
    const char       *short_form = cp == 0 ? NULL : strchr(plain, (int)cp);
    if (short_form != NULL)
        (void)snprintf(text, sizeof text, "\\%c", letter[short_form - plain]);
    else
        (void)snprintf(text, sizeof text, "\\u%04x", cp);
    automaton_text(a, from, text, strlen(text), to);
}

void encode_range(automaton *a, uint32_t from, uint32_t lo, uint32_t hi, encoding e, uint32_t to)
{
    if (e == ENCODE_PLAIN) {
        plain_range(a, from, lo, hi, to);
        return;
    }
    for (uint32_t cp = lo; cp < 0x20 && cp <= hi; cp++) escaped(a, from, cp, to);
    static const uint32_t parts[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, CODE_POINT_MOST}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t l = lo > parts[i][0] ? lo : parts[i][0], h = hi < parts[i][1] ? hi : parts[i][1];
        if (l <= h) plain_range(a, from, l, h, to);
    }
    if (lo <= '"' && '"' <= hi) escaped(a, from, '"', to);
    if (lo <= '\\' && '\\' <= hi) escaped(a, from, '\\', to);
}

uint32_t utf8_decode(const char *s, size_t n, size_t *len)
{
    static const uint8_t lead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    *len                        = utf8_sequence(s, n);
    if (*len == 0) *len = 1;
    uint32_t cp = (uint8_t)s[0] & lead[*len];
    for (size_t i = 1; i < *len; i++) cp = cp << 6 | ((uint8_t)s[i] & 0x3Fu);
    return cp;
}

void encode_text(automaton *a, uint32_t from, const char *text, size_t n, encoding e, uint32_t to)
{
    if (n == 0) automaton_free_edge(a, from, to);
    for (size_t i = 0, len; i < n && !a->failed; i += len) {
        const uint32_t cp   = utf8_decode(text + i, n - i, &len);
        const uint32_t next = i + len == n ? to : new_node(a, from);
        encode_range(a, from, cp, cp, e, next);
        from = next;
    }
}

static void hex(automaton *a, uint32_t from, const char *digits, uint32_t to)
{
    for (const char *d = digits; *d != '\0'; d++) {
        automaton_bytes_edge(a, from, (uint8_t)*d, (uint8_t)*d, to);
        if (*d >= 'a') automaton_bytes_edge(a, from, (uint8_t)(*d - 32), (uint8_t)(*d - 32), to);
    }
}

static void hex_any(automaton *a, uint32_t from, unsigned n, uint32_t to)
{
    for (; n > 0 && !a->failed; n--) {
        const uint32_t next = n == 1 ? to : new_node(a, from);
        hex(a, from, "0123456789abcdef", next);
        from = next;
    }
}

/* u and four digits: a character of the first plane, or two halves of one beyond. */
static void unicode_escape(automaton *a, uint32_t from, uint32_t to)
{
    const uint32_t u = new_node(a, from), d = new_node(a, from), high = new_node(a, from), low = new_node(a, from);
    const uint32_t rest = new_node(a, from), plane = new_node(a, from), l1 = new_node(a, from), l2 = new_node(a, from);
    const uint32_t l3 = new_node(a, from), l4 = new_node(a, from);
    if (a->failed) return;
    automaton_bytes_edge(a, from, 'u', 'u', u);
    hex(a, u, "0123456789abcef", rest);
    hex_any(a, rest, 3, to);
    hex(a, u, "d", d);
    hex(a, d, "01234567", plane);
    hex_any(a, plane, 2, to);
    hex(a, d, "89ab", high);
    hex_any(a, high, 2, low);
    automaton_bytes_edge(a, low, '\\', '\\', l1);
    automaton_bytes_edge(a, l1, 'u', 'u', l2);
    hex(a, l2, "d", l3);
    hex(a, l3, "cdef", l4);
    hex_any(a, l4, 2, to);
}

void encode_json_any(automaton *a, uint32_t from, uint32_t to)
{
    plain_range(a, from, 0x20, 0x21, to);
    plain_range(a, from, 0x23, 0x5B, to);
    plain_range(a, from, 0x5D, CODE_POINT_MOST, to);
    const uint32_t escape = new_node(a, from);
    automaton_bytes_edge(a, from, '\\', '\\', escape);
    for (const char *c = "\"\\/bfnrt"; *c != '\0'; c++) automaton_bytes_edge(a, escape, (uint8_t)*c, (uint8_t)*c, to);
    unicode_escape(a, escape, to);
}
