/* tests/unit/engine/test_channel.c - reasoning and content are told apart, whatever the pieces. */
#include "support/cmocka.h"

#include "engine/channel.h"
#include <string.h>

enum { OPEN = 7, CLOSE = 8, TOOL = 9, TOOL_CLOSE = 10, WORD = 1 };

/* What came out: content as it is, reasoning in braces. */
typedef struct stream {
    channel c;
    str     out;
} stream;

static void start(stream *s, bool reasoning)
{
    channel_init(&s->c, &(channel_tags){OPEN, CLOSE, TOOL, TOOL_CLOSE}, reasoning);
    str_init(&s->out, 1000);
}

static void text(stream *s, const char *piece)
{
    const bool reasoning = s->c.reasoning;
    str        shown;
    str_init(&shown, 1000);
    assert_false(channel_token(&s->c, WORD));
    channel_text(&s->c, piece, strlen(piece), &shown);
    if (shown.len > 0) str_printf(&s->out, reasoning ? "{%s}" : "%s", shown.data);
    str_free(&shown);
}

static void finish(stream *s, const char *expected)
{
    assert_string_equal(s->out.data, expected);
    channel_free(&s->c);
    str_free(&s->out);
}

static void white_space_around_the_tags_belongs_to_nobody(void **state)
{
    (void)state;
    stream s;
    start(&s, true);
    text(&s, "\n");
    text(&s, " a");
    text(&s, " \n");
    text(&s, " b ");
    text(&s, "\n");
    assert_true(channel_token(&s.c, CLOSE));
    text(&s, "\n\n");
    text(&s, "\n  c"); /* blanks that indent the answer stay */
    text(&s, " \n");
    finish(&s, "{a}{ \n b}  c \n");
}

static void content_is_passed_on_untouched(void **state)
{
    (void)state;
    stream s;
    start(&s, false);
    text(&s, "\n x \n");
    assert_true(channel_token(&s.c, CLOSE)); /* a stray one is not shown */
    text(&s, "y");
    finish(&s, "\n x \ny");
}

static void a_repeated_opening_changes_nothing(void **state)
{
    (void)state;
    stream s;
    start(&s, true);
    assert_true(channel_token(&s.c, OPEN));
    text(&s, "\nhm");
    assert_true(channel_token(&s.c, CLOSE));
    text(&s, "ok");
    finish(&s, "{hm}ok");
}

static void a_tool_call_ends_the_reasoning_and_is_shown(void **state)
{
    (void)state;
    stream s;
    start(&s, true);
    text(&s, "so ");
    assert_false(channel_token(&s.c, TOOL)); /* its text follows, as content */
    assert_false(s.c.reasoning);
    text(&s, "<tool_call>");
    assert_false(channel_token(&s.c, TOOL)); /* in content it is a token like others */
    text(&s, "\n");
    finish(&s, "{so}<tool_call>\n");
}

/* The text of a token that is no think tag, and which state it leaves. */
static void tool_text(stream *s, uint32_t id, const char *piece, channel_tool after)
{
    assert_false(channel_token(&s->c, id));
    channel_text(&s->c, piece, strlen(piece), &s->out);
    assert_int_equal(s->c.tool, after);
}

static void in_a_call_think_tags_are_text(void **state)
{
    (void)state;
    stream s;
    start(&s, false);
    tool_text(&s, TOOL, "<tool_call>", CHANNEL_TOOL_OPENED);
    tool_text(&s, WORD, "\n", CHANNEL_TOOL_OPENED);
    tool_text(&s, WORD, "<function", CHANNEL_TOOL);
    tool_text(&s, OPEN, "<think>", CHANNEL_TOOL);
    tool_text(&s, CLOSE, "</think>", CHANNEL_TOOL);
    assert_false(s.c.reasoning);
    tool_text(&s, TOOL_CLOSE, "</tool_call>", CHANNEL_NO_TOOL);
    assert_true(channel_token(&s.c, OPEN));
    assert_true(s.c.reasoning);
    finish(&s, "<tool_call>\n<function<think></think></tool_call>");
}

static void text_that_speaks_of_the_tag_is_no_call(void **state)
{
    (void)state;
    stream s;
    start(&s, false);
    tool_text(&s, TOOL, "<tool_call>", CHANNEL_TOOL_OPENED);
    tool_text(&s, WORD, " is a tag", CHANNEL_NO_TOOL);
    tool_text(&s, TOOL, "<tool_call>", CHANNEL_TOOL_OPENED);
    tool_text(&s, WORD, " {", CHANNEL_TOOL);
    finish(&s, "<tool_call> is a tag<tool_call> {");
}

static void a_call_begun_while_reasoning_can_be_closed_with_it(void **state)
{
    (void)state;
    stream s;
    start(&s, true);
    tool_text(&s, TOOL, "<tool_call>", CHANNEL_TOOL_OPENED);
    tool_text(&s, WORD, "<function", CHANNEL_TOOL);
    assert_true(channel_token(&s.c, CLOSE));
    assert_int_equal(s.c.tool, CHANNEL_NO_TOOL);
    assert_false(s.c.reasoning);
    text(&s, "\n\nso");
    finish(&s, "<tool_call><functionso");
}

static void without_tags_all_is_content(void **state)
{
    (void)state;
    stream s;
    start(&s, false);
    s.c.tags = (channel_tags){CHANNEL_NO_ID, CHANNEL_NO_ID, CHANNEL_NO_ID, CHANNEL_NO_ID};
    assert_false(channel_token(&s.c, CHANNEL_NO_ID));
    assert_false(channel_token(&s.c, OPEN));
    text(&s, "\nz");
    finish(&s, "\nz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_around_the_tags_belongs_to_nobody),
        cmocka_unit_test(content_is_passed_on_untouched),
        cmocka_unit_test(a_repeated_opening_changes_nothing),
        cmocka_unit_test(a_tool_call_ends_the_reasoning_and_is_shown),
        cmocka_unit_test(in_a_call_think_tags_are_text),
        cmocka_unit_test(text_that_speaks_of_the_tag_is_no_call),
        cmocka_unit_test(a_call_begun_while_reasoning_can_be_closed_with_it),
        cmocka_unit_test(without_tags_all_is_content),
    };
    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
