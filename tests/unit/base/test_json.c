/* JSON with limits; getters whose messages name file and field. */
#include "support/cmocka.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void check_refused(const char *text, size_t len, unsigned depth, const char *message)
{
    json_doc   d;
    weir_error err;
    if (json_parse(&d, text, len, "c.json", depth, &err) != WEIR_FORMAT) fail_msg("%s: expected a failure", text);
    if (strncmp(err.text, "c.json: ", 8) != 0 || strstr(err.text, message) == NULL)
        fail_msg("%s: expected a message with \"%s\", found \"%s\"", text, message, err.text);
    assert_null(d.root);
    assert_null(d.name);
}

static void what_is_refused(void **state)
{
    (void)state;
    check_refused("", 0, 8, "not valid JSON");
    check_refused("{", 1, 8, "not valid JSON");
    check_refused("{} x", 4, 8, "not valid JSON");
    check_refused("{\"a\":1,\"a\":2}", 13, 8, "duplicate");
    check_refused("{\n \"a\": tru}", 11, 8, "line 2");
    check_refused("\"\xFF\"", 3, 8, "expected UTF-8");
    check_refused("[[[[1]]]]", 9, 3, "deeper than 3 levels");
    check_refused("{\"a\":{\"b\":[]}}", 14, 2, "deeper than 2 levels");
    check_refused("[1, 2]tail", 6 + 4, 8, "not valid JSON");
}

static void what_is_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[[[1]]]", "{\"[[[[[\":\"\\\"{{{{\"}", /* brackets within strings are no depth */
        "1",       "\"text\"",
        "null",    "[[],[],[],[],[[]]]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_doc   d;
        weir_error err;
        if (json_parse(&d, texts[i], strlen(texts[i]), "c.json", 3, &err) != WEIR_OK) fail_msg("%s", err.text);
        assert_string_equal(d.name, "c.json");
        json_doc_free(&d);
        assert_null(d.root);
    }
    json_doc   d;
    const char with_more[] = {'[', '1', ']', '[', '['}; /* len counts, not a NUL */
    assert_int_equal(json_parse(&d, with_more, 3, "c.json", 1, NULL), WEIR_OK);
    json_doc_free(&d);
    json_doc_free(&d);
}

static const char document[] = "{\"n\":7,\"big\":5000000000,\"neg\":-1,\"f\":1.5,\"huge\":1e308,\"t\":true,\"s\":\"x\","
                               "\"o\":{\"k\":1},\"a\":[1],\"z\":null}";

static json_doc doc;

static int open_document(void **state)
{
    (void)state;
    return json_parse(&doc, document, sizeof document - 1, "config.json", 4, NULL) != WEIR_OK;
}

static int close_document(void **state)
{
    (void)state;
    json_doc_free(&doc);
    return 0;
}

static json_at top(const char *where)
{
    return (json_at){.file = "config.json", .where = where, .obj = doc.root};
}

static void members_of_the_right_type(void **state)
{
    (void)state;
    const json_at at = top("");
    uint32_t      u  = 0;
    double        x  = 0;
    bool          b  = false;
    const char   *s  = NULL;
    const json_t *v  = NULL;
    assert_int_equal(json_get_u32(&at, "n", true, 7, 7, &u, NULL), WEIR_OK);
    assert_int_equal(u, 7);
    assert_int_equal(json_get_double(&at, "f", true, &x, NULL), WEIR_OK);
    assert_true(x == 1.5);
    assert_int_equal(json_get_double(&at, "n", true, &x, NULL), WEIR_OK);
    assert_true(x == 7.0);
    assert_int_equal(json_get_bool(&at, "t", true, &b, NULL), WEIR_OK);
    assert_true(b);
    assert_int_equal(json_get_string(&at, "s", true, &s, NULL), WEIR_OK);
    assert_string_equal(s, "x");
    assert_int_equal(json_get_object(&at, "o", true, &v, NULL), WEIR_OK);
    assert_int_equal(json_object_size(v), 1);
    assert_int_equal(json_get_array(&at, "a", true, &v, NULL), WEIR_OK);
    assert_int_equal(json_array_size(v), 1);
}

/* Absent and null alike: the default stays. */
static void members_that_are_not_there(void **state)
{
    (void)state;
    const json_at     at      = top("text_config");
    const char *const names[] = {"absent", "z"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t      u = 42;
        double        x = 4.5;
        bool          b = true;
        const char   *s = "default";
        const json_t *v = doc.root;
        weir_error    err;
        assert_int_equal(json_get_u32(&at, names[i], false, 0, 9, &u, &err), WEIR_OK);
        assert_int_equal(json_get_double(&at, names[i], false, &x, &err), WEIR_OK);
        assert_int_equal(json_get_bool(&at, names[i], false, &b, &err), WEIR_OK);
        assert_int_equal(json_get_string(&at, names[i], false, &s, &err), WEIR_OK);
        assert_true(u == 42 && x == 4.5 && b && strcmp(s, "default") == 0);
        assert_int_equal(json_get_object(&at, names[i], false, &v, &err), WEIR_OK);
        assert_null(v);
        assert_int_equal(json_get_u32(&at, names[i], true, 0, 9, &u, &err), WEIR_FORMAT);
        char expected[96];
        (void)snprintf(expected, sizeof expected, "config.json: text_config.%s: expected an integer, found nothing",
                       names[i]);
        assert_string_equal(err.text, expected);
        assert_int_equal(json_get_array(&at, names[i], true, &v, &err), WEIR_FORMAT);
        assert_int_equal(json_get_string(&at, names[i], true, &s, &err), WEIR_FORMAT);
    }
}

static void check_u32(const char *key, uint32_t min, uint32_t max, const char *message)
{
    const json_at at = top("");
    uint32_t      u  = 42;
    weir_error    err;
    assert_int_equal(json_get_u32(&at, key, false, min, max, &u, &err), WEIR_FORMAT);
    assert_string_equal(err.text, message);
    assert_int_equal(u, 42);
}

static void members_of_the_wrong_type_or_range(void **state)
{
    (void)state;
    check_u32("n", 8, 100, "config.json: n: expected 8..100, found 7");
    check_u32("n", 0, 6, "config.json: n: expected 0..6, found 7");
    check_u32("big", 0, UINT32_MAX, "config.json: big: expected 0..4294967295, found 5000000000");
    check_u32("neg", 0, UINT32_MAX, "config.json: neg: expected 0..4294967295, found -1");
    check_u32("f", 0, 9, "config.json: f: expected an integer, found a number with a fraction");
    check_u32("s", 0, 9, "config.json: s: expected an integer, found a string");
    check_u32("t", 0, 9, "config.json: t: expected an integer, found a boolean");
    const json_at at = top("");
    double        x  = 0;
    bool          b  = false;
    const char   *s  = NULL;
    const json_t *v  = NULL;
    weir_error    err;
    assert_int_equal(json_get_double(&at, "s", false, &x, &err), WEIR_FORMAT);
    assert_string_equal(err.text, "config.json: s: expected a finite number, found a string");
    assert_int_equal(json_get_bool(&at, "n", false, &b, &err), WEIR_FORMAT);
    assert_string_equal(err.text, "config.json: n: expected true or false, found an integer");
    assert_int_equal(json_get_string(&at, "o", false, &s, &err), WEIR_FORMAT);
    assert_string_equal(err.text, "config.json: o: expected a string, found an object");
    assert_int_equal(json_get_object(&at, "a", false, &v, &err), WEIR_FORMAT);
    assert_string_equal(err.text, "config.json: a: expected an object, found an array");
    assert_int_equal(json_get_array(&at, "o", false, &v, &err), WEIR_FORMAT);
    assert_string_equal(err.text, "config.json: o: expected an array, found an object");
}

static void files_have_a_largest_size(void **state)
{
    (void)state;
    char      path[] = "/tmp/weir-json-XXXXXX";
    const int fd     = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, document, sizeof document - 1), (ssize_t)(sizeof document - 1));
    (void)close(fd);
    json_doc   d;
    weir_error err;
    assert_int_equal(json_load(&d, path, sizeof document - 1, 4, &err), WEIR_OK);
    assert_string_equal(d.name, path);
    json_doc_free(&d);
    assert_int_equal(json_load(&d, path, sizeof document - 2, 4, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected at most"));
    mem_fail_at(2); /* 1: the text, 2: the copy of the name */
    assert_int_equal(json_load(&d, path, 1000, 4, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    assert_null(d.root);
    (void)unlink(path);
    assert_int_equal(json_load(&d, path, 1000, 4, &err), WEIR_IO);
    assert_non_null(strstr(err.text, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_accepted),
        cmocka_unit_test(members_of_the_right_type),
        cmocka_unit_test(members_that_are_not_there),
        cmocka_unit_test(members_of_the_wrong_type_or_range),
        cmocka_unit_test(files_have_a_largest_size),
    };
    return cmocka_run_group_tests_name("json", tests, open_document, close_document);
}
