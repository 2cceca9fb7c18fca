/* text/jinja_value.c - failure, limits, containers, and Python's rules of
 * truth, equality and order. */
#include "text/jinja_value.h"

#include "text/jinja_string.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void jinja_fail(jinja *j, weir_status st, const char *fmt, ...)
{
    if (j->st != WEIR_OK) return;
    char    text[600];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    j->st = status_fail(j->err, st, "%s:%" PRIu32 ": %s", j->name, j->line, text);
}

void jinja_raise(jinja *j, jstr text)
{
    if (j->st != WEIR_OK) return;
    const int n = text.len > 900 ? 900 : (int)text.len;
    j->st       = status_fail(j->err, WEIR_INVALID, "%.*s", n, text.p);
}

bool jinja_work(jinja *j, uint64_t steps)
{
    if (j->st != WEIR_OK) return false;
    if (steps > j->steps_left) {
        jinja_fail(j, WEIR_NO_MEMORY, "the template passes the limit of %" PRIu64 " steps", j->max_steps);
        return false;
    }
    j->steps_left -= steps;
    return true;
}

bool jinja_enter(jinja *j)
{
    if (j->st != WEIR_OK) return false;
    if (j->depth >= JINJA_MAX_DEPTH) {
        jinja_fail(j, WEIR_NO_MEMORY, "macros, expressions or data nested past the limit of %d levels",
                   (int)JINJA_MAX_DEPTH);
        return false;
    }
    j->depth++;
    return true;
}

void *jinja_alloc(jinja *j, size_t n, size_t size)
{
    if (j->st != WEIR_OK) return NULL;
    void *p = arena_alloc(&j->mem, n, size);
    if (p == NULL)
        jinja_fail(j, WEIR_NO_MEMORY, "the template passes the limit of %zu bytes of memory, or there is none left",
                   j->mem.max);
    return p;
}

jvalue jv_seq(jinja *j, jseq_kind kind, size_t cap)
{
    jseq *s = jinja_alloc(j, 1, sizeof *s);
    if (s == NULL) return jv_nothing();
    *s = (jseq){.kind = kind, .cap = cap};
    if (cap > 0) {
        s->v = jinja_alloc(j, cap, sizeof *s->v);
        if (s->v == NULL) return jv_nothing();
    }
    return (jvalue){.kind = J_SEQ, .u.seq = s};
}

void seq_push(jinja *j, jseq *s, jvalue v)
{
    if (!jinja_ok(j)) return;
    if (s->n == s->cap) {
        const size_t cap = s->cap < 4 ? 8 : s->cap * 2;
        jvalue      *p   = jinja_alloc(j, cap, sizeof *p);
        if (p == NULL) return;
        if (s->n > 0) memcpy(p, s->v, s->n * sizeof *p);
        s->v   = p;
        s->cap = cap;
    }
    s->v[s->n++] = v;
}

jvalue jv_dict(jinja *j, size_t cap)
{
    jdict *d = jinja_alloc(j, 1, sizeof *d);
    if (d == NULL) return jv_nothing();
    *d = (jdict){.cap = cap};
    if (cap > 0) {
        d->e = jinja_alloc(j, cap, sizeof *d->e);
        if (d->e == NULL) return jv_nothing();
    }
    return (jvalue){.kind = J_DICT, .u.dict = d};
}

void dict_push(jinja *j, jdict *d, jvalue key, jvalue value)
{
    if (!jinja_ok(j)) return;
    if (d->n == d->cap) {
        const size_t cap = d->cap < 4 ? 8 : d->cap * 2;
        jentry      *p   = jinja_alloc(j, cap, sizeof *p);
        if (p == NULL) return;
        if (d->n > 0) memcpy(p, d->e, d->n * sizeof *p);
        d->e   = p;
        d->cap = cap;
    }
    d->e[d->n++] = (jentry){key, value};
}

void dict_set(jinja *j, jdict *d, jvalue key, jvalue value)
{
    for (size_t i = 0; i < d->n; i++) {
        if (!jinja_work(j, 1)) return;
        if (!jv_equal(j, d->e[i].key, key)) continue;
        d->e[i].value = value;
        return;
    }
    dict_push(j, d, key, value);
}

const jvalue *dict_get_str(jinja *j, const jdict *d, jstr key)
{
    if (!jinja_work(j, 1 + d->n / 16 + key.len / 64)) return NULL;
    for (size_t i = 0; i < d->n; i++)
        if (d->e[i].key.kind == J_STRING && js_equal(d->e[i].key.u.s, key)) return &d->e[i].value;
    return NULL;
}

const jvalue *dict_get(jinja *j, const jdict *d, jvalue key)
{
    if (key.kind == J_STRING) return dict_get_str(j, d, key.u.s);
    for (size_t i = 0; i < d->n && jinja_work(j, 1); i++)
        if (jv_equal(j, d->e[i].key, key)) return &d->e[i].value;
    return NULL;
}

bool jv_number(jvalue v, int64_t *i, double *f, bool *is_int)
{
    *is_int = v.kind != J_FLOAT;
    *i      = v.kind == J_BOOL ? v.u.b : v.kind == J_INT ? v.u.i : 0;
    *f      = v.kind == J_FLOAT ? v.u.f : (double)*i;
    return v.kind == J_BOOL || v.kind == J_INT || v.kind == J_FLOAT;
}

bool jv_truth(jvalue v)
{
    switch (v.kind) {
    case J_MISSING:
    case J_UNDEFINED:
    case J_NONE: return false;
    case J_BOOL: return v.u.b;
    case J_INT: return v.u.i != 0;
    case J_FLOAT: return v.u.f != 0.0;
    case J_STRING: return v.u.s.len > 0;
    case J_SEQ: return v.u.seq->kind == SEQ_GENERATOR || v.u.seq->n > 0;
    case J_DICT: return v.u.dict->n > 0;
    case J_NAMESPACE:
    case J_MACRO:
    case J_METHOD:
    case J_FUNCTION: return true;
    case J_LOOP: return true;
    }
    return false;
}

bool jv_hashable(jvalue v)
{
    if (v.kind == J_SEQ && v.u.seq->kind == SEQ_TUPLE) {
        for (size_t i = 0; i < v.u.seq->n; i++) /* one level is looked at: enough for keys of templates */
            if (v.u.seq->v[i].kind == J_DICT || v.u.seq->v[i].kind == J_SEQ) return false;
        return true;
    }
    return v.kind != J_DICT && v.kind != J_SEQ && v.kind != J_NAMESPACE;
}

static bool equal_seq(jinja *j, const jseq *a, const jseq *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->n != b->n || a->kind == SEQ_GENERATOR) return false;
    for (size_t i = 0; i < a->n && jinja_ok(j); i++)
        if (!jv_equal(j, a->v[i], b->v[i])) return false;
    return true;
}

static bool equal_dict(jinja *j, const jdict *a, const jdict *b)
{
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n && jinja_ok(j); i++) {
        const jvalue *other = dict_get(j, b, a->e[i].key);
        if (other == NULL || !jv_equal(j, a->e[i].value, *other)) return false;
    }
    return true;
}

static bool equal_same_kind(jinja *j, jvalue a, jvalue b)
{
    switch (a.kind) {
    case J_UNDEFINED:
    case J_NONE: return true;
    case J_STRING: return jinja_work_bytes(j, a.u.s.len) && js_equal(a.u.s, b.u.s);
    case J_SEQ: return equal_seq(j, a.u.seq, b.u.seq);
    case J_DICT: return equal_dict(j, a.u.dict, b.u.dict);
    case J_NAMESPACE: return a.u.dict == b.u.dict;
    case J_MACRO: return a.u.macro == b.u.macro;
    case J_FUNCTION: return a.u.function == b.u.function;
    default: return false;
    }
}

bool jv_equal(jinja *j, jvalue a, jvalue b)
{
    int64_t ia, ib;
    double  fa, fb;
    bool    int_a, int_b;
    if (!jinja_work(j, 1)) return false;
    if (jv_number(a, &ia, &fa, &int_a) && jv_number(b, &ib, &fb, &int_b))
        return int_a && int_b ? ia == ib : fa == fb && (int_a == int_b || fabs(fa) <= 0x1p53);
    if (a.kind != b.kind || !jinja_enter(j)) return false;
    const bool equal = equal_same_kind(j, a, b);
    jinja_leave(j);
    return equal;
}

static bool is_ordered_seq(jvalue v)
{
    return v.kind == J_SEQ && (v.u.seq->kind == SEQ_LIST || v.u.seq->kind == SEQ_TUPLE);
}

static int compare_seq(jinja *j, const jseq *a, const jseq *b)
{
    for (size_t i = 0; i < a->n && i < b->n && jinja_ok(j); i++)
        if (!jv_equal(j, a->v[i], b->v[i])) return jv_compare(j, a->v[i], b->v[i]);
    return a->n < b->n ? -1 : a->n > b->n;
}

int jv_compare(jinja *j, jvalue a, jvalue b)
{
    int64_t ia, ib;
    double  fa, fb;
    bool    int_a, int_b;
    if (!jinja_work(j, 1)) return 0;
    if (jv_number(a, &ia, &fa, &int_a) && jv_number(b, &ib, &fb, &int_b)) {
        if (int_a && int_b) return ia < ib ? -1 : ia > ib;
        return fa < fb ? -1 : fa > fb;
    }
    if (a.kind == J_STRING && b.kind == J_STRING) {
        const int c = jinja_work_bytes(j, a.u.s.len) ? js_compare(a.u.s, b.u.s) : 0;
        return c < 0 ? -1 : c > 0;
    }
    if (is_ordered_seq(a) && is_ordered_seq(b) && a.u.seq->kind == b.u.seq->kind && jinja_enter(j)) {
        const int c = compare_seq(j, a.u.seq, b.u.seq);
        jinja_leave(j);
        return c;
    }
    jinja_fail(j, WEIR_INVALID, "expected two values that can be put in order, found %s and %s", jv_kind(a),
               jv_kind(b));
    return 0;
}

bool jv_contains(jinja *j, jvalue box, jvalue item)
{
    if (box.kind == J_STRING) {
        if (item.kind != J_STRING)
            jinja_fail(j, WEIR_INVALID, "expected a string in front of 'in' a string, found %s", jv_kind(item));
        return jinja_work_bytes(j, box.u.s.len) && js_find(box.u.s, item.u.s, 0) != SIZE_MAX;
    }
    if (box.kind == J_DICT) {
        if (!jv_hashable(item))
            jinja_fail(j, WEIR_INVALID, "expected a key in front of 'in' a mapping, found %s", jv_kind(item));
        return jinja_ok(j) && dict_get(j, box.u.dict, item) != NULL;
    }
    const jseq *s = jv_iterate(j, box);
    if (s == NULL) return false;
    for (size_t i = 0; i < s->n && jinja_ok(j); i++)
        if (jv_equal(j, s->v[i], item)) return true;
    return false;
}

static jseq *characters(jinja *j, jstr s)
{
    jvalue list = jv_seq(j, SEQ_LIST, u_length(s));
    for (size_t i = 0; i < s.len && jinja_work(j, 1);) {
        const size_t from = i;
        (void)u_next(s, &i);
        seq_push(j, list.u.seq, jv_str(js_slice(s, from, i)));
    }
    return jinja_ok(j) ? list.u.seq : NULL;
}

static jseq *no_items(jinja *j)
{
    jvalue list = jv_seq(j, SEQ_LIST, 0);
    return jinja_ok(j) ? list.u.seq : NULL;
}

jseq *jv_iterate(jinja *j, jvalue v)
{
    if (!jinja_ok(j)) return NULL;
    switch (v.kind) {
    case J_UNDEFINED: return no_items(j);
    case J_STRING: return characters(j, v.u.s);
    case J_SEQ:
        if (v.u.seq->kind == SEQ_GENERATOR) {
            if (v.u.seq->spent) return no_items(j);
            v.u.seq->spent = true;
        }
        return v.u.seq;
    case J_DICT: {
        jvalue list = jv_seq(j, SEQ_LIST, v.u.dict->n);
        for (size_t i = 0; i < v.u.dict->n && jinja_work(j, 1); i++) seq_push(j, list.u.seq, v.u.dict->e[i].key);
        return jinja_ok(j) ? list.u.seq : NULL;
    }
    default: jinja_fail(j, WEIR_INVALID, "expected something to iterate over, found %s", jv_kind(v)); return NULL;
    }
}

bool jv_length(jvalue v, size_t *n)
{
    switch (v.kind) {
    case J_UNDEFINED: *n = 0; return true;
    case J_STRING: *n = u_length(v.u.s); return true;
    case J_SEQ: *n = v.u.seq->n; return v.u.seq->kind != SEQ_GENERATOR;
    case J_DICT: *n = v.u.dict->n; return true;
    case J_LOOP: *n = v.u.loop->seq->n; return true;
    default: return false;
    }
}

const char *jv_kind(jvalue v)
{
    static const char *const names[] = {"nothing", "an undefined value", "none",       "a boolean", "an integer",
                                        "a float", "a string",           "a sequence", "a mapping", "a namespace",
                                        "a macro", "a method",           "a function", "a loop"};
    return names[v.kind];
}
