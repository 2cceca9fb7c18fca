/* text/jinja_builtin.c - binding arguments, and the functions every template
 * has: namespace, dict, range, raise_exception, strftime_now. */
#include "text/jinja_builtin.h"

#include <inttypes.h>
#include <time.h>

/* ---- arguments ---- */

static int n_params(const jbuiltin *fn)
{
    int n = 0;
    while (n < JBUILTIN_MAX_PARAMS && fn->params[n] != NULL) n++;
    return n;
}

static bool bind(jinja *j, const jbuiltin *fn, const jargs *args, jvalue *a)
{
    const int n = n_params(fn);
    if (args->n > (size_t)n) {
        jinja_fail(j, WEIR_INVALID, "'%s': expected at most %d arguments, found %zu", fn->name, n, args->n);
        return false;
    }
    for (size_t i = 0; i < args->n; i++) a[i] = args->v[i];
    for (size_t k = 0; k < args->n_kw; k++) {
        const jstr name = args->kw[k].name;
        int        i    = 0;
        while (i < n && !js_is(name, fn->params[i])) i++;
        if (i == n || a[i].kind != J_MISSING) {
            jinja_fail(j, WEIR_INVALID, "'%s': %s argument '%.*s'", fn->name,
                       i == n ? "there is no" : "two values for the", (int)name.len, name.p);
            return false;
        }
        a[i] = args->kw[k].value;
    }
    for (int i = 0; i < fn->required; i++) {
        if (a[i].kind != J_MISSING) continue;
        jinja_fail(j, WEIR_INVALID, "'%s': expected an argument for '%s', found none", fn->name, fn->params[i]);
        return false;
    }
    return true;
}

jvalue jinja_call_builtin(jinja *j, const jbuiltin *fn, jvalue self, const jargs *args)
{
    jvalue a[JBUILTIN_MAX_PARAMS] = {{.kind = J_MISSING}};
    if (!jinja_work(j, 1) || !jinja_enter(j)) return jv_nothing();
    const bool any = fn->params[0] != NULL && fn->params[0][0] == '*';
    jvalue     v   = jv_nothing();
    if (any || bind(j, fn, args, a)) v = fn->fn(j, self, a, args);
    jinja_leave(j);
    return jinja_ok(j) ? v : jv_nothing();
}

int64_t arg_int(jinja *j, jvalue v, int64_t otherwise)
{
    if (v.kind == J_MISSING || v.kind == J_NONE) return otherwise;
    if (v.kind == J_INT) return v.u.i;
    if (v.kind == J_BOOL) return v.u.b;
    jinja_fail(j, WEIR_INVALID, "expected an integer as argument, found %s", jv_kind(v));
    return otherwise;
}

bool arg_bool(jvalue v, bool otherwise)
{
    return v.kind == J_MISSING ? otherwise : jv_truth(v);
}

jstr arg_str(jinja *j, jvalue v, const char *otherwise)
{
    if (v.kind == J_MISSING || (v.kind == J_NONE && otherwise != NULL)) return js(otherwise == NULL ? "" : otherwise);
    if (v.kind == J_STRING) return v.u.s;
    jinja_fail(j, WEIR_INVALID, "expected a string as argument, found %s", jv_kind(v));
    return js("");
}

/* ---- functions ---- */

/* dict(mapping, name=value ...) */
static jvalue make_dict(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)self;
    (void)a;
    const jvalue dict = jv_dict(j, args->n_kw);
    if (args->n > 1 || (args->n == 1 && args->v[0].kind != J_DICT)) {
        jinja_fail(j, WEIR_INVALID, "'dict': expected one mapping or keyword arguments, found others");
        return dict;
    }
    for (size_t i = 0; args->n == 1 && i < args->v[0].u.dict->n && jinja_work(j, 1); i++)
        dict_push(j, dict.u.dict, args->v[0].u.dict->e[i].key, args->v[0].u.dict->e[i].value);
    for (size_t i = 0; i < args->n_kw && jinja_ok(j); i++)
        dict_set(j, dict.u.dict, jv_str(args->kw[i].name), args->kw[i].value);
    return dict;
}

static jvalue make_namespace(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    jvalue v = make_dict(j, self, a, args);
    v.kind   = J_NAMESPACE;
    return v;
}

static jvalue make_range(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    enum { MAX_RANGE = 100000 }; /* as in Jinja2's sandbox */
    (void)self;
    int64_t       from = arg_int(j, a[0], 0), to = arg_int(j, a[1], 0);
    const int64_t step = arg_int(j, a[2], 1);
    if (args->n < 2) {
        to   = from;
        from = 0;
    }
    if (step == 0) jinja_fail(j, WEIR_INVALID, "'range': expected a step other than zero");
    const jvalue list = jv_seq(j, SEQ_RANGE, 0);
    if (!jinja_ok(j)) return list;
    list.u.seq->range[0] = from;
    list.u.seq->range[1] = to;
    list.u.seq->range[2] = step;
    while ((step > 0 ? from < to : from > to) && jinja_work(j, 1)) {
        if (list.u.seq->n == MAX_RANGE) {
            jinja_fail(j, WEIR_NO_MEMORY, "'range' passes the limit of %d numbers", (int)MAX_RANGE);
            break;
        }
        seq_push(j, list.u.seq, jv_int(from));
        if (__builtin_add_overflow(from, step, &from)) break;
    }
    return list;
}

static jvalue raise_exception(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    (void)self;
    (void)args;
    jinja_raise(j, jv_to_str(j, a[0]));
    return jv_nothing();
}

static jvalue strftime_now(jinja *j, jvalue self, const jvalue *a, const jargs *args)
{
    enum { MAX_FORMAT = 200, MAX_DATE = 2000 };
    (void)self;
    (void)args;
    const jstr format = arg_str(j, a[0], NULL);
    if (format.len > MAX_FORMAT) jinja_fail(j, WEIR_INVALID, "'strftime_now': a format of more than 200 bytes");
    if (!jinja_ok(j)) return jv_nothing();
    char text[MAX_FORMAT + 2];
    memcpy(text, format.p, format.len);
    text[format.len]     = '.'; /* so that an empty date differs from a failure */
    text[format.len + 1] = '\0';
    const time_t now     = j->now != 0 ? (time_t)j->now : time(NULL);
    struct tm    local;
    char         date[MAX_DATE];
    size_t       n = localtime_r(&now, &local) == NULL ? 0 : strftime(date, sizeof date, text, &local);
    if (n == 0) {
        jinja_fail(j, WEIR_INVALID, "'strftime_now': expected a format of strftime");
        return jv_nothing();
    }
    jbuf out = {0};
    jbuf_bytes(j, &out, date, n - 1, 0);
    return jv_str(jbuf_str(&out));
}

const jbuiltin *jinja_function_find(jstr name)
{
    static const jbuiltin table[] = {
        {"namespace", {"*"}, 0, make_namespace},
        {"dict", {"*"}, 0, make_dict},
        {"range", {"start", "stop", "step"}, 1, make_range},
        {"raise_exception", {"message"}, 1, raise_exception},
        {"strftime_now", {"format"}, 1, strftime_now},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (js_is(name, table[i].name)) return &table[i];
    return NULL;
}
