/* text/jinja_print.c - str(), repr() and json.dumps() of values.
 *
 * Provenance: the bytes of strings keep their marks, an escape takes the mark
 * of the byte it stands for, and the punctuation between is the template's. */
#include "text/jinja_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void print_float(char *out, size_t size, double f)
{
    enum { MAX_DIGITS = 17, SMALLEST_PLAIN = -4, LARGEST_PLAIN = 16 };
    if (isnan(f) || isinf(f)) {
        (void)snprintf(out, size, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    int  digits = 1;
    do {
        (void)snprintf(text, sizeof text, "%.*e", digits - 1, f);
    } while (strtod(text, NULL) != f && ++digits <= MAX_DIGITS);
    const char *mark     = strchr(text, 'e');
    const int   exponent = mark == NULL ? 0 : (int)strtol(mark + 1, NULL, 10);
    if (exponent < SMALLEST_PLAIN || exponent >= LARGEST_PLAIN) {
        (void)snprintf(out, size, "%.*e", digits - 1, f);
        return;
    }
    const int decimals = digits - 1 - exponent;
    (void)snprintf(out, size, "%.*f", decimals < 1 ? 1 : decimals, f);
}

static void put_uniform(jinja *j, jbuf *b, const char *text, uint8_t mark)
{
    jbuf_bytes(j, b, text, strlen(text), mark);
}

static void put_integer(jinja *j, jbuf *b, int64_t i, uint8_t mark)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, i);
    put_uniform(j, b, text, mark);
}

static void put_float(jinja *j, jbuf *b, double f, uint8_t mark)
{
    enum { FLOAT_STEPS = 32 }; /* trying digits takes as long as some dozen nodes */
    char text[40];
    if (!jinja_work(j, FLOAT_STEPS)) return;
    print_float(text, sizeof text, f);
    put_uniform(j, b, text, mark);
}

/* ---- repr ---- */

static void put_escape(jinja *j, jbuf *b, int32_t c, uint8_t mark)
{
    char text[16];
    if (c == '\n')
        (void)snprintf(text, sizeof text, "\\n");
    else if (c == '\r')
        (void)snprintf(text, sizeof text, "\\r");
    else if (c == '\t')
        (void)snprintf(text, sizeof text, "\\t");
    else if (c < 0x100)
        (void)snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
    else if (c < 0x10000)
        (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else
        (void)snprintf(text, sizeof text, "\\U%08x", (unsigned)c);
    put_uniform(j, b, text, mark);
}

static void repr_string(jinja *j, jbuf *b, jstr s)
{
    const bool  has_single = js_find(s, js("'"), 0) != SIZE_MAX, has_double = js_find(s, js("\""), 0) != SIZE_MAX;
    const char *quote = has_single && !has_double ? "\"" : "'";
    jbuf_put(j, b, js(quote));
    for (size_t i = 0; i < s.len && jinja_ok(j);) {
        const size_t  from = i;
        const uint8_t mark = js_mark_at(s, i);
        const int32_t c    = u_next(s, &i);
        if (c == quote[0] || c == '\\') jbuf_bytes(j, b, "\\", 1, mark);
        if (u_printable(c))
            jbuf_put(j, b, js_slice(s, from, i));
        else
            put_escape(j, b, c, mark);
    }
    jbuf_put(j, b, js(quote));
}

static void print_repr(jinja *j, jbuf *b, jvalue v);

static void repr_items(jinja *j, jbuf *b, const jseq *s, const char *open, const char *close)
{
    jbuf_put(j, b, js(open));
    for (size_t i = 0; i < s->n && jinja_ok(j); i++) {
        if (i > 0) jbuf_put(j, b, js(", "));
        print_repr(j, b, s->v[i]);
    }
    jbuf_put(j, b, js(close));
}

static void repr_seq(jinja *j, jbuf *b, const jseq *s)
{
    switch (s->kind) {
    case SEQ_LIST: repr_items(j, b, s, "[", "]"); break;
    case SEQ_TUPLE: repr_items(j, b, s, "(", s->n == 1 ? ",)" : ")"); break;
    case SEQ_KEYS: repr_items(j, b, s, "dict_keys([", "])"); break;
    case SEQ_VALUES: repr_items(j, b, s, "dict_values([", "])"); break;
    case SEQ_ITEMS: repr_items(j, b, s, "dict_items([", "])"); break;
    case SEQ_RANGE: {
        char text[100];
        int  n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, s->range[0], s->range[1]);
        if (s->range[2] != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, s->range[2]);
        (void)snprintf(text + n, sizeof text - (size_t)n, ")");
        jbuf_put(j, b, js(text));
        break;
    }
    case SEQ_GENERATOR:
        jinja_fail(j, WEIR_INVALID, "expected a value that can be printed, found the unread result of a filter");
        break;
    }
}

static void repr_dict(jinja *j, jbuf *b, const jdict *d)
{
    jbuf_put(j, b, js("{"));
    for (size_t i = 0; i < d->n && jinja_ok(j); i++) {
        if (i > 0) jbuf_put(j, b, js(", "));
        print_repr(j, b, d->e[i].key);
        jbuf_put(j, b, js(": "));
        print_repr(j, b, d->e[i].value);
    }
    jbuf_put(j, b, js("}"));
}

static void print_repr(jinja *j, jbuf *b, jvalue v)
{
    if (!jinja_work(j, 1) || !jinja_enter(j)) return;
    switch (v.kind) {
    case J_STRING: repr_string(j, b, v.u.s); break;
    case J_SEQ: repr_seq(j, b, v.u.seq); break;
    case J_DICT: repr_dict(j, b, v.u.dict); break;
    case J_UNDEFINED: jbuf_put(j, b, js("Undefined")); break;
    default: print_value(j, b, v); break;
    }
    jinja_leave(j);
}

void print_value(jinja *j, jbuf *b, jvalue v)
{
    switch (v.kind) {
    case J_MISSING:
    case J_UNDEFINED: break;
    case J_NONE: put_uniform(j, b, "None", v.mark); break;
    case J_BOOL: put_uniform(j, b, v.u.b ? "True" : "False", v.mark); break;
    case J_INT: put_integer(j, b, v.u.i, v.mark); break;
    case J_FLOAT: put_float(j, b, v.u.f, v.mark); break;
    case J_STRING: jbuf_put(j, b, v.u.s); break;
    case J_SEQ:
    case J_DICT: print_repr(j, b, v); break;
    case J_NAMESPACE:
    case J_MACRO:
    case J_METHOD:
    case J_FUNCTION:
    case J_LOOP: jinja_fail(j, WEIR_INVALID, "expected a value that can be printed, found %s", jv_kind(v)); break;
    }
}

jstr jv_to_str(jinja *j, jvalue v)
{
    if (v.kind == J_STRING) return v.u.s;
    jbuf b = {0};
    print_value(j, &b, v);
    return jbuf_str(&b);
}

/* ---- JSON ---- */

static void json_character(jinja *j, jbuf *b, jstr s, size_t from, size_t to, int32_t c, const json_style *style)
{
    static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const uint8_t     mark = js_mark_at(s, from);
    const char       *at   = c > 0 && c < 0x80 ? strchr(special, (int)c) : NULL;
    char              text[16];
    if (at != NULL) {
        (void)snprintf(text, sizeof text, "\\%c", letters[at - special]);
    } else if (c < 0x20 || (style->ascii && c >= 0x7F && c < 0x10000)) {
        if (c == 0x7F)
            (void)snprintf(text, sizeof text, "\x7f");
        else
            (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else if (style->ascii && c >= 0x10000) { /* a surrogate pair */
        const unsigned u = (unsigned)c - 0x10000;
        (void)snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (u >> 10), 0xDC00 + (u & 0x3FF));
    } else {
        jbuf_put(j, b, js_slice(s, from, to));
        return;
    }
    put_uniform(j, b, text, mark);
}

static bool json_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7F && c != '"' && c != '\\';
}

static void json_string_text(jinja *j, jbuf *b, jstr s, const json_style *style)
{
    jbuf_put(j, b, js("\""));
    for (size_t i = 0; i < s.len && jinja_ok(j);) {
        size_t run = i;
        while (run < s.len && json_plain(s.p[run])) run++;
        if (run > i) {
            jbuf_put(j, b, js_slice(s, i, run));
            i = run;
            continue;
        }
        const size_t  from = i;
        const int32_t c    = u_next(s, &i);
        json_character(j, b, s, from, i, c, style);
    }
    jbuf_put(j, b, js("\""));
}

static void json_float(jinja *j, jbuf *b, double f, uint8_t mark)
{
    if (isnan(f))
        put_uniform(j, b, "NaN", mark);
    else if (isinf(f))
        put_uniform(j, b, f < 0 ? "-Infinity" : "Infinity", mark);
    else
        put_float(j, b, f, mark);
}

static void json_value(jinja *j, jbuf *b, jvalue v, const json_style *style, size_t level);

static void json_break(jinja *j, jbuf *b, const json_style *style, size_t level)
{
    if (!style->indented) return;
    jbuf_put(j, b, js("\n"));
    for (size_t i = 0; i < level; i++) jbuf_put(j, b, style->indent);
}

/* Keys that are not strings become strings, as json.dumps does it. */
static void json_key(jinja *j, jbuf *b, jvalue key, const json_style *style)
{
    if (key.kind == J_STRING) {
        json_string_text(j, b, key.u.s, style);
        return;
    }
    if (key.kind != J_NONE && key.kind != J_BOOL && key.kind != J_INT && key.kind != J_FLOAT) {
        jinja_fail(j, WEIR_INVALID, "tojson: expected a string as key, found %s", jv_kind(key));
        return;
    }
    jbuf_put(j, b, js("\""));
    json_value(j, b, key, style, 0);
    jbuf_put(j, b, js("\""));
}

/* Indices of the entries in the order of their keys: insertion sort, because
 * objects are small and the work is counted. */
static size_t *sorted_entries(jinja *j, const jdict *d)
{
    size_t *order = jinja_alloc(j, d->n, sizeof *order);
    if (order == NULL) return NULL;
    for (size_t i = 0; i < d->n && jinja_ok(j); i++) {
        size_t k = i;
        while (k > 0 && jv_compare(j, d->e[order[k - 1]].key, d->e[i].key) > 0) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = i;
    }
    return jinja_ok(j) ? order : NULL;
}

static void json_object_text(jinja *j, jbuf *b, const jdict *d, const json_style *style, size_t level)
{
    const size_t *order = style->sort_keys ? sorted_entries(j, d) : NULL;
    jbuf_put(j, b, js("{"));
    for (size_t i = 0; i < d->n && jinja_ok(j); i++) {
        const jentry *e = &d->e[order == NULL ? i : order[i]];
        if (i > 0) jbuf_put(j, b, style->item_separator);
        json_break(j, b, style, level + 1);
        json_key(j, b, e->key, style);
        jbuf_put(j, b, style->key_separator);
        json_value(j, b, e->value, style, level + 1);
    }
    if (d->n > 0) json_break(j, b, style, level);
    jbuf_put(j, b, js("}"));
}

static void json_array_text(jinja *j, jbuf *b, const jseq *s, const json_style *style, size_t level)
{
    jbuf_put(j, b, js("["));
    for (size_t i = 0; i < s->n && jinja_ok(j); i++) {
        if (i > 0) jbuf_put(j, b, style->item_separator);
        json_break(j, b, style, level + 1);
        json_value(j, b, s->v[i], style, level + 1);
    }
    if (s->n > 0) json_break(j, b, style, level);
    jbuf_put(j, b, js("]"));
}

static void json_value(jinja *j, jbuf *b, jvalue v, const json_style *style, size_t level)
{
    if (!jinja_work(j, 1) || !jinja_enter(j)) return;
    switch (v.kind) {
    case J_NONE: put_uniform(j, b, "null", v.mark); break;
    case J_BOOL: put_uniform(j, b, v.u.b ? "true" : "false", v.mark); break;
    case J_INT: put_integer(j, b, v.u.i, v.mark); break;
    case J_FLOAT: json_float(j, b, v.u.f, v.mark); break;
    case J_STRING: json_string_text(j, b, v.u.s, style); break;
    case J_DICT: json_object_text(j, b, v.u.dict, style, level); break;
    case J_SEQ:
        if (v.u.seq->kind == SEQ_LIST || v.u.seq->kind == SEQ_TUPLE) {
            json_array_text(j, b, v.u.seq, style, level);
            break;
        } /* fall through */
    default: jinja_fail(j, WEIR_INVALID, "tojson: expected a value that JSON can hold, found %s", jv_kind(v));
    }
    jinja_leave(j);
}

void print_json(jinja *j, jbuf *b, jvalue v, const json_style *style)
{
    json_value(j, b, v, style, 0);
}

/* ---- JSON in ---- */

static jvalue from_array(jinja *j, const json_t *json, uint8_t mark)
{
    const size_t n    = json_array_size(json);
    jvalue       list = jv_seq(j, SEQ_LIST, n);
    for (size_t i = 0; i < n && jinja_ok(j); i++)
        seq_push(j, list.u.seq, jv_from_json(j, json_array_get(json, i), mark));
    return list;
}

static jvalue from_object(jinja *j, const json_t *json, uint8_t mark)
{
    jvalue  dict   = jv_dict(j, json_object_size(json));
    json_t *object = (json_t *)(uintptr_t)json; /* iterating takes the object without const */
    for (void *it = json_object_iter(object); it != NULL && jinja_ok(j); it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        jstr        s   = js(key);
        s.mark          = mark;
        dict_push(j, dict.u.dict, jv_str(s), jv_from_json(j, json_object_iter_value(it), mark));
    }
    return dict;
}

jvalue jv_from_json(jinja *j, const json_t *json, uint8_t mark)
{
    jvalue v = jv_none();
    if (json == NULL || !jinja_work(j, 1) || !jinja_enter(j)) return v;
    switch (json_typeof(json)) {
    case JSON_OBJECT: v = from_object(j, json, mark); break;
    case JSON_ARRAY: v = from_array(j, json, mark); break;
    case JSON_STRING:
        v = jv_str((jstr){.p = json_string_value(json), .len = json_string_length(json), .mark = mark});
        break;
    case JSON_INTEGER: v = jv_int(json_integer_value(json)); break;
    case JSON_REAL: v = jv_float(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE: v = jv_bool(json_is_true(json)); break;
    case JSON_NULL: break;
    }
    v.mark = mark;
    jinja_leave(j);
    return v;
}
