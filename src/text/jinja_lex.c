/* text/jinja_lex.c - see jinja_lex.h. */
#include "text/jinja_lex.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BALANCE = 256 };

typedef struct lexer {
    arena      *mem;
    jtokens    *out;
    const char *p, *end; /* what is left */
    uint32_t    line;
    bool        after_newline; /* the last tag ended in a newline: the text begins a line */
    char        closers[MAX_BALANCE];
    size_t      n_closers;
    const char *name;
    weir_error *err;
} lexer;

static weir_status lex_fail(const lexer *lx, const char *what)
{
    return status_fail(lx->err, WEIR_FORMAT, "%s:%" PRIu32 ": %s", lx->name, lx->line, what);
}

static weir_status lex_no_memory(const lexer *lx)
{
    return status_fail(lx->err, WEIR_NO_MEMORY, "%s:%" PRIu32 ": the template needs more than %zu bytes of memory",
                       lx->name, lx->line, lx->mem->max);
}

static weir_status push(lexer *lx, jtoken t)
{
    jtokens *out = lx->out;
    if (out->n == out->cap) {
        const size_t cap = out->cap == 0 ? 256 : out->cap * 2;
        jtoken      *p   = arena_alloc(lx->mem, cap, sizeof *p);
        if (p == NULL) return lex_no_memory(lx);
        if (out->n > 0) memcpy(p, out->t, out->n * sizeof *p);
        out->t   = p;
        out->cap = cap;
    }
    t.line           = lx->line;
    out->t[out->n++] = t;
    return WEIR_OK;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool at(const lexer *lx, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(lx->end - lx->p) >= n && memcmp(lx->p, text, n) == 0;
}

/* Moves on by n bytes and counts lines. */
static void skip(lexer *lx, size_t n)
{
    for (size_t i = 0; i < n; i++) lx->line += lx->p[i] == '\n';
    lx->p += n;
}

static void skip_space(lexer *lx)
{
    while (lx->p < lx->end && is_space(*lx->p)) skip(lx, 1);
}

/* The end of a tag, whose two characters are `close`: "-" eats the white space
 * behind, a plain end of a statement or comment eats one newline. */
static bool take_end(lexer *lx, const char *close, bool trims)
{
    const char *start = lx->p;
    size_t      sign  = lx->p < lx->end && (*lx->p == '-' || (trims && *lx->p == '+'));
    const bool  strip = sign && *lx->p == '-';
    if ((size_t)(lx->end - lx->p) < sign + 2 || memcmp(lx->p + sign, close, 2) != 0) return false;
    skip(lx, sign + 2);
    if (strip)
        skip_space(lx);
    else if (trims && sign == 0 && at(lx, "\n"))
        skip(lx, 1);
    lx->after_newline = lx->p > start && lx->p[-1] == '\n';
    return true;
}

/* The text [from, to) in front of a tag with the given sign (0: none). */
static weir_status push_text(lexer *lx, const char *from, const char *to, char sign, bool is_output)
{
    const char *end = to;
    if (sign == '-') {
        while (end > from && is_space(end[-1])) end--;
    } else if (sign != '+' && !is_output) {
        const char *line = to;
        while (line > from && line[-1] != '\n') line--;
        const char *blank = line;
        while (blank < to && is_space(*blank)) blank++;
        if (blank == to && (line > from || lx->after_newline)) end = line;
    }
    if (end > from) TRY(push(lx, (jtoken){.kind = T_TEXT, .p = from, .len = (size_t)(end - from)}));
    return WEIR_OK;
}

/* ---- inside tags ---- */

static weir_status push_escape(lexer *lx, str *out, const char **p, const char *end);

static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static weir_status push_code_point(lexer *lx, str *out, uint32_t c)
{
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return lex_fail(lx, "expected an escape that is a Unicode character, found a surrogate or a larger number");
    if (c < 0x80) {
        str_putc(out, (char)c);
    } else if (c < 0x800) {
        str_putc(out, (char)(0xC0 | c >> 6));
        str_putc(out, (char)(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        str_putc(out, (char)(0xE0 | c >> 12));
        str_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        str_putc(out, (char)(0x80 | (c & 0x3F)));
    } else {
        str_putc(out, (char)(0xF0 | c >> 18));
        str_putc(out, (char)(0x80 | (c >> 12 & 0x3F)));
        str_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        str_putc(out, (char)(0x80 | (c & 0x3F)));
    }
    return WEIR_OK;
}

/* n hexadecimal digits at *p. */
static weir_status push_hex(lexer *lx, str *out, const char **p, const char *end, int n)
{
    uint32_t c = 0;
    for (int i = 0; i < n; i++, (*p)++) {
        const int digit = *p < end ? hex_value(**p) : -1;
        if (digit < 0) return lex_fail(lx, "expected hexadecimal digits after \\x, \\u or \\U in a string");
        c = c << 4 | (uint32_t)digit;
    }
    return push_code_point(lx, out, c);
}

/* Python's escapes; one that is not known stays as it is written. */
static weir_status push_escape(lexer *lx, str *out, const char **p, const char *end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char        c   = *(*p)++;
    const char       *at_ = strchr(from, c);
    if (c != '\0' && at_ != NULL) {
        str_putc(out, to[at_ - from]);
    } else if (c == '\n') { /* a line that goes on */
    } else if (c >= '0' && c <= '7') {
        uint32_t value = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            value = value << 3 | (uint32_t)(*(*p)++ - '0');
        return push_code_point(lx, out, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return push_hex(lx, out, p, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
        return lex_fail(lx, "\\N{...} in a string is not supported");
    } else {
        str_putc(out, '\\');
        str_putc(out, c);
    }
    return WEIR_OK;
}

/* A quoted string whose bytes between the quotes are [from, to). */
static weir_status push_string(lexer *lx, const char *from, const char *to)
{
    if (memchr(from, '\\', (size_t)(to - from)) == NULL)
        return push(lx, (jtoken){.kind = T_STRING, .p = from, .len = (size_t)(to - from)});
    str text;
    str_init(&text, (size_t)(to - from) + 8);
    weir_status st = WEIR_OK;
    for (const char *p = from; p < to && st == WEIR_OK;) {
        if (*p != '\\') {
            str_putc(&text, *p++);
            continue;
        }
        p++;
        st = push_escape(lx, &text, &p, to);
    }
    char *copy = st == WEIR_OK && !text.failed ? arena_alloc(lx->mem, text.len, 1) : NULL;
    if (st == WEIR_OK && copy == NULL) st = lex_no_memory(lx);
    if (st == WEIR_OK) {
        memcpy(copy, text.data, text.len);
        st = push(lx, (jtoken){.kind = T_STRING, .p = copy, .len = text.len});
    }
    str_free(&text);
    return st;
}

static weir_status lex_string(lexer *lx)
{
    const char  quote = *lx->p;
    const char *p     = lx->p + 1;
    while (p < lx->end && *p != quote) p += *p == '\\' && lx->end - p > 1 ? 2 : 1;
    if (p >= lx->end) return lex_fail(lx, "expected the end of a string, found the end of the template");
    TRY(push_string(lx, lx->p + 1, p));
    skip(lx, (size_t)(p + 1 - lx->p));
    return WEIR_OK;
}

/* Digits with single underscores between, at p: where they end. */
static const char *digits_end(const char *p, const char *end)
{
    while (p < end && (is_digit(*p) || (*p == '_' && end - p > 1 && is_digit(p[1])))) p++;
    return p;
}

/* Where a float that starts at p ends, or NULL when there is none. */
static const char *float_end(const lexer *lx)
{
    const char *p = digits_end(lx->p, lx->end), *whole = p;
    if (lx->end - p > 1 && *p == '.' && is_digit(p[1])) p = digits_end(p + 1, lx->end);
    if (p < lx->end && (*p == 'e' || *p == 'E')) {
        const char *q = p + 1;
        if (q < lx->end && (*q == '+' || *q == '-')) q++;
        if (q < lx->end && is_digit(*q)) p = digits_end(q, lx->end);
    }
    return p == whole ? NULL : p;
}

static weir_status lex_number(lexer *lx)
{
    enum { MAX_NUMBER = 64 };
    const bool  after_dot = lx->out->n > 0 && lx->out->t[lx->out->n - 1].kind == T_DOT;
    const char *end       = after_dot ? NULL : float_end(lx);
    const bool  is_float  = end != NULL;
    int         base      = 10;
    if (!is_float) {
        end = digits_end(lx->p, lx->end);
        if (lx->end - lx->p > 2 && *lx->p == '0' && strchr("xXoObB", lx->p[1]) != NULL && hex_value(lx->p[2]) >= 0) {
            base = strchr("xX", lx->p[1]) != NULL ? 16 : strchr("oO", lx->p[1]) != NULL ? 8 : 2;
            lx->p += 2;
            end = lx->p;
            while (end < lx->end && (hex_value(*end) >= 0 || *end == '_') && (base == 16 || is_digit(*end))) end++;
        }
    }
    char   text[MAX_NUMBER + 1];
    size_t n = 0;
    for (const char *p = lx->p; p < end; p++) {
        if (*p == '_') continue;
        if (n == MAX_NUMBER) return lex_fail(lx, "a number with more than 64 digits");
        text[n++] = *p;
    }
    text[n]  = '\0';
    jtoken t = {.kind = is_float ? T_FLOAT : T_INT};
    char  *rest;
    errno = 0;
    if (is_float)
        t.u.f = strtod(text, &rest);
    else
        t.u.i = strtoll(text, &rest, base);
    if (*rest != '\0' || (!is_float && errno == ERANGE))
        return lex_fail(lx, "expected a number of at most 64 bits, found another");
    TRY(push(lx, t));
    lx->p = end;
    return WEIR_OK;
}

static const struct {
    char        text[3];
    jtoken_kind kind;
} operators[] = {
    {"**", T_POW},   {"//", T_FLOORDIV}, {"==", T_EQ},      {"!=", T_NE},    {"<=", T_LE},
    {">=", T_GE},    {"+", T_ADD},       {"-", T_SUB},      {"*", T_MUL},    {"/", T_DIV},
    {"%", T_MOD},    {"~", T_TILDE},     {"<", T_LT},       {">", T_GT},     {"=", T_ASSIGN},
    {".", T_DOT},    {",", T_COMMA},     {":", T_COLON},    {"|", T_PIPE},   {"(", T_LPAREN},
    {")", T_RPAREN}, {"[", T_LBRACKET},  {"]", T_RBRACKET}, {"{", T_LBRACE}, {"}", T_RBRACE},
};

/* Brackets have to match, and the end of a tag counts only outside of them. */
static weir_status balance(lexer *lx, char c)
{
    const char *open = "([{", *closers = ")]}", *which = strchr(open, c);
    if (which != NULL) {
        if (lx->n_closers == MAX_BALANCE) return lex_fail(lx, "brackets nested deeper than 256 levels");
        lx->closers[lx->n_closers++] = closers[which - open];
    } else if (strchr(closers, c) != NULL) {
        if (lx->n_closers == 0 || lx->closers[--lx->n_closers] != c)
            return lex_fail(lx, "expected brackets that match, found a closing bracket without its opening one");
    }
    return WEIR_OK;
}

static weir_status lex_operator(lexer *lx)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!at(lx, operators[i].text)) continue;
        if (operators[i].text[1] == '\0') TRY(balance(lx, operators[i].text[0]));
        TRY(push(lx, (jtoken){.kind = operators[i].kind}));
        skip(lx, strlen(operators[i].text));
        return WEIR_OK;
    }
    const int c = (unsigned char)*lx->p;
    return status_fail(lx->err, WEIR_FORMAT,
                       c > 0x20 && c < 0x7F ? "%s:%" PRIu32 ": expected an expression, found the character '%c'"
                                            : "%s:%" PRIu32 ": expected an expression, found the byte 0x%02x",
                       lx->name, lx->line, (unsigned)c);
}

static weir_status lex_name(lexer *lx)
{
    const char *p = lx->p;
    while (p < lx->end && (is_name_start(*p) || is_digit(*p))) p++;
    TRY(push(lx, (jtoken){.kind = T_NAME, .p = lx->p, .len = (size_t)(p - lx->p)}));
    lx->p = p;
    return WEIR_OK;
}

/* From behind "{{" or "{%" to behind its end. */
static weir_status lex_tag(lexer *lx, bool is_output)
{
    TRY(push(lx, (jtoken){.kind = is_output ? T_OUTPUT_BEGIN : T_BLOCK_BEGIN}));
    lx->n_closers = 0;
    for (;;) {
        if (lx->n_closers == 0 && take_end(lx, is_output ? "}}" : "%}", !is_output))
            return push(lx, (jtoken){.kind = is_output ? T_OUTPUT_END : T_BLOCK_END});
        if (lx->p >= lx->end)
            return lex_fail(lx, is_output ? "expected '}}', found the end of the template"
                                          : "expected '%}', found the end of the template");
        if (is_space(*lx->p))
            skip(lx, 1);
        else if (is_digit(*lx->p))
            TRY(lex_number(lx));
        else if (is_name_start(*lx->p))
            TRY(lex_name(lx));
        else if (*lx->p == '\'' || *lx->p == '"')
            TRY(lex_string(lx));
        else
            TRY(lex_operator(lx));
    }
}

static weir_status skip_comment(lexer *lx)
{
    for (; lx->p < lx->end; skip(lx, 1))
        if (take_end(lx, "#}", true)) return WEIR_OK;
    return lex_fail(lx, "expected '#}', found the end of the template");
}

/* Matches a statement tag that holds only `word` at the current place; with
 * `begins`, as "raw" does, a newline behind it stays. */
static bool take_word_tag(lexer *lx, const char *word, bool begins, char *sign)
{
    lexer probe = *lx;
    if (!at(&probe, "{%")) return false;
    probe.p += 2;
    *sign = probe.p < probe.end && (*probe.p == '-' || *probe.p == '+') ? *probe.p : '\0';
    probe.p += *sign != '\0';
    skip_space(&probe);
    if (!at(&probe, word)) return false;
    probe.p += strlen(word);
    skip_space(&probe);
    if (begins && at(&probe, "%}")) {
        probe.p += 2;
        probe.after_newline = false;
    } else if (!take_end(&probe, "%}", true)) {
        return false;
    }
    *lx = probe;
    return true;
}

static weir_status lex_raw(lexer *lx)
{
    const char *from = lx->p;
    for (const char *p = from; p < lx->end; p = lx->p + 1) {
        lexer at_end = *lx;
        at_end.p     = p;
        char sign;
        if (*p == '{' && take_word_tag(&at_end, "endraw", false, &sign)) {
            TRY(push_text(lx, from, p, sign, false));
            for (const char *q = from; q < p; q++) at_end.line += *q == '\n';
            *lx = at_end;
            return WEIR_OK;
        }
        lx->p = p;
    }
    return lex_fail(lx, "expected 'endraw', found the end of the template");
}

/* The next "{{", "{%" or "{#", or the end. */
static const char *find_tag(const char *p, const char *end)
{
    for (; (p = memchr(p, '{', (size_t)(end - p))) != NULL; p++)
        if (end - p > 1 && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
    return end;
}

static weir_status lex_all(lexer *lx)
{
    while (lx->p < lx->end) {
        const char *tag = find_tag(lx->p, lx->end);
        if (tag == lx->end) {
            TRY(push(lx, (jtoken){.kind = T_TEXT, .p = lx->p, .len = (size_t)(tag - lx->p)}));
            break;
        }
        const char *from = lx->p;
        const char  kind = tag[1];
        char        sign = tag + 2 < lx->end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : '\0';
        TRY(push_text(lx, from, tag, sign, kind == '{'));
        skip(lx, (size_t)(tag - from));
        char ignored;
        if (kind == '%' && take_word_tag(lx, "raw", true, &ignored)) {
            TRY(lex_raw(lx));
            continue;
        }
        skip(lx, sign != '\0' ? 3 : 2);
        if (kind == '#')
            TRY(skip_comment(lx));
        else
            TRY(lex_tag(lx, kind == '{'));
    }
    return push(lx, (jtoken){.kind = T_END});
}

weir_status jinja_lex(jtokens *out, arena *mem, const char *source, size_t len, const char *name, weir_error *err)
{
    *out     = (jtokens){0};
    lexer lx = {.mem = mem, .out = out, .line = 1, .after_newline = true, .name = name, .err = err};
    if (!utf8_valid(source, len)) return lex_fail(&lx, "expected UTF-8 text");
    char *text = arena_alloc(mem, len, 1);
    if (text == NULL) return lex_no_memory(&lx);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) { /* every kind of line end becomes "\n" */
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
        text[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n > 0 && text[n - 1] == '\n') n--; /* as Jinja2: the last newline of the file is not text */
    lx.p   = text;
    lx.end = text + n;
    return lex_all(&lx);
}

const char *jtoken_describe(jtoken_kind kind)
{
    static const char *const names[] = {"the end of the template",
                                        "text",
                                        "'{{'",
                                        "'}}'",
                                        "'{%'",
                                        "'%}'",
                                        "a name",
                                        "a string",
                                        "an integer",
                                        "a float",
                                        "'+'",
                                        "'-'",
                                        "'*'",
                                        "'/'",
                                        "'//'",
                                        "'%'",
                                        "'**'",
                                        "'~'",
                                        "'=='",
                                        "'!='",
                                        "'<'",
                                        "'<='",
                                        "'>'",
                                        "'>='",
                                        "'='",
                                        "'.'",
                                        "','",
                                        "':'",
                                        "'|'",
                                        "'('",
                                        "')'",
                                        "'['",
                                        "']'",
                                        "'{'",
                                        "'}'"};
    return names[kind];
}
