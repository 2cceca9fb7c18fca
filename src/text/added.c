/* text/added.c - finding added tokens in text. */
#include "text/added.h"

#include "base/mem.h"
#include "text/unicode_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void added_set_free(added_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) mem_free(s->tokens[i].text);
    mem_free(s->tokens);
    *s = (added_set){0};
}

weir_status added_set_put(added_set *s, const added_token *t, weir_error *err)
{
    if (s->n == s->cap) {
        const uint32_t cap = s->cap == 0 ? 64 : s->cap * 2;
        added_token   *p   = mem_realloc(s->tokens, cap, sizeof *p);
        if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "added tokens: out of memory");
        s->tokens = p;
        s->cap    = cap;
    }
    char *text = mem_strndup(t->text, t->len);
    if (text == NULL) return status_fail(err, WEIR_NO_MEMORY, "added tokens: out of memory");
    s->tokens[s->n]        = *t;
    s->tokens[s->n++].text = text;
    return WEIR_OK;
}

static int compare_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

static int by_text(const void *a, const void *b)
{
    const added_token *x = a, *y = b;
    return compare_text(x->text, x->len, y->text, y->len);
}

weir_status added_set_sort(added_set *s, weir_error *err)
{
    if (s->n > 0) qsort(s->tokens, s->n, sizeof *s->tokens, by_text);
    for (uint32_t i = 1; i < s->n; i++)
        if (by_text(&s->tokens[i - 1], &s->tokens[i]) == 0)
            return status_fail(err, WEIR_FORMAT, "added tokens %" PRIu32 " and %" PRIu32 ": the same text '%s'",
                               s->tokens[i - 1].id, s->tokens[i].id, s->tokens[i].text);
    uint32_t i = 0;
    for (unsigned c = 0; c < 256; c++) {
        s->first[c] = i;
        while (i < s->n && (uint8_t)s->tokens[i].text[0] == c) i++;
    }
    s->first[256] = s->n;
    return WEIR_OK;
}

const added_token *added_find(const added_set *s, const char *text, size_t len)
{
    uint32_t lo = 0, hi = s->n;
    while (lo < hi) {
        const uint32_t     mid = lo + (hi - lo) / 2;
        const added_token *t   = &s->tokens[mid];
        const int          c   = compare_text(t->text, t->len, text, len);
        if (c == 0) return t;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* The first of tokens lo..hi, all equal up to depth, whose byte at `depth` is
 * at least c.  A token that ends there sorts before every byte. */
static uint32_t lower_bound(const added_set *s, uint32_t lo, uint32_t hi, uint32_t depth, unsigned c)
{
    while (lo < hi) {
        const uint32_t     mid = lo + (hi - lo) / 2;
        const added_token *t   = &s->tokens[mid];
        if (t->len <= depth || (uint8_t)t->text[depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest token that starts at p and ends before `limit`, or NULL: the
 * sorted list is narrowed byte by byte. */
static const added_token *longest_at(const added_set *s, const char *p, size_t limit)
{
    if (limit == 0) return NULL;
    uint32_t           lo = s->first[(uint8_t)p[0]], hi = s->first[(uint8_t)p[0] + 1];
    const added_token *best = NULL;
    for (uint32_t depth = 1; lo < hi; depth++) {
        if (s->tokens[lo].len == depth) best = &s->tokens[lo];
        if (depth >= limit) break;
        const unsigned c = (uint8_t)p[depth];
        lo               = lower_bound(s, lo, hi, depth, c);
        hi               = lower_bound(s, lo, hi, depth, c + 1);
    }
    return best;
}

/* White_Space of the Unicode Character Database. */
static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_among(int32_t c, const unicode_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= (int32_t)ranges[i].first && c <= (int32_t)ranges[i].last) return true;
    return false;
}

/* Characters younger than the library's data: letters, marks and digits. */
static bool is_newer_word(int32_t c)
{
    enum {
        LETTERS = sizeof unicode_newer_letters / sizeof unicode_newer_letters[0],
        MARKS   = sizeof unicode_newer_marks / sizeof unicode_newer_marks[0],
        NUMBERS = sizeof unicode_newer_numbers / sizeof unicode_newer_numbers[0],
    };
    return is_among(c, unicode_newer_letters, LETTERS) || is_among(c, unicode_newer_marks, MARKS) ||
           is_among(c, unicode_newer_numbers, NUMBERS);
}

/* A word character of UTS 18: alphabetic, mark, decimal number, connector
 * punctuation, join control.  Alphabetic is L and Nl, marks apart, and these
 * circled and squared letters. */
static bool is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    case UTF8PROC_CATEGORY_CN: return is_newer_word(c);
    default:
        return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
               (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
    }
}

/* The character at `at`, and where the next begins.  The text is valid UTF-8. */
static int32_t char_at(const added_text *t, size_t at, size_t *next)
{
    utf8proc_int32_t       c;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)t->text + at, (utf8proc_ssize_t)(t->len - at), &c);
    *next = at + (n > 0 ? (size_t)n : 1);
    return n > 0 ? c : 0;
}

/* The character that ends at `end`, and where it begins. */
static int32_t char_before(const added_text *t, size_t end, size_t *begin)
{
    size_t at = end - 1, next;
    while (at > 0 && ((uint8_t)t->text[at] & 0xC0) == 0x80) at--;
    *begin = at;
    return char_at(t, at, &next);
}

/* Whether word characters leave the match alone on both sides. */
static bool stands_alone(const added_text *t, size_t start, size_t end)
{
    size_t other;
    if (start > 0 && is_word(char_before(t, start, &other))) return false;
    return end == t->len || !is_word(char_at(t, end, &other));
}

/* White space goes with the token; a user's does not, it stays text. */
static void strip(const added_text *t, const added_token *token, size_t from, added_match *m)
{
    size_t at;
    while (token->lstrip && m->start > from && is_space(char_before(t, m->start, &at)) && at >= from) {
        if (t->untrusted != NULL && t->untrusted[at]) break;
        m->start = at;
    }
    while (token->rstrip && m->end < t->len && is_space(char_at(t, m->end, &at))) {
        if (t->untrusted != NULL && t->untrusted[m->end]) break;
        m->end = at;
    }
}

/* How many bytes from `at` on are trusted, and within the text. */
static size_t trusted_run(const added_text *t, size_t at)
{
    if (t->untrusted == NULL) return t->len - at;
    const uint8_t *p = t->untrusted + at;
    size_t         n = 0;
    while (n < t->len - at && p[n] == 0) n++;
    return n;
}

bool added_next(const added_set *s, const added_text *t, size_t from, added_match *out)
{
    if (s->n == 0) return false;
    for (size_t at = from; at < t->len;) {
        const uint8_t c = (uint8_t)t->text[at];
        if (s->first[c] == s->first[c + 1]) {
            at++;
            continue;
        }
        const size_t       limit = trusted_run(t, at);
        const added_token *token = longest_at(s, t->text + at, limit);
        if (token == NULL) {
            at++;
            continue;
        }
        if (token->single_word && !stands_alone(t, at, at + token->len)) {
            at += token->len; /* as the reference: a refused match is passed over whole */
            continue;
        }
        *out = (added_match){.start = at, .end = at + token->len, .id = token->id};
        strip(t, token, from, out);
        return true;
    }
    return false;
}
