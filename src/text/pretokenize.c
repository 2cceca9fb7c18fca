/* text/pretokenize.c - cutting text into pieces with PCRE2.
 *
 * The pattern comes from tokenizer.json and was written for Oniguruma.  The two
 * engines read the constructs that tokenizers use alike, but for white space:
 * PCRE2's \s has U+180E, which lost that property in Unicode 6.3.  So \s and \S
 * are rewritten to the property, the classes \p{L}, \p{M} and \p{N} get what the
 * reference's younger Unicode data has more (text/unicode_tables.h), and constructs in which the dialects part (or
 * might) are refused, since a piece cut elsewhere is a silently wrong prompt. */
#include "text/pretokenize.h"

#include "base/mem.h"
#include "base/str.h"
#include "text/unicode_tables.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <string.h>

struct pretokenizer {
    pcre2_general_context *memory;
    pcre2_match_context   *limits;
    pcre2_code            *code;
    bool                   jit;
};

/* Steps one match may take before the pattern counts as runaway. */
enum { MATCH_LIMIT = 50000000, MAX_PATTERN = 1 << 16 };

static void *take(size_t n, void *unused)
{
    (void)unused;
    return mem_alloc(n, 1);
}

static void release(void *p, void *unused)
{
    (void)unused;
    mem_free(p);
}

void pretokenizer_free(pretokenizer *p)
{
    if (p == NULL) return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

static weir_status refuse(const char *what, weir_error *err)
{
    return status_fail(err, WEIR_UNSUPPORTED, "pattern: %s is not known here", what);
}

/* Writes \p{L}, \p{M} or \p{N} with the younger characters, for use in a class. */
static bool put_class(char name, str *out)
{
    const unicode_range *ranges;
    size_t               n;
    switch (name) {
    case 'L': ranges = unicode_newer_letters, n = sizeof unicode_newer_letters / sizeof *ranges; break;
    case 'M': ranges = unicode_newer_marks, n = sizeof unicode_newer_marks / sizeof *ranges; break;
    case 'N': ranges = unicode_newer_numbers, n = sizeof unicode_newer_numbers / sizeof *ranges; break;
    default: return false;
    }
    str_printf(out, "\\p{%c}", name);
    for (size_t i = 0; i < n; i++)
        str_printf(out, "\\x{%" PRIX32 "}-\\x{%" PRIX32 "}", ranges[i].first, ranges[i].last);
    return true;
}

/* Copies the escape at s[0] = '\\' into out; returns its length, or 0. */
static size_t translate_escape(const char *s, size_t n, bool in_class, str *out)
{
    if (n < 2 || s[1] == '\0') return 0;
    const bool negated = s[1] == 'P';
    if (s[1] == 'p' || negated) {
        if (n < 5 || s[2] != '{' || s[4] != '}' || (negated && in_class)) return 0;
        if (!in_class) str_puts(out, negated ? "[^" : "[");
        if (!put_class(s[3], out)) return 0;
        if (!in_class) str_putc(out, ']');
        return 5;
    }
    if (s[1] == 's')
        str_puts(out, "\\p{White_Space}");
    else if (s[1] == 'S')
        str_puts(out, "\\P{White_Space}");
    else if (strchr("rnt[\\]^{|}?", s[1]) != NULL || (s[1] >= '!' && s[1] <= '/'))
        str_put(out, s, 2);
    else
        return 0;
    return 2;
}

/* Groups that both dialects have and read alike; s is behind the '('. */
static bool known_group(const char *s, size_t n)
{
    static const char *const kinds[] = {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"};
    if (n == 0 || (s[0] != '?' && s[0] != '*')) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) <= n && memcmp(s, kinds[i], strlen(kinds[i])) == 0) return true;
    return false;
}

static weir_status translate(const char *s, size_t n, str *out, weir_error *err)
{
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\0') return refuse("a NUL", err);
        if (s[i] == '\\') {
            const size_t len = translate_escape(s + i, n - i, in_class, out);
            if (len == 0)
                return status_fail(err, WEIR_UNSUPPORTED, "pattern: the escape '%.*s' is not known here",
                                   (int)(n - i < 6 ? n - i : 6), s + i);
            i += len - 1;
            continue;
        }
        const bool opens = s[i] == '[';
        if (opens && in_class) return refuse("'[' inside a class", err);
        if (in_class && s[i] == '&' && i + 1 < n && s[i + 1] == '&') return refuse("'&&' inside a class", err);
        if (!in_class && s[i] == '(' && !known_group(s + i + 1, n - i - 1)) return refuse("a group of this kind", err);
        if (!in_class && (s[i] == '$' || s[i] == '^')) return refuse("an anchor", err);
        if (opens)
            in_class = true;
        else if (s[i] == ']')
            in_class = false;
        str_putc(out, s[i]);
        if (opens && i + 1 < n && s[i + 1] == '^') str_putc(out, s[++i]);
        if (in_class && opens && i + 1 < n && s[i + 1] == ']') return refuse("']' first in a class", err);
    }
    return str_status(out, "pattern", err);
}

static weir_status compile(pretokenizer *p, const str *pattern, weir_error *err)
{
    p->memory = pcre2_general_context_create(take, release, NULL);
    p->limits = p->memory == NULL ? NULL : pcre2_match_context_create(p->memory);
    if (p->limits == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_compile_context *how = pcre2_compile_context_create(p->memory);
    if (how == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    (void)pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    int        code;
    PCRE2_SIZE where;
    p->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->len, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                            &code, &where, how);
    pcre2_compile_context_free(how);
    if (p->code == NULL) {
        PCRE2_UCHAR text[128] = {0};
        (void)pcre2_get_error_message(code, text, sizeof text);
        return status_fail(err, code == PCRE2_ERROR_HEAP_FAILED ? WEIR_NO_MEMORY : WEIR_FORMAT,
                           "pattern: expected a regular expression: %s at byte %zu of '%s'", (const char *)text,
                           (size_t)where, pattern->data);
    }
    p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0; /* without it: the same, slower */
    return WEIR_OK;
}

weir_status pretokenizer_new(pretokenizer **out, const char *pattern, size_t len, weir_error *err)
{
    *out            = NULL;
    pretokenizer *p = mem_zalloc(1, sizeof *p);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "pattern: out of memory");
    str translated;
    str_init(&translated, MAX_PATTERN);
    weir_status st = translate(pattern, len, &translated, err);
    if (st == WEIR_OK) st = compile(p, &translated, err);
    str_free(&translated);
    if (st != WEIR_OK) {
        pretokenizer_free(p);
        return st;
    }
    *out = p;
    return WEIR_OK;
}

weir_status pretoken_cut_init(pretoken_cut *c, const pretokenizer *p, weir_error *err)
{
    *c = (pretoken_cut){.p = p, .match = pcre2_match_data_create(1, p->memory)};
    if (c->match == NULL) return status_fail(err, WEIR_NO_MEMORY, "pre-tokenization: out of memory");
    return WEIR_OK;
}

void pretoken_cut_free(pretoken_cut *c)
{
    pcre2_match_data_free(c->match);
    *c = (pretoken_cut){0};
}

void pretoken_cut_start(pretoken_cut *c, const char *text, size_t len)
{
    c->text        = text;
    c->len         = len;
    c->at          = 0;
    c->match_start = 0;
    c->match_end   = 0;
}

/* Finds the match at or behind c->at.  None is a match of nothing at the end. */
static weir_status find_match(pretoken_cut *c, weir_error *err)
{
    const PCRE2_SPTR text = (PCRE2_SPTR)c->text;
    int              n    = PCRE2_ERROR_JIT_STACKLIMIT;
    if (c->p->jit) n = pcre2_jit_match(c->p->code, text, c->len, c->at, PCRE2_NO_UTF_CHECK, c->match, c->p->limits);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps its stack on the heap */
        n = pcre2_match(c->p->code, text, c->len, c->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match, c->p->limits);
    if (n == PCRE2_ERROR_NOMATCH) {
        c->match_start = c->match_end = c->len;
        return WEIR_OK;
    }
    if (n == PCRE2_ERROR_NOMEMORY || n == PCRE2_ERROR_HEAPLIMIT)
        return status_fail(err, WEIR_NO_MEMORY, "pre-tokenization: out of memory at byte %zu", c->at);
    if (n < 0)
        return status_fail(err, WEIR_UNSUPPORTED, "pre-tokenization: the pattern gave up at byte %zu (error %d)", c->at,
                           n);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(c->match);
    c->match_start      = v[0];
    c->match_end        = v[1];
    return WEIR_OK;
}

weir_status pretoken_cut_next(pretoken_cut *c, size_t *start, size_t *end, weir_error *err)
{
    if (c->match_end <= c->at) {
        TRY(find_match(c, err));
        if (c->match_end <= c->at) { /* a match of nothing here: the piece is one character at least */
            c->match_start = c->at + utf8_sequence(c->text + c->at, c->len - c->at);
            c->match_end   = c->match_start;
        }
    }
    *start = c->at;
    *end   = c->match_start > c->at ? c->match_start : c->match_end;
    c->at  = *end;
    return WEIR_OK;
}
