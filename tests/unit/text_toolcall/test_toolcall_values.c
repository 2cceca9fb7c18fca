/* tests/unit/text_toolcall/test_toolcall_values.c - the text of a value to JSON, by the type
 * that a schema gives it. */
#include "support/cmocka.h"
#include "text/toolcall_parts.h"

#include <string.h>

enum { MOST = 1 << 20 };

/* ---- which types a schema means ---- */

static const char typed_tool[] =
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"$defs\":{\"size\":{\"anyOf\":[{\"type\":\"integer\"},{"
    "\"type\":"
    "\"null\"}]},\"loop\":{\"$ref\":\"#/$defs/loop\"},\"a/b\":{\"type\":\"array\"},\"both\":{\"allOf\":[{\"type\":["
    "\"string\","
    "\"integer\"]},{\"$ref\":\"#/$defs/size\"},{\"minimum\":3}]}},\"properties\":{"
    "\"plain\":{\"type\":\"string\"},\"list\":{\"type\":[\"string\",\"null\"]},\"ref\":{\"$ref\":\"#/$defs/size\"},"
    "\"loop\":{\"$ref\":\"#/$defs/loop\"},\"slash\":{\"$ref\":\"#/$defs/a~1b\"},\"nowhere\":{\"$ref\":\"#/$defs/x\"},"
    "\"other\":{\"$ref\":\"http://x/y\"},\"one\":{\"oneOf\":[{\"type\":\"boolean\"},{\"enum\":[1,\"a\"]}]},"
    "\"any\":{\"anyOf\":[{\"type\":\"string\"},{}]},\"both\":{\"$ref\":\"#/$defs/both\"},"
    "\"maybe\":{\"type\":\"number\",\"nullable\":true},\"enum\":{\"enum\":[\"a\",\"b\"]},\"const\":{\"const\":2.5},"
    "\"object\":{\"properties\":{}},\"items\":{\"items\":{}},\"none\":{},\"true\":true,\"odd\":{\"type\":\"text\"}},"
    "\"additionalProperties\":{\"type\":\"integer\"}}},{\"name\":\"g\",\"input_schema\":{\"properties\":{\"x\":{"
    "\"type\":"
    "\"object\"}}}},{\"name\":\"h\"}]";

static name_span span(const char *s)
{
    return (name_span){s, strlen(s)};
}

static void schemas_tell_types(void **state)
{
    (void)state;
    static const struct {
        const char *tool, *key;
        unsigned    types;
    } cases[] = {
        {"f", "plain", TYPE_STRING},
        {"f", "list", TYPE_STRING | TYPE_NULL},
        {"f", "ref", TYPE_INTEGER | TYPE_NULL},
        {"f", "loop", TYPE_ANY},
        {"f", "slash", TYPE_ARRAY},
        {"f", "nowhere", TYPE_ANY},
        {"f", "other", TYPE_ANY},
        {"f", "one", TYPE_BOOLEAN | TYPE_INTEGER | TYPE_STRING},
        {"f", "any", TYPE_ANY},
        {"f", "both", TYPE_INTEGER},
        {"f", "maybe", TYPE_NUMBER | TYPE_NULL},
        {"f", "enum", TYPE_STRING},
        {"f", "const", TYPE_NUMBER},
        {"f", "object", TYPE_OBJECT},
        {"f", "items", TYPE_ARRAY},
        {"f", "none", TYPE_ANY},
        {"f", "true", TYPE_ANY},
        {"f", "odd", TYPE_ANY},
        {"f", "not listed", TYPE_INTEGER},
        {"g", "x", TYPE_OBJECT},
        {"g", "y", TYPE_ANY},
        {"h", "x", TYPE_ANY},
        {"none", "x", TYPE_ANY},
    };
    tool_set   t;
    weir_error err;
    assert_int_equal(tools_parse(&t, typed_tool, &err), WEIR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned found = tool_types(tools_find(&t, span(cases[i].tool)), span(cases[i].key));
        if (found != cases[i].types)
            fail_msg("%s.%s: expected %u, found %u", cases[i].tool, cases[i].key, cases[i].types, found);
    }
    assert_true(tool_has_parameter(tools_find(&t, span("f")), span("list")));
    assert_false(tool_has_parameter(tools_find(&t, span("f")), span("lis")));
    assert_true(tool_has_parameter(tools_find(&t, span("h")), span("lis")));
    tools_free(&t);
}

/* ---- values ---- */

enum {
    N   = TYPE_NULL,
    B   = TYPE_BOOLEAN,
    I   = TYPE_INTEGER,
    F   = TYPE_NUMBER,
    A   = TYPE_ARRAY,
    O   = TYPE_OBJECT,
    S   = TYPE_STRING,
    ANY = TYPE_ANY
};

static void values_become_what_the_schema_says(void **state)
{
    (void)state;
    static const struct {
        unsigned    types;
        const char *text, *json;
    } cases[] = {
        /* a string is never looked into */
        {S, "null", "\"null\""},
        {S, "123", "\"123\""},
        {S, "{\"a\": 1}", "\"{\\\"a\\\": 1}\""},
        {S, " a ", "\" a \""},
        {S, "", "\"\""},
        /* one type */
        {N, "null", "null"},
        {N, "None", "\"None\""},
        {B, "true", "true"},
        {B, "False", "false"},
        {B, " TRUE\n", "true"},
        {B, "yes", "\"yes\""},
        {B, "1", "\"1\""},
        {I, "10", "10"},
        {I, "-0", "-0"},
        {I, "5.0", "5"},
        {I, "-12.000", "-12"},
        {I, "5.5", "\"5.5\""},
        {I, "1e3", "\"1e3\""},
        {I, "1.0e3", "\"1.0e3\""},
        {I, "about ten", "\"about ten\""},
        {I, "007", "\"007\""},
        {I, "+1", "\"+1\""},
        {I, "", "\"\""},
        {I, "-", "\"-\""},
        {I, "1 2", "\"1 2\""},
        {I, " 7 ", "7"},
        {I, "123456789012345678901234567890", "123456789012345678901234567890"},
        {F, "123456789012345678901234567890.10", "123456789012345678901234567890.10"},
        {F, "5.0", "5.0"},
        {F, "1E+5", "1E+5"},
        {F, "1e", "\"1e\""},
        {F, ".5", "\".5\""},
        {F, "5.", "\"5.\""},
        {F, "3", "3"},
        {F, "NaN", "\"NaN\""},
        {A, "[1, 2 , [ ] ]", "[1,2,[]]"},
        {A, "{\"a\":1}", "\"{\\\"a\\\":1}\""},
        {A, "['a', \"b'\", True, None,]", "[\"a\",\"b'\",true,null]"},
        {A, "[1 2]", "\"[1 2]\""},
        {A, "[1]]", "\"[1]]\""},
        {O, " { \"a\" : { \"b\" : \"c d\" } , \"e\" : 1.50 } ", "{\"a\":{\"b\":\"c d\"},\"e\":1.50}"},
        {O, "{'it''s': 1}", "\"{'it''s': 1}\""},
        {O, "{'say \"hi\"': 'it\\'s',}", "{\"say \\\"hi\\\"\":\"it's\"}"},
        {O, "{\"a\": \"line\nbreak\"}", "{\"a\":\"line\\nbreak\"}"},
        {O, "{\"u\": \"\\u00e4\\n\"}", "{\"u\":\"\\u00e4\\n\"}"},
        {O, "{\"u\": \"\\u00g4\"}", "\"{\\\"u\\\": \\\"\\\\u00g4\\\"}\""},
        {O, "{\"a\"}", "\"{\\\"a\\\"}\""},
        {O, "{", "\"{\""},
        {O, "{,}", "\"{,}\""},
        {O, "{}", "{}"},
        /* unions: the first that fits, in the order of the document */
        {S | N, "null", "null"},
        {S | N, "nil", "\"nil\""},
        {S | I, "12", "12"},
        {S | I, "12a", "\"12a\""},
        {S | B | I | F | A | O | N, "true", "true"},
        {S | B | I | F | A | O | N, "[ ]", "[]"},
        {S | B | I | F | A | O | N, "[", "\"[\""},
        {I | F, "5.0", "5.0"},
        {S | O, "  text ", "\"  text \""},
        {S | O, " {\"a\": 1}", "{\"a\":1}"},
        /* nothing is said: objects and arrays are those */
        {ANY, "[1, 2]", "[1,2]"},
        {ANY, "{\"a\": []}", "{\"a\":[]}"},
        {ANY, "['a']", "\"['a']\""},
        {ANY, "5", "\"5\""},
        {ANY, "true", "\"true\""},
        {ANY, "null", "\"null\""},
        {ANY, "[1] ", "[1]"},
        {ANY, "[1] x", "\"[1] x\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str out;
        str_init(&out, MOST);
        str_puts(&out, "x");
        value_put(&out, cases[i].text, strlen(cases[i].text), cases[i].types);
        if (strcmp(out.data + 1, cases[i].json) != 0)
            fail_msg("%s as %u: expected %s, found %s", cases[i].text, cases[i].types, cases[i].json, out.data + 1);
        json_t *v = json_loads(out.data + 1, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        if (v == NULL) fail_msg("%s is not JSON", out.data + 1);
        json_decref(v);
        str_free(&out);
    }
}

/* Nested as deep as it may be, and once more. */
static void depth_has_a_limit(void **state)
{
    (void)state;
    char text[400];
    for (int depth = 64; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        str out;
        str_init(&out, MOST);
        assert_int_equal(value_compact(&out, text, 2 * (size_t)depth, true), depth == 64);
        assert_int_equal(out.len, depth == 64 ? 128 : 0);
        str_free(&out);
    }
}

static void members_of_objects(void **state)
{
    (void)state;
    static const char object[] =
        "{\"a\":[1,{\"name\":\"x\"}],\"b\\\"\":\"},{\",\"name\":\"f\\u00fc\\ud83c\\udf0a\\n\\ud800\",\"z\":1}";
    name_span v = value_member(object, strlen(object), "name");
    str       out;
    str_init(&out, MOST);
    value_unescape(&out, v);
    assert_string_equal(out.data, "f\xc3\xbc\xf0\x9f\x8c\x8a\n\xef\xbf\xbd");
    str_free(&out);
    v = value_member(object, strlen(object), "z");
    assert_int_equal(v.len, 1);
    assert_memory_equal(v.s, "1", 1);
    assert_null(value_member(object, strlen(object), "b").s);
    assert_null(value_member("{}", 2, "b").s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schemas_tell_types),
                                       cmocka_unit_test(values_become_what_the_schema_says),
                                       cmocka_unit_test(depth_has_a_limit), cmocka_unit_test(members_of_objects)};
    return cmocka_run_group_tests_name("tool call values", tests, NULL, NULL);
}
