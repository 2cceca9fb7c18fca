/* The bounded string builder, and which bytes are UTF-8. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

static void text_grows_up_to_the_maximum(void **state)
{
    (void)state;
    str s;
    str_init(&s, 10);
    assert_string_equal(s.data, "");
    str_puts(&s, "abc");
    str_putc(&s, 'd');
    str_printf(&s, "%d-%s", 12, "xyz");
    assert_string_equal(s.data, "abcd12-xyz"); /* exactly 10 */
    assert_int_equal(s.len, 10);
    assert_int_equal(str_status(&s, "text", NULL), WEIR_OK);
    str_putc(&s, '!');
    weir_error err;
    assert_int_equal(str_status(&s, "prompt", &err), WEIR_NO_MEMORY);
    assert_non_null(strstr(err.text, "prompt: longer than 10 bytes"));
    assert_string_equal(s.data, "abcd12-xyz");
    str_free(&s);
}

static void the_first_failure_sticks(void **state)
{
    (void)state;
    str s;
    str_init(&s, 4);
    str_puts(&s, "ab");
    str_printf(&s, "%s", "cde");
    str_putc(&s, 'f'); /* would fit */
    assert_string_equal(s.data, "ab");
    assert_true(s.failed);
    str_clear(&s);
    assert_false(s.failed);
    str_puts(&s, "wxyz");
    assert_string_equal(s.data, "wxyz");
    str_free(&s);
    assert_string_equal(s.data, "");
    str_puts(&s, "again");
    assert_true(s.failed);
    str_free(&s);
}

static void lengths_near_the_end_do_not_wrap(void **state)
{
    (void)state;
    str s;
    str_init(&s, SIZE_MAX - 1);
    str_puts(&s, "a");
    str_put(&s, "b", SIZE_MAX - 1); /* never read: refused first */
    assert_true(s.failed);
    assert_string_equal(s.data, "a");
    str_free(&s);
}

static void many_small_pieces(void **state)
{
    (void)state;
    str s;
    str_init(&s, 100000);
    for (int i = 0; i < 10000; i++) str_printf(&s, "%d,", i % 10);
    assert_int_equal(s.len, 20000);
    for (size_t i = 0; i < s.len; i++) assert_int_equal(s.data[i], i % 2 == 0 ? '0' + (int)(i / 2 % 10) : ',');
    str_put(&s, "a\0b", 3);
    assert_memory_equal(s.data + 20000, "a\0b", 4);
    char *p = str_take(&s);
    assert_int_equal(s.len, 0);
    assert_string_equal(s.data, "");
    assert_int_equal(p[19999], ',');
    mem_free(p);
    p = str_take(&s);
    assert_string_equal(p, "");
    mem_free(p);
}

static void without_memory(void **state)
{
    (void)state;
    str s;
    str_init(&s, 1000);
    mem_fail_at(1);
    str_puts(&s, "x");
    mem_fail_at(0);
    assert_int_equal(str_status(&s, "x", NULL), WEIR_NO_MEMORY);
    assert_string_equal(s.data, "");
    str_free(&s);
}

/* Table 3-7 of the Unicode standard at its edges. */
static void utf8_sequences(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t      n, length;
    } cases[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\0", 1, 1},
        {"\x7F", 1, 1},
        {"\x80", 1, 0},
        {"\xBF", 1, 0},
        {"\xC0\x80", 2, 0},
        {"\xC1\xBF", 2, 0},
        {"\xC2\x80", 2, 2},
        {"\xDF\xBF", 2, 2},
        {"\xC2", 1, 0},
        {"\xC2\x41", 2, 0},
        {"\xC2\xC0", 2, 0},
        {"\xE0\x9F\xBF", 3, 0},
        {"\xE0\xA0\x80", 3, 3},
        {"\xE1\x80\x80", 3, 3},
        {"\xED\x9F\xBF", 3, 3},
        {"\xED\xA0\x80", 3, 0},
        {"\xED\xBF\xBF", 3, 0},
        {"\xEE\x80\x80", 3, 3},
        {"\xEF\xBF\xBF", 3, 3},
        {"\xE1\x80", 2, 0},
        {"\xE1\x80\x7F", 3, 0},
        {"\xE1\x7F\x80", 3, 0},
        {"\xF0\x8F\xBF\xBF", 4, 0},
        {"\xF0\x90\x80\x80", 4, 4},
        {"\xF3\xBF\xBF\xBF", 4, 4},
        {"\xF4\x8F\xBF\xBF", 4, 4},
        {"\xF4\x90\x80\x80", 4, 0},
        {"\xF5\x80\x80\x80", 4, 0},
        {"\xF0\x90\x80", 3, 0},
        {"\xF0\x90\x80\x7F", 4, 0},
        {"\xF8\x88\x80\x80\x80", 5, 0},
        {"\xFE", 1, 0},
        {"\xFF", 1, 0},
        {"\xC3\xA9zz", 4, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (utf8_sequence(cases[i].bytes, cases[i].n) != cases[i].length)
            fail_msg("case %zu: expected %zu, found %zu", i, cases[i].length,
                     utf8_sequence(cases[i].bytes, cases[i].n));
}

/* Every code point encodes, and only the code points do. */
static void utf8_counts(void **state)
{
    (void)state;
    size_t valid[5] = {0};
    for (uint32_t u = 0; u < 1u << 24; u++) {
        const char   bytes[] = {(char)(u >> 16), (char)(u >> 8 & 0xFF), (char)(u & 0xFF)};
        const size_t n       = utf8_sequence(bytes, sizeof bytes);
        valid[n]++;
    }
    assert_int_equal(valid[1], 128u * 65536);
    assert_int_equal(valid[2], (0x800u - 0x80) * 256);
    assert_int_equal(valid[3], 0x10000u - 0x800 - 0x800);
    assert_int_equal(valid[4], 0);
}

static void utf8_texts(void **state)
{
    (void)state;
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("Grün \xE2\x82\xAC \xF0\x9F\x98\x80", 15));
    assert_false(utf8_valid("Gr\xFCn", 4));
    assert_false(utf8_valid("cut \xE2\x82", 6));
    assert_true(utf8_valid("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_up_to_the_maximum),
        cmocka_unit_test(the_first_failure_sticks),
        cmocka_unit_test(lengths_near_the_end_do_not_wrap),
        cmocka_unit_test(many_small_pieces),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(utf8_sequences),
        cmocka_unit_test(utf8_counts),
        cmocka_unit_test(utf8_texts),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
