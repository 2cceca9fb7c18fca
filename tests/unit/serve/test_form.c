/* From the spellings of a form to what is compiled. */
#include "serve/form.h"
#include "support/cmocka.h"
#include "support/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text)
{
    json_error_t je;
    json_t      *v = json_loads(text, JSON_DECODE_ANY, &je);
    if (v == NULL) fail_msg("%s: %s", text, je.text);
    return v;
}

/* "KIND WHERE VALUE" with o and s for ordered and any space, "free", or "!param: message". */
static void check(const char *text, bool ok, const reply_form *f, const api_error *err, const char *expected)
{
    static const char *const kinds[] = {"schema", "object", "regex", "ebnf", "choice"};
    char                     found[1200];
    char *value = f->given && f->value != NULL ? json_dumps(f->value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!ok)
        (void)snprintf(found, sizeof found, "!%s", err->message);
    else if (!f->given)
        (void)snprintf(found, sizeof found, "free");
    else
        (void)snprintf(found, sizeof found, "%s %s %s%s%s", kinds[f->kind], f->where, value != NULL ? value : "-",
                       f->ordered ? " o" : "", f->any_space ? " s" : "");
    free(value);
    if (strcmp(found, expected) != 0) fail_msg("%s: expected \"%s\", found \"%s\"", text, expected, found);
    if (!ok) { /* the message begins with the field */
        assert_int_equal(err->kind, API_INVALID);
        assert_memory_equal(err->message, err->param, strlen(err->param));
        assert_int_equal(err->message[strlen(err->param)], ':');
    }
}

static void check_body(const char *text, const char *expected)
{
    reply_form f;
    api_error  err  = {0};
    json_t    *body = parse(text);
    const bool ok   = form_read(body, &f, &err);
    check(text, ok, &f, &err, expected);
    json_decref(body);
}

static void check_value(form_style style, const char *text, const char *expected)
{
    reply_form f;
    api_error  err   = {0};
    json_t    *value = parse(text);
    const bool ok    = form_read_value(style, value, "f", &f, &err);
    check(text, ok, &f, &err, expected);
    json_decref(value);
}

#define FORMAT(text) "{\"response_format\":" text "}"
#define SO(text) "{\"structured_outputs\":" text "}"

static void test_spellings(void **unused)
{
    static const char *const cases[][2] = {
        {"{}", "free"},
        {"{\"response_format\":null,\"guided_json\":null,\"structured_outputs\":null}", "free"},
        {FORMAT("{\"type\":\"text\"}"), "free"},
        {FORMAT("{\"type\":\"json_object\"}"), "object response_format.type -"},
        {FORMAT("{\"type\":\"json_object\",\"schema\":{\"a\":1}}"), "schema response_format.schema {\"a\":1}"},
        {FORMAT("{\"type\":\"json_schema\",\"schema\":{\"a\":1},\"strict\":true}"),
         "schema response_format.schema {\"a\":1} o"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{\"z\":1,\"a\":2}}}"),
         "schema response_format.json_schema.schema {\"z\":1,\"a\":2}"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"strict\":true}}"),
         "schema response_format.json_schema.schema {} o"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"strict\":false}}"),
         "schema response_format.json_schema.schema {}"},
        {"{\"json_schema\":{\"a\":1}}", "schema json_schema {\"a\":1}"},
        {"{\"guided_json\":{\"a\":1},\"any_whitespace\":true}", "schema guided_json {\"a\":1} s"},
        {"{\"guided_json\":\"{}\"}", "schema guided_json \"{}\""},
        {"{\"guided_regex\":\"a+\"}", "regex guided_regex \"a+\""},
        {"{\"guided_choice\":[\"a\",\"b\"]}", "choice guided_choice [\"a\",\"b\"]"},
        {"{\"guided_grammar\":\"root\"}", "ebnf guided_grammar \"root\""},
        {"{\"grammar\":\"root\"}", "ebnf grammar \"root\""},
        {"{\"grammar\":\"\"}", "free"},
        {SO("{\"json\":{},\"any_whitespace\":true}"), "schema structured_outputs.json {} s"},
        {SO("{\"json_object\":true}"), "object structured_outputs.json_object true"},
        {SO("{\"json_object\":false}"), "free"},
        {SO("{\"regex\":\"a\",\"json\":null}"), "regex structured_outputs.regex \"a\""},
        {SO("{\"choice\":[\"a\"]}"), "choice structured_outputs.choice [\"a\"]"},
        {SO("{\"grammar\":\"root\"}"), "ebnf structured_outputs.grammar \"root\""},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_body(cases[i][0], cases[i][1]);
}

/* Takes away the form that counts, again and again. */
static void test_order(void **unused)
{
    static const char *const order[][2] = {
        {"grammar", "ebnf grammar \"x\" s"},
        {"guided_grammar", "ebnf guided_grammar \"x\" s"},
        {"structured_outputs.grammar", "ebnf structured_outputs.grammar \"x\" s"},
        {"response_format.schema", "schema response_format.schema {} o s"},
        {"json_schema", "schema json_schema {} s"},
        {"guided_json", "schema guided_json {} s"},
        {"structured_outputs.json", "schema structured_outputs.json {} s"},
        {"response_format", "object response_format.type - o s"},
        {"structured_outputs.json_object", "object structured_outputs.json_object true s"},
        {"guided_regex", "regex guided_regex \"x\" s"},
        {"structured_outputs.regex", "regex structured_outputs.regex \"x\" s"},
        {"guided_choice", "choice guided_choice [] s"},
        {"structured_outputs.choice", "choice structured_outputs.choice [] s"},
    };
    json_t *body = parse(
        "{\"structured_outputs\":{\"choice\":[],\"regex\":\"x\",\"json\":{},\"json_object\":true,\"grammar\":\"x\"},"
        "\"guided_choice\":[],\"guided_regex\":\"x\",\"response_format\":{\"type\":\"json_object\",\"schema\":{},"
        "\"strict\":true},\"guided_json\":{},\"json_schema\":{},\"guided_grammar\":\"x\",\"grammar\":\"x\","
        "\"any_whitespace\":true}");
    json_t *inner = json_object_get(body, "structured_outputs"), *format = json_object_get(body, "response_format");
    (void)unused;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        reply_form  f;
        api_error   err  = {0};
        char       *text = json_dumps(body, JSON_COMPACT);
        const char *dot  = strchr(order[i][0], '.');
        const bool  ok   = form_read(body, &f, &err);
        check(text, ok, &f, &err, order[i][1]);
        free(text);
        json_t *of = dot == NULL ? body : order[i][0][0] == 'r' ? format : inner;
        assert_int_equal(json_object_del(of, dot == NULL ? order[i][0] : dot + 1), 0);
    }
    json_decref(body);
}

static void test_refusals(void **unused)
{
    static const char *const cases[][2] = {
        {FORMAT("\"json\""), "!response_format: expected an object, found a string"},
        {FORMAT("{}"), "!response_format.type: expected text, json_object or json_schema, found nothing"},
        {FORMAT("{\"type\":\"json\"}"), "!response_format.type: expected text, json_object or json_schema, found json"},
        {FORMAT("{\"type\":\"json_schema\"}"), "!response_format.schema: expected a JSON Schema, found nothing"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\"}}"),
         "!response_format.json_schema.schema: expected a JSON Schema, found nothing"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":[]}"),
         "!response_format.json_schema: expected an object, found an array"},
        {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":5}}"),
         "!response_format.json_schema.schema: expected a JSON Schema, found an integer"},
        {FORMAT("{\"type\":\"json_schema\",\"schema\":{},\"strict\":1}"),
         "!response_format.strict: expected true or false, found an integer"},
        {"{\"json_schema\":[]}", "!json_schema: expected a JSON Schema, found an array"},
        {"{\"guided_json\":false}", "!guided_json: expected a JSON Schema, found a boolean"},
        {"{\"guided_regex\":{}}", "!guided_regex: expected a string, found an object"},
        {"{\"guided_choice\":\"a\"}", "!guided_choice: expected an array of strings, found a string"},
        {"{\"grammar\":[]}", "!grammar: expected a string, found an array"},
        {"{\"grammar\":\"x\",\"guided_regex\":1}", "!guided_regex: expected a string, found an integer"},
        {"{\"any_whitespace\":1}", "!any_whitespace: expected true or false, found an integer"},
        {SO("[]"), "!structured_outputs: expected an object, found an array"},
        {SO("{}"), "!structured_outputs: expected one of json, json_object, regex, choice, grammar"},
        {SO("{\"jsn\":{}}"), "!structured_outputs: expected one of json, json_object, regex, choice, grammar"},
        {SO("{\"json_object\":1}"), "!structured_outputs.json_object: expected true or false, found an integer"},
        {SO("{\"json\":{},\"structural_tag\":\"x\"}"), "!structured_outputs.structural_tag: not served"},
        {SO("{\"json\":{},\"whitespace_pattern\":\"x\"}"),
         "!structured_outputs.whitespace_pattern: use any_whitespace"},
        {SO("{\"json\":{},\"disable_any_whitespace\":true}"), "!structured_outputs.disable_any_whitespace: not served"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_body(cases[i][0], cases[i][1]);
}

static void test_values_of_other_dialects(void **unused)
{
    (void)unused;
    check_value(FORM_TYPED, "null", "free");
    check_value(FORM_TYPED, "{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{},\"strict\":true}",
                "schema f.schema {} o");
    check_value(FORM_TYPED, "{\"type\":\"object\"}",
                "!f.type: expected text, json_object or json_schema, found object");
    check_value(FORM_BARE, "null", "free");
    check_value(FORM_BARE, "\"\"", "free");
    check_value(FORM_BARE, "\"json\"", "object f -");
    check_value(FORM_BARE, "{\"type\":\"object\"}", "schema f {\"type\":\"object\"}");
    check_value(FORM_BARE, "\"xml\"", "!f: expected \"json\" or a JSON Schema, found a string");
    check_value(FORM_BARE, "[]", "!f: expected \"json\" or a JSON Schema, found an array");
}

/* What the compiled form of `body` takes: n_yes texts that are whole, then texts that are not. */
static void check_texts(const weir_model *m, const char *body, size_t n_yes, const char *const texts[3])
{
    job_options   o = {0};
    reply_form    f;
    api_error     err;
    weir_error    we;
    weir_matcher *at;
    json_t       *root = parse(body);
    if (!form_read(root, &f, &err) || !form_apply(m, &f, &o, &err)) fail_msg("%s: %s", body, err.message);
    json_decref(root); /* the grammar lives on its own */
    for (size_t i = 0; i < 3; i++) {
        weir_ids ids = {0};
        must(weir_tokenize(m, texts[i], strlen(texts[i]), false, &ids, &we), &we);
        must(weir_matcher_new(&at, o.grammar, &we), &we);
        bool whole = true;
        for (size_t k = 0; k < ids.n && whole; k++) whole = weir_matcher_accept(at, ids.data[k], &we) == WEIR_OK;
        if ((whole && weir_matcher_may_end(at)) != (i < n_yes)) fail_msg("%s: %s", body, texts[i]);
        weir_matcher_free(at);
        weir_ids_free(&ids);
    }
    job_options_free(&o);
    assert_null(o.grammar);
}

static void test_compiled(void **unused)
{
#define AB "{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}},\"required\":[\"a\",\"b\"],\"type\":\"object\"}"
    weir_model *m = model_named("demo");
    (void)unused;
    static const char *const texts[3] = {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}", "{\"a\":  1, \"b\": 2}"};
    check_texts(m, "{\"json_schema\":" AB "}", 2, texts);
    check_texts(m, "{\"json_schema\":" AB ",\"any_whitespace\":true}", 3, texts);
    check_texts(m, FORMAT("{\"type\":\"json_schema\",\"strict\":true,\"schema\":" AB "}"), 1, texts);
    check_texts(m, FORMAT("{\"type\":\"json_object\"}"), 1, (const char *const[3]){"{\"x\": [1]}", "[1]", "1"});
    check_texts(m, SO("{\"json_object\":true}"), 1, (const char *const[3]){"{}", "[]", "null"});
    check_texts(m, "{\"guided_regex\":\"a+\"}", 2, (const char *const[3]){"a", "aaa", "ab"});
    check_texts(m, "{\"guided_choice\":[\"no\",\"\\u00e9\\\"\"]}", 2, (const char *const[3]){"no", "\xC3\xA9\"", "n"});
    check_texts(m, "{\"grammar\":\"root ::= [0-9] root | \\\"x\\\"\"}", 2, (const char *const[3]){"x", "12x", "12"});
    weir_model_close(m);
}

static void test_what_does_not_compile(void **unused)
{
    weir_model *m = model_named("demo");
    reply_form  f;
    api_error   err;
    job_options o    = {0};
    json_t     *good = parse("{\"guided_choice\":[\"a\"]}"), *bad = parse(SO("{\"json\":{\"items\":{\"not\":{}}}}"));
    (void)unused;
    assert_true(form_read(good, &f, &err) && form_apply(m, &f, &o, &err));
    assert_non_null(o.grammar);
    assert_true(form_read(bad, &f, &err));
    assert_false(form_apply(m, &f, &o, &err));
    assert_null(o.grammar); /* what was there is gone, too */
    assert_int_equal(err.kind, API_INVALID);
    assert_string_equal(err.param, "structured_outputs.json");
    assert_string_equal(err.message, "structured_outputs.json: schema: #/items/not: this keyword is not supported");
    assert_true(form_apply(NULL, &(reply_form){0}, &o, &err));
    json_decref(good);
    json_decref(bad);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings), cmocka_unit_test(test_order),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_values_of_other_dialects),
        cmocka_unit_test(test_compiled),  cmocka_unit_test(test_what_does_not_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
