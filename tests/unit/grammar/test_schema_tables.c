/* tests/unit/grammar/test_schema_tables.c - each keyword of JSON Schema: what fits, what does not. */
#include "unit/grammar/rig.h"

#include "support/cmocka.h"

#include <string.h>

typedef struct schema_case {
    const char *schema;
    const char *good[12], *bad[16];
} schema_case;

static const schema_case cases[] = {
    {"{\"type\":\"null\"}", {"null"}, {"nul", "nulll", "true", " null", "null "}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"True", "0", "\"true\""}},
    {"{\"type\":\"string\"}",
     {"\"\"", "\"a\"", "\"\\n\\\"\\\\\\/\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\xC3\xA9\xF0\x9F\x98\x80\""},
     {"a", "\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\u00g0\"", "\"a\"b", "\"\x80\"",
      "\"\xED\xA0\x80\""}},
    {"{\"type\":\"number\"}",
     {"0", "-0", "12", "-1.50", "1e5", "1E-07", "0.0e+1"},
     {"", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "--1"}},
    {"{\"type\":\"integer\"}", {"0", "7", "-12", "123456789012345678901234567890"}, {"-0", "01", "1.0", "1e3", ""}},
    {"{\"type\":[\"integer\",\"null\"]}", {"1", "null"}, {"true", "1.5"}},
    {"{\"type\":\"string\",\"nullable\":true}", {"\"\"", "null"}, {"1"}},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":123}",
     {"5", "9", "10", "99", "100", "119", "123"},
     {"4", "0", "124", "130", "200", "1000", "-5", "05"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":7}",
     {"-12", "-9", "-1", "0", "7"},
     {"-13", "-20", "-100", "8", "10", "-0", "-"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":5,\"exclusiveMaximum\":8}", {"6", "7"}, {"5", "8"}},
    {"{\"type\":\"integer\",\"minimum\":1.5,\"exclusiveMaximum\":4.5}", {"2", "3", "4"}, {"1", "5"}},
    {"{\"type\":\"integer\",\"minimum\":990}", {"990", "999", "1000", "123456"}, {"989", "98", "0", "-990", "0999"}},
    {"{\"type\":\"integer\",\"maximum\":-10}", {"-10", "-11", "-99", "-100"}, {"-9", "-1", "0", "9", "10"}},
    {"{\"type\":\"integer\",\"maximum\":15}", {"15", "0", "-1", "-99999"}, {"16", "20", "100"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\"", "\"\xC3\xA9\xC3\xA9\"", "\"\\u00e9\\n\"", "\"\\ud83d\\ude00x\""},
     {"\"\"", "\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\"", "\"\xC3\xA9\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}", {"\"a\"", "\"abccba\""}, {"\"\"", "\"abd\"", "\"a b\"", "a"}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\"", "\"\\nb\\\"\""}, {"\"\"", "\"ac\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a|c$\"}", {"\"a\"", "\"ax\"", "\"xc\""}, {"\"\"", "\"xa\"", "\"cx\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^x]*$\",\"minLength\":1,\"maxLength\":2}",
     {"\"a\"", "\"\\\"\\\\\"", "\"\xC3\xA9z\""},
     {"\"\"", "\"x\"", "\"abc\"", "\"\\u0041\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\"", "\"2024-04-30\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-00-01\"", "\"2024-1-1\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.25+05:30\""},
     {"\"24:00:00Z\"", "\"12:00Z\"", "\"12:00:00\"", "\"12:60:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-02-29T12:00:00Z\"", "\"2021-01-31T23:59:59.1-08:00\""},
     {"\"2024-02-30T12:00:00Z\"", "\"2024-02-29 12:00:00Z\"", "\"2024-02-29\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\"", "\"123e4567-e89b-12d3-a456-42661417400\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a@b\"", "\"first.last+tag@ex-ample.org\""},
     {"\"a\"", "\"@b\"", "\"a@\"", "\"a@-b\"", "\"a..b@c\"", "\".a@b\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"0.0.0.0\"", "\"255.249.199.99\""},
     {"\"256.0.0.0\"", "\"1.2.3\"", "\"01.2.3.4\"", "\"1.2.3.4.5\""}},
    {"{\"enum\":[\"a\",1,null,[1,{\"b\":2.5}],\"q\\\"\"]}",
     {"\"a\"", "1", "null", "[1,{\"b\":2.5}]", "[\n  1,\n  {\"b\": 2.5}\n]", "\"q\\\"\""},
     {"a", "2", "\"b\"", "[1]", "\"a"}},
    {"{\"enum\":[0.1,1e300]}", {"0.1"}, {"0.10000000000000001", "0.2"}},
    {"{\"const\":\"x/y\"}", {"\"x/y\""}, {"\"x\"", "\"x\\/y\""}},
    {"{\"type\":\"string\",\"enum\":[\"a\",1,\"bbb\"],\"maxLength\":2}", {"\"a\""}, {"1", "\"bbb\""}},
    {"{\"type\":\"array\"}",
     {"[]", "[1]", "[1, \"a\",[null],{}]", "[\n  1,\n  2\n]"},
     {"[", "[1,]", "[,1]", "[1 2]", "{}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1,2]", "[1, 2, 3]"},
     {"[]", "[1,2,3,4]", "[\"a\"]", "[1,"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"boolean\"}],\"items\":false}",
     {"[]", "[1]", "[1,true]"},
     {"[true]", "[1,true,1]", "[1,]", "[1,true,"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"},\"minItems\":2}",
     {"[1,null]", "[1,null,null]"},
     {"[1]", "[null]", "[1,1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}]}", {"[]", "[null]", "[null,1,\"a\"]"}, {"[1]"}},
    {"{\"type\":\"object\"}",
     {"{}", "{\"a\":1}", "{\"a\": {\"b\": []}, \"c\": null}", "{\n  \"a\": 1\n}", "{ }"},
     {"{", "{a:1}", "{\"a\"}", "{\"a\":1,}", "{\"a\" :1}", "[]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},\"required\":[\"a\"]"
     "}",
     {"{\"a\":1}", "{\"a\":1,\"b\":null}", "{\"b\":null, \"a\":-3}"},
     {"{}", "{\"b\":null}", "{\"a\":1,\"a\":2}", "{\"a\":null}", "{\"a\":1,\"c\":1}", "{\"a\":1,}",
      "{\"a\":1,\"b\":null,}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"a\":null}", "{\"b\":1}", "{\"b\":1,\"a\":null,\"ab\":2}", "{\"\":1}"},
     {"{\"a\":1}", "{\"b\":null}", "{\"\\u0061\":1}", "{\"a\":null,\"a\":null}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}", {"{}", "{\"x\":null}"}, {"{\"x\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"x\":1}"}},
    {"{\"type\":\"object\",\"required\":[\"k\"]}", {"{\"k\":[1]}"}, {"{}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":{\"type\":\"null\"}}}",
     {"{}", "{\"b\":null}"},
     {"{\"a\":1}", "{\"b\":null,"}},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}", {"null", "5"}, {"true"}},
    {"{\"oneOf\":[{\"const\":1},{\"const\":\"b\"}]}", {"1", "\"b\""}, {"2"}},
    {"{\"type\":\"integer\",\"anyOf\":[{\"type\":\"integer\",\"minimum\":5},{\"const\":1}]}",
     {"5", "1", "77"},
     {"4", "2"}},
    {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"type\":\"integer\",\"maximum\":5}]}", {"3", "5"}, {"2", "6"}},
    {"{\"allOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":[\"string\",\"integer\"]}]}", {"\"a\""}, {"null", "1"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
     "{\"properties\":{\"a\":{\"enum\":[1,\"x\"]},\"b\":{\"type\":\"null\"}}}]}",
     {"{\"a\":1}", "{\"a\":1,\"b\":null}"},
     {"{}", "{\"a\":2}", "{\"a\":\"x\"}", "{\"a\":1,\"c\":0}"}},
    {"{\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\",\"type\":\"string\"}],\"maxLength\":3}",
     {"\"ab\"", "\"axb\""},
     {"\"a\"", "\"b\"", "\"axxb\"", "1"}},
    {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}}}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"next\":null,\"v\":2}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}", "null"}},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
    {"{\"$ref\":\"#/definitions/a~1b\",\"definitions\":{\"a/b\":{\"type\":\"null\"}}}", {"null"}, {"1"}},
    {"{\"$ref\":\"#/x/0\",\"x\":[{\"const\":3}],\"type\":\"integer\"}", {"3"}, {"4"}},
    {"true", {"1", "{}", "[{\"a\":\"b\"}]", "null"}, {"", "{]"}},
    {"{\"title\":\"x\",\"description\":\"y\",\"default\":3,\"x-more\":{\"not\":1}}", {"1", "\"a\""}, {"a"}},
};

static void keywords_accept_and_reject(void **state)
{
    (void)state;
    vocabulary v;
    vocabulary_make(&v, 300, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const schema_case *c = &cases[i];
        grammar           *g = compiled(&v, WEIR_GRAMMAR_JSON_SCHEMA, c->schema, NULL);
        for (int j = 0; j < 12 && c->good[j] != NULL; j++) {
            if (!accepts(g, c->good[j], strlen(c->good[j]))) fail_msg("%s: expected %s to fit", c->schema, c->good[j]);
            if (!accepts_by_tokens(&v, g, c->good[j], strlen(c->good[j]), i, true))
                fail_msg("%s: expected %s to fit, cut into tokens", c->schema, c->good[j]);
        }
        for (int j = 0; j < 16 && c->bad[j] != NULL; j++)
            if (accepts(g, c->bad[j], strlen(c->bad[j]))) fail_msg("%s: expected %s not to fit", c->schema, c->bad[j]);
        grammar_release(g);
    }
    vocabulary_free(&v);
}

static void the_schemas_order_is_an_option(void **state)
{
    (void)state;
    vocabulary                 v;
    const weir_grammar_options o = {.size = sizeof o, .ordered = true};
    vocabulary_make(&v, 100, 5);
    grammar *g =
        compiled(&v, WEIR_GRAMMAR_JSON_SCHEMA,
                 "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
                 "\"required\":[\"b\"]}",
                 &o);
    static const char *const good[] = {"{\"b\":2}", "{\"a\":1,\"b\":2}", "{\"b\":2, \"c\":3}",
                                       "{\"a\":1,\"b\":2,\"c\":3}"};
    static const char *const bad[]  = {"{}",         "{\"a\":1}",        "{\"b\":2,\"a\":1}", "{\"c\":3,\"b\":2}",
                                       "{\"b\":2,}", "{\"a\":1,\"c\":3}"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!accepts_by_tokens(&v, g, good[i], strlen(good[i]), i, true)) fail_msg("expected %s to fit", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (accepts(g, bad[i], strlen(bad[i]))) fail_msg("expected %s not to fit", bad[i]);
    grammar_release(g);
    vocabulary_free(&v);
}

static void any_white_space_is_an_option(void **state)
{
    (void)state;
    static const char          text[] = "{ \n\t\"a\":\n 1 ,  \"b\" : 2}";
    const weir_grammar_options o      = {.size = sizeof o, .any_space = true};
    vocabulary                 v;
    vocabulary_make(&v, 100, 5);
    grammar *strict = compiled(&v, WEIR_GRAMMAR_JSON_OBJECT, "", NULL);
    grammar *any    = compiled(&v, WEIR_GRAMMAR_JSON_OBJECT, "", &o);
    assert_true(accepts_by_tokens(&v, any, text, sizeof text - 1, 1, true));
    assert_false(accepts(strict, text, sizeof text - 1));
    assert_true(accepts(strict, "{}", 2));
    assert_false(accepts(strict, "[]", 2));
    /* A blank more than printers write would be a way to say nothing for ever. */
    assert_false(accepts(strict, "{  }", 4));
    grammar_release(strict);
    grammar_release(any);
    vocabulary_free(&v);
}

/* Text of a complaint: where, and about what. */
static const char *const refused[][2] = {
    {"{\"not\":{}}", "#/not: this keyword"},
    {"{\"properties\":{\"a/b\":{\"multipleOf\":2}}}", "#/properties/a~1b/multipleOf: this keyword"},
    {"{\"items\":{\"uniqueItems\":true}}", "#/items/uniqueItems"},
    {"{\"patternProperties\":{}}", "#/patternProperties"},
    {"{\"$defs\":{\"x\":{\"if\":{}}}}", "#/$defs/x/if"},
    {"{\"anyOf\":[{},{\"dependentRequired\":{}}]}", "#/anyOf/1/dependentRequired"},
    {"{\"type\":\"number\",\"minimum\":1}", "#/minimum: supported for integers only"},
    {"{\"type\":\"string\",\"format\":\"uri\"}", "#/format: format \"uri\""},
    {"{\"pattern\":\"(?=a)\"}", "#/pattern: regex: offset 1: groups other"},
    {"{\"pattern\":\"a\\\\1\"}", "#/pattern: regex: offset 2: back references"},
    {"{\"type\":\"text\"}", "#/type: expected null"},
    {"{\"$ref\":\"#/$defs/no\"}", "#/$ref: \"#/$defs/no\" leads to no schema"},
    {"{\"$ref\":\"http://x\"}", "#/$ref: expected a place in this document"},
    {"{\"$ref\":\"#/x/y\",\"x\":{\"y\":{\"contains\":{}}}}", "#/x/y/contains"},
    {"{\"minLength\":-1}", "#/minLength: expected an integer"},
    {"{\"items\":[{}]}", "#/items: expected a schema"},
    {"{\"required\":[1]}", "#/required: expected an array of at most"},
    {"{\"$ref\":\"#\"}", ""},
    {"{\"allOf\":[{\"$ref\":\"#\"}]}", "lead in a circle"},
    {"false", "no"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "finite text"},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "finite text"},
    {"{\"type\":\"string\",", "schema"},
    {"{\"pattern\":\"(a|b)*a(a|b){30}\"}", "#/pattern"},
    {"{\"pattern\":\"((((a{99}){99}){99}){99}){99}\"}", "#/pattern"},
};

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    vocabulary v;
    vocabulary_make(&v, 10, 5);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const weir_grammar_options o = WEIR_GRAMMAR_OPTIONS_INIT;
        weir_error                 err;
        grammar                   *g;
        const weir_status          st =
            grammar_compile(&g, &v.t, WEIR_GRAMMAR_JSON_SCHEMA, refused[i][0], strlen(refused[i][0]), &o, &err);
        if (st != WEIR_INVALID && st != WEIR_UNSUPPORTED)
            fail_msg("%s: expected a refusal, found status %d", refused[i][0], st);
        assert_null(g);
        if (strstr(err.text, refused[i][1]) == NULL)
            fail_msg("%s: expected \"%s\", found \"%s\"", refused[i][0], refused[i][1], err.text);
    }
    vocabulary_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keywords_accept_and_reject),
        cmocka_unit_test(the_schemas_order_is_an_option),
        cmocka_unit_test(any_white_space_is_an_option),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("grammar of schemas", tests, NULL, NULL);
}
