/* tests/unit/engine/test_channel.c - reasoning and content are told apart, whatever the pieces. */
#include "support/cmocka.h"

#include "engine/channel.h"
#include <string.h>

enum { OPEN = 7, CLOSE = 8, TOOL = 9, WORD = 1 };

/* What came out: content as it is, reasoning in braces. */
typedef struct stream {
    channel c;
    str     out;
} stream;

static void start(stream *s, bool reasoning)
{
    channel_init(&s->c, &(channel_tags){OPEN, CLOSE, TOOL}, reasoning);
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

static void without_tags_all_is_content(void **state)
{
    (void)state;
    stream s;
    start(&s, false);
    s.c.tags = (channel_tags){CHANNEL_NO_ID, CHANNEL_NO_ID, CHANNEL_NO_ID};
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
        cmocka_unit_test(without_tags_all_is_content),
    };
    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
