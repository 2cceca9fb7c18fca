/* grammar/ebnf.c - grammars as text. */
#include "grammar/ebnf.h"

#include "base/mem.h"
#include "base/str.h"
#include "grammar/regex.h"

#include <string.h>

enum { NAMES_MOST = 1 << 13, NAME_SLOTS = 2 * NAMES_MOST };

typedef struct named_rule {
    const char *name; /* in the text */
    size_t      len;
    uint32_t    rule, line; /* where it is first used */
    bool        defined;
} named_rule;

typedef struct reader {
    automaton  *a;
    const char *text;
    size_t      at, len;
    uint32_t    line, rule; /* rule: the one that is being read */
    unsigned    depth;
    named_rule *names; /* [NAMES_MOST] */
    uint32_t   *slots; /* [NAME_SLOTS] */
    uint32_t    n_names;
} reader;

/* A part of a rule between two nodes. */
typedef struct piece {
    uint32_t from, to;
} piece;

static weir_status bad(const reader *r, const char *what, weir_error *err)
{
    return status_fail(err, WEIR_INVALID, "grammar: line %u: %s", r->line, what);
}

static bool more(const reader *r)
{
    return r->at < r->len;
}

static char look(const reader *r)
{
    return more(r) ? r->text[r->at] : '\0';
}

static bool accept(reader *r, char c)
{
    if (!more(r) || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

/* White space and comments. */
static void skip(reader *r)
{
    for (; more(r); r->at++) {
        const char c = r->text[r->at];
        if (c == '#')
            while (r->at + 1 < r->len && r->text[r->at + 1] != '\n') r->at++;
        else if (c == '\n')
            r->line++;
        else if (c != ' ' && c != '\t' && c != '\r')
            return;
    }
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t name_at(const reader *r)
{
    size_t n = 0;
    while (r->at + n < r->len && in_name(r->text[r->at + n])) n++;
    return n;
}

/* A name and "::=" stand here. */
static bool rule_begins(const reader *r)
{
    size_t i = r->at + name_at(r);
    if (i == r->at) return false;
    while (i < r->len && (r->text[i] == ' ' || r->text[i] == '\t')) i++;
    return r->len - i >= 3 && memcmp(r->text + i, "::=", 3) == 0;
}

static weir_status find_name(reader *r, size_t n, named_rule **out, weir_error *err)
{
    const char *name = r->text + r->at;
    uint64_t    h    = n;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)name[i]) * 0x100000001B3u;
    uint32_t i = (uint32_t)(h ^ h >> 32) % NAME_SLOTS;
    for (; r->slots[i] != 0; i = (i + 1) % NAME_SLOTS) {
        *out = &r->names[r->slots[i] - 1];
        if ((*out)->len == n && memcmp((*out)->name, name, n) == 0) return WEIR_OK;
    }
    if (r->n_names == NAMES_MOST) return bad(r, "too many rules", err);
    *out        = &r->names[r->n_names++];
    **out       = (named_rule){.name = name, .len = n, .rule = automaton_rule(r->a, true), .line = r->line};
    r->slots[i] = r->n_names;
    return automaton_status(r->a, err);
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A character of a literal or a class. */
static weir_status read_char(reader *r, uint32_t *cp, weir_error *err)
{
    if (!accept(r, '\\')) {
        size_t n;
        *cp = utf8_decode(r->text + r->at, r->len - r->at, &n);
        if (*cp == '\n') r->line++;
        r->at += n;
        return WEIR_OK;
    }
    static const char names[] = "nrt\\\"[]-^'", values[] = "\n\r\t\\\"[]-^'";
    const char        c      = look(r);
    const char       *known  = c == '\0' ? NULL : strchr(names, c);
    const unsigned    digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (known == NULL && digits == 0)
        return bad(r, "expected one of \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\x \\u \\U", err);
    r->at++;
    *cp = known != NULL ? (uint8_t)values[known - names] : 0;
    for (unsigned i = 0; i < digits; i++) {
        const int v = hex_value(look(r));
        if (v < 0 || *cp > CODE_POINT_MOST) return bad(r, "expected the hexadecimal digits of a character", err);
        *cp = *cp * 16 + (uint32_t)v;
        r->at++;
    }
    if (*cp > CODE_POINT_MOST || (*cp >= 0xD800 && *cp <= 0xDFFF)) return bad(r, "expected a character", err);
    return WEIR_OK;
}

static uint32_t new_node(reader *r)
{
    return automaton_node(r->a, r->rule);
}

static piece new_piece(reader *r)
{
    const uint32_t from = new_node(r);
    return (piece){from, new_node(r)};
}

/* Behind the quotation mark. */
static weir_status read_literal(reader *r, piece *out, weir_error *err)
{
    *out        = new_piece(r);
    uint32_t at = out->from;
    while (!accept(r, '"')) {
        uint32_t cp;
        if (!more(r)) return bad(r, "expected \" at the end of a literal", err);
        TRY(read_char(r, &cp, err));
        const uint32_t next = new_node(r);
        TRY(automaton_status(r->a, err));
        encode_range(r->a, at, cp, cp, ENCODE_PLAIN, next);
        at = next;
    }
    TRY(automaton_status(r->a, err));
    automaton_free_edge(r->a, at, out->to);
    return WEIR_OK;
}

/* Behind "[". */
static weir_status read_class(reader *r, char_set *s, weir_error *err)
{
    const bool inverted = accept(r, '^');
    while (!accept(r, ']')) {
        uint32_t lo, hi;
        if (!more(r)) return bad(r, "expected ] at the end of a class", err);
        TRY(read_char(r, &lo, err));
        hi = lo;
        if (look(r) == '-' && r->at + 1 < r->len && r->text[r->at + 1] != ']') {
            r->at++;
            TRY(read_char(r, &hi, err));
        }
        if (hi < lo) return bad(r, "expected a range from lower to higher", err);
        TRY(char_set_add(s, lo, hi, err));
    }
    return char_set_finish(s, inverted, err);
}

static weir_status put_set(reader *r, const char_set *s, piece *out, weir_error *err)
{
    *out = new_piece(r);
    TRY(automaton_status(r->a, err));
    for (uint32_t i = 0; i < s->n && !r->a->failed; i++)
        encode_range(r->a, out->from, s->r[i].lo, s->r[i].hi, ENCODE_PLAIN, out->to);
    return automaton_status(r->a, err);
}

static weir_status read_set(reader *r, piece *out, weir_error *err)
{
    char_set    s  = {0};
    weir_status st = accept(r, '.') ? char_set_finish(&s, true, err) : (r->at++, read_class(r, &s, err));
    if (st == WEIR_OK) st = put_set(r, &s, out, err);
    char_set_free(&s);
    return st;
}

static weir_status read_alternatives(reader *r, piece *out, weir_error *err);

static weir_status read_group(reader *r, piece *out, weir_error *err)
{
    if (++r->depth > EBNF_DEPTH_MOST) return bad(r, "groups are nested too deep", err);
    skip(r);
    TRY(read_alternatives(r, out, err));
    r->depth--;
    return accept(r, ')') ? WEIR_OK : bad(r, "expected )", err);
}

static weir_status read_reference(reader *r, piece *out, weir_error *err)
{
    const size_t n = name_at(r);
    named_rule  *rule_named;
    if (n == 0) return bad(r, "expected a literal, a class, a group or the name of a rule", err);
    TRY(find_name(r, n, &rule_named, err));
    r->at += n;
    *out = new_piece(r);
    TRY(automaton_status(r->a, err));
    automaton_call(r->a, out->from, rule_named->rule, DATA_NONE, out->to);
    return automaton_status(r->a, err);
}

static weir_status read_atom(reader *r, piece *out, weir_error *err)
{
    const char c = look(r);
    if (c == '[' || c == '.') return read_set(r, out, err);
    if (accept(r, '"')) return read_literal(r, out, err);
    if (accept(r, '(')) return read_group(r, out, err);
    return read_reference(r, out, err);
}

static bool read_number(reader *r, uint32_t *n)
{
    const size_t start = r->at;
    *n                 = 0;
    for (; look(r) >= '0' && look(r) <= '9'; r->at++)
        if (*n <= EBNF_REPEAT_MOST) *n = *n * 10 + (uint32_t)(look(r) - '0');
    return r->at > start && *n <= EBNF_REPEAT_MOST;
}

/* Behind "{". */
static weir_status read_bounds(reader *r, uint32_t *least, uint32_t *most, weir_error *err)
{
    *least = 0;
    skip(r);
    bool good = look(r) == ',' || read_number(r, least);
    skip(r);
    *most = *least;
    if (good && accept(r, ',')) {
        skip(r);
        *most = DATA_MANY;
        if (look(r) != '}') good = read_number(r, most);
        skip(r);
    }
    if (!good || !accept(r, '}') || *most < *least)
        return bad(r, "expected {m}, {m,} or {m,n}, m <= n <= 1048576", err);
    return WEIR_OK;
}

/* The piece becomes a rule of its own, which counts.  What it counts are bytes if it
 * calls nothing: then masks may know the number (automaton.h). */
static weir_status count(reader *r, piece *p, uint32_t first_node, uint32_t least, uint32_t most, weir_error *err)
{
    automaton     *a  = r->a;
    const uint32_t id = automaton_rule(a, true);
    TRY(automaton_status(a, err));
    for (uint32_t i = first_node; i < a->n_nodes; i++) {
        if (a->nodes[i].rule != r->rule) continue;
        a->nodes[i].rule = id;
        for (uint32_t j = a->nodes[i].first; j != NO_EDGE; j = a->edges[j].next)
            if (a->edges[j].kind == EDGE_CALL) a->rules[id].known = false;
    }
    const rule x = a->rules[id];
    automaton_guard(a, x.start, EDGE_COUNT, 0, p->from);
    automaton_guard(a, x.start, EDGE_ENOUGH, 0, x.end);
    automaton_free_edge(a, p->to, x.start);
    *p = new_piece(r);
    TRY(automaton_status(a, err));
    automaton_call(a, p->from, id, data_count(least, most), p->to);
    return automaton_status(a, err);
}

static void repeat(reader *r, piece *p, bool may_skip, bool may_again)
{
    const piece in = *p;
    *p             = new_piece(r);
    if (r->a->failed) return;
    automaton_free_edge(r->a, p->from, in.from);
    automaton_free_edge(r->a, in.to, p->to);
    if (may_again) automaton_free_edge(r->a, in.to, in.from);
    if (may_skip) automaton_free_edge(r->a, p->from, p->to);
}

static weir_status read_repeated(reader *r, piece *out, weir_error *err)
{
    const uint32_t first_node = r->a->n_nodes;
    TRY(read_atom(r, out, err));
    for (;;) {
        uint32_t least, most;
        skip(r);
        if (accept(r, '*'))
            repeat(r, out, true, true);
        else if (accept(r, '+'))
            repeat(r, out, false, true);
        else if (accept(r, '?'))
            repeat(r, out, true, false);
        else if (accept(r, '{')) {
            TRY(read_bounds(r, &least, &most, err));
            TRY(count(r, out, first_node, least, most, err));
        } else
            return automaton_status(r->a, err);
    }
}

static weir_status read_sequence(reader *r, piece *out, weir_error *err)
{
    const uint32_t from = new_node(r);
    *out                = (piece){from, from};
    for (;;) {
        skip(r);
        const char c = look(r);
        if (!more(r) || c == '|' || c == ')' || (r->depth == 0 && rule_begins(r))) return automaton_status(r->a, err);
        piece next;
        TRY(read_repeated(r, &next, err));
        automaton_free_edge(r->a, out->to, next.from);
        out->to = next.to;
    }
}

static weir_status read_alternatives(reader *r, piece *out, weir_error *err)
{
    *out = new_piece(r);
    do {
        piece one;
        TRY(read_sequence(r, &one, err));
        automaton_free_edge(r->a, out->from, one.from);
        automaton_free_edge(r->a, one.to, out->to);
    } while (accept(r, '|'));
    return automaton_status(r->a, err);
}

static weir_status read_rule(reader *r, weir_error *err)
{
    if (!rule_begins(r)) return bad(r, "expected a rule: name ::= ...", err);
    named_rule  *it;
    const size_t n = name_at(r);
    TRY(find_name(r, n, &it, err));
    if (it->defined) return bad(r, "this rule has been defined before", err);
    it->defined = true;
    r->rule     = it->rule;
    r->at += n;
    skip(r);
    r->at += 3;
    piece body;
    TRY(read_alternatives(r, &body, err));
    if (look(r) == ')') return bad(r, "expected no )", err);
    automaton_free_edge(r->a, r->a->rules[it->rule].start, body.from);
    automaton_free_edge(r->a, body.to, r->a->rules[it->rule].end);
    return automaton_status(r->a, err);
}

/* For messages of automaton_finish. */
typedef struct name_list {
    const reader *r;
    char         *text; /* [NAME_LENGTH] */
} name_list;

enum { NAME_LENGTH = 80 };

static const char *name_of(const void *user, uint32_t rule_id)
{
    const name_list *l = user;
    for (uint32_t i = 0; i < l->r->n_names; i++) {
        const named_rule *x = &l->r->names[i];
        if (x->rule != rule_id) continue;
        const size_t n = x->len < NAME_LENGTH - 1 ? x->len : NAME_LENGTH - 1;
        memcpy(l->text, x->name, n);
        l->text[n] = '\0';
        return l->text;
    }
    return NULL;
}

static weir_status read_all(reader *r, weir_error *err)
{
    for (skip(r); more(r); skip(r)) TRY(read_rule(r, err));
    bool root = false;
    for (uint32_t i = 0; i < r->n_names; i++) {
        const named_rule *x = &r->names[i];
        if (!x->defined)
            return status_fail(err, WEIR_INVALID, "grammar: line %u: rule \"%.*s\" is not defined", x->line,
                               x->len < NAME_LENGTH ? (int)x->len : NAME_LENGTH, x->name);
        if (x->len != 4 || memcmp(x->name, "root", 4) != 0) continue;
        root       = true;
        r->a->root = x->rule;
    }
    if (!root) return status_fail(err, WEIR_INVALID, "grammar: expected a rule named \"root\"");
    char            name[NAME_LENGTH];
    const name_list l = {r, name};
    return automaton_finish(r->a, name_of, &l, err);
}

weir_status ebnf_compile(automaton *a, const char *text, size_t len, weir_error *err)
{
    if (len > EBNF_BYTES_MOST)
        return status_fail(err, WEIR_INVALID, "grammar: expected at most %d bytes, found %zu", EBNF_BYTES_MOST, len);
    if (!utf8_valid(text, len)) return status_fail(err, WEIR_INVALID, "grammar: expected UTF-8");
    reader            r  = {.a     = a,
                            .text  = text,
                            .len   = len,
                            .line  = 1,
                            .names = mem_alloc(NAMES_MOST, sizeof *r.names),
                            .slots = mem_zalloc(NAME_SLOTS, sizeof *r.slots)};
    const weir_status st = r.names == NULL || r.slots == NULL
                               ? status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory")
                               : read_all(&r, err);
    mem_free(r.names);
    mem_free(r.slots);
    return st;
}
