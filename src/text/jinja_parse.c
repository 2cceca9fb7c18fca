/* text/jinja_parse.c - statements, and the helpers of both parser files. */
#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void jp_fail(jparser *p, weir_status st, uint32_t line, const char *fmt, ...)
{
    if (p->st != WEIR_OK) return;
    char    text[500];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->st = status_fail(p->err, st, "%s:%" PRIu32 ": %s", p->name, line, text);
}

static const jtoken *token_at(const jparser *p, size_t i)
{
    return &p->tokens.t[p->st != WEIR_OK || i >= p->tokens.n ? p->tokens.n - 1 : i];
}

const jtoken *jp_peek(const jparser *p)
{
    return token_at(p, p->pos);
}

const jtoken *jp_look(const jparser *p)
{
    return token_at(p, p->pos + 1);
}

const jtoken *jp_next(jparser *p)
{
    const jtoken *t = jp_peek(p);
    if (t->kind != T_END) p->pos++;
    return t;
}

bool jp_is(const jparser *p, jtoken_kind kind)
{
    return jp_peek(p)->kind == kind;
}

static bool is_word(const jtoken *t, const char *word)
{
    return t->kind == T_NAME && js_is((jstr){.p = t->p, .len = t->len}, word);
}

bool jp_is_word(const jparser *p, const char *word)
{
    return is_word(jp_peek(p), word);
}

bool jp_take(jparser *p, jtoken_kind kind)
{
    const bool here = jp_is(p, kind);
    if (here) (void)jp_next(p);
    return here;
}

bool jp_take_word(jparser *p, const char *word)
{
    const bool here = jp_is_word(p, word);
    if (here) (void)jp_next(p);
    return here;
}

void jp_expected(jparser *p, const char *what)
{
    const jtoken *t = jp_peek(p);
    if (t->kind == T_NAME)
        jp_fail(p, WEIR_FORMAT, t->line, "expected %s, found '%.*s'", what, t->len > 80 ? 80 : (int)t->len, t->p);
    else
        jp_fail(p, WEIR_FORMAT, t->line, "expected %s, found %s", what, jtoken_describe(t->kind));
}

void jp_expect(jparser *p, jtoken_kind kind)
{
    if (!jp_take(p, kind)) jp_expected(p, jtoken_describe(kind));
}

static jstr token_text(const jtoken *t)
{
    return (jstr){.p = t->p, .len = t->len};
}

jstr jp_expect_name(jparser *p)
{
    if (!jp_is(p, T_NAME)) {
        jp_expected(p, "a name");
        return js("");
    }
    return token_text(jp_next(p));
}

bool jp_enter(jparser *p)
{
    if (p->depth >= JNODE_MAX_DEPTH)
        jp_fail(p, WEIR_FORMAT, jp_peek(p)->line, "nested deeper than the limit of %d levels", (int)JNODE_MAX_DEPTH);
    if (p->st != WEIR_OK) return false;
    p->depth++;
    return true;
}

static void deepen(jparser *p, jnode *n, const jnode *child)
{
    if (child == NULL || child->depth < n->depth) return;
    n->depth = child->depth + 1;
    if (n->depth > JNODE_MAX_DEPTH)
        jp_fail(p, WEIR_FORMAT, n->line, "an expression with more than the limit of %d operations in a row",
                (int)JNODE_MAX_DEPTH);
}

jnode *jp_node(jparser *p, jnode_kind kind, jnode *a, jnode *b, jnode *c)
{
    if (p->st != WEIR_OK) return NULL;
    jnode *n = arena_alloc(p->mem, 1, sizeof *n);
    if (n == NULL) {
        jp_fail(p, WEIR_NO_MEMORY, jp_peek(p)->line, "the template needs more than %zu bytes of memory", p->mem->max);
        return NULL;
    }
    *n = (jnode){.kind = kind, .line = jp_peek(p)->line, .depth = 1, .a = a, .b = b, .c = c};
    deepen(p, n, a);
    deepen(p, n, b);
    deepen(p, n, c);
    return n;
}

void jp_attach(jparser *p, jnode *n, jnode **field, jnode *list)
{
    *field = list;
    for (const jnode *i = list; i != NULL; i = i->next) deepen(p, n, i);
}

void jp_remember(jparser *p, jnode **list, jstr name, uint32_t line)
{
    jnode *n = jp_node(p, N_NAME, NULL, NULL, NULL);
    if (n == NULL) return;
    n->value = jv_str(name);
    n->line  = line;
    n->next  = *list;
    *list    = n;
}

/* ---- statements ---- */

static jnode *parse_body(jparser *p, const char *const *ends);

static jnode *parse_name_target(jparser *p, bool with_namespace)
{
    const uint32_t line = jp_peek(p)->line;
    const jstr     name = jp_expect_name(p);
    jnode         *n    = jp_node(p, N_NAME, NULL, NULL, NULL);
    if (n == NULL) return NULL;
    n->value = jv_str(name);
    n->line  = line;
    if (with_namespace && jp_take(p, T_DOT)) {
        const jstr attribute = jp_expect_name(p);
        n                    = jp_node(p, N_ATTR, n, NULL, NULL);
        if (n != NULL) n->value = jv_str(attribute);
        return n;
    }
    jp_remember(p, &p->bound, name, line);
    return n;
}

/* What can stand left of "=" or after "for": names, with commas or in brackets. */
static jnode *parse_target(jparser *p, bool with_namespace)
{
    const bool bracket = jp_take(p, T_LPAREN);
    jlist      names   = {0};
    jnode     *first   = parse_name_target(p, with_namespace);
    if (!jp_is(p, T_COMMA)) {
        if (bracket) jp_expect(p, T_RPAREN);
        return first;
    }
    jlist_add(&names, first);
    while (jp_take(p, T_COMMA))
        if (jp_is(p, T_NAME) && !jp_is_word(p, "in")) jlist_add(&names, parse_name_target(p, with_namespace));
    if (bracket) jp_expect(p, T_RPAREN);
    jnode *n = jp_node(p, N_TUPLE, NULL, NULL, NULL);
    if (n != NULL) jp_attach(p, n, &n->list, names.head);
    return n;
}

static jnode *end_of(jparser *p, jnode *n)
{
    jp_expect(p, T_BLOCK_END);
    return n;
}

static jnode *parse_if(jparser *p)
{
    static const char *const ends[]   = {"elif", "else", "endif", NULL};
    jlist                    branches = {0};
    jnode                   *n        = jp_node(p, N_IF, NULL, NULL, NULL);
    bool                     more     = true;
    while (more && p->st == WEIR_OK) {
        jnode *branch = jp_node(p, N_BRANCH, NULL, NULL, NULL);
        jnode *test   = jp_tuple_no_cond(p); /* Jinja2 leaves inline if out here as well */
        jp_expect(p, T_BLOCK_END);
        jnode *body = parse_body(p, ends);
        if (branch == NULL) break;
        jp_attach(p, branch, &branch->a, test);
        jp_attach(p, branch, &branch->list, body);
        jlist_add(&branches, branch);
        more = jp_take_word(p, "elif");
        if (!more && jp_take_word(p, "else")) {
            jp_expect(p, T_BLOCK_END);
            jnode *otherwise = jp_node(p, N_BRANCH, NULL, NULL, NULL);
            body             = parse_body(p, ends + 2);
            if (otherwise == NULL) break;
            jp_attach(p, otherwise, &otherwise->list, body);
            jlist_add(&branches, otherwise);
        }
    }
    if (!jp_take_word(p, "endif")) jp_expected(p, "'endif'");
    if (n != NULL) jp_attach(p, n, &n->list, branches.head);
    return end_of(p, n);
}

static jnode *parse_for(jparser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    jnode                   *target = parse_target(p, false);
    if (!jp_take_word(p, "in")) jp_expected(p, "'in'");
    jnode *items = jp_tuple_no_cond(p);
    jnode *test  = jp_take_word(p, "if") ? jp_expression(p) : NULL;
    if (jp_is_word(p, "recursive")) jp_fail(p, WEIR_UNSUPPORTED, jp_peek(p)->line, "recursive loops are not supported");
    jnode *n = jp_node(p, N_FOR, target, items, test);
    jp_expect(p, T_BLOCK_END);
    p->n_loops++;
    jnode *body = parse_body(p, ends);
    p->n_loops--;
    jnode *otherwise = NULL;
    if (jp_take_word(p, "else")) {
        jp_expect(p, T_BLOCK_END);
        otherwise = parse_body(p, ends + 1);
    }
    if (!jp_take_word(p, "endfor")) jp_expected(p, "'endfor'");
    if (n != NULL) {
        jp_attach(p, n, &n->list, body);
        jp_attach(p, n, &n->list2, otherwise);
    }
    return end_of(p, n);
}

/* The name that stands for the caught text in a chain of block filters. */
static jnode *caught_text(jparser *p)
{
    jnode *n = jp_node(p, N_NAME, NULL, NULL, NULL);
    if (n != NULL) n->value = jv_str(js(""));
    return n;
}

static jnode *parse_set(jparser *p)
{
    static const char *const ends[] = {"endset", NULL};
    jnode                   *target = parse_target(p, true);
    if (jp_take(p, T_ASSIGN)) return end_of(p, jp_node(p, N_SET, target, jp_tuple(p), NULL));
    jnode *filters = jp_take(p, T_PIPE) ? jp_filters(p, caught_text(p)) : NULL;
    jnode *n       = jp_node(p, N_SET_BLOCK, target, filters, NULL);
    if (!jp_is(p, T_BLOCK_END)) jp_expected(p, "'=' or '%}'");
    jp_expect(p, T_BLOCK_END);
    jnode *body = parse_body(p, ends);
    if (!jp_take_word(p, "endset")) jp_expected(p, "'endset'");
    if (n != NULL) jp_attach(p, n, &n->list, body);
    return end_of(p, n);
}

/* "(a, b=1)" into N_PARAM nodes. */
static jnode *parse_params(jparser *p)
{
    jlist params      = {0};
    bool  has_default = false;
    jp_expect(p, T_LPAREN);
    while (p->st == WEIR_OK && !jp_is(p, T_RPAREN)) {
        if (params.head != NULL) jp_expect(p, T_COMMA);
        if (jp_is(p, T_RPAREN)) break;
        const uint32_t line  = jp_peek(p)->line;
        const jstr     name  = jp_expect_name(p);
        jnode         *value = jp_take(p, T_ASSIGN) ? jp_expression(p) : NULL;
        if (has_default && value == NULL)
            jp_fail(p, WEIR_FORMAT, line, "expected a default: the parameter in front of '%.*s' has one", (int)name.len,
                    name.p);
        has_default = value != NULL;
        jnode *n    = jp_node(p, N_PARAM, value, NULL, NULL);
        if (n != NULL) n->value = jv_str(name);
        jp_remember(p, &p->bound, name, line);
        jlist_add(&params, n);
    }
    jp_expect(p, T_RPAREN);
    return params.head;
}

static jnode *parse_macro(jparser *p)
{
    static const char *const ends[] = {"endmacro", NULL};
    const uint32_t           line   = jp_peek(p)->line;
    const jstr               name   = jp_expect_name(p);
    jnode                   *n      = jp_node(p, N_MACRO, NULL, NULL, NULL);
    jp_remember(p, &p->bound, name, line);
    jnode *params = parse_params(p);
    jp_expect(p, T_BLOCK_END);
    const uint32_t n_loops = p->n_loops;
    p->n_loops             = 0; /* a loop around the macro cannot be left from inside it */
    jnode *body            = parse_body(p, ends);
    p->n_loops             = n_loops;
    if (!jp_take_word(p, "endmacro")) jp_expected(p, "'endmacro'");
    jp_take(p, T_NAME);
    if (n != NULL) {
        n->value = jv_str(name);
        jp_attach(p, n, &n->list, params);
        jp_attach(p, n, &n->list2, body);
    }
    return end_of(p, n);
}

static jnode *parse_call_block(jparser *p)
{
    static const char *const ends[] = {"endcall", NULL};
    jnode                   *params = jp_is(p, T_LPAREN) ? parse_params(p) : NULL;
    jnode                   *call   = jp_expression(p);
    if (p->st == WEIR_OK && call->kind != N_CALL) jp_expected(p, "a call of a macro in front");
    jnode *n = jp_node(p, N_CALL_BLOCK, call, NULL, NULL);
    jp_expect(p, T_BLOCK_END);
    const uint32_t n_loops = p->n_loops;
    p->n_loops             = 0;
    jnode *body            = parse_body(p, ends);
    p->n_loops             = n_loops;
    if (!jp_take_word(p, "endcall")) jp_expected(p, "'endcall'");
    if (n != NULL) {
        jp_attach(p, n, &n->list, params);
        jp_attach(p, n, &n->list2, body);
    }
    return end_of(p, n);
}

static jnode *parse_filter_block(jparser *p)
{
    static const char *const ends[] = {"endfilter", NULL};
    jnode                   *n      = jp_node(p, N_FILTER_BLOCK, NULL, jp_filters(p, caught_text(p)), NULL);
    jp_expect(p, T_BLOCK_END);
    jnode *body = parse_body(p, ends);
    if (!jp_take_word(p, "endfilter")) jp_expected(p, "'endfilter'");
    if (n != NULL) jp_attach(p, n, &n->list, body);
    return end_of(p, n);
}

static jnode *parse_with(jparser *p)
{
    static const char *const ends[] = {"endwith", NULL};
    jlist                    sets   = {0};
    while (p->st == WEIR_OK && !jp_is(p, T_BLOCK_END)) {
        if (sets.head != NULL) jp_expect(p, T_COMMA);
        jnode *target = parse_target(p, false);
        jp_expect(p, T_ASSIGN);
        jlist_add(&sets, jp_node(p, N_SET, target, jp_expression(p), NULL));
    }
    jnode *n = jp_node(p, N_WITH, NULL, NULL, NULL);
    jp_expect(p, T_BLOCK_END);
    jnode *body = parse_body(p, ends);
    if (!jp_take_word(p, "endwith")) jp_expected(p, "'endwith'");
    if (n != NULL) {
        jp_attach(p, n, &n->list, sets.head);
        jp_attach(p, n, &n->list2, body);
    }
    return end_of(p, n);
}

/* {% generation %} marks the assistant's text for training; here it is only a group. */
static jnode *parse_generation(jparser *p)
{
    static const char *const ends[] = {"endgeneration", NULL};
    jnode                   *n      = jp_node(p, N_GROUP, NULL, NULL, NULL);
    jp_expect(p, T_BLOCK_END);
    jnode *body = parse_body(p, ends);
    if (!jp_take_word(p, "endgeneration")) jp_expected(p, "'endgeneration'");
    if (n != NULL) jp_attach(p, n, &n->list, body);
    return end_of(p, n);
}

static jnode *parse_jump(jparser *p, jnode_kind kind)
{
    if (p->n_loops == 0)
        jp_fail(p, WEIR_FORMAT, jp_peek(p)->line, "expected a loop around 'break' or 'continue', found none");
    return end_of(p, jp_node(p, kind, NULL, NULL, NULL));
}

static jnode *parse_break(jparser *p)
{
    return parse_jump(p, N_BREAK);
}

static jnode *parse_continue(jparser *p)
{
    return parse_jump(p, N_CONTINUE);
}

static const struct {
    const char *word;
    jnode *(*parse)(jparser *p);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"with", parse_with},
    {"filter", parse_filter_block},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_generation},
};

static jnode *parse_statement(jparser *p)
{
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (jp_take_word(p, statements[i].word)) return statements[i].parse(p);
    const jtoken *t = jp_peek(p);
    if (t->kind != T_NAME)
        jp_expected(p, "a statement");
    else
        jp_fail(p, WEIR_UNSUPPORTED, t->line, "expected a statement that is known here, found '%.*s'",
                t->len > 80 ? 80 : (int)t->len, t->p);
    return NULL;
}

static bool ends_body(const jparser *p, const char *const *ends)
{
    for (; *ends != NULL; ends++)
        if (jp_is_word(p, *ends)) return true;
    return false;
}

/* Up to a statement named in `ends`, whose name comes next then, or the end. */
static jnode *parse_body(jparser *p, const char *const *ends)
{
    jlist body = {0};
    if (!jp_enter(p)) return NULL;
    while (p->st == WEIR_OK && !jp_is(p, T_END)) {
        if (jp_is(p, T_TEXT)) {
            jnode *n = jp_node(p, N_TEXT, NULL, NULL, NULL);
            if (n != NULL) n->value = jv_str(token_text(jp_next(p)));
            jlist_add(&body, n);
        } else if (jp_take(p, T_OUTPUT_BEGIN)) {
            jlist_add(&body, jp_node(p, N_OUTPUT, jp_tuple(p), NULL, NULL));
            jp_expect(p, T_OUTPUT_END);
        } else {
            jp_expect(p, T_BLOCK_BEGIN);
            if (ends_body(p, ends)) break;
            jlist_add(&body, parse_statement(p));
        }
    }
    p->depth--;
    return body.head;
}

/* A function that is neither built in nor bound in the template can only fail
 * when it is called (data holds no functions), so it is refused here by name.
 * A template that asks about the name first is left to its own checks. */
static void check_calls(jparser *p)
{
    enum { MAX_COMPARISONS = 20 * 1000 * 1000 };
    size_t comparisons = 0;
    for (const jnode *c = p->called; c != NULL && p->st == WEIR_OK; c = c->next) {
        bool found = jinja_function_find(c->value.u.s) != NULL || js_is(c->value.u.s, "caller");
        for (const jnode *b = p->bound; b != NULL && !found; b = b->next, comparisons++)
            found = js_equal(b->value.u.s, c->value.u.s);
        if (comparisons > MAX_COMPARISONS)
            jp_fail(p, WEIR_FORMAT, c->line, "more names and calls than a template may have");
        if (!found)
            jp_fail(p, WEIR_UNSUPPORTED, c->line, "the function '%.*s' is not known here",
                    c->value.u.s.len > 80 ? 80 : (int)c->value.u.s.len, c->value.u.s.p);
    }
}

weir_status jinja_parse(jnode **out, arena *mem, const char *source, size_t len, const char *name, weir_error *err)
{
    static const char *const nothing[] = {NULL};
    jparser                  p         = {.mem = mem, .name = name, .err = err};
    *out                               = NULL;
    TRY(jinja_lex(&p.tokens, mem, source, len, name, err));
    jnode *root = jp_node(&p, N_GROUP, NULL, NULL, NULL);
    jnode *body = parse_body(&p, nothing);
    if (root != NULL) jp_attach(&p, root, &root->list, body);
    check_calls(&p);
    if (p.st == WEIR_OK) *out = root;
    return p.st;
}
