/* text/jinja_ast.h - the syntax tree of a template, and the parser's state.
 *
 * One node type for all kinds; which fields a kind uses stands beside it.
 * `depth` is the height of a node's tree: it is bounded when nodes are made, so
 * running the tree cannot overflow the stack. */
#ifndef TEXT_JINJA_AST_H
#define TEXT_JINJA_AST_H

#include "text/jinja_lex.h"
#include "text/jinja_value.h"

typedef enum jnode_kind {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* value: the name; the empty name is the text caught by a block */
    N_LIST,    /* list: items */
    N_TUPLE,   /* list: items */
    N_DICT,    /* list: key, value, key, value ... */
    N_ATTR,    /* a . value */
    N_ITEM,    /* a [ b ] */
    N_SLICE,   /* a : b : c, each may be NULL; only as b of N_ITEM */
    N_CALL,    /* a ( list, list2 ) */
    N_FILTER,  /* a | fn ( list, list2 ) */
    N_TEST,    /* a is fn ( list, list2 ) */
    N_KEYWORD, /* value = a; only in list2 of the three above */
    N_NOT,     /* not a */
    N_NEG,     /* - a */
    N_POS,     /* + a */
    N_BINARY,  /* a op b */
    N_AND,     /* a and b */
    N_OR,      /* a or b */
    N_COND,    /* b if a else c; c may be NULL */
    N_COMPARE, /* a, then list of N_OPERAND */
    N_OPERAND, /* op a */
    /* statements */
    N_TEXT,         /* value */
    N_OUTPUT,       /* {{ a }} */
    N_IF,           /* list: N_BRANCH */
    N_BRANCH,       /* if a (NULL: always): list */
    N_FOR,          /* for a in b if c: list, else: list2 */
    N_SET,          /* a = b */
    N_SET_BLOCK,    /* a = text of list, through the filters b (NULL: none) */
    N_MACRO,        /* value ( list: N_PARAM ): list2 */
    N_PARAM,        /* value, default a (NULL: none) */
    N_CALL_BLOCK,   /* call a with a caller ( list: N_PARAM ): list2 */
    N_FILTER_BLOCK, /* text of list through the filters b */
    N_WITH,         /* list: N_SET, then list2 in a scope of its own */
    N_GROUP,        /* list, in the scope around */
    N_BREAK,
    N_CONTINUE,
} jnode_kind;

/* op of N_OPERAND beyond the comparison tokens. */
enum { OP_IN = T_RBRACE + 1, OP_NOT_IN };

typedef struct jnode jnode;

struct jnode {
    jnode_kind             kind;
    int                    op; /* a jtoken_kind or one of the above */
    uint32_t               line, depth;
    jnode                 *next; /* in the list it stands in */
    jnode                 *a, *b, *c, *list, *list2;
    jvalue                 value;
    const struct jbuiltin *fn;
};

enum { JNODE_MAX_DEPTH = 256 };

/* Parser state.  Failure is sticky: afterwards every token is T_END and the
 * parse functions unwind, possibly with NULL nodes. */
typedef struct jparser {
    arena      *mem;
    jtokens     tokens;
    size_t      pos;
    uint32_t    depth, n_loops;
    const char *name;
    weir_error *err;
    weir_status st;
    jnode      *called; /* N_NAME nodes called as functions, to be checked at the end */
    jnode      *bound;  /* N_NAME nodes that are assigned, or asked about with "is" */
} jparser;

/* A list under construction. */
typedef struct jlist {
    jnode  *head;
    jnode **tail;
} jlist;

static inline void jlist_add(jlist *l, jnode *n)
{
    if (n == NULL) return;
    if (l->head == NULL)
        l->head = n;
    else
        *l->tail = n;
    l->tail = &n->next;
}

/* Shared by the two parser files. */
const jtoken *jp_peek(const jparser *p);
const jtoken *jp_look(const jparser *p); /* the one behind it */
const jtoken *jp_next(jparser *p);
bool          jp_is(const jparser *p, jtoken_kind kind);
bool          jp_is_word(const jparser *p, const char *word);
bool          jp_take(jparser *p, jtoken_kind kind); /* steps over it when it is there */
bool          jp_take_word(jparser *p, const char *word);
jstr          jp_expect_name(jparser *p);
void          jp_expect(jparser *p, jtoken_kind kind);
void          jp_expected(jparser *p, const char *what); /* fails: expected `what`, found the token */
__attribute__((cold, format(printf, 4, 5))) void jp_fail(jparser *p, weir_status st, uint32_t line, const char *fmt,
                                                         ...);
bool                                             jp_enter(jparser *p);
jnode                                           *jp_node(jparser *p, jnode_kind kind, jnode *a, jnode *b, jnode *c);
/* Attaches a finished list and takes its depth into account. */
void jp_attach(jparser *p, jnode *n, jnode **field, jnode *list);
/* Remembers a name in one of the two lists of the parser. */
void jp_remember(jparser *p, jnode **list, jstr name, uint32_t line);

/* Expressions: jinja_parse_expr.c. */
jnode *jp_expression(jparser *p);
jnode *jp_or(jparser *p);    /* without inline if */
jnode *jp_tuple(jparser *p); /* expressions with commas between */
jnode *jp_tuple_no_cond(jparser *p);
jnode *jp_filters(jparser *p, jnode *input); /* the name of a filter comes next, then maybe more */

/* The whole template: jinja_parse.c.  Nodes live in `mem`. */
weir_status jinja_parse(jnode **out, arena *mem, const char *source, size_t len, const char *name, weir_error *err);

#endif
