/* text/jinja_builtin.h - the tables of filters, tests, functions and methods. */
#ifndef TEXT_JINJA_BUILTIN_H
#define TEXT_JINJA_BUILTIN_H

#include "text/jinja_string.h"
#include "text/jinja_value.h"

typedef struct jkeyword {
    jstr   name;
    jvalue value;
} jkeyword;

/* The arguments of one call, as written. */
typedef struct jargs {
    size_t          n, n_kw;
    const jvalue   *v;
    const jkeyword *kw;
} jargs;

enum { JBUILTIN_MAX_PARAMS = 5 };

/* All builtins have one signature; each uses the part of it that it needs. */
#define UNUSED_ARGS \
    do { \
        (void)j; \
        (void)self; \
        (void)a; \
        (void)args; \
    } while (0)

/* `self` is what the filter, test or method is applied to.  a[i] is the i-th
 * declared parameter, J_MISSING when not given; `args` is for the few that take
 * any number. */
typedef jvalue jbuiltin_fn(jinja *j, jvalue self, const jvalue *a, const jargs *args);

typedef struct jbuiltin {
    const char  *name;
    const char  *params[JBUILTIN_MAX_PARAMS]; /* "*" first: any arguments, unbound */
    int          required;
    jbuiltin_fn *fn;
} jbuiltin;

/* NULL when there is none of that name. */
const jbuiltin *jinja_filter_find(jstr name);
const jbuiltin *jinja_test_find(jstr name);
const jbuiltin *jinja_function_find(jstr name);
/* Methods of strings, mappings and sequences.  A name that Python has but that
 * is not here gives *known = true and NULL. */
const jbuiltin *jinja_method_find(jvalue self, jstr name, bool *known);

/* Binds the arguments and calls. */
jvalue jinja_call_builtin(jinja *j, const jbuiltin *fn, jvalue self, const jargs *args);
/* Attribute or item by name / by any key, with Jinja2's fallbacks. */
jvalue jinja_attribute(jinja *j, jvalue of, jstr name);
jvalue jinja_item(jinja *j, jvalue of, jvalue key);
/* self[from:to:step], each J_NONE or J_MISSING when left out. */
jvalue jinja_slice(jinja *j, jvalue of, const jvalue bounds[3]);
/* a op b for the arithmetic tokens and T_TILDE. */
jvalue jinja_binary(jinja *j, int op, jvalue a, jvalue b);
jvalue jinja_negate(jinja *j, jvalue v, bool negative);

/* Arguments with defaults; a failure for another kind. */
int64_t arg_int(jinja *j, jvalue v, int64_t otherwise);
bool    arg_bool(jvalue v, bool otherwise);
jstr    arg_str(jinja *j, jvalue v, const char *otherwise);

/* Part tables, joined by the find functions. */
const jbuiltin *jinja_sequence_filter_find(jstr name);

#endif
