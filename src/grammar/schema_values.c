/* grammar/schema_values.c - the values of JSON that every schema has in common. */
#include "grammar/schema_parts.h"

#include <string.h>

enum { INDENT_MOST = 32 };

/* Opens a rule once; false: it is there already. */
static bool open_rule(schema_compiler *c, uint32_t *slot, bool known)
{
    if (*slot != RULE_NONE) return false;
    *slot = automaton_rule(c->a, known);
    return !c->a->failed;
}

static uint32_t node_in(schema_compiler *c, uint32_t rule_id)
{
    return automaton_node(c->a, rule_id);
}

/* What printers write between tokens: nothing, a blank, or a line break and an indent. */
uint32_t schema_space(schema_compiler *c)
{
    if (!open_rule(c, &c->space, true)) return c->space;
    automaton     *a     = c->a;
    const uint32_t start = a->rules[c->space].start, end = a->rules[c->space].end;
    const uint32_t loop = node_in(c, c->space), again = node_in(c, c->space);
    if (a->failed) return c->space;
    automaton_free_edge(a, start, end);
    if (c->opt.any_space) {
        for (const char *s = " \t\n\r"; *s != '\0'; s++)
            automaton_bytes_edge(a, start, (uint8_t)*s, (uint8_t)*s, start);
        return c->space;
    }
    automaton_bytes_edge(a, start, ' ', ' ', end);
    automaton_bytes_edge(a, start, '\n', '\n', loop);
    automaton_guard(a, loop, EDGE_COUNT, 0, again);
    automaton_guard(a, loop, EDGE_ENOUGH, 0, end);
    automaton_bytes_edge(a, again, ' ', ' ', loop);
    automaton_bytes_edge(a, again, '\t', '\t', loop);
    return c->space;
}

/* Behind a colon: nothing or a blank. */
uint32_t schema_colon(schema_compiler *c)
{
    if (!open_rule(c, &c->colon, true)) return c->colon;
    automaton     *a     = c->a;
    const uint32_t start = a->rules[c->colon].start, end = a->rules[c->colon].end, behind = node_in(c, c->colon);
    if (a->failed) return c->colon;
    if (c->opt.any_space) {
        const uint32_t before = node_in(c, c->colon);
        schema_call_space(c, start, before);
        automaton_bytes_edge(a, before, ':', ':', behind);
        schema_call_space(c, behind, end);
        return c->colon;
    }
    automaton_bytes_edge(a, start, ':', ':', behind);
    automaton_free_edge(a, behind, end);
    automaton_bytes_edge(a, behind, ' ', ' ', end);
    return c->colon;
}

void schema_call_space(schema_compiler *c, uint32_t from, uint32_t to)
{
    const uint32_t space = schema_space(c);
    automaton_call(c->a, from, space, data_count(0, INDENT_MOST), to);
}

/* Its data say how many characters it may and must have. */
uint32_t schema_string(schema_compiler *c)
{
    if (!open_rule(c, &c->string, true)) return c->string;
    automaton     *a    = c->a;
    const uint32_t loop = node_in(c, c->string), body = node_in(c, c->string), quote = node_in(c, c->string);
    if (a->failed) return c->string;
    automaton_bytes_edge(a, a->rules[c->string].start, '"', '"', loop);
    automaton_guard(a, loop, EDGE_COUNT, 0, body);
    automaton_guard(a, loop, EDGE_ENOUGH, 0, quote);
    automaton_bytes_edge(a, quote, '"', '"', a->rules[c->string].end);
    encode_json_any(a, body, loop);
    return c->string;
}

static void digits(automaton *a, uint32_t from, uint32_t to)
{
    automaton_bytes_edge(a, from, '0', '9', to);
    automaton_bytes_edge(a, to, '0', '9', to);
}

/* from --an integer without sign--> to */
static void put_natural(schema_compiler *c, uint32_t from, uint32_t to)
{
    automaton     *a    = c->a;
    const uint32_t rest = node_in(c, a->nodes[from].rule);
    automaton_bytes_edge(a, from, '0', '0', to);
    automaton_bytes_edge(a, from, '1', '9', rest);
    automaton_bytes_edge(a, rest, '0', '9', rest);
    automaton_free_edge(a, rest, to);
}

uint32_t schema_number(schema_compiler *c)
{
    if (!open_rule(c, &c->number, true)) return c->number;
    automaton     *a = c->a;
    const uint32_t r = c->number, start = a->rules[r].start, end = a->rules[r].end;
    const uint32_t plain = node_in(c, r), whole = node_in(c, r), point = node_in(c, r), fraction = node_in(c, r);
    const uint32_t mantissa = node_in(c, r), e = node_in(c, r), sign = node_in(c, r), exponent = node_in(c, r);
    if (a->failed) return r;
    automaton_free_edge(a, start, plain);
    automaton_bytes_edge(a, start, '-', '-', plain);
    put_natural(c, plain, whole);
    automaton_bytes_edge(a, whole, '.', '.', point);
    digits(a, point, fraction);
    automaton_free_edge(a, whole, mantissa);
    automaton_free_edge(a, fraction, mantissa);
    automaton_free_edge(a, mantissa, end);
    automaton_bytes_edge(a, mantissa, 'e', 'e', e);
    automaton_bytes_edge(a, mantissa, 'E', 'E', e);
    automaton_free_edge(a, e, sign);
    automaton_bytes_edge(a, e, '+', '+', sign);
    automaton_bytes_edge(a, e, '-', '-', sign);
    digits(a, sign, exponent);
    automaton_free_edge(a, exponent, end);
    return r;
}

uint32_t schema_any(schema_compiler *c)
{
    if (!open_rule(c, &c->any, true)) return c->any;
    automaton               *a     = c->a;
    const uint32_t           start = a->rules[c->any].start, end = a->rules[c->any].end;
    const uint32_t           number = schema_number(c), string = schema_string(c);
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) automaton_text(a, start, words[i], strlen(words[i]), end);
    automaton_call(a, start, number, DATA_NONE, end);
    automaton_call(a, start, string, DATA_NONE, end);
    /* What holds for an object or an array of which nothing is said. */
    json_t    *nothing = json_object();
    weir_error err;
    if (nothing == NULL || schema_put_object(c, nothing, start, end, &err) != WEIR_OK ||
        schema_put_array(c, nothing, start, end, &err) != WEIR_OK)
        a->failed = true;
    json_decref(nothing);
    return c->any;
}
