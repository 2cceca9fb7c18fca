/* text/jinja_expr.c - the value of an expression. */
#include "text/jinja_eval.h"

static jvalue eval_name(jinja *j, const jscope *s, const jnode *n)
{
    const jstr name = n->value.u.s;
    for (; s != NULL; s = s->parent) {
        size_t seen = 0;
        for (const jvar *v = s->vars; v != NULL; v = v->next, seen++)
            if (js_equal(v->name, name)) return jinja_work(j, seen / 8) ? v->value : jv_nothing();
        if (!jinja_work(j, seen / 8)) return jv_nothing();
    }
    const jbuiltin *fn = jinja_function_find(name);
    if (fn != NULL) return (jvalue){.kind = J_FUNCTION, .u.function = fn};
    (void)jinja_work(j, 1);
    return jv_undefined(name);
}

static jvalue eval_items(jinja *j, jscope *s, const jnode *n)
{
    const jvalue list = jv_seq(j, n->kind == N_TUPLE ? SEQ_TUPLE : SEQ_LIST, 0);
    for (const jnode *i = n->list; i != NULL && jinja_ok(j); i = i->next) {
        const jvalue item = jinja_eval(j, s, i);
        if (jinja_ok(j)) seq_push(j, list.u.seq, item);
    }
    return list;
}

static jvalue eval_dict(jinja *j, jscope *s, const jnode *n)
{
    const jvalue dict = jv_dict(j, 0);
    for (const jnode *i = n->list; i != NULL && jinja_ok(j); i = i->next->next) {
        const jvalue key = jinja_eval(j, s, i), value = jinja_eval(j, s, i->next);
        if (jinja_ok(j) && !jv_hashable(key))
            jinja_fail(j, WEIR_INVALID, "expected a key of a mapping, found %s", jv_kind(key));
        if (jinja_ok(j)) dict_set(j, dict.u.dict, key, value);
    }
    return dict;
}

static jvalue eval_item(jinja *j, jscope *s, const jnode *n)
{
    const jvalue of = jinja_eval(j, s, n->a);
    if (n->b->kind != N_SLICE) return jinja_item(j, of, jinja_eval(j, s, n->b));
    const jnode *part[3] = {n->b->a, n->b->b, n->b->c};
    jvalue       bounds[3];
    for (int i = 0; i < 3; i++) bounds[i] = part[i] == NULL ? jv_none() : jinja_eval(j, s, part[i]);
    return jinja_slice(j, of, bounds);
}

bool jinja_arguments(jinja *j, jscope *s, const jnode *call, jargs *out)
{
    *out     = (jargs){0};
    size_t n = 0, n_kw = 0;
    for (const jnode *a = call->list; a != NULL; a = a->next) n++;
    for (const jnode *a = call->list2; a != NULL; a = a->next) n_kw++;
    jvalue   *v  = n == 0 ? NULL : jinja_alloc(j, n, sizeof *v);
    jkeyword *kw = n_kw == 0 ? NULL : jinja_alloc(j, n_kw, sizeof *kw);
    for (const jnode *a = call->list; a != NULL && jinja_ok(j); a = a->next) v[out->n++] = jinja_eval(j, s, a);
    for (const jnode *a = call->list2; a != NULL && jinja_ok(j); a = a->next)
        kw[out->n_kw++] = (jkeyword){a->value.u.s, jinja_eval(j, s, a->a)};
    out->v  = v;
    out->kw = kw;
    return jinja_ok(j);
}

jvalue jinja_call(jinja *j, jvalue callee, const jargs *args)
{
    if (!jinja_ok(j)) return jv_nothing();
    switch (callee.kind) {
    case J_MACRO: return jinja_call_macro(j, callee.u.macro, args);
    case J_METHOD: return jinja_call_builtin(j, callee.u.method->fn, callee.u.method->self, args);
    case J_FUNCTION: return jinja_call_builtin(j, callee.u.function, jv_nothing(), args);
    case J_UNDEFINED:
        jinja_fail(j, WEIR_INVALID, "expected a function, found '%.*s', which is undefined", (int)callee.u.s.len,
                   callee.u.s.p);
        break;
    default: jinja_fail(j, WEIR_INVALID, "expected a function, found %s", jv_kind(callee)); break;
    }
    return jv_nothing();
}

static jvalue eval_call(jinja *j, jscope *s, const jnode *n)
{
    jargs        args;
    const jvalue callee = jinja_eval(j, s, n->a);
    if (!jinja_arguments(j, s, n, &args)) return jv_nothing();
    j->line = n->line;
    return jinja_call(j, callee, &args);
}

static jvalue eval_builtin(jinja *j, jscope *s, const jnode *n)
{
    jargs        args;
    const jvalue self = jinja_eval(j, s, n->a);
    if (!jinja_arguments(j, s, n, &args)) return jv_nothing();
    return jinja_call_builtin(j, n->fn, self, &args);
}

static bool holds(jinja *j, int op, jvalue a, jvalue b)
{
    switch (op) {
    case T_EQ: return jv_equal(j, a, b);
    case T_NE: return !jv_equal(j, a, b);
    case OP_IN: return jv_contains(j, b, a);
    case OP_NOT_IN: return !jv_contains(j, b, a);
    default: break;
    }
    const int c = jv_compare(j, a, b);
    return op == T_LT ? c < 0 : op == T_LE ? c <= 0 : op == T_GT ? c > 0 : c >= 0;
}

static jvalue eval_compare(jinja *j, jscope *s, const jnode *n)
{
    jvalue left = jinja_eval(j, s, n->a);
    for (const jnode *o = n->list; o != NULL && jinja_ok(j); o = o->next) {
        const jvalue right = jinja_eval(j, s, o->a);
        if (!jinja_ok(j) || !holds(j, o->op, left, right)) return jv_bool(false);
        left = right;
    }
    return jv_bool(true);
}

static jvalue eval_logic(jinja *j, jscope *s, const jnode *n)
{
    const jvalue a = jinja_eval(j, s, n->a);
    if (!jinja_ok(j) || jv_truth(a) == (n->kind == N_OR)) return a;
    return jinja_eval(j, s, n->b);
}

static jvalue eval_cond(jinja *j, jscope *s, const jnode *n)
{
    const bool yes = jv_truth(jinja_eval(j, s, n->a));
    if (!jinja_ok(j)) return jv_nothing();
    if (yes) return jinja_eval(j, s, n->b);
    return n->c == NULL ? jv_undefined(js("an inline if without else")) : jinja_eval(j, s, n->c);
}

static jvalue eval_binary(jinja *j, jscope *s, const jnode *n)
{
    const jvalue a = jinja_eval(j, s, n->a);
    if (!jinja_ok(j)) return a;
    const jvalue b = jinja_eval(j, s, n->b);
    return jinja_ok(j) ? jinja_binary(j, n->op, a, b) : b;
}

static jvalue eval_kind(jinja *j, jscope *s, const jnode *n)
{
    switch (n->kind) {
    case N_CONST: return n->value;
    case N_NAME: return eval_name(j, s, n);
    case N_LIST:
    case N_TUPLE: return eval_items(j, s, n);
    case N_DICT: return eval_dict(j, s, n);
    case N_ATTR: return jinja_attribute(j, jinja_eval(j, s, n->a), n->value.u.s);
    case N_ITEM: return eval_item(j, s, n);
    case N_CALL: return eval_call(j, s, n);
    case N_FILTER:
    case N_TEST: return eval_builtin(j, s, n);
    case N_NOT: return jv_bool(!jv_truth(jinja_eval(j, s, n->a)));
    case N_NEG: return jinja_negate(j, jinja_eval(j, s, n->a), true);
    case N_POS: return jinja_negate(j, jinja_eval(j, s, n->a), false);
    case N_BINARY: return eval_binary(j, s, n);
    case N_AND:
    case N_OR: return eval_logic(j, s, n);
    case N_COND: return eval_cond(j, s, n);
    case N_COMPARE: return eval_compare(j, s, n);
    default: jinja_fail(j, WEIR_INVALID, "expected an expression"); return jv_nothing();
    }
}

jvalue jinja_eval(jinja *j, jscope *s, const jnode *n)
{
    if (!jinja_work(j, 1) || !jinja_enter(j)) return jv_nothing();
    const jvalue v = eval_kind(j, s, n);
    jinja_leave(j);
    return jinja_ok(j) ? v : jv_nothing();
}
