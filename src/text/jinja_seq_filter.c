/* text/jinja_seq_filter.c - filters of sequences and mappings. */
#include "text/jinja_builtin.h"
#include "text/jinja_lex.h"

/* ---- keys of items: attribute="a.b", case ---- */

/* Follows "a.0.b" from `item`; a number is an index. */
static jvalue follow(jinja *j, jvalue item, jvalue path, jvalue otherwise)
{
    if (path.kind == J_INT) return jinja_item(j, item, path);
    const jstr s = arg_str(j, path, NULL);
    for (size_t at = 0; at <= s.len && jinja_ok(j);) {
        const size_t dot    = js_find(s, js("."), at);
        const jstr   part   = js_slice(s, at, dot == SIZE_MAX ? s.len : dot);
        bool         digits = part.len > 0 && part.len < 10;
        int64_t      index  = 0;
        for (size_t i = 0; i < part.len && digits; i++) {
            digits = part.p[i] >= '0' && part.p[i] <= '9';
            index  = index * 10 + (part.p[i] - '0');
        }
        item = jinja_item(j, item, digits ? jv_int(index) : jv_str(part));
        if (item.kind == J_UNDEFINED && otherwise.kind != J_MISSING && otherwise.kind != J_NONE) item = otherwise;
        if (dot == SIZE_MAX) break;
        at = dot + 1;
    }
    return item;
}

static bool given(jvalue v)
{
    return v.kind != J_MISSING && v.kind != J_NONE;
}

/* What an item is ordered by. */
static jvalue sort_key(jinja *j, jvalue item, jvalue attribute, bool case_sensitive)
{
    const jvalue key = given(attribute) ? follow(j, item, attribute, (jvalue){.kind = J_MISSING}) : item;
    return key.kind == J_STRING && !case_sensitive ? jv_str(js_change_case(j, key.u.s, CASE_LOWER)) : key;
}

typedef struct keyed {
    jvalue key, item;
} keyed;

/* Stable merge sort of k[0..n); `spare` has room for n. */
static void merge_sort(jinja *j, keyed *k, keyed *spare, size_t n, bool reverse)
{
    for (size_t width = 1; width < n && jinja_ok(j); width *= 2) {
        for (size_t from = 0; from < n && jinja_ok(j); from += 2 * width) {
            const size_t mid = from + width < n ? from + width : n, to = from + 2 * width < n ? from + 2 * width : n;
            size_t       l = from, r = mid, out = from;
            while (l < mid && r < to) {
                const int c  = jv_compare(j, k[l].key, k[r].key);
                spare[out++] = (reverse ? c >= 0 : c <= 0) ? k[l++] : k[r++];
            }
            while (l < mid) spare[out++] = k[l++];
            while (r < to) spare[out++] = k[r++];
        }
        memcpy(k, spare, n * sizeof *k);
    }
}

typedef struct order {
    jvalue attribute;
    bool   case_sensitive, reverse;
} order;

static jvalue sorted(jinja *j, const jseq *items, const order *o)
{
    const jvalue list = jv_seq(j, SEQ_LIST, items == NULL ? 0 : items->n);
    if (items == NULL || items->n == 0 || !jinja_ok(j)) return list;
    keyed *k = jinja_alloc(j, items->n, sizeof *k), *spare = jinja_alloc(j, items->n, sizeof *spare);
    if (k == NULL || spare == NULL) return list;
    for (size_t i = 0; i < items->n; i++)
        k[i] = (keyed){sort_key(j, items->v[i], o->attribute, o->case_sensitive), items->v[i]};
    merge_sort(j, k, spare, items->n, o->reverse);
    for (size_t i = 0; i < items->n; i++) seq_push(j, list.u.seq, k[i].item);
    return list;
}

static jvalue f_sort(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const order o = {.reverse = arg_bool(a[0], false), .case_sensitive = arg_bool(a[1], false), .attribute = a[2]};
    return sorted(j, jv_iterate(j, self), &o);
}

static jvalue pair(jinja *j, jvalue key, jvalue value)
{
    const jvalue t = jv_seq(j, SEQ_TUPLE, 2);
    if (!jinja_ok(j)) return t;
    seq_push(j, t.u.seq, key);
    seq_push(j, t.u.seq, value);
    return t;
}

static jvalue pairs_of(jinja *j, const jdict *d, jseq_kind kind)
{
    const jvalue list = jv_seq(j, kind, d->n);
    for (size_t i = 0; i < d->n && jinja_work(j, 1); i++) seq_push(j, list.u.seq, pair(j, d->e[i].key, d->e[i].value));
    return list;
}

static jvalue f_dictsort(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jstr by = arg_str(j, a[1], "key");
    if (self.kind != J_DICT) jinja_fail(j, WEIR_INVALID, "'dictsort': expected a mapping, found %s", jv_kind(self));
    if (!js_is(by, "key") && !js_is(by, "value"))
        jinja_fail(j, WEIR_INVALID, "'dictsort': expected 'key' or 'value' to sort by");
    if (!jinja_ok(j)) return jv_nothing();
    const order  o     = {.attribute      = jv_int(js_is(by, "value")),
                          .case_sensitive = arg_bool(a[0], false),
                          .reverse        = arg_bool(a[2], false)};
    const jvalue pairs = pairs_of(j, self.u.dict, SEQ_LIST);
    return sorted(j, jinja_ok(j) ? pairs.u.seq : NULL, &o);
}

static jvalue f_items(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    if (self.kind == J_UNDEFINED) return jv_seq(j, SEQ_GENERATOR, 0);
    if (self.kind == J_DICT) return pairs_of(j, self.u.dict, SEQ_GENERATOR);
    jinja_fail(j, WEIR_INVALID, "'items': expected a mapping, found %s", jv_kind(self));
    return jv_nothing();
}

static jvalue f_unique(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const bool   case_sensitive = arg_bool(a[0], false);
    const jseq  *items          = jv_iterate(j, self);
    const jvalue kept = jv_seq(j, SEQ_GENERATOR, 0), seen = jv_seq(j, SEQ_LIST, 0);
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++) {
        const jvalue key   = sort_key(j, items->v[i], a[1], case_sensitive);
        bool         known = false;
        if (!jv_hashable(key))
            jinja_fail(j, WEIR_INVALID, "'unique': expected values that can be keys, found %s", jv_kind(key));
        for (size_t k = 0; k < seen.u.seq->n && !known && jinja_ok(j); k++) known = jv_equal(j, seen.u.seq->v[k], key);
        if (known || !jinja_ok(j)) continue;
        seq_push(j, seen.u.seq, key);
        seq_push(j, kept.u.seq, items->v[i]);
    }
    return kept;
}

static jvalue extreme(jinja *j, jvalue self, const jvalue *a, bool largest)
{
    const bool  case_sensitive = arg_bool(a[0], false);
    const jseq *items          = jv_iterate(j, self);
    if (items == NULL || items->n == 0) return jv_undefined(js("the extreme of nothing"));
    jvalue best = items->v[0], best_key = sort_key(j, best, a[1], case_sensitive);
    for (size_t i = 1; i < items->n && jinja_ok(j); i++) {
        const jvalue key = sort_key(j, items->v[i], a[1], case_sensitive);
        const int    c   = jv_compare(j, key, best_key);
        if (largest ? c <= 0 : c >= 0) continue;
        best     = items->v[i];
        best_key = key;
    }
    return best;
}

static jvalue f_min(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return extreme(j, self, a, false);
}

static jvalue f_max(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return extreme(j, self, a, true);
}

/* ---- whole sequences ---- */

static jvalue f_length(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    size_t n = 0;
    if (!jv_length(self, &n))
        jinja_fail(j, WEIR_INVALID, "'length': expected something that has a length, found %s", jv_kind(self));
    if (self.kind == J_STRING) (void)jinja_work_bytes(j, self.u.s.len);
    return jv_int((int64_t)n);
}

static jvalue f_first(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jseq *items = jv_iterate(j, self);
    return items == NULL || items->n == 0 ? jv_undefined(js("the first of nothing")) : items->v[0];
}

static jvalue f_last(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jseq *items = jv_iterate(j, self);
    return items == NULL || items->n == 0 ? jv_undefined(js("the last of nothing")) : items->v[items->n - 1];
}

static jvalue f_list(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jseq  *items = jv_iterate(j, self);
    const jvalue list  = jv_seq(j, SEQ_LIST, items == NULL ? 0 : items->n);
    if (items == NULL || !jinja_work(j, items->n)) return list;
    for (size_t i = 0; i < items->n; i++) seq_push(j, list.u.seq, items->v[i]);
    return list;
}

static jvalue f_reverse(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    if (self.kind == J_STRING) {
        const jvalue bounds[3] = {jv_none(), jv_none(), jv_int(-1)};
        return jinja_slice(j, self, bounds);
    }
    const jseq  *items = jv_iterate(j, self);
    const jvalue list  = jv_seq(j, SEQ_GENERATOR, items == NULL ? 0 : items->n);
    if (items == NULL || !jinja_work(j, items->n)) return list;
    for (size_t i = items->n; i-- > 0;) seq_push(j, list.u.seq, items->v[i]);
    return list;
}

static jvalue f_join(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jseq *items = jv_iterate(j, self);
    const jstr  glue  = a[0].kind == J_MISSING ? js("") : jv_to_str(j, a[0]);
    jbuf        out   = {0};
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++) {
        if (i > 0) jbuf_put(j, &out, glue);
        const jvalue item = given(a[1]) ? follow(j, items->v[i], a[1], (jvalue){.kind = J_MISSING}) : items->v[i];
        jbuf_put(j, &out, jv_to_str(j, item));
    }
    return jv_str(jbuf_str(&out));
}

static jvalue f_sum(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jseq *items = jv_iterate(j, self);
    jvalue      total = a[1].kind == J_MISSING ? jv_int(0) : a[1];
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++)
        total = jinja_binary(j, T_ADD, total,
                             given(a[0]) ? follow(j, items->v[i], a[0], (jvalue){.kind = J_MISSING}) : items->v[i]);
    return total;
}

/* ---- map, select and their kin ---- */

static jargs rest_of(const jargs *args, size_t from)
{
    return from >= args->n ? (jargs){.n_kw = args->n_kw, .kw = args->kw}
                           : (jargs){.n = args->n - from, .v = args->v + from, .n_kw = args->n_kw, .kw = args->kw};
}

static const jvalue *keyword(const jargs *args, const char *name)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (js_is(args->kw[i].name, name)) return &args->kw[i].value;
    return NULL;
}

static const jbuiltin *named(jinja *j, jvalue name, const jbuiltin *(*find)(jstr), const char *what)
{
    const jstr      s  = arg_str(j, name, NULL);
    const jbuiltin *fn = jinja_ok(j) ? find(s) : NULL;
    if (fn == NULL)
        jinja_fail(j, WEIR_UNSUPPORTED, "the %s '%.*s' is not known here", what, s.len > 80 ? 80 : (int)s.len, s.p);
    return fn;
}

static jvalue f_map(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jvalue   *attribute = args->n == 0 ? keyword(args, "attribute") : NULL;
    const jvalue   *otherwise = keyword(args, "default");
    const jbuiltin *fn        = NULL;
    if (attribute == NULL) {
        if (args->n == 0)
            jinja_fail(j, WEIR_INVALID, "'map': expected the name of a filter, or attribute=");
        else
            fn = named(j, args->v[0], jinja_filter_find, "filter");
    }
    const jargs  rest  = rest_of(args, 1);
    const jseq  *items = jv_iterate(j, self);
    const jvalue list  = jv_seq(j, SEQ_GENERATOR, 0);
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++) {
        const jvalue none = {.kind = J_MISSING};
        const jvalue v = attribute != NULL ? follow(j, items->v[i], *attribute, otherwise == NULL ? none : *otherwise)
                                           : jinja_call_builtin(j, fn, items->v[i], &rest);
        if (jinja_ok(j)) seq_push(j, list.u.seq, v);
    }
    return list;
}

/* Keeps the items (or those whose attribute) for which the named test, or
 * truth, gives `wanted`. */
static jvalue choose(jinja *j, jvalue self, const jargs *args, bool by_attribute, bool wanted)
{
    const size_t at = by_attribute ? 1 : 0;
    if (args->n < at) jinja_fail(j, WEIR_INVALID, "expected the name of an attribute as first argument");
    const jbuiltin *test  = jinja_ok(j) && args->n > at ? named(j, args->v[at], jinja_test_find, "test") : NULL;
    const jargs     rest  = rest_of(args, at + 1);
    const jseq     *items = jv_iterate(j, self);
    const jvalue    list  = jv_seq(j, SEQ_GENERATOR, 0);
    for (size_t i = 0; items != NULL && i < items->n && jinja_ok(j); i++) {
        const jvalue v = by_attribute ? follow(j, items->v[i], args->v[0], (jvalue){.kind = J_MISSING}) : items->v[i];
        const bool   pass = jv_truth(test == NULL ? v : jinja_call_builtin(j, test, v, &rest));
        if (pass == wanted && jinja_ok(j)) seq_push(j, list.u.seq, items->v[i]);
    }
    return list;
}

static jvalue f_select(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)a;
    return choose(j, self, args, false, true);
}
static jvalue f_reject(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)a;
    return choose(j, self, args, false, false);
}
static jvalue f_selectattr(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)a;
    return choose(j, self, args, true, true);
}
static jvalue f_rejectattr(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)a;
    return choose(j, self, args, true, false);
}

const jbuiltin *jinja_sequence_filter_find(jstr name)
{
    static const jbuiltin table[] = {
        {"length", {NULL}, 0, f_length},
        {"count", {NULL}, 0, f_length},
        {"items", {NULL}, 0, f_items},
        {"join", {"d", "attribute"}, 0, f_join},
        {"first", {NULL}, 0, f_first},
        {"last", {NULL}, 0, f_last},
        {"list", {NULL}, 0, f_list},
        {"reverse", {NULL}, 0, f_reverse},
        {"sort", {"reverse", "case_sensitive", "attribute"}, 0, f_sort},
        {"unique", {"case_sensitive", "attribute"}, 0, f_unique},
        {"min", {"case_sensitive", "attribute"}, 0, f_min},
        {"max", {"case_sensitive", "attribute"}, 0, f_max},
        {"sum", {"attribute", "start"}, 0, f_sum},
        {"dictsort", {"case_sensitive", "by", "reverse"}, 0, f_dictsort},
        {"map", {"*"}, 0, f_map},
        {"select", {"*"}, 0, f_select},
        {"reject", {"*"}, 0, f_reject},
        {"selectattr", {"*"}, 0, f_selectattr},
        {"rejectattr", {"*"}, 0, f_rejectattr},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (js_is(name, table[i].name)) return &table[i];
    return NULL;
}
