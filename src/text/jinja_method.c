/* text/jinja_method.c - methods of strings, mappings, sequences and loops.
 *
 * What would change a value is known by name and refused, as in Jinja2's
 * immutable sandbox. */
#include "text/jinja_builtin.h"
#include "text/jinja_eval.h"

#include <utf8proc.h>

/* ---- strings: ends and search ---- */

static jvalue strip(jinja *j, jvalue self, const jvalue *a, bool left, bool right)
{
    const bool plain = a[0].kind == J_MISSING || a[0].kind == J_NONE;
    const jstr chars = plain ? js("") : arg_str(j, a[0], NULL);
    return jv_str(jinja_strip(j, self.u.s, plain ? NULL : &chars, left, right));
}
static jvalue s_strip(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return strip(j, self, a, true, true);
}
static jvalue s_lstrip(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return strip(j, self, a, true, false);
}
static jvalue s_rstrip(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return strip(j, self, a, false, true);
}

/* self[start:end] for the methods that take a range. */
static jstr window(jinja *j, jstr s, jvalue start, jvalue end)
{
    const jvalue none = jv_none();
    if (start.kind == J_MISSING && end.kind == J_MISSING) return s;
    const jvalue bounds[3] = {start.kind == J_MISSING ? none : start, end.kind == J_MISSING ? none : end, none};
    const jvalue v         = jinja_slice(j, jv_str(s), bounds);
    return v.kind == J_STRING ? v.u.s : js("");
}

static bool affix(jinja *j, jstr s, jstr part, bool at_start)
{
    if (!jinja_work_bytes(j, part.len)) return false;
    return at_start ? js_starts(s, part) : js_ends(s, part);
}

/* The affix is a string, or a tuple of which one has to fit. */
static jvalue has_affix(jinja *j, jvalue self, const jvalue *a, bool at_start)
{
    const jstr s = window(j, self.u.s, a[1], a[2]);
    if (a[0].kind != J_SEQ || a[0].u.seq->kind != SEQ_TUPLE)
        return jv_bool(affix(j, s, arg_str(j, a[0], NULL), at_start));
    bool fits = false;
    for (size_t i = 0; i < a[0].u.seq->n && !fits && jinja_work(j, 1); i++)
        fits = affix(j, s, arg_str(j, a[0].u.seq->v[i], NULL), at_start);
    return jv_bool(fits);
}
static jvalue s_startswith(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return has_affix(j, self, a, true);
}
static jvalue s_endswith(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return has_affix(j, self, a, false);
}

static jvalue s_removeprefix(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jstr s = self.u.s, part = arg_str(j, a[0], NULL);
    return jv_str(affix(j, s, part, true) ? js_slice(s, part.len, s.len) : s);
}
static jvalue s_removesuffix(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jstr s = self.u.s, part = arg_str(j, a[0], NULL);
    return jv_str(affix(j, s, part, false) ? js_slice(s, 0, s.len - part.len) : s);
}

/* Searching backwards compares at every place: that work is counted. */
static bool rfind_work(jinja *j, jstr s, jstr part)
{
    const uint64_t places = s.len, each = 1 + part.len / 64;
    return jinja_work(j, places > UINT64_MAX / each ? UINT64_MAX : places * each / 16 + 1);
}

/* Character position of `part`, or -1. */
static int64_t find(jinja *j, jvalue self, const jvalue *a, bool backwards)
{
    const jstr s = window(j, self.u.s, a[1], a[2]), part = arg_str(j, a[0], NULL);
    if (!jinja_work_bytes(j, s.len) || (backwards && !rfind_work(j, s, part))) return -1;
    const size_t at = backwards ? js_rfind(s, part) : js_find(s, part, 0);
    if (at == SIZE_MAX) return -1;
    const size_t before = (size_t)(s.p - self.u.s.p); /* a window of step 1 shares the memory */
    return (int64_t)u_length(js_slice(self.u.s, 0, (s.len == 0 ? 0 : before) + at));
}
static jvalue s_find(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return jv_int(find(j, self, a, false));
}
static jvalue s_rfind(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return jv_int(find(j, self, a, true));
}
static jvalue s_index(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const int64_t at = find(j, self, a, false);
    if (at < 0) jinja_fail(j, WEIR_INVALID, "'index': the string is not there");
    return jv_int(at);
}

static jvalue s_count(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jstr s = window(j, self.u.s, a[1], a[2]), part = arg_str(j, a[0], NULL);
    int64_t    n = 0;
    if (!jinja_work_bytes(j, s.len)) return jv_nothing();
    if (part.len == 0) return jv_int((int64_t)u_length(s) + 1);
    for (size_t at = 0; jinja_work(j, 1) && (at = js_find(s, part, at)) != SIZE_MAX; at += part.len) n++;
    return jv_int(n);
}

/* ---- strings: cutting and joining ---- */

static void split_spaces(jinja *j, jseq *out, jstr s, int64_t max)
{
    jstr rest = js_strip(s, NULL, true, false);
    while (rest.len > 0 && jinja_work(j, 1)) {
        size_t i = 0, from = 0;
        if (max-- == 0) {
            seq_push(j, out, jv_str(rest));
            return;
        }
        while (i < rest.len) {
            from = i;
            if (u_space(u_next(rest, &i))) break;
            from = i;
        }
        seq_push(j, out, jv_str(js_slice(rest, 0, from)));
        rest = js_strip(js_slice(rest, from, rest.len), NULL, true, false);
    }
}

static void split_at(jinja *j, jseq *out, jstr s, jstr by, int64_t max)
{
    size_t at = 0, hit;
    for (; max != 0 && jinja_work(j, 1) && (hit = js_find(s, by, at)) != SIZE_MAX; max--) {
        seq_push(j, out, jv_str(js_slice(s, at, hit)));
        at = hit + by.len;
    }
    seq_push(j, out, jv_str(js_slice(s, at, s.len)));
}

static void turn_round(jseq *s)
{
    for (size_t i = 0; i < s->n / 2; i++) {
        const jvalue v     = s->v[i];
        s->v[i]            = s->v[s->n - 1 - i];
        s->v[s->n - 1 - i] = v;
    }
}

static void rsplit_at(jinja *j, jseq *out, jstr s, jstr by, int64_t max)
{
    size_t hit;
    for (; max != 0 && rfind_work(j, s, by) && (hit = js_rfind(s, by)) != SIZE_MAX; max--) {
        seq_push(j, out, jv_str(js_slice(s, hit + by.len, s.len)));
        s = js_slice(s, 0, hit);
    }
    seq_push(j, out, jv_str(s));
    turn_round(out);
}

static void rsplit_spaces(jinja *j, jseq *out, jstr s, int64_t max)
{
    jstr rest = js_strip(s, NULL, false, true);
    while (rest.len > 0 && jinja_work(j, 1)) {
        size_t from = rest.len;
        if (max-- == 0) {
            seq_push(j, out, jv_str(rest));
            break;
        }
        while (from > 0) {
            size_t last = from - 1;
            while (last > 0 && ((unsigned char)rest.p[last] & 0xC0u) == 0x80) last--;
            size_t i = last;
            if (u_space(u_next(rest, &i))) break;
            from = last;
        }
        seq_push(j, out, jv_str(js_slice(rest, from, rest.len)));
        rest = js_strip(js_slice(rest, 0, from), NULL, false, true);
    }
    turn_round(out);
}

static jvalue split(jinja *j, jvalue self, const jvalue *a, bool backwards)
{
    const bool    spaces = a[0].kind == J_MISSING || a[0].kind == J_NONE;
    const jstr    by     = spaces ? js("") : arg_str(j, a[0], NULL);
    const int64_t max    = arg_int(j, a[1], -1);
    if (!spaces && by.len == 0) jinja_fail(j, WEIR_INVALID, "'split': expected a separator with characters in it");
    const jvalue list = jv_seq(j, SEQ_LIST, 0);
    if (!jinja_work_bytes(j, self.u.s.len)) return list;
    if (spaces && backwards && max >= 0)
        rsplit_spaces(j, list.u.seq, self.u.s, max);
    else if (spaces)
        split_spaces(j, list.u.seq, self.u.s, max);
    else if (backwards && max >= 0)
        rsplit_at(j, list.u.seq, self.u.s, by, max);
    else
        split_at(j, list.u.seq, self.u.s, by, max);
    return list;
}
static jvalue s_split(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return split(j, self, a, false);
}
static jvalue s_rsplit(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    return split(j, self, a, true);
}

static jvalue s_partition(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jstr   s = self.u.s, by = arg_str(j, a[0], NULL);
    const jvalue t = jv_seq(j, SEQ_TUPLE, 3);
    if (by.len == 0) jinja_fail(j, WEIR_INVALID, "'partition': expected a separator with characters in it");
    if (!jinja_work_bytes(j, s.len)) return t;
    const size_t at = js_find(s, by, 0);
    seq_push(j, t.u.seq, jv_str(js_slice(s, 0, at == SIZE_MAX ? s.len : at)));
    seq_push(j, t.u.seq, jv_str(at == SIZE_MAX ? js("") : js_slice(s, at, at + by.len)));
    seq_push(j, t.u.seq, jv_str(at == SIZE_MAX ? js("") : js_slice(s, at + by.len, s.len)));
    return t;
}

static jvalue s_splitlines(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const bool   keep = arg_bool(a[0], false);
    const jstr   s    = self.u.s;
    const jvalue list = jv_seq(j, SEQ_LIST, 0);
    size_t       from = 0, line_from = 0, line_to;
    if (!jinja_work_bytes(j, s.len)) return list;
    while (js_next_line(s, &from, &line_to) && jinja_work(j, 1)) {
        seq_push(j, list.u.seq, jv_str(js_slice(s, line_from, keep ? from : line_to)));
        line_from = from;
    }
    return list;
}

static jvalue s_join(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jseq *items = jv_iterate(j, a[0]);
    jbuf        out   = {0};
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++) {
        if (items->v[i].kind != J_STRING)
            jinja_fail(j, WEIR_INVALID, "'join': expected strings only, found %s", jv_kind(items->v[i]));
        if (i > 0) jbuf_put(j, &out, self.u.s);
        jbuf_put(j, &out, items->v[i].u.s);
    }
    return jv_str(jbuf_str(&out));
}

static jvalue s_replace(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)args;
    const jstr old = arg_str(j, a[0], NULL), new = arg_str(j, a[1], NULL);
    return jv_str(js_replace(j, self.u.s, old, new, arg_int(j, a[2], -1)));
}

/* ---- strings: case and kind of characters ---- */

#define CASE_METHOD(id, how) \
    static jvalue s_##id(jinja *j, jvalue self, const jvalue *a, const jargs *args) \
    { \
        (void)a; \
        (void)args; \
        return jv_str(js_change_case(j, self.u.s, how)); \
    }
CASE_METHOD(upper, CASE_UPPER)
CASE_METHOD(lower, CASE_LOWER)
CASE_METHOD(title, CASE_TITLE)
CASE_METHOD(capitalize, CASE_CAPITALIZE)

static bool is_letter(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
static bool is_digit(int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}
static bool is_letter_or_digit(int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return is_letter(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

static jvalue all_are(jinja *j, jstr s, bool (*is)(int32_t))
{
    bool all = s.len > 0 && jinja_work_bytes(j, s.len);
    for (size_t i = 0; all && i < s.len;) all = is(u_next(s, &i));
    return jv_bool(all);
}
static jvalue s_isdigit(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return all_are(j, self.u.s, is_digit);
}
static jvalue s_isalpha(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return all_are(j, self.u.s, is_letter);
}
static jvalue s_isalnum(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return all_are(j, self.u.s, is_letter_or_digit);
}
static jvalue s_isspace(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return all_are(j, self.u.s, u_space);
}

/* ---- mappings ---- */

static jvalue d_get(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    if (!jv_hashable(a[0])) jinja_fail(j, WEIR_INVALID, "'get': expected a key, found %s", jv_kind(a[0]));
    const jvalue *v = jinja_ok(j) ? dict_get(j, self.u.dict, a[0]) : NULL;
    if (v != NULL) return *v;
    return a[1].kind == J_MISSING ? jv_none() : a[1];
}

static jvalue view(jinja *j, const jdict *d, jseq_kind kind)
{
    const jvalue list = jv_seq(j, kind, d->n);
    for (size_t i = 0; i < d->n && jinja_work(j, 1); i++) {
        jvalue item = kind == SEQ_KEYS ? d->e[i].key : d->e[i].value;
        if (kind == SEQ_ITEMS) {
            item = jv_seq(j, SEQ_TUPLE, 2);
            if (!jinja_ok(j)) break;
            seq_push(j, item.u.seq, d->e[i].key);
            seq_push(j, item.u.seq, d->e[i].value);
        }
        seq_push(j, list.u.seq, item);
    }
    return list;
}
static jvalue d_items(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return view(j, self.u.dict, SEQ_ITEMS);
}
static jvalue d_keys(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return view(j, self.u.dict, SEQ_KEYS);
}
static jvalue d_values(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return view(j, self.u.dict, SEQ_VALUES);
}

/* Nothing changes a value, so a copy is the value itself. */
static jvalue copy(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return self;
}

/* ---- sequences and loops ---- */

static jvalue l_index(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    for (size_t i = 0; i < self.u.seq->n && jinja_ok(j); i++)
        if (jv_equal(j, self.u.seq->v[i], a[0])) return jv_int((int64_t)i);
    jinja_fail(j, WEIR_INVALID, "'index': the item is not there");
    return jv_nothing();
}

static jvalue l_count(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    int64_t n = 0;
    for (size_t i = 0; i < self.u.seq->n && jinja_ok(j); i++) n += jv_equal(j, self.u.seq->v[i], a[0]);
    return jv_int(n);
}

static jvalue loop_cycle(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    if (args->n == 0) {
        jinja_fail(j, WEIR_INVALID, "'cycle': expected at least one value, found none");
        return jv_nothing();
    }
    return args->v[self.u.loop->index % args->n];
}

/* ---- tables ---- */

static const jbuiltin string_methods[] = {
    {"strip", {"chars"}, 0, s_strip},
    {"lstrip", {"chars"}, 0, s_lstrip},
    {"rstrip", {"chars"}, 0, s_rstrip},
    {"startswith", {"prefix", "start", "end"}, 1, s_startswith},
    {"endswith", {"suffix", "start", "end"}, 1, s_endswith},
    {"removeprefix", {"prefix"}, 1, s_removeprefix},
    {"removesuffix", {"suffix"}, 1, s_removesuffix},
    {"find", {"sub", "start", "end"}, 1, s_find},
    {"rfind", {"sub", "start", "end"}, 1, s_rfind},
    {"index", {"sub", "start", "end"}, 1, s_index},
    {"count", {"sub", "start", "end"}, 1, s_count},
    {"split", {"sep", "maxsplit"}, 0, s_split},
    {"rsplit", {"sep", "maxsplit"}, 0, s_rsplit},
    {"partition", {"sep"}, 1, s_partition},
    {"splitlines", {"keepends"}, 0, s_splitlines},
    {"join", {"iterable"}, 1, s_join},
    {"replace", {"old", "new", "count"}, 2, s_replace},
    {"upper", {NULL}, 0, s_upper},
    {"lower", {NULL}, 0, s_lower},
    {"title", {NULL}, 0, s_title},
    {"capitalize", {NULL}, 0, s_capitalize},
    {"isdigit", {NULL}, 0, s_isdigit},
    {"isalpha", {NULL}, 0, s_isalpha},
    {"isalnum", {NULL}, 0, s_isalnum},
    {"isspace", {NULL}, 0, s_isspace},
};
static const jbuiltin dict_methods[] = {
    {"get", {"key", "default"}, 1, d_get}, {"items", {NULL}, 0, d_items}, {"keys", {NULL}, 0, d_keys},
    {"values", {NULL}, 0, d_values},       {"copy", {NULL}, 0, copy},
};
static const jbuiltin list_methods[] = {
    {"index", {"value"}, 1, l_index},
    {"count", {"value"}, 1, l_count},
    {"copy", {NULL}, 0, copy},
};
static const jbuiltin loop_methods[] = {{"cycle", {"*"}, 0, loop_cycle}};

/* Python has these too; using one is an error, not an absent attribute. */
static const char *const string_others[] = {
    "casefold",     "center",  "encode",     "expandtabs",  "format",    "format_map", "isascii", "isdecimal",
    "isidentifier", "islower", "isnumeric",  "isprintable", "istitle",   "isupper",    "ljust",   "maketrans",
    "rindex",       "rjust",   "rpartition", "swapcase",    "translate", "zfill",      NULL};
static const char *const dict_others[] = {"clear", "fromkeys", "pop", "popitem", "setdefault", "update", NULL};
static const char *const list_others[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL};
static const char *const no_others[]   = {NULL};

static const jbuiltin *find_in(const jbuiltin *table, size_t n, const char *const *others, jstr name, bool *known)
{
    for (size_t i = 0; i < n; i++)
        if (js_is(name, table[i].name)) return &table[i];
    for (; *others != NULL && !*known; others++) *known = js_is(name, *others);
    return NULL;
}

#define COUNT_OF(table) (sizeof(table) / sizeof *(table))

const jbuiltin *jinja_method_find(jvalue self, jstr name, bool *known)
{
    *known = false;
    if (self.kind == J_STRING) return find_in(string_methods, COUNT_OF(string_methods), string_others, name, known);
    if (self.kind == J_DICT) return find_in(dict_methods, COUNT_OF(dict_methods), dict_others, name, known);
    if (self.kind == J_LOOP) return find_in(loop_methods, COUNT_OF(loop_methods), no_others, name, known);
    if (self.kind != J_SEQ) return NULL;
    if (self.u.seq->kind == SEQ_LIST) return find_in(list_methods, COUNT_OF(list_methods), list_others, name, known);
    if (self.u.seq->kind == SEQ_TUPLE) return find_in(list_methods, COUNT_OF(list_methods) - 1, no_others, name, known);
    return NULL;
}
