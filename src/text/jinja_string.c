/* text/jinja_string.c - marked strings: search, slices, building, case. */
#define _GNU_SOURCE /* memmem: linear also for hostile needles */
#include "text/jinja_string.h"

#include "base/mem.h"
#include "base/str.h"

#include <utf8proc.h>

int js_compare(jstr a, jstr b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int    c = memcmp(a.p, b.p, n);
    if (c != 0) return c;
    return a.len < b.len ? -1 : a.len > b.len;
}

size_t js_find(jstr s, jstr needle, size_t from)
{
    if (from > s.len) return SIZE_MAX;
    const char *at = memmem(s.p + from, s.len - from, needle.p, needle.len);
    return at == NULL ? SIZE_MAX : (size_t)(at - s.p);
}

size_t js_rfind(jstr s, jstr needle)
{
    if (needle.len > s.len) return SIZE_MAX;
    for (size_t i = s.len - needle.len;; i--) {
        if (memcmp(s.p + i, needle.p, needle.len) == 0) return i;
        if (i == 0) return SIZE_MAX;
    }
}

bool js_starts(jstr s, jstr prefix)
{
    return prefix.len <= s.len && memcmp(s.p, prefix.p, prefix.len) == 0;
}

bool js_ends(jstr s, jstr suffix)
{
    return suffix.len <= s.len && memcmp(s.p + s.len - suffix.len, suffix.p, suffix.len) == 0;
}

uint8_t js_mark_at(jstr s, size_t i)
{
    return s.marks == NULL ? s.mark : s.marks[i];
}

int32_t u_next(jstr s, size_t *i)
{
    utf8proc_int32_t       c;
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)s.p + *i, (utf8proc_ssize_t)(s.len - *i), &c);
    if (n <= 0) return (unsigned char)s.p[(*i)++]; /* cannot happen: every string is valid UTF-8 */
    *i += (size_t)n;
    return c;
}

static bool starts_character(char c)
{
    return ((unsigned char)c & 0xC0u) != 0x80;
}

size_t u_length(jstr s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += starts_character(s.p[i]);
    return n;
}

size_t u_offset(jstr s, size_t k)
{
    for (size_t i = 0; i < s.len; i++)
        if (starts_character(s.p[i]) && k-- == 0) return i;
    return s.len;
}

bool u_space(int32_t c)
{
    if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool u_printable(int32_t c)
{
    if (c == 0x20) return true;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static bool in_set(int32_t c, const jstr *set)
{
    if (set == NULL) return u_space(c);
    for (size_t i = 0; i < set->len;)
        if (u_next(*set, &i) == c) return true;
    return false;
}

jstr js_strip(jstr s, const jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s.len;
    while (left && from < to) {
        size_t i = from;
        if (!in_set(u_next(s, &i), chars)) break;
        from = i;
    }
    while (right && to > from) {
        size_t last = to - 1;
        while (last > from && !starts_character(s.p[last])) last--;
        size_t i = last;
        if (!in_set(u_next(s, &i), chars)) break;
        to = last;
    }
    return js_slice(s, from, to);
}

static bool ends_line(int32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool js_next_line(jstr s, size_t *at, size_t *to)
{
    size_t i = *at;
    if (i >= s.len) return false;
    while (i < s.len) {
        *to             = i;
        const int32_t c = u_next(s, &i);
        if (!ends_line(c)) continue;
        *at = i + (c == '\r' && i < s.len && s.p[i] == '\n');
        return true;
    }
    *to = *at = s.len;
    return true;
}

/* Room for n more bytes. */
static bool jbuf_reserve(jinja *j, jbuf *b, size_t n)
{
    size_t need;
    if (!jinja_ok(j)) return false;
    if (!size_add(&need, b->len, n)) need = SIZE_MAX;
    if (need > j->max_output) {
        jinja_fail(j, WEIR_NO_MEMORY, "the text passes the limit of %zu bytes of output", j->max_output);
        return false;
    }
    if (need <= b->cap) return true;
    size_t cap = b->cap < 64 ? 128 : b->cap * 2;
    if (cap < need) cap = need;
    char    *p = jinja_alloc(j, cap, 1);
    uint8_t *m = jinja_alloc(j, cap, 1);
    if (p == NULL || m == NULL) return false;
    if (b->len > 0) {
        memcpy(p, b->p, b->len);
        memcpy(m, b->m, b->len);
    }
    *b = (jbuf){.p = p, .m = m, .len = b->len, .cap = cap};
    return true;
}

void jbuf_put(jinja *j, jbuf *b, jstr s)
{
    if (s.len == 0 || !jinja_work_bytes(j, s.len) || !jbuf_reserve(j, b, s.len)) return;
    memcpy(b->p + b->len, s.p, s.len);
    if (s.marks != NULL)
        memcpy(b->m + b->len, s.marks, s.len);
    else
        memset(b->m + b->len, s.mark, s.len);
    b->len += s.len;
}

void jbuf_bytes(jinja *j, jbuf *b, const char *p, size_t n, uint8_t mark)
{
    jbuf_put(j, b, (jstr){.p = p, .len = n, .mark = mark});
}

void jbuf_char(jinja *j, jbuf *b, int32_t c, uint8_t mark)
{
    utf8proc_uint8_t       bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(c, bytes);
    jbuf_bytes(j, b, (const char *)bytes, (size_t)n, mark);
}

jstr js_concat(jinja *j, jstr a, jstr b)
{
    if (a.len == 0) return b;
    if (b.len == 0) return a;
    jbuf         out = {0};
    const size_t len = a.len + b.len;
    if (jbuf_reserve(j, &out, len)) {
        jbuf_put(j, &out, a);
        jbuf_put(j, &out, b);
    }
    return jbuf_str(&out);
}

jstr js_repeat(jinja *j, jstr s, int64_t times)
{
    jbuf   out = {0};
    size_t total;
    if (times <= 0 || s.len == 0) return js("");
    if (!size_mul(&total, s.len, (size_t)times)) total = SIZE_MAX;
    if (jbuf_reserve(j, &out, total))
        for (int64_t i = 0; i < times && jinja_ok(j); i++) jbuf_put(j, &out, s);
    return jbuf_str(&out);
}

jstr jinja_strip(jinja *j, jstr s, const jstr *chars, bool left, bool right)
{
    size_t work;
    if (!size_mul(&work, s.len, chars == NULL ? 1 : chars->len)) work = SIZE_MAX;
    return jinja_work_bytes(j, work) ? js_strip(s, chars, left, right) : js("");
}

jstr js_replace(jinja *j, jstr s, jstr old, jstr new, int64_t max)
{
    jbuf   out = {0};
    size_t at  = 0;
    if (!jinja_work_bytes(j, s.len)) return js("");
    while (max != 0 && jinja_ok(j)) {
        if (old.len == 0) { /* before every character, and at the end */
            jbuf_put(j, &out, new);
            if (at == s.len) break;
            size_t next = at;
            (void)u_next(s, &next);
            jbuf_put(j, &out, js_slice(s, at, next));
            at = next;
        } else {
            const size_t hit = js_find(s, old, at);
            if (hit == SIZE_MAX) break;
            jbuf_put(j, &out, js_slice(s, at, hit));
            jbuf_put(j, &out, new);
            at = hit + old.len;
        }
        if (max > 0) max--;
    }
    if (at == 0 && out.len == 0) return s;
    jbuf_put(j, &out, js_slice(s, at, s.len));
    return jbuf_str(&out);
}

/* The two title rules differ in what begins a word: str.title() says a letter
 * after a non-letter, the filter says what follows white space or -({[<. */
static bool cased(int32_t c)
{
    return utf8proc_toupper(c) != c || utf8proc_tolower(c) != c;
}

/* Letters whose upper case is several letters (sharp s, ligatures): what they
 * fold to, made upper.  `n` is how many of those become upper. */
static bool put_expanded(jinja *j, jbuf *b, int32_t c, int n, uint8_t mark)
{
    enum { MAX_LETTERS = 4 };
    int                       bound = UTF8PROC_BOUNDCLASS_START;
    utf8proc_int32_t          letters[MAX_LETTERS];
    const utf8proc_ssize_t    count = utf8proc_decompose_char(c, letters, MAX_LETTERS, UTF8PROC_CASEFOLD, &bound);
    const utf8proc_category_t kind  = utf8proc_category(c);
    if (count < 2 || count > MAX_LETTERS) return false;
    if (kind != UTF8PROC_CATEGORY_LL && kind != UTF8PROC_CATEGORY_LT) return false;
    for (int i = 0; i < count; i++) jbuf_char(j, b, i < n ? utf8proc_toupper(letters[i]) : letters[i], mark);
    return true;
}

static void put_cased(jinja *j, jbuf *b, int32_t c, js_case how, bool up, uint8_t mark)
{
    enum { SHARP_S = 0xDF, DOTTED_I = 0x130, DOT_ABOVE = 0x307, ALL = 4 };
    const bool title = how == CASE_TITLE || how == CASE_CAPITALIZE;
    if (!up && c == DOTTED_I) {
        jbuf_char(j, b, 'i', mark);
        jbuf_char(j, b, DOT_ABOVE, mark);
    } else if (!up) {
        jbuf_char(j, b, utf8proc_tolower(c), mark);
    } else if (title && c != SHARP_S && utf8proc_totitle(c) != c) {
        jbuf_char(j, b, utf8proc_totitle(c), mark);
    } else if (c < 0x80 || (title && utf8proc_category(c) == UTF8PROC_CATEGORY_LT) ||
               !put_expanded(j, b, c, title ? 1 : ALL, mark)) {
        jbuf_char(j, b, title ? c : utf8proc_toupper(c), mark);
    }
}

jstr js_change_case(jinja *j, jstr s, js_case how)
{
    jbuf out   = {0};
    bool start = true; /* of the string or of a word */
    for (size_t i = 0; i < s.len && jinja_ok(j);) {
        const uint8_t mark = js_mark_at(s, i);
        const int32_t c    = u_next(s, &i);
        const bool    up   = how == CASE_UPPER || (how != CASE_LOWER && start);
        put_cased(j, &out, c, how, up, mark);
        if (how == CASE_TITLE)
            start = !cased(c);
        else if (how == CASE_TITLE_FILTER)
            start = u_space(c) || (c < 0x80 && strchr("-({[<", (int)c) != NULL);
        else
            start = false;
    }
    return jbuf_str(&out);
}
