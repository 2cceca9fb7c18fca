/* grammar/regex.c - regular expressions: text to tree. */
#include "base/mem.h"
#include "base/str.h"
#include "grammar/regex_parts.h"

#include <string.h>

typedef struct reader {
    regex_tree *t;
    const char *text;
    size_t      at, len;
    unsigned    depth;
    bool        search;
} reader;

void regex_tree_free(regex_tree *t)
{
    for (uint32_t i = 0; i < t->n_sets; i++) char_set_free(&t->sets[i]);
    mem_free(t->sets);
    mem_free(t->parts);
    *t = (regex_tree){0};
}

static weir_status grow(void **array, uint32_t n, uint32_t *cap, size_t size, weir_error *err)
{
    if (n < *cap) return WEIR_OK;
    const uint32_t more = *cap == 0 ? 32 : *cap * 2; /* the text is limited, and so is this */
    void          *p    = mem_realloc(*array, more, size);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "regex: out of memory");
    *array = p;
    *cap   = more;
    return WEIR_OK;
}

static weir_status new_part(regex_tree *t, regex_part part, uint32_t *id, weir_error *err)
{
    void *p = t->parts;
    TRY(grow(&p, t->n_parts, &t->cap_parts, sizeof *t->parts, err));
    t->parts      = p;
    part.next     = PART_NONE;
    *id           = t->n_parts++;
    t->parts[*id] = part;
    return WEIR_OK;
}

static weir_status new_set(regex_tree *t, uint32_t *id, weir_error *err)
{
    void *p = t->sets;
    TRY(grow(&p, t->n_sets, &t->cap_sets, sizeof *t->sets, err));
    t->sets      = p;
    *id          = t->n_sets++;
    t->sets[*id] = (char_set){0};
    return WEIR_OK;
}

static weir_status bad(const reader *r, weir_status st, const char *what, weir_error *err)
{
    return status_fail(err, st, "regex: offset %zu: %s", r->at, what);
}

static bool more(const reader *r)
{
    return r->at < r->len;
}

static bool next_is(const reader *r, char c)
{
    return more(r) && r->text[r->at] == c;
}

static bool accept(reader *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->len - r->at < n || memcmp(r->text + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* n digits; or, where n is 0, any number of them before a brace. */
static weir_status read_hex(reader *r, unsigned n, uint32_t *cp, weir_error *err)
{
    unsigned digits = 0;
    *cp             = 0;
    while (more(r) && hex_value(r->text[r->at]) >= 0 && (n == 0 ? digits < 6 : digits < n)) {
        *cp = *cp * 16 + (uint32_t)hex_value(r->text[r->at++]);
        digits++;
    }
    if (digits == 0 || (n != 0 && digits < n) || (n == 0 && !accept(r, "}")) || *cp > CODE_POINT_MOST ||
        (*cp >= 0xD800 && *cp <= 0xDFFF))
        return bad(r, WEIR_INVALID, "expected the hexadecimal digits of a character", err);
    return WEIR_OK;
}

/* What follows a backslash, when it is one character. */
static weir_status read_escape(reader *r, uint32_t *cp, weir_error *err)
{
    if (!more(r)) return bad(r, WEIR_INVALID, "expected a character after \\", err);
    static const char letters[] = "nrtfv0", values[] = "\n\r\t\f\v";
    const char        c     = r->text[r->at];
    const char       *known = strchr(letters, c);
    if (c != '\0' && known != NULL) {
        r->at++;
        *cp = c == '0' ? 0u : (uint8_t)values[known - letters];
        return WEIR_OK;
    }
    if (accept(r, "x")) return read_hex(r, 2, cp, err);
    if (accept(r, "u{")) return read_hex(r, 0, cp, err);
    if (accept(r, "u")) return read_hex(r, 4, cp, err);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9') || c == '\0')
        return bad(r, WEIR_UNSUPPORTED,
                   c >= '1' && c <= '9'   ? "back references are not supported"
                   : c == 'b' || c == 'B' ? "\\b and \\B are not supported"
                   : c == 'p' || c == 'P' ? "\\p is not supported"
                                          : "this escape is not supported",
                   err);
    size_t n;
    *cp = utf8_decode(r->text + r->at, r->len - r->at, &n);
    r->at += n;
    return WEIR_OK;
}

/* One end of a range, or a class of its own (*single false). */
static weir_status read_item(reader *r, char_set *s, uint32_t *cp, bool *single, weir_error *err)
{
    *single = true;
    if (!accept(r, "\\")) {
        size_t n;
        *cp = utf8_decode(r->text + r->at, r->len - r->at, &n);
        r->at += n;
        return WEIR_OK;
    }
    weir_status st = WEIR_OK;
    if (more(r) && char_set_class(s, r->text[r->at], &st, err)) {
        r->at++;
        *single = false;
        return st;
    }
    return read_escape(r, cp, err);
}

/* The same within a class, where \b is the backspace. */
static weir_status read_class_item(reader *r, char_set *s, uint32_t *cp, bool *single, weir_error *err)
{
    *cp     = 8;
    *single = true;
    return accept(r, "\\b") ? WEIR_OK : read_item(r, s, cp, single, err);
}

/* Behind "[". */
static weir_status read_class(reader *r, char_set *s, weir_error *err)
{
    const bool inverted = accept(r, "^");
    while (!accept(r, "]")) {
        uint32_t lo, hi;
        bool     single, also;
        if (!more(r)) return bad(r, WEIR_INVALID, "expected ] at the end of a class", err);
        TRY(read_class_item(r, s, &lo, &single, err));
        if (!single) continue;
        hi = lo;
        if (next_is(r, '-') && r->at + 1 < r->len && r->text[r->at + 1] != ']') {
            r->at++;
            TRY(read_class_item(r, s, &hi, &also, err));
            if (!also || hi < lo) return bad(r, WEIR_INVALID, "expected a range from lower to higher", err);
        }
        TRY(char_set_add(s, lo, hi, err));
    }
    return char_set_finish(s, inverted, err);
}

/* All characters, or, as "." has it, all but the ends of lines. */
static weir_status dot(char_set *s, bool lines, weir_error *err)
{
    if (!lines) {
        TRY(char_set_add(s, '\n', '\n', err));
        TRY(char_set_add(s, '\r', '\r', err));
        TRY(char_set_add(s, 0x2028, 0x2029, err));
    }
    return char_set_finish(s, true, err);
}

static weir_status read_alternatives(reader *r, uint32_t *id, weir_error *err);

/* Behind "(". */
static weir_status read_group(reader *r, uint32_t *id, weir_error *err)
{
    if (next_is(r, '?') && !accept(r, "?:"))
        return bad(r, WEIR_UNSUPPORTED, "groups other than (...) and (?:...) are not supported", err);
    if (++r->depth > REGEX_DEPTH_MOST) return bad(r, WEIR_INVALID, "groups are nested too deep", err);
    TRY(read_alternatives(r, id, err));
    r->depth--;
    return accept(r, ")") ? WEIR_OK : bad(r, WEIR_INVALID, "expected )", err);
}

static weir_status read_atom(reader *r, uint32_t *id, weir_error *err)
{
    if (accept(r, "(")) return read_group(r, id, err);
    const char c = r->text[r->at];
    if (strchr("*+?{", c) != NULL && c != '\0') return bad(r, WEIR_INVALID, "nothing to repeat", err);
    if (c == ')') return bad(r, WEIR_INVALID, "expected the end, found )", err);
    if (c == '^' || c == '$')
        return bad(r, WEIR_UNSUPPORTED, "^ and $ are supported at the ends of the expression only", err);
    regex_part part = {.kind = PART_SET, .child = PART_NONE};
    TRY(new_set(r->t, &part.set, err));
    char_set *s = &r->t->sets[part.set];
    if (accept(r, "[")) {
        TRY(read_class(r, s, err));
    } else if (accept(r, ".")) {
        TRY(dot(s, false, err));
    } else {
        uint32_t cp;
        bool     single;
        TRY(read_item(r, s, &cp, &single, err));
        if (single) TRY(char_set_add(s, cp, cp, err));
        TRY(char_set_finish(s, false, err));
    }
    return new_part(r->t, part, id, err);
}

static bool read_number(reader *r, uint32_t *n)
{
    const size_t start = r->at;
    *n                 = 0;
    for (; more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        if (*n <= REGEX_REPEAT_MOST) *n = *n * 10 + (uint32_t)(r->text[r->at] - '0');
    return r->at > start;
}

/* "*", "+", "?" or braces; false: none is there. */
static bool read_repeat(reader *r, uint32_t *least, uint32_t *most, weir_status *st, weir_error *err)
{
    *st    = WEIR_OK;
    *least = 0;
    *most  = DATA_MANY;
    if (accept(r, "*")) return true;
    if (accept(r, "+")) {
        *least = 1;
        return true;
    }
    if (accept(r, "?")) {
        *most = 1;
        return true;
    }
    if (!accept(r, "{")) return false;
    bool good = read_number(r, least);
    if (good && !accept(r, ","))
        *most = *least;
    else if (good && !next_is(r, '}'))
        good = read_number(r, most);
    if (!good || !accept(r, "}") || *most < *least || *least > REGEX_REPEAT_MOST ||
        (*most != DATA_MANY && *most > REGEX_REPEAT_MOST))
        *st = bad(r, WEIR_INVALID, "expected {m}, {m,} or {m,n}, m <= n <= 10000", err);
    return true;
}

/* Hangs child `id` behind the last of a list. */
static void hang(regex_tree *t, uint32_t parent, uint32_t *last, uint32_t id)
{
    if (*last == PART_NONE)
        t->parts[parent].child = id;
    else
        t->parts[*last].next = id;
    *last = id;
}

static weir_status any_text(reader *r, uint32_t *id, weir_error *err)
{
    regex_part set = {.kind = PART_SET, .child = PART_NONE}, all = {.kind = PART_REPEAT, .most = DATA_MANY};
    TRY(new_set(r->t, &set.set, err));
    TRY(dot(&r->t->sets[set.set], true, err));
    TRY(new_part(r->t, set, &all.child, err));
    return new_part(r->t, all, id, err);
}

static bool at_end_of_branch(const reader *r)
{
    return !more(r) || r->text[r->at] == '|' || (r->depth > 0 && r->text[r->at] == ')');
}

static weir_status read_piece(reader *r, uint32_t parent, uint32_t *last, weir_error *err)
{
    uint32_t    id;
    regex_part  repeat = {.kind = PART_REPEAT};
    weir_status st;
    TRY(read_atom(r, &id, err));
    if (read_repeat(r, &repeat.least, &repeat.most, &st, err)) {
        TRY(st);
        (void)accept(r, "?"); /* lazy */
        repeat.child = id;
        TRY(new_part(r->t, repeat, &id, err));
        if (more(r) && strchr("*+?{", r->text[r->at]) != NULL && r->text[r->at] != '\0')
            return bad(r, WEIR_INVALID, "nothing to repeat", err);
    }
    hang(r->t, parent, last, id);
    return WEIR_OK;
}

static weir_status read_branch(reader *r, uint32_t *id, weir_error *err)
{
    const bool outer      = r->depth == 0;
    bool       from_start = !outer || !r->search, to_end = from_start;
    uint32_t   last = PART_NONE, any;
    TRY(new_part(r->t, (regex_part){.kind = PART_ALL, .child = PART_NONE}, id, err));
    if (outer && accept(r, "^")) from_start = true;
    if (!from_start) {
        TRY(any_text(r, &any, err));
        hang(r->t, *id, &last, any);
    }
    while (!at_end_of_branch(r)) {
        if (outer && next_is(r, '$')) {
            r->at++;
            if (!at_end_of_branch(r))
                return bad(r, WEIR_UNSUPPORTED, "$ is supported at the end of the expression only", err);
            to_end = true;
            break;
        }
        TRY(read_piece(r, *id, &last, err));
    }
    if (to_end) return WEIR_OK;
    TRY(any_text(r, &any, err));
    hang(r->t, *id, &last, any);
    return WEIR_OK;
}

static weir_status read_alternatives(reader *r, uint32_t *id, weir_error *err)
{
    uint32_t last = PART_NONE, one;
    TRY(new_part(r->t, (regex_part){.kind = PART_ANY, .child = PART_NONE}, id, err));
    do {
        TRY(read_branch(r, &one, err));
        hang(r->t, *id, &last, one);
    } while (accept(r, "|"));
    return WEIR_OK;
}

weir_status regex_tree_parse(regex_tree *t, const char *text, size_t len, bool search, weir_error *err)
{
    if (len > REGEX_BYTES_MOST)
        return status_fail(err, WEIR_INVALID, "regex: expected at most %d bytes, found %zu", REGEX_BYTES_MOST, len);
    if (!utf8_valid(text, len)) return status_fail(err, WEIR_INVALID, "regex: expected UTF-8");
    reader r = {.t = t, .text = text, .len = len, .search = search};
    return read_alternatives(&r, &t->root, err);
}

weir_status regex_parse(char_dfa *out, const char *text, size_t len, bool search, weir_error *err)
{
    regex_tree t   = {0};
    *out           = (char_dfa){0};
    weir_status st = regex_tree_parse(&t, text, len, search, err);
    if (st == WEIR_OK) st = regex_tree_dfa(out, &t, err);
    regex_tree_free(&t);
    return st;
}
