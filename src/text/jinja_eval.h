/* text/jinja_eval.h - running the tree.  See jinja_value.h for failure. */
#ifndef TEXT_JINJA_EVAL_H
#define TEXT_JINJA_EVAL_H

#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"

/* Names and values.  Loops, macros and blocks that catch their text open a
 * scope of their own; "if" does not. */
typedef struct jvar {
    struct jvar *next;
    jstr         name;
    jvalue       value;
} jvar;

typedef struct jscope {
    struct jscope *parent;
    jvar          *vars;
} jscope;

typedef struct jmacro {
    const jnode *def; /* N_MACRO or N_CALL_BLOCK: list = parameters, list2 = body */
    jscope      *closure;
} jmacro;

typedef enum jflow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } jflow;

jscope *scope_new(jinja *j, jscope *parent);
void    scope_set(jinja *j, jscope *s, jstr name, jvalue v);

/* The value of an expression. */
jvalue jinja_eval(jinja *j, jscope *s, const jnode *n);
/* Assigns to a name, names, or an attribute of a namespace. */
void jinja_assign(jinja *j, jscope *s, const jnode *target, jvalue v);
/* Runs the statements from `n` on and appends what they print. */
jflow jinja_run(jinja *j, jscope *s, jbuf *out, const jnode *n);
/* Text of the macro's body. */
jvalue jinja_call_macro(jinja *j, const jmacro *m, const jargs *args);
/* Evaluates the arguments of a call, filter or test. */
bool jinja_arguments(jinja *j, jscope *s, const jnode *call, jargs *out);
/* Calls any callable value. */
jvalue jinja_call(jinja *j, jvalue callee, const jargs *args);

#endif
