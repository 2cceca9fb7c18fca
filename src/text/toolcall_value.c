/* text/toolcall_value.c - the text of a value to JSON.
 *
 * Numbers are copied as they are spelled: no digit of a large one is lost.  So the
 * JSON library, which knows numbers as the machine does, has no part in it. */
#include "text/toolcall_parts.h"

#include <string.h>
#include <strings.h>

enum { MAX_DEPTH = 64 };

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void escape_byte(str *out, char c)
{
    static const char letters[] = "btn-fr"; /* of 8 to 13 */
    const uint8_t     b         = (uint8_t)c;
    if (c == '"' || c == '\\')
        str_printf(out, "\\%c", c);
    else if (b >= 8 && b <= 13 && b != 11)
        str_printf(out, "\\%c", letters[b - 8]);
    else
        str_printf(out, "\\u%04x", b);
}

void value_escape(str *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)s[i] >= 0x20 && s[i] != '"' && s[i] != '\\') continue;
        str_put(out, s + from, i - from);
        escape_byte(out, s[i]);
        from = i + 1;
    }
    str_put(out, s + from, n - from);
}

static void put_string(str *out, const char *s, size_t n)
{
    str_putc(out, '"');
    value_escape(out, s, n);
    str_putc(out, '"');
}

/* The length of the JSON number that s begins with, or 0; *whole: without fraction and exponent. */
static size_t number_length(const char *s, size_t n, bool *whole)
{
    size_t i = 0;
    *whole   = true;
    if (i < n && s[i] == '-') i++;
    if (i == n || !is_digit(s[i])) return 0;
    if (s[i++] != '0')
        while (i < n && is_digit(s[i])) i++;
    if (i + 1 < n && s[i] == '.' && is_digit(s[i + 1])) {
        *whole = false;
        for (i++; i < n && is_digit(s[i]);) i++;
    }
    size_t e = i;
    if (e < n && (s[e] == 'e' || s[e] == 'E')) {
        e++;
        if (e < n && (s[e] == '+' || s[e] == '-')) e++;
        if (e == n || !is_digit(s[e])) return i;
        *whole = false;
        while (e < n && is_digit(s[e])) e++;
        i = e;
    }
    return i;
}

/* ---- objects and arrays ---- */

typedef struct reader {
    const char *s;
    size_t      n, at;
    bool        python;
    str        *out;
} reader;

static char peek(reader *r)
{
    while (r->at < r->n && is_space(r->s[r->at])) r->at++;
    return r->at < r->n ? r->s[r->at] : '\0';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* One escape at r->at, behind its backslash. */
static bool copy_escape(reader *r)
{
    if (r->at == r->n) return false;
    const char c = r->s[r->at];
    if (c == '\'' && r->python) {
        str_putc(r->out, c);
        r->at++;
        return true;
    }
    size_t len = 1;
    if (c == 'u') {
        for (size_t i = 1; i <= 4; i++)
            if (r->at + i >= r->n || !is_hex(r->s[r->at + i])) return false;
        len = 5;
    } else if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
        return false;
    }
    str_putc(r->out, '\\');
    str_put(r->out, r->s + r->at, len);
    r->at += len;
    return true;
}

static bool copy_string(reader *r)
{
    const char quote = r->s[r->at++];
    str_putc(r->out, '"');
    for (; r->at < r->n && r->s[r->at] != quote;) {
        const char c = r->s[r->at++];
        if (c == '\\') {
            if (!copy_escape(r)) return false;
        } else if ((uint8_t)c < 0x20 && !r->python) {
            return false;
        } else {
            value_escape(r->out, &c, 1);
        }
    }
    if (r->at == r->n) return false;
    r->at++;
    str_putc(r->out, '"');
    return true;
}

static bool copy_word(reader *r)
{
    static const char *const words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < (r->python ? 6 : 3); i++) {
        const size_t len = strlen(words[i][0]);
        if (r->n - r->at < len || memcmp(r->s + r->at, words[i][0], len) != 0) continue;
        r->at += len;
        str_puts(r->out, words[i][1]);
        return true;
    }
    return false;
}

static bool copy_value(reader *r, int depth);

/* Behind an opening bracket. */
static bool copy_members(reader *r, char close, int depth)
{
    for (bool first = true;; first = false) {
        char c = peek(r);
        if (c == close && (first || r->python)) break;
        if (!first) str_putc(r->out, ',');
        if (close == '}') {
            if (c != '"' && !(c == '\'' && r->python)) return false;
            if (!copy_string(r) || peek(r) != ':') return false;
            r->at++;
            str_putc(r->out, ':');
        }
        if (!copy_value(r, depth + 1)) return false;
        c = peek(r);
        if (c == close) break;
        if (c != ',') return false;
        r->at++;
    }
    r->at++;
    str_putc(r->out, close);
    return true;
}

static bool copy_value(reader *r, int depth)
{
    const char c = peek(r);
    if (c == '{' || c == '[') {
        if (depth == MAX_DEPTH) return false;
        r->at++;
        str_putc(r->out, c);
        return copy_members(r, c == '{' ? '}' : ']', depth);
    }
    if (c == '"' || (c == '\'' && r->python)) return copy_string(r);
    bool         whole;
    const size_t len = number_length(r->s + r->at, r->n - r->at, &whole);
    if (len == 0) return copy_word(r);
    str_put(r->out, r->s + r->at, len);
    r->at += len;
    return true;
}

bool value_compact(str *out, const char *s, size_t n, bool python)
{
    const size_t before = out->len;
    reader       r      = {.s = s, .n = n, .python = python, .out = out};
    const char   c      = peek(&r);
    if ((c == '{' || c == '[') && copy_value(&r, 0) && peek(&r) == '\0' && r.at == n) return true;
    if (!out->failed) {
        out->len          = before;
        out->data[before] = '\0';
    }
    return false;
}

/* The end of the compact value at s. */
static size_t value_length(const char *s, size_t n)
{
    size_t i     = 0;
    int    depth = 0;
    for (bool string = false; i < n; i++) {
        if (string && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            string = !string;
        else if (!string && (s[i] == '{' || s[i] == '['))
            depth++;
        else if (!string && (s[i] == '}' || s[i] == ']' || s[i] == ',') && depth == 0)
            break;
        else if (!string && (s[i] == '}' || s[i] == ']'))
            depth--;
    }
    return i;
}

name_span value_member(const char *s, size_t n, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 1; i < n && s[i] == '"';) {
        size_t key = i + 1;
        while (s[key] != '"') key += s[key] == '\\' ? 2 : 1;
        const size_t from = key + 2, length = value_length(s + from, n - from);
        if (key - i - 1 == len && memcmp(s + i + 1, name, len) == 0) return (name_span){s + from, length};
        i = from + length + 1;
    }
    return (name_span){NULL, 0};
}

static uint32_t hex4(const char *s)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = s[i];
        v            = v * 16 + (uint32_t)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

static void put_utf8(str *out, uint32_t c)
{
    if (c < 0x80) {
        str_putc(out, (char)c);
        return;
    }
    if (c < 0x800) {
        str_putc(out, (char)(0xc0 | c >> 6));
    } else {
        str_putc(out, (char)(c < 0x10000 ? 0xe0 | c >> 12 : 0xf0 | c >> 18));
        if (c >= 0x10000) str_putc(out, (char)(0x80 | (c >> 12 & 63)));
        str_putc(out, (char)(0x80 | (c >> 6 & 63)));
    }
    str_putc(out, (char)(0x80 | (c & 63)));
}

void value_unescape(str *out, name_span string)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char       *s = string.s, *end = string.s + string.len - 1;
    for (s++; s < end; s++) {
        if (*s != '\\') {
            str_putc(out, *s);
            continue;
        }
        const char *letter = strchr(from, *++s);
        if (*s == 'u') {
            uint32_t c = hex4(s + 1);
            s += 4;
            if (c >= 0xd800 && c < 0xdc00 && end - s > 6 && s[1] == '\\' && s[2] == 'u') {
                const uint32_t low = hex4(s + 3);
                if (low >= 0xdc00 && low < 0xe000) {
                    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                    s += 6;
                }
            }
            put_utf8(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
        } else {
            str_putc(out, letter != NULL ? to[letter - from] : *s);
        }
    }
}

/* ---- types ---- */

static bool put_boolean(str *out, const char *s, size_t n)
{
    const char *word = n == 4 ? "true" : "false";
    if ((n != 4 && n != 5) || strncasecmp(s, word, n) != 0) return false;
    str_puts(out, word);
    return true;
}

static bool put_number(str *out, const char *s, size_t n, unsigned types)
{
    bool whole;
    if (n == 0 || number_length(s, n, &whole) != n) return false;
    if (!whole && !(types & TYPE_NUMBER)) { /* 5.0 is an integer, too */
        size_t digits = n;
        while (s[digits - 1] == '0') digits--;
        if (s[digits - 1] != '.') return false;
        n = digits - 1;
    }
    str_put(out, s, n);
    return true;
}

static bool put_container(str *out, const char *s, size_t n, unsigned types)
{
    if (n == 0 || !(types & (s[0] == '{' ? TYPE_OBJECT : s[0] == '[' ? TYPE_ARRAY : 0))) return false;
    return value_compact(out, s, n, false) || value_compact(out, s, n, true);
}

void value_put(str *out, const char *s, size_t n, unsigned types)
{
    const char *t = s; /* trimmed; a string is not */
    size_t      m = n;
    while (m > 0 && is_space(*t)) t++, m--;
    while (m > 0 && is_space(t[m - 1])) m--;
    if (types == TYPE_ANY) {
        if (value_compact(out, t, m, false)) return;
    } else {
        if ((types & TYPE_NULL) && m == 4 && memcmp(t, "null", 4) == 0) {
            str_puts(out, "null");
            return;
        }
        if ((types & TYPE_BOOLEAN) && put_boolean(out, t, m)) return;
        if ((types & (TYPE_INTEGER | TYPE_NUMBER)) && put_number(out, t, m, types)) return;
        if (put_container(out, t, m, types)) return;
    }
    put_string(out, s, n);
}
