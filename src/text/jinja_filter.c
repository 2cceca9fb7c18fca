/* text/jinja_filter.c - filters of single values: text, numbers, JSON. */
#include "text/jinja_builtin.h"
#include "text/jinja_print.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static jvalue f_trim(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jstr s     = jv_to_str(j, self);
    const bool plain = a[0].kind == J_MISSING || a[0].kind == J_NONE;
    const jstr chars = plain ? js("") : arg_str(j, a[0], NULL);
    return jv_str(jinja_strip(j, s, plain ? NULL : &chars, true, true));
}

static jvalue change_case(jinja *j, jvalue self, js_case how)
{
    return jv_str(js_change_case(j, jv_to_str(j, self), how));
}
static jvalue f_upper(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return change_case(j, self, CASE_UPPER);
}
static jvalue f_lower(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return change_case(j, self, CASE_LOWER);
}
static jvalue f_title(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return change_case(j, self, CASE_TITLE_FILTER);
}
static jvalue f_capitalize(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return change_case(j, self, CASE_CAPITALIZE);
}

static jvalue f_string(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return jv_str(jv_to_str(j, self));
}

static jvalue f_safe(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    return jv_str(jv_to_str(j, self)); /* nothing is escaped, so everything is safe */
}

static jvalue f_replace(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jstr s = jv_to_str(j, self), old = jv_to_str(j, a[0]), new = jv_to_str(j, a[1]);
    return jv_str(js_replace(j, s, old, new, arg_int(j, a[2], -1)));
}

static jvalue f_default(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const bool missing = self.kind == J_UNDEFINED || (arg_bool(a[1], false) && !jv_truth(self));
    if (!missing) return self;
    return a[0].kind == J_MISSING ? jv_str(js("")) : a[0];
}

/* ---- numbers ---- */

static void refuse_undefined(jinja *j, jvalue v, const char *filter)
{
    if (v.kind != J_UNDEFINED) return;
    jinja_fail(j, WEIR_INVALID, "'%s': expected a value, found '%.*s', which is undefined", filter, (int)v.u.s.len,
               v.u.s.p);
}

/* The text of s without white space at the ends and underscores between
 * digits, as Python reads numbers; false when it is too long to be one. */
static bool number_text(jstr s, char *out, size_t size)
{
    const jstr t = js_strip(s, NULL, true, true);
    size_t     n = 0;
    for (size_t i = 0; i < t.len; i++) {
        const bool between =
            i > 0 && i + 1 < t.len && isalnum((unsigned char)t.p[i - 1]) && isalnum((unsigned char)t.p[i + 1]);
        if (t.p[i] == '_' && between) continue;
        if (n + 1 >= size || t.p[i] == '\0') return false;
        out[n++] = t.p[i];
    }
    out[n] = '\0';
    return n > 0;
}

static bool parse_double(jstr s, double *out)
{
    char  text[128];
    char *rest;
    if (!number_text(s, text, sizeof text) || strpbrk(text, "xXpP(_") != NULL) return false;
    *out = strtod(text, &rest);
    return *rest == '\0' && rest != text;
}

static bool parse_integer(jinja *j, jstr s, int base, int64_t *out)
{
    char  text[128];
    char *rest;
    if (!number_text(s, text, sizeof text)) return false;
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    if (!isxdigit((unsigned char)digits[0])) return false;
    if (base == 10 && digits[0] == '0' && digits[1] != '\0' && isalpha((unsigned char)digits[1])) return false;
    if ((base == 2 || base == 8) && digits[0] == '0' && isalpha((unsigned char)digits[1])) {
        const size_t at = (size_t)(digits - text);
        memmove(text + at, text + at + 2, strlen(text + at + 2) + 1);
    }
    errno = 0;
    *out  = strtoll(text, &rest, base);
    if (*rest != '\0') return false;
    if (errno == ERANGE) jinja_fail(j, WEIR_INVALID, "'int': expected a number of at most 64 bits, found a longer one");
    return true;
}

static bool double_to_int(double d, int64_t *out)
{
    if (!(d > -0x1p63 && d < 0x1p63)) return false;
    *out = (int64_t)d;
    return true;
}

static jvalue f_int(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    const jvalue  otherwise = a[0].kind == J_MISSING ? jv_int(0) : a[0];
    const int64_t base      = arg_int(j, a[1], 10);
    int64_t       i;
    double        d;
    refuse_undefined(j, self, "int");
    if (base < 0 || base == 1 || base > 36) jinja_fail(j, WEIR_INVALID, "'int': expected a base of 2 to 36");
    if (!jinja_ok(j)) return otherwise;
    if (self.kind == J_INT || self.kind == J_BOOL) return jv_int(self.kind == J_INT ? self.u.i : self.u.b);
    if (self.kind == J_FLOAT) {
        if (double_to_int(self.u.f, &i)) return jv_int(i);
        jinja_fail(j, WEIR_INVALID, "'int': expected a number that fits 64 bits, found another");
        return otherwise;
    }
    if (self.kind != J_STRING || !jinja_work_bytes(j, self.u.s.len)) return otherwise;
    if (parse_integer(j, self.u.s, (int)base, &i)) return jv_int(i);
    if (parse_double(self.u.s, &d) && double_to_int(d, &i)) return jv_int(i);
    return otherwise;
}

static jvalue f_float(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    int64_t i;
    double  d;
    bool    is_int;
    refuse_undefined(j, self, "float");
    if (jv_number(self, &i, &d, &is_int)) return jv_float(d);
    if (self.kind == J_STRING && jinja_work_bytes(j, self.u.s.len) && parse_double(self.u.s, &d)) return jv_float(d);
    return a[0].kind == J_MISSING ? jv_float(0.0) : a[0];
}

static jvalue f_abs(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    int64_t    i;
    double     d;
    bool       is_int;
    const bool number = jv_number(self, &i, &d, &is_int);
    if (!number) jinja_fail(j, WEIR_INVALID, "'abs': expected a number, found %s", jv_kind(self));
    if (!number || !is_int) return jv_float(fabs(d));
    return i < 0 ? jinja_negate(j, jv_int(i), true) : jv_int(i);
}

/* Correct decimal rounding is left to printf, as Python leaves it to dtoa. */
static double round_decimal(double d, int precision)
{
    char text[400];
    (void)snprintf(text, sizeof text, "%.*f", precision, d);
    return strtod(text, NULL);
}

static jvalue f_round(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    enum { MAX_PRECISION = 20 };
    UNUSED_ARGS;
    const int64_t precision = arg_int(j, a[0], 0);
    const jstr    method    = arg_str(j, a[1], "common");
    int64_t       i;
    double        d;
    bool          is_int;
    if (!jv_number(self, &i, &d, &is_int))
        jinja_fail(j, WEIR_INVALID, "'round': expected a number, found %s", jv_kind(self));
    if (precision < 0 || precision > MAX_PRECISION)
        jinja_fail(j, WEIR_UNSUPPORTED, "'round': expected a precision of 0 to 20");
    if (!jinja_ok(j)) return self;
    if (js_is(method, "common")) return is_int ? jv_int(i) : jv_float(round_decimal(d, (int)precision));
    const double scale = pow(10, (double)precision);
    if (js_is(method, "ceil")) return jv_float(ceil(d * scale) / scale);
    if (js_is(method, "floor")) return jv_float(floor(d * scale) / scale);
    jinja_fail(j, WEIR_INVALID, "'round': expected 'common', 'ceil' or 'floor'");
    return self;
}

/* ---- layout ---- */

static jvalue f_indent(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    if (self.kind != J_STRING) {
        jinja_fail(j, WEIR_INVALID, "'indent': expected a string, found %s", jv_kind(self));
        return jv_nothing();
    }
    const bool first = arg_bool(a[1], false), blank = arg_bool(a[2], false);
    const jstr pad  = a[0].kind == J_STRING ? a[0].u.s : js_repeat(j, js(" "), arg_int(j, a[0], 4));
    const jstr text = js_concat(j, self.u.s, js("\n"));
    jbuf       out  = {0};
    size_t     at = 0, from = 0, to;
    if (first) jbuf_put(j, &out, pad);
    for (bool head = true; jinja_ok(j) && js_next_line(text, &at, &to); head = false) {
        if (!head) jbuf_put(j, &out, js("\n"));
        if (!head && (blank || to > from)) jbuf_put(j, &out, pad);
        jbuf_put(j, &out, js_slice(text, from, to));
        from = at;
    }
    return jv_str(jbuf_str(&out));
}

static void json_indent(jinja *j, jvalue v, json_style *style)
{
    if (v.kind == J_MISSING || v.kind == J_NONE) return;
    style->indented       = true;
    style->item_separator = js(",");
    style->indent         = v.kind == J_STRING ? v.u.s : js_repeat(j, js(" "), arg_int(j, v, 0));
}

static void json_separators(jinja *j, jvalue v, json_style *style)
{
    if (v.kind == J_MISSING || v.kind == J_NONE) return;
    const jseq *s = v.kind == J_SEQ ? v.u.seq : NULL;
    if (s == NULL || s->n != 2 || s->v[0].kind != J_STRING || s->v[1].kind != J_STRING) {
        jinja_fail(j, WEIR_INVALID, "'tojson': expected two strings as separators");
        return;
    }
    style->item_separator = s->v[0].u.s;
    style->key_separator  = s->v[1].u.s;
}

static jvalue f_tojson(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    UNUSED_ARGS;
    json_style style = {.ascii          = arg_bool(a[0], false),
                        .sort_keys      = arg_bool(a[3], false),
                        .item_separator = js(", "),
                        .key_separator  = js(": ")};
    json_indent(j, a[1], &style);
    json_separators(j, a[2], &style);
    jbuf out = {0};
    print_json(j, &out, self, &style);
    return jv_str(jbuf_str(&out));
}

const jbuiltin *jinja_filter_find(jstr name)
{
    static const jbuiltin table[] = {
        {"trim", {"chars"}, 0, f_trim},
        {"upper", {NULL}, 0, f_upper},
        {"lower", {NULL}, 0, f_lower},
        {"title", {NULL}, 0, f_title},
        {"capitalize", {NULL}, 0, f_capitalize},
        {"string", {NULL}, 0, f_string},
        {"safe", {NULL}, 0, f_safe},
        {"replace", {"old", "new", "count"}, 2, f_replace},
        {"default", {"default_value", "boolean"}, 0, f_default},
        {"d", {"default_value", "boolean"}, 0, f_default},
        {"int", {"default", "base"}, 0, f_int},
        {"float", {"default"}, 0, f_float},
        {"abs", {NULL}, 0, f_abs},
        {"round", {"precision", "method"}, 0, f_round},
        {"indent", {"width", "first", "blank"}, 0, f_indent},
        {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, f_tojson},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (js_is(name, table[i].name)) return &table[i];
    return jinja_sequence_filter_find(name);
}
