/* text/jinja_eval.c - statements and macros. */
#include "text/jinja_eval.h"

#include "text/jinja_print.h"

jscope *scope_new(jinja *j, jscope *parent)
{
    jscope *s = jinja_alloc(j, 1, sizeof *s);
    if (s != NULL) *s = (jscope){.parent = parent};
    return s;
}

void scope_set(jinja *j, jscope *s, jstr name, jvalue v)
{
    if (!jinja_ok(j)) return;
    size_t seen = 0;
    for (jvar *var = s->vars; var != NULL; var = var->next) {
        if (++seen % 8 == 0 && !jinja_work(j, 1)) return;
        if (!js_equal(var->name, name)) continue;
        var->value = v;
        return;
    }
    jvar *var = jinja_alloc(j, 1, sizeof *var);
    if (var == NULL) return;
    *var    = (jvar){.next = s->vars, .name = name, .value = v};
    s->vars = var;
}

static void unpack(jinja *j, jscope *s, const jnode *targets, jvalue v)
{
    size_t want = 0, got = 0;
    for (const jnode *t = targets; t != NULL; t = t->next) want++;
    const jseq *items = jv_iterate(j, v);
    if (items == NULL) return;
    if (items->n != want) {
        jinja_fail(j, WEIR_INVALID, "expected %zu values to unpack, found %zu", want, items->n);
        return;
    }
    for (const jnode *t = targets; t != NULL && jinja_ok(j); t = t->next) jinja_assign(j, s, t, items->v[got++]);
}

void jinja_assign(jinja *j, jscope *s, const jnode *target, jvalue v)
{
    if (!jinja_ok(j)) return;
    if (target->kind == N_NAME) {
        scope_set(j, s, target->value.u.s, v);
    } else if (target->kind == N_TUPLE) {
        unpack(j, s, target->list, v);
    } else {
        const jvalue ns = jinja_eval(j, s, target->a);
        if (ns.kind != J_NAMESPACE)
            jinja_fail(j, WEIR_INVALID, "expected a namespace in front of '.%.*s =', found %s",
                       (int)target->value.u.s.len, target->value.u.s.p, jv_kind(ns));
        else
            dict_set(j, ns.u.dict, target->value, v);
    }
}

/* ---- for ---- */

/* The items that pass the loop's own condition. */
static jseq *filtered_items(jinja *j, jscope *s, const jnode *n, jseq *all)
{
    jvalue kept = jv_seq(j, SEQ_LIST, 0);
    for (size_t i = 0; i < all->n && jinja_ok(j); i++) {
        jscope *probe = scope_new(j, s);
        if (probe == NULL) return NULL;
        jinja_assign(j, probe, n->a, all->v[i]);
        if (jv_truth(jinja_eval(j, probe, n->c)) && jinja_ok(j)) seq_push(j, kept.u.seq, all->v[i]);
    }
    return jinja_ok(j) ? kept.u.seq : NULL;
}

static void run_iterations(jinja *j, jscope *s, jbuf *out, const jnode *n, const jseq *items)
{
    jloop *loop = jinja_alloc(j, 1, sizeof *loop);
    if (loop == NULL) return;
    *loop                = (jloop){.seq = items};
    const jvalue self    = {.kind = J_LOOP, .u.loop = loop};
    const size_t n_items = items->n; /* of a list that the body cannot change */
    for (size_t i = 0; i < n_items && jinja_work(j, 1); i++) {
        loop->index  = i;
        jscope *body = scope_new(j, s);
        if (body == NULL) break;
        scope_set(j, body, js("loop"), self);
        jinja_assign(j, body, n->a, items->v[i]);
        if (jinja_run(j, body, out, n->list) == FLOW_BREAK) break;
    }
}

static void run_for(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    const jvalue over  = jinja_eval(j, s, n->b);
    jseq        *items = jv_iterate(j, over);
    if (items != NULL && n->c != NULL) items = filtered_items(j, s, n, items);
    if (items == NULL) return;
    if (items->n > 0) {
        run_iterations(j, s, out, n, items);
    } else if (n->list2 != NULL) {
        jscope *body = scope_new(j, s);
        if (body != NULL) (void)jinja_run(j, body, out, n->list2);
    }
}

/* ---- blocks that catch their text ---- */

static jvalue caught(jinja *j, jscope *s, const jnode *body, const jnode *filters)
{
    jbuf    text  = {0};
    jscope *inner = scope_new(j, s);
    if (inner == NULL) return jv_nothing();
    (void)jinja_run(j, inner, &text, body);
    const jvalue v = jv_str(jbuf_str(&text));
    if (filters == NULL) return v;
    scope_set(j, inner, js(""), v);
    return jinja_eval(j, inner, filters);
}

static void run_call_block(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    jmacro *caller = jinja_alloc(j, 1, sizeof *caller);
    jargs   args;
    if (caller == NULL || !jinja_arguments(j, s, n->a, &args)) return;
    *caller      = (jmacro){.def = n, .closure = s};
    jkeyword *kw = jinja_alloc(j, args.n_kw + 1, sizeof *kw);
    if (kw == NULL) return;
    if (args.n_kw > 0) memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw] = (jkeyword){js("caller"), {.kind = J_MACRO, .u.macro = caller}};
    args.kw       = kw;
    args.n_kw++;
    const jvalue callee = jinja_eval(j, s, n->a->a);
    print_value(j, out, jinja_call(j, callee, &args));
}

static void run_with(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    jscope *inner = scope_new(j, s);
    for (const jnode *set = n->list; set != NULL && jinja_ok(j); set = set->next)
        jinja_assign(j, inner, set->a, jinja_eval(j, s, set->b));
    if (jinja_ok(j)) (void)jinja_run(j, inner, out, n->list2);
}

static void define_macro(jinja *j, jscope *s, const jnode *n)
{
    jmacro *m = jinja_alloc(j, 1, sizeof *m);
    if (m == NULL) return;
    *m = (jmacro){.def = n, .closure = s};
    scope_set(j, s, n->value.u.s, (jvalue){.kind = J_MACRO, .u.macro = m});
}

static jflow run_if(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    for (const jnode *branch = n->list; branch != NULL && jinja_ok(j); branch = branch->next) {
        const bool taken = branch->a == NULL || jv_truth(jinja_eval(j, s, branch->a));
        if (taken && jinja_ok(j)) return jinja_run(j, s, out, branch->list);
    }
    return FLOW_ON;
}

static jflow run_one(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    switch (n->kind) {
    case N_TEXT: jbuf_put(j, out, n->value.u.s); break;
    case N_OUTPUT: print_value(j, out, jinja_eval(j, s, n->a)); break;
    case N_IF: return run_if(j, s, out, n);
    case N_FOR: run_for(j, s, out, n); break;
    case N_SET: jinja_assign(j, s, n->a, jinja_eval(j, s, n->b)); break;
    case N_SET_BLOCK: jinja_assign(j, s, n->a, caught(j, s, n->list, n->b)); break;
    case N_FILTER_BLOCK: print_value(j, out, caught(j, s, n->list, n->b)); break;
    case N_MACRO: define_macro(j, s, n); break;
    case N_CALL_BLOCK: run_call_block(j, s, out, n); break;
    case N_WITH: run_with(j, s, out, n); break;
    case N_GROUP: return jinja_run(j, s, out, n->list);
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    default: jinja_fail(j, WEIR_INVALID, "expected a statement"); break;
    }
    return FLOW_ON;
}

jflow jinja_run(jinja *j, jscope *s, jbuf *out, const jnode *n)
{
    jflow flow = FLOW_ON;
    if (!jinja_enter(j)) return flow;
    for (; n != NULL && flow == FLOW_ON && jinja_work(j, 1); n = n->next) {
        j->line = n->line;
        flow    = run_one(j, s, out, n);
    }
    jinja_leave(j);
    return flow;
}

/* ---- macros ---- */

static const jvalue *keyword(const jargs *args, jstr name)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (js_equal(args->kw[i].name, name)) return &args->kw[i].value;
    return NULL;
}

static void bind_parameters(jinja *j, jscope *s, const jmacro *m, const jargs *args)
{
    size_t n_params = 0, n_named = 0;
    for (const jnode *p = m->def->list; p != NULL && jinja_ok(j); p = p->next, n_params++) {
        const jstr    name  = p->value.u.s;
        const jvalue *named = jinja_work(j, 1 + args->n_kw / 8) ? keyword(args, name) : NULL;
        n_named += named != NULL;
        if (n_params < args->n)
            scope_set(j, s, name, args->v[n_params]);
        else if (named != NULL)
            scope_set(j, s, name, *named);
        else
            scope_set(j, s, name, p->a == NULL ? jv_undefined(name) : jinja_eval(j, s, p->a));
        if (n_params < args->n && named != NULL)
            jinja_fail(j, WEIR_INVALID, "the macro got two values for '%.*s'", (int)name.len, name.p);
    }
    const jvalue *caller = keyword(args, js("caller"));
    if (caller != NULL) {
        scope_set(j, s, js("caller"), *caller);
        n_named++;
    }
    if (args->n > n_params)
        jinja_fail(j, WEIR_INVALID, "expected at most %zu arguments for the macro, found %zu", n_params, args->n);
    if (args->n_kw > n_named) jinja_fail(j, WEIR_INVALID, "the macro got a keyword argument that it does not have");
}

jvalue jinja_call_macro(jinja *j, const jmacro *m, const jargs *args)
{
    if (!jinja_enter(j)) return jv_nothing();
    const uint32_t line = j->line;
    jbuf           text = {0};
    jscope        *s    = scope_new(j, m->closure);
    if (s != NULL) {
        bind_parameters(j, s, m, args);
        if (jinja_ok(j)) (void)jinja_run(j, s, &text, m->def->list2);
    }
    j->line = line;
    jinja_leave(j);
    return jv_str(jbuf_str(&text));
}
