/* text/jinja_parse_expr.c - expressions, in Jinja2's order of precedence:
 *
 *     inline if < or < and < not < comparison, in < + - < ~ < * / // % < **
 *     < unary < attribute, item, call < filter, test                         */
#include "text/jinja_ast.h"
#include "text/jinja_builtin.h"

static jstr word(const jtoken *t)
{
    return (jstr){.p = t->p, .len = t->len};
}

static jnode *constant(jparser *p, jvalue v)
{
    jnode *n = jp_node(p, N_CONST, NULL, NULL, NULL);
    if (n != NULL) n->value = v;
    return n;
}

jnode *jp_expression(jparser *p)
{
    if (!jp_enter(p)) return NULL;
    jnode *n = jp_or(p);
    while (jp_take_word(p, "if")) {
        jnode *test      = jp_or(p);
        jnode *otherwise = jp_take_word(p, "else") ? jp_expression(p) : NULL;
        n                = jp_node(p, N_COND, test, n, otherwise);
    }
    p->depth--;
    return n;
}

static jnode *parse_and(jparser *p);

jnode *jp_or(jparser *p)
{
    jnode *n = parse_and(p);
    while (jp_take_word(p, "or")) n = jp_node(p, N_OR, n, parse_and(p), NULL);
    return n;
}

static jnode *parse_not(jparser *p);

static jnode *parse_and(jparser *p)
{
    jnode *n = parse_not(p);
    while (jp_take_word(p, "and")) n = jp_node(p, N_AND, n, parse_not(p), NULL);
    return n;
}

static jnode *parse_compare(jparser *p);

static jnode *parse_not(jparser *p)
{
    if (!jp_take_word(p, "not")) return parse_compare(p);
    if (!jp_enter(p)) return NULL;
    jnode *n = jp_node(p, N_NOT, parse_not(p), NULL, NULL);
    p->depth--;
    return n;
}

static jnode *parse_sum(jparser *p);

static bool take_comparison(jparser *p, int *op)
{
    const jtoken *t = jp_peek(p);
    if (t->kind >= T_EQ && t->kind <= T_GE) {
        *op = (int)t->kind;
    } else if (jp_is_word(p, "in")) {
        *op = OP_IN;
    } else if (jp_is_word(p, "not") && jp_look(p)->kind == T_NAME && js_is(word(jp_look(p)), "in")) {
        *op = OP_NOT_IN;
        (void)jp_next(p);
    } else {
        return false;
    }
    (void)jp_next(p);
    return true;
}

static jnode *parse_compare(jparser *p)
{
    jnode *first    = parse_sum(p);
    jlist  operands = {0};
    int    op;
    while (take_comparison(p, &op)) {
        jnode *n = jp_node(p, N_OPERAND, parse_sum(p), NULL, NULL);
        if (n != NULL) n->op = op;
        jlist_add(&operands, n);
    }
    if (operands.head == NULL) return first;
    jnode *n = jp_node(p, N_COMPARE, first, NULL, NULL);
    if (n != NULL) jp_attach(p, n, &n->list, operands.head);
    return n;
}

/* One level of left-associative operators whose tokens lie in [lo, hi]. */
static jnode *binary_level(jparser *p, jtoken_kind lo, jtoken_kind hi, jnode *(*operand)(jparser *p))
{
    jnode *n = operand(p);
    while (jp_peek(p)->kind >= lo && jp_peek(p)->kind <= hi) {
        const jtoken_kind op = jp_next(p)->kind;
        n                    = jp_node(p, N_BINARY, n, operand(p), NULL);
        if (n != NULL) n->op = (int)op;
    }
    return n;
}

static jnode *parse_unary(jparser *p, bool with_filters);

static jnode *parse_power_operand(jparser *p)
{
    return parse_unary(p, true);
}

static jnode *parse_power(jparser *p)
{
    return binary_level(p, T_POW, T_POW, parse_power_operand);
}

static jnode *parse_product(jparser *p)
{
    return binary_level(p, T_MUL, T_MOD, parse_power);
}

static jnode *parse_concat(jparser *p)
{
    return binary_level(p, T_TILDE, T_TILDE, parse_product);
}

static jnode *parse_sum(jparser *p)
{
    return binary_level(p, T_ADD, T_SUB, parse_concat);
}

static jnode *parse_primary(jparser *p);
static jnode *parse_postfix(jparser *p, jnode *n);
static jnode *parse_test(jparser *p, jnode *n);
static jnode *parse_call(jparser *p, jnode *callee);

static jnode *parse_unary(jparser *p, bool with_filters)
{
    if (!jp_enter(p)) return NULL;
    jnode *n;
    if (jp_take(p, T_SUB))
        n = jp_node(p, N_NEG, parse_unary(p, false), NULL, NULL);
    else if (jp_take(p, T_ADD))
        n = jp_node(p, N_POS, parse_unary(p, false), NULL, NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    while (with_filters && p->st == WEIR_OK) {
        if (jp_take(p, T_PIPE))
            n = jp_filters(p, n);
        else if (jp_take_word(p, "is"))
            n = parse_test(p, n);
        else if (jp_is(p, T_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

static jnode *parse_name(jparser *p)
{
    const jtoken *t    = jp_next(p);
    const jstr    name = word(t);
    if (js_is(name, "true") || js_is(name, "True")) return constant(p, jv_bool(true));
    if (js_is(name, "false") || js_is(name, "False")) return constant(p, jv_bool(false));
    if (js_is(name, "none") || js_is(name, "None")) return constant(p, jv_none());
    jnode *n = jp_node(p, N_NAME, NULL, NULL, NULL);
    if (n == NULL) return NULL;
    n->value = jv_str(name);
    n->line  = t->line;
    return n;
}

/* Strings side by side are one string. */
static jnode *parse_string(jparser *p)
{
    const jtoken *first = jp_next(p);
    if (!jp_is(p, T_STRING)) return constant(p, jv_str(word(first)));
    size_t       len  = first->len;
    const size_t from = p->pos;
    for (; jp_is(p, T_STRING); (void)jp_next(p)) len += jp_peek(p)->len;
    char *text = arena_alloc(p->mem, len, 1);
    if (text == NULL) {
        jp_fail(p, WEIR_NO_MEMORY, first->line, "the template needs more than %zu bytes of memory", p->mem->max);
        return NULL;
    }
    memcpy(text, first->p, first->len);
    size_t n = first->len;
    for (size_t i = from; i < p->pos; i++) {
        memcpy(text + n, p->tokens.t[i].p, p->tokens.t[i].len);
        n += p->tokens.t[i].len;
    }
    return constant(p, jv_str((jstr){.p = text, .len = len}));
}

static jnode *parse_list(jparser *p)
{
    jlist  items = {0};
    jnode *n     = jp_node(p, N_LIST, NULL, NULL, NULL);
    (void)jp_next(p);
    while (p->st == WEIR_OK && !jp_is(p, T_RBRACKET)) {
        jlist_add(&items, jp_expression(p));
        if (!jp_take(p, T_COMMA)) break;
    }
    jp_expect(p, T_RBRACKET);
    if (n != NULL) jp_attach(p, n, &n->list, items.head);
    return n;
}

static jnode *parse_dict(jparser *p)
{
    jlist  items = {0};
    jnode *n     = jp_node(p, N_DICT, NULL, NULL, NULL);
    (void)jp_next(p);
    while (p->st == WEIR_OK && !jp_is(p, T_RBRACE)) {
        jlist_add(&items, jp_expression(p));
        jp_expect(p, T_COLON);
        jlist_add(&items, jp_expression(p));
        if (!jp_take(p, T_COMMA)) break;
    }
    jp_expect(p, T_RBRACE);
    if (n != NULL) jp_attach(p, n, &n->list, items.head);
    return n;
}

static jnode *parse_primary(jparser *p)
{
    const jtoken *t = jp_peek(p);
    switch (t->kind) {
    case T_NAME: return parse_name(p);
    case T_STRING: return parse_string(p);
    case T_INT: (void)jp_next(p); return constant(p, jv_int(t->u.i));
    case T_FLOAT: (void)jp_next(p); return constant(p, jv_float(t->u.f));
    case T_LBRACKET: return parse_list(p);
    case T_LBRACE: return parse_dict(p);
    case T_LPAREN: {
        (void)jp_next(p);
        jnode *n = jp_is(p, T_RPAREN) ? jp_node(p, N_TUPLE, NULL, NULL, NULL) : jp_tuple(p);
        jp_expect(p, T_RPAREN);
        return n;
    }
    default: jp_expected(p, "an expression"); return NULL;
    }
}

static jnode *tuple_of(jparser *p, jnode *(*item)(jparser *p))
{
    jnode *first = item(p);
    if (!jp_is(p, T_COMMA)) return first;
    jlist items = {0};
    jlist_add(&items, first);
    while (jp_take(p, T_COMMA)) {
        const jtoken_kind k = jp_peek(p)->kind;
        if (k == T_RPAREN || k == T_BLOCK_END || k == T_OUTPUT_END) break; /* a comma may come last */
        jlist_add(&items, item(p));
    }
    jnode *n = jp_node(p, N_TUPLE, NULL, NULL, NULL);
    if (n != NULL) jp_attach(p, n, &n->list, items.head);
    return n;
}

jnode *jp_tuple(jparser *p)
{
    return tuple_of(p, jp_expression);
}

jnode *jp_tuple_no_cond(jparser *p)
{
    return tuple_of(p, jp_or);
}

/* What stands in [ ]: an index or a slice. */
static jnode *parse_subscript(jparser *p)
{
    jnode *part[3] = {NULL, NULL, NULL};
    if (!jp_is(p, T_COLON)) {
        part[0] = jp_expression(p);
        if (!jp_is(p, T_COLON)) return part[0];
    }
    (void)jp_next(p);
    if (!jp_is(p, T_COLON) && !jp_is(p, T_RBRACKET)) part[1] = jp_expression(p);
    if (jp_take(p, T_COLON) && !jp_is(p, T_RBRACKET)) part[2] = jp_expression(p);
    return jp_node(p, N_SLICE, part[0], part[1], part[2]);
}

static jnode *parse_attribute(jparser *p, jnode *of)
{
    if (jp_is(p, T_INT)) return jp_node(p, N_ITEM, of, constant(p, jv_int(jp_next(p)->u.i)), NULL);
    const jstr name = jp_expect_name(p);
    jnode     *n    = jp_node(p, N_ATTR, of, NULL, NULL);
    if (n != NULL) n->value = jv_str(name);
    return n;
}

static jnode *parse_postfix(jparser *p, jnode *n)
{
    while (p->st == WEIR_OK) {
        if (jp_take(p, T_DOT)) {
            n = parse_attribute(p, n);
        } else if (jp_take(p, T_LBRACKET)) {
            n = jp_node(p, N_ITEM, n, parse_subscript(p), NULL);
            jp_expect(p, T_RBRACKET);
        } else if (jp_is(p, T_LPAREN)) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

/* "(1, x, name=2)" into the two lists of n. */
static void parse_arguments(jparser *p, jnode *n)
{
    jlist args = {0}, keywords = {0};
    jp_expect(p, T_LPAREN);
    while (p->st == WEIR_OK && !jp_is(p, T_RPAREN)) {
        if (jp_is(p, T_MUL) || jp_is(p, T_POW))
            jp_fail(p, WEIR_UNSUPPORTED, jp_peek(p)->line, "*args and **kwargs in calls are not supported");
        if (jp_is(p, T_NAME) && jp_look(p)->kind == T_ASSIGN) {
            const jstr name = word(jp_next(p));
            (void)jp_next(p);
            jnode *k = jp_node(p, N_KEYWORD, jp_expression(p), NULL, NULL);
            if (k != NULL) k->value = jv_str(name);
            jlist_add(&keywords, k);
        } else {
            if (keywords.head != NULL) jp_expected(p, "a keyword argument after keyword arguments");
            jlist_add(&args, jp_expression(p));
        }
        if (!jp_take(p, T_COMMA)) break;
    }
    jp_expect(p, T_RPAREN);
    if (n == NULL) return;
    jp_attach(p, n, &n->list, args.head);
    jp_attach(p, n, &n->list2, keywords.head);
}

static jnode *parse_call(jparser *p, jnode *callee)
{
    jnode *n = jp_node(p, N_CALL, callee, NULL, NULL);
    if (n != NULL && callee->kind == N_NAME) jp_remember(p, &p->called, callee->value.u.s, callee->line);
    parse_arguments(p, n);
    return n;
}

jnode *jp_filters(jparser *p, jnode *input)
{
    do {
        const uint32_t  line = jp_peek(p)->line;
        const jstr      name = jp_expect_name(p);
        const jbuiltin *fn   = jinja_filter_find(name);
        if (p->st == WEIR_OK && fn == NULL)
            jp_fail(p, WEIR_UNSUPPORTED, line, "the filter '%.*s' is not known here",
                    name.len > 80 ? 80 : (int)name.len, name.p);
        input = jp_node(p, N_FILTER, input, NULL, NULL);
        if (input != NULL) input->fn = fn;
        if (jp_is(p, T_LPAREN)) parse_arguments(p, input);
    } while (jp_take(p, T_PIPE));
    return input;
}

static bool begins_test_argument(const jparser *p)
{
    switch (jp_peek(p)->kind) {
    case T_NAME: return !jp_is_word(p, "else") && !jp_is_word(p, "or") && !jp_is_word(p, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE: return true;
    default: return false;
    }
}

static jnode *parse_test(jparser *p, jnode *input)
{
    const bool      negated = jp_take_word(p, "not");
    const uint32_t  line    = jp_peek(p)->line;
    const jstr      name    = jp_expect_name(p);
    const jbuiltin *fn      = jinja_test_find(name);
    if (p->st == WEIR_OK && fn == NULL)
        jp_fail(p, WEIR_UNSUPPORTED, line, "the test '%.*s' is not known here", name.len > 80 ? 80 : (int)name.len,
                name.p);
    if (input != NULL && input->kind == N_NAME) jp_remember(p, &p->bound, input->value.u.s, line);
    jnode *n = jp_node(p, N_TEST, input, NULL, NULL);
    if (n == NULL) return NULL;
    n->fn = fn;
    if (jp_is(p, T_LPAREN)) {
        parse_arguments(p, n);
    } else if (begins_test_argument(p)) {
        if (jp_is_word(p, "is")) jp_expected(p, "no second test in a row");
        jnode *argument = parse_primary(p);
        jp_attach(p, n, &n->list, parse_postfix(p, argument));
    }
    return negated ? jp_node(p, N_NOT, n, NULL, NULL) : n;
}
