/* text/jinja_test.c - what can stand after "is". */
#include "text/jinja_builtin.h"
#include "text/jinja_lex.h"

#include <utf8proc.h>

#define TEST(id, expression) \
    static jvalue t_##id(jinja *j, jvalue self, const jvalue *a, const jargs *args) \
    { \
        UNUSED_ARGS; \
        return jv_bool(expression); \
    }

static bool is_sequence(jvalue v)
{
    if (v.kind != J_SEQ) return v.kind == J_STRING || v.kind == J_DICT || v.kind == J_UNDEFINED;
    return v.u.seq->kind == SEQ_LIST || v.u.seq->kind == SEQ_TUPLE || v.u.seq->kind == SEQ_RANGE;
}

static bool is_iterable(jvalue v)
{
    return v.kind == J_SEQ || v.kind == J_STRING || v.kind == J_DICT || v.kind == J_UNDEFINED;
}

/* Jinja2's undefined can be called, and then complains. */
static bool is_callable(jvalue v)
{
    return v.kind == J_MACRO || v.kind == J_FUNCTION || v.kind == J_METHOD || v.kind == J_UNDEFINED;
}

/* self % divisor == remainder */
static bool leaves(jinja *j, jvalue self, jvalue divisor, int64_t remainder)
{
    const jvalue r = jinja_binary(j, T_MOD, self, divisor);
    return jinja_ok(j) && jv_equal(j, r, jv_int(remainder));
}

/* str.isupper / str.islower: at least one cased letter and none of the other case. */
static bool has_case(jinja *j, jvalue self, bool upper)
{
    const jstr s     = jv_to_str(j, self);
    bool       cased = false;
    if (!jinja_work_bytes(j, s.len)) return false;
    for (size_t i = 0; i < s.len && jinja_ok(j);) {
        const int32_t c = u_next(s, &i);
        if (upper ? utf8proc_toupper(c) != c : utf8proc_tolower(c) != c) return false;
        cased = cased || utf8proc_toupper(c) != c || utf8proc_tolower(c) != c;
    }
    return cased;
}

/* The same object; for values without identity here, the same kind and value. */
static bool is_same(jinja *j, jvalue a, jvalue b)
{
    if (a.kind != b.kind) return false;
    if (a.kind == J_SEQ) return a.u.seq == b.u.seq;
    if (a.kind == J_DICT) return a.u.dict == b.u.dict;
    return jv_equal(j, a, b);
}

TEST(defined, self.kind != J_UNDEFINED)
TEST(undefined, self.kind == J_UNDEFINED)
TEST(none, self.kind == J_NONE)
TEST(true, self.kind == J_BOOL && self.u.b)
TEST(false, self.kind == J_BOOL && !self.u.b)
TEST(boolean, self.kind == J_BOOL)
TEST(integer, self.kind == J_INT)
TEST(float, self.kind == J_FLOAT)
TEST(number, self.kind == J_INT || self.kind == J_FLOAT || self.kind == J_BOOL)
TEST(string, self.kind == J_STRING)
TEST(mapping, self.kind == J_DICT)
TEST(iterable, is_iterable(self))
TEST(sequence, is_sequence(self))
TEST(callable, is_callable(self))
TEST(odd, leaves(j, self, jv_int(2), 1))
TEST(even, leaves(j, self, jv_int(2), 0))
TEST(divisibleby, leaves(j, self, a[0], 0))
TEST(eq, jv_equal(j, self, a[0]))
TEST(ne, !jv_equal(j, self, a[0]))
TEST(lt, jv_compare(j, self, a[0]) < 0)
TEST(le, jv_compare(j, self, a[0]) <= 0)
TEST(gt, jv_compare(j, self, a[0]) > 0)
TEST(ge, jv_compare(j, self, a[0]) >= 0)
TEST(in, jv_contains(j, a[0], self))
TEST(lower, has_case(j, self, false))
TEST(upper, has_case(j, self, true))
TEST(sameas, is_same(j, self, a[0]))
TEST(filter, self.kind == J_STRING && jinja_filter_find(self.u.s) != NULL)
TEST(test, self.kind == J_STRING && jinja_test_find(self.u.s) != NULL)
TEST(escaped, false)

const jbuiltin *jinja_test_find(jstr name)
{
    static const jbuiltin table[] = {
        {"defined", {NULL}, 0, t_defined},
        {"undefined", {NULL}, 0, t_undefined},
        {"none", {NULL}, 0, t_none},
        {"true", {NULL}, 0, t_true},
        {"false", {NULL}, 0, t_false},
        {"boolean", {NULL}, 0, t_boolean},
        {"integer", {NULL}, 0, t_integer},
        {"float", {NULL}, 0, t_float},
        {"number", {NULL}, 0, t_number},
        {"string", {NULL}, 0, t_string},
        {"mapping", {NULL}, 0, t_mapping},
        {"iterable", {NULL}, 0, t_iterable},
        {"sequence", {NULL}, 0, t_sequence},
        {"callable", {NULL}, 0, t_callable},
        {"odd", {NULL}, 0, t_odd},
        {"even", {NULL}, 0, t_even},
        {"divisibleby", {"num"}, 1, t_divisibleby},
        {"eq", {"other"}, 1, t_eq},
        {"equalto", {"other"}, 1, t_eq},
        {"==", {"other"}, 1, t_eq},
        {"ne", {"other"}, 1, t_ne},
        {"!=", {"other"}, 1, t_ne},
        {"lt", {"other"}, 1, t_lt},
        {"lessthan", {"other"}, 1, t_lt},
        {"<", {"other"}, 1, t_lt},
        {"le", {"other"}, 1, t_le},
        {"<=", {"other"}, 1, t_le},
        {"gt", {"other"}, 1, t_gt},
        {"greaterthan", {"other"}, 1, t_gt},
        {">", {"other"}, 1, t_gt},
        {"ge", {"other"}, 1, t_ge},
        {">=", {"other"}, 1, t_ge},
        {"in", {"seq"}, 1, t_in},
        {"lower", {NULL}, 0, t_lower},
        {"upper", {NULL}, 0, t_upper},
        {"sameas", {"other"}, 1, t_sameas},
        {"filter", {NULL}, 0, t_filter},
        {"test", {NULL}, 0, t_test},
        {"escaped", {NULL}, 0, t_escaped},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (js_is(name, table[i].name)) return &table[i];
    return NULL;
}
