/* tests/unit/text_toolcall/test_message.c - a whole reply as one message. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "weir/toolcall.h"

#include <string.h>

static const char tools[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
                            "\"n\":{\"type\":\"integer\"}}}}]";

#define CALL \
    "<tool_call>\n<function=f>\n<parameter=s>\na\n\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</" \
    "tool_call>"

static weir_message parse(const char *text, bool thinking, bool complete)
{
    weir_toolcall_options opt = WEIR_TOOLCALL_OPTIONS_INIT;
    weir_message          m;
    weir_error            err;
    opt.tools_json    = tools;
    opt.thinking_open = thinking;
    if (weir_message_parse(&m, &opt, text, strlen(text), complete, &err) != WEIR_OK) fail_msg("%s", err.text);
    return m;
}

static void reasoning_content_and_calls(void **state)
{
    (void)state;
    weir_message m = parse("\nI think.\n</think>\n\nSo:\n\n" CALL "\n" CALL "\n", true, true);
    assert_string_equal(m.reasoning, "I think.");
    assert_string_equal(m.content, "So:");
    assert_int_equal(m.content_len, 3);
    assert_int_equal(m.n_calls, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(m.calls[i].name, "f");
        assert_string_equal(m.calls[i].arguments, "{\"s\":\"a\\n\",\"n\":1}");
        assert_int_equal(strlen(m.calls[i].id), 29);
    }
    assert_null(m.unfinished);
    weir_message_free(&m);
    assert_int_equal(m.n_calls, 0);
}

static void what_is_not_there_is_null(void **state)
{
    (void)state;
    weir_message m = parse("", false, true);
    assert_null(m.content);
    assert_null(m.reasoning);
    assert_null(m.calls);
    weir_message_free(&m);
    m = parse("<think>\nx\n</think>\n\n  y", false, true);
    assert_string_equal(m.reasoning, "x");
    assert_string_equal(m.content, "  y");
    weir_message_free(&m);
}

static void a_call_that_is_cut_off_is_left_out(void **state)
{
    (void)state;
    weir_message m = parse(CALL "\n<tool_call>\n<function=f>\n<parameter=s>\nab", false, false);
    assert_int_equal(m.n_calls, 1);
    assert_null(m.content);
    assert_string_equal(m.unfinished, "<tool_call>\n<function=f>\n<parameter=s>\nab");
    weir_message_free(&m);
    m = parse(CALL "\n<tool_call>\n<function=f>\n<parameter=s>\nab", false, true);
    assert_int_equal(m.n_calls, 2);
    assert_string_equal(m.calls[1].arguments, "{\"s\":\"ab\"}");
    weir_message_free(&m);
}

/* Every allocation fails once: an error or, where it did not matter, the message. */
static void want_of_memory_is_an_error(void **state)
{
    (void)state;
    weir_toolcall_options opt = WEIR_TOOLCALL_OPTIONS_INIT;
    static const char     text[] =
        "<think>r</think>c" CALL "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1}}</tool_call>";
    unsigned failures = 0;
    opt.tools_json    = tools;
    for (uint64_t n = 1;; n++) {
        weir_message   m;
        weir_error     err;
        const uint64_t before = mem_count();
        mem_fail_at(n);
        const weir_status st  = weir_message_parse(&m, &opt, text, strlen(text), true, &err);
        const bool        all = mem_count() - before < n;
        mem_fail_at(0);
        if (st == WEIR_OK) {
            assert_string_equal(m.reasoning, "r");
            assert_string_equal(m.content, "c");
            assert_int_equal(m.n_calls, 2);
            assert_string_equal(m.calls[1].arguments, "{\"n\":1}");
        } else {
            failures++;
            assert_int_equal(st, WEIR_NO_MEMORY);
            assert_null(m.calls);
        }
        weir_message_free(&m);
        if (all) break;
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_content_and_calls), cmocka_unit_test(what_is_not_there_is_null),
        cmocka_unit_test(a_call_that_is_cut_off_is_left_out), cmocka_unit_test(want_of_memory_is_an_error)};
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
