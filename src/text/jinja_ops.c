/* text/jinja_ops.c - arithmetic, attributes, items and slices, by Python's
 * rules.  Integers have 64 bits; a result beyond them is an error. */
#include "text/jinja_builtin.h"
#include "text/jinja_eval.h"

#include <inttypes.h>
#include <math.h>

/* ---- arithmetic ---- */

static const char *op_text(int op)
{
    return jtoken_describe((jtoken_kind)op);
}

static jvalue bad_operands(jinja *j, int op, jvalue a, jvalue b)
{
    const jvalue *undefined = a.kind == J_UNDEFINED ? &a : b.kind == J_UNDEFINED ? &b : NULL;
    if (undefined != NULL && undefined->u.s.len > 0)
        jinja_fail(j, WEIR_INVALID, "expected a value beside %s, found '%.*s', which is undefined", op_text(op),
                   (int)undefined->u.s.len, undefined->u.s.p);
    else
        jinja_fail(j, WEIR_INVALID, "expected operands that %s takes, found %s and %s", op_text(op), jv_kind(a),
                   jv_kind(b));
    return jv_nothing();
}

static jvalue out_of_range(jinja *j, int op)
{
    jinja_fail(j, WEIR_INVALID, "the result of %s does not fit a number of 64 bits", op_text(op));
    return jv_nothing();
}

static jvalue by_zero(jinja *j, int op)
{
    jinja_fail(j, WEIR_INVALID, "expected a divisor other than zero after %s", op_text(op));
    return jv_nothing();
}

static jvalue float_op(jinja *j, int op, double a, double b)
{
    double r = 0;
    if (b == 0 && (op == T_DIV || op == T_FLOORDIV || op == T_MOD)) return by_zero(j, op);
    switch (op) {
    case T_ADD: r = a + b; break;
    case T_SUB: r = a - b; break;
    case T_MUL: r = a * b; break;
    case T_DIV: r = a / b; break;
    case T_POW: r = pow(a, b); break;
    default: { /* T_MOD, T_FLOORDIV: the remainder has the divisor's sign */
        double m = fmod(a, b);
        if (m != 0 && (m < 0) != (b < 0))
            m += b;
        else if (m == 0)
            m = copysign(0.0, b);
        if (op == T_MOD) return jv_float(m);
        const double q = (a - m) / b, f = floor(q);
        return jv_float(q - f > 0.5 ? f + 1 : f);
    }
    }
    if (op == T_POW && isfinite(a) && isfinite(b) && !isfinite(r)) return out_of_range(j, op);
    return jv_float(r);
}

static jvalue int_power(jinja *j, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0) return by_zero(j, T_POW);
        return float_op(j, T_POW, (double)base, (double)exponent);
    }
    int64_t r = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(r, base, &r)) return out_of_range(j, T_POW);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return out_of_range(j, T_POW);
    }
    return jv_int(r);
}

static jvalue int_op(jinja *j, int op, int64_t a, int64_t b)
{
    int64_t r        = 0;
    bool    overflow = false;
    switch (op) {
    case T_ADD: overflow = __builtin_add_overflow(a, b, &r); break;
    case T_SUB: overflow = __builtin_sub_overflow(a, b, &r); break;
    case T_MUL: overflow = __builtin_mul_overflow(a, b, &r); break;
    case T_DIV: return b == 0 ? by_zero(j, op) : jv_float((double)a / (double)b);
    case T_POW: return int_power(j, a, b);
    default: /* T_MOD, T_FLOORDIV */
        if (b == 0) return by_zero(j, op);
        if (b == -1) { /* INT64_MIN / -1 traps */
            if (op == T_MOD) return jv_int(0);
            return a == INT64_MIN ? out_of_range(j, op) : jv_int(-a);
        }
        r = op == T_MOD ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) r += op == T_MOD ? b : -1;
        break;
    }
    return overflow ? out_of_range(j, op) : jv_int(r);
}

static jvalue repeat_seq(jinja *j, const jseq *s, int64_t times)
{
    const jvalue list = jv_seq(j, s->kind, 0);
    for (int64_t k = 0; k < times && s->n > 0 && jinja_work(j, s->n); k++)
        for (size_t i = 0; i < s->n; i++) seq_push(j, list.u.seq, s->v[i]);
    return list;
}

static bool is_listed(jvalue v)
{
    return v.kind == J_SEQ && (v.u.seq->kind == SEQ_LIST || v.u.seq->kind == SEQ_TUPLE);
}

static jvalue multiply(jinja *j, jvalue a, jvalue b)
{
    const bool   swapped = a.kind == J_INT || a.kind == J_BOOL;
    const jvalue box = swapped ? b : a, times = swapped ? a : b;
    if (times.kind == J_INT || times.kind == J_BOOL) {
        const int64_t n = times.kind == J_INT ? times.u.i : times.u.b;
        if (box.kind == J_STRING) return jv_str(js_repeat(j, box.u.s, n));
        if (is_listed(box)) return repeat_seq(j, box.u.seq, n);
    }
    return bad_operands(j, T_MUL, a, b);
}

static jvalue join_seqs(jinja *j, const jseq *a, const jseq *b)
{
    const jvalue list = jv_seq(j, a->kind, a->n + b->n);
    if (!jinja_work(j, a->n + b->n)) return list;
    for (size_t i = 0; i < a->n; i++) seq_push(j, list.u.seq, a->v[i]);
    for (size_t i = 0; i < b->n; i++) seq_push(j, list.u.seq, b->v[i]);
    return list;
}

jvalue jinja_binary(jinja *j, int op, jvalue a, jvalue b)
{
    int64_t ia, ib;
    double  fa, fb;
    bool    int_a, int_b;
    if (op == T_TILDE) return jv_str(js_concat(j, jv_to_str(j, a), jv_to_str(j, b)));
    if (op == T_ADD && a.kind == J_STRING && b.kind == J_STRING) return jv_str(js_concat(j, a.u.s, b.u.s));
    if (jv_number(a, &ia, &fa, &int_a) && jv_number(b, &ib, &fb, &int_b)) {
        jvalue r = int_a && int_b ? int_op(j, op, ia, ib) : float_op(j, op, fa, fb);
        r.mark   = a.mark | b.mark;
        return r;
    }
    if (op == T_ADD && is_listed(a) && is_listed(b) && a.u.seq->kind == b.u.seq->kind)
        return join_seqs(j, a.u.seq, b.u.seq);
    if (op == T_MUL) return multiply(j, a, b);
    if (op == T_MOD && a.kind == J_STRING)
        jinja_fail(j, WEIR_UNSUPPORTED, "formatting a string with '%%' is not supported");
    return bad_operands(j, op, a, b);
}

jvalue jinja_negate(jinja *j, jvalue v, bool negative)
{
    int64_t i;
    double  f;
    bool    is_int;
    if (!jv_number(v, &i, &f, &is_int)) {
        jinja_fail(j, WEIR_INVALID, "expected a number after the sign, found %s", jv_kind(v));
        return jv_nothing();
    }
    if (negative && is_int && i == INT64_MIN) return out_of_range(j, T_SUB);
    jvalue r = is_int ? jv_int(negative ? -i : i) : jv_float(negative ? -f : f);
    r.mark   = v.mark;
    return r;
}

/* ---- attributes and items ---- */

static jvalue loop_attribute(const jloop *l, jstr name)
{
    const int64_t index = (int64_t)l->index, length = (int64_t)l->seq->n;
    if (js_is(name, "index")) return jv_int(index + 1);
    if (js_is(name, "index0")) return jv_int(index);
    if (js_is(name, "first")) return jv_bool(index == 0);
    if (js_is(name, "last")) return jv_bool(index == length - 1);
    if (js_is(name, "length")) return jv_int(length);
    if (js_is(name, "revindex")) return jv_int(length - index);
    if (js_is(name, "revindex0")) return jv_int(length - index - 1);
    if (js_is(name, "depth")) return jv_int(1); /* counts recursive loops, which do not exist here */
    if (js_is(name, "depth0")) return jv_int(0);
    if (js_is(name, "previtem")) return index == 0 ? jv_undefined(name) : l->seq->v[index - 1];
    if (js_is(name, "nextitem")) return index == length - 1 ? jv_undefined(name) : l->seq->v[index + 1];
    return jv_undefined(name);
}

/* Python's getattr: methods, and the fields of loops and namespaces. */
static bool get_attribute(jinja *j, jvalue of, jstr name, jvalue *out)
{
    if (of.kind == J_LOOP && !js_is(name, "cycle")) {
        *out = loop_attribute(of.u.loop, name);
        return true;
    }
    if (of.kind == J_NAMESPACE) {
        const jvalue *v = dict_get_str(j, of.u.dict, name);
        if (v != NULL) *out = *v;
        return v != NULL;
    }
    bool            known;
    const jbuiltin *fn = jinja_method_find(of, name, &known);
    if (fn == NULL) {
        if (known)
            jinja_fail(j, WEIR_UNSUPPORTED, "the method '%.*s' of %s is not supported", (int)name.len, name.p,
                       jv_kind(of));
        return known;
    }
    jmethod *m = jinja_alloc(j, 1, sizeof *m);
    if (m == NULL) return true;
    *m   = (jmethod){of, fn};
    *out = (jvalue){.kind = J_METHOD, .u.method = m};
    return true;
}

static jvalue no_attribute(jinja *j, jvalue of, jstr name)
{
    if (of.u.s.len > 0)
        jinja_fail(j, WEIR_INVALID, "expected a value with '%.*s', found '%.*s', which is undefined", (int)name.len,
                   name.p, (int)of.u.s.len, of.u.s.p);
    else
        jinja_fail(j, WEIR_INVALID, "expected a value with '%.*s', found an undefined one", (int)name.len, name.p);
    return jv_nothing();
}

jvalue jinja_attribute(jinja *j, jvalue of, jstr name)
{
    jvalue v = jv_undefined(name);
    if (!jinja_ok(j)) return v;
    if (of.kind == J_UNDEFINED) return no_attribute(j, of, name);
    if (get_attribute(j, of, name, &v) || of.kind != J_DICT) return v;
    const jvalue *member = dict_get_str(j, of.u.dict, name);
    return member == NULL ? v : *member;
}

static bool position(jvalue key, size_t length, size_t *at)
{
    if (key.kind != J_INT && key.kind != J_BOOL) return false;
    int64_t i = key.kind == J_INT ? key.u.i : key.u.b;
    if (i < 0) i += (int64_t)length;
    *at = (size_t)i;
    return i >= 0 && i < (int64_t)length;
}

static bool is_indexed(jvalue v)
{
    return is_listed(v) || (v.kind == J_SEQ && v.u.seq->kind == SEQ_RANGE);
}

jvalue jinja_item(jinja *j, jvalue of, jvalue key)
{
    size_t at;
    if (!jinja_ok(j)) return jv_nothing();
    if (of.kind == J_UNDEFINED) return no_attribute(j, of, key.kind == J_STRING ? key.u.s : js("an item"));
    if (is_indexed(of) && position(key, of.u.seq->n, &at)) return of.u.seq->v[at];
    if (of.kind == J_STRING && jinja_work_bytes(j, of.u.s.len) && position(key, u_length(of.u.s), &at))
        return jv_str(js_slice(of.u.s, u_offset(of.u.s, at), u_offset(of.u.s, at + 1)));
    if (of.kind == J_DICT && jv_hashable(key)) {
        const jvalue *member = dict_get(j, of.u.dict, key);
        if (member != NULL) return *member;
    }
    if (key.kind != J_STRING) return jv_undefined(js("an item that is not there"));
    jvalue v = jv_undefined(key.u.s);
    (void)get_attribute(j, of, key.u.s, &v);
    return v;
}

/* ---- slices ---- */

typedef struct slice {
    int64_t from, step;
    size_t  n;
} slice;

static bool bound(jvalue v, int64_t otherwise, int64_t *out)
{
    if (v.kind == J_NONE)
        *out = otherwise;
    else if (v.kind == J_INT || v.kind == J_BOOL)
        *out = v.kind == J_INT ? v.u.i : v.u.b;
    else
        return false;
    return true;
}

static bool bad_bounds(jinja *j)
{
    jinja_fail(j, WEIR_INVALID, "expected integers in a slice, the step not zero");
    return false;
}

/* Clamps an end to where a walk in the step's direction can stand. */
static int64_t clamp(int64_t i, int64_t length, bool down)
{
    if (i < 0) i += length;
    if (i < 0) return down ? -1 : 0;
    if (i >= length) return down ? length - 1 : length;
    return i;
}

/* A failure when the bounds are not integers or the step is zero. */
static bool resolve(jinja *j, const jvalue bounds[3], size_t n, slice *out)
{
    int64_t       from, to, step;
    const int64_t length = (int64_t)n;
    if (!bound(bounds[2], 1, &step) || step == 0) return bad_bounds(j);
    const bool down = step < 0;
    if (step < -length - 1) step = -length - 1; /* keeps the arithmetic below small */
    if (step > length + 1) step = length + 1;
    if (!bound(bounds[0], down ? length - 1 : 0, &from) || !bound(bounds[1], length, &to)) return bad_bounds(j);
    if (bounds[0].kind != J_NONE) from = clamp(from, length, down);
    if (bounds[1].kind == J_NONE)
        to = down ? -1 : length;
    else
        to = clamp(to, length, down);
    const int64_t distance = down ? from - to : to - from, stride = down ? -step : step;
    *out = (slice){from, step, distance <= 0 ? 0 : (size_t)((distance + stride - 1) / stride)};
    return true;
}

static jvalue slice_string(jinja *j, jstr s, const jvalue bounds[3])
{
    slice cut;
    if (!jinja_work_bytes(j, s.len) || !resolve(j, bounds, u_length(s), &cut)) return jv_nothing();
    if (cut.n == 0) return jv_str(js(""));
    if (cut.step == 1) {
        const size_t from = u_offset(s, (size_t)cut.from);
        const jstr   rest = js_slice(s, from, s.len);
        return jv_str(js_slice(rest, 0, u_offset(rest, cut.n)));
    }
    const jseq *characters = jv_iterate(j, jv_str(s));
    jbuf        out        = {0};
    for (size_t k = 0; k < cut.n && jinja_ok(j); k++)
        jbuf_put(j, &out, characters->v[cut.from + (int64_t)k * cut.step].u.s);
    return jv_str(jbuf_str(&out));
}

jvalue jinja_slice(jinja *j, jvalue of, const jvalue bounds[3])
{
    slice cut;
    if (!jinja_ok(j)) return jv_nothing();
    if (of.kind == J_UNDEFINED) return no_attribute(j, of, js("a slice"));
    if (of.kind == J_STRING) return slice_string(j, of.u.s, bounds);
    if (!is_indexed(of)) {
        jinja_fail(j, WEIR_INVALID, "expected a string or a sequence to take a slice of, found %s", jv_kind(of));
        return jv_nothing();
    }
    if (!resolve(j, bounds, of.u.seq->n, &cut)) return jv_nothing();
    const jseq  *s    = of.u.seq;
    const jvalue list = jv_seq(j, s->kind, cut.n);
    if (!jinja_work(j, cut.n)) return jv_nothing();
    for (size_t k = 0; k < cut.n; k++) seq_push(j, list.u.seq, s->v[cut.from + (int64_t)k * cut.step]);
    if (s->kind == SEQ_RANGE) {
        const int64_t step   = s->range[2] * cut.step;
        list.u.seq->range[0] = s->range[0] + cut.from * s->range[2];
        list.u.seq->range[1] = list.u.seq->range[0] + (int64_t)cut.n * step;
        list.u.seq->range[2] = step;
    }
    return list;
}
