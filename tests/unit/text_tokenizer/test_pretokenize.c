/* tests/unit/text_tokenizer/test_pretokenize.c - where text is cut, and which patterns are refused. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "base/str.h"
#include "text/pretokenize.h"

#include <string.h>

/* The family's pattern, and that of the generation before it, without marks. */
#define WITH_MARKS \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WITHOUT_MARKS \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The pieces joined with '|'. */
static void expect_pieces(const char *pattern, const char *text, const char *expected)
{
    pretokenizer *p;
    weir_error    err;
    pretoken_cut  cut;
    str           got;
    str_init(&got, 10000);
    if (pretokenizer_new(&p, pattern, strlen(pattern), &err) != WEIR_OK) fail_msg("%s", err.text);
    assert_int_equal(pretoken_cut_init(&cut, p, &err), WEIR_OK);
    pretoken_cut_start(&cut, text, strlen(text));
    while (pretoken_cut_more(&cut)) {
        size_t start, end;
        if (pretoken_cut_next(&cut, &start, &end, &err) != WEIR_OK) fail_msg("%s", err.text);
        if (got.len > 0) str_putc(&got, '|');
        str_put(&got, text + start, end - start);
    }
    if (strcmp(got.data, expected) != 0) fail_msg("'%s': expected '%s', found '%s'", text, expected, got.data);
    str_free(&got);
    pretoken_cut_free(&cut);
    pretokenizer_free(p);
}

static void text_is_cut_at_words_digits_punctuation_and_spaces(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"Hello world", "Hello| world"},
        {"don't I'LL", "don|'t| I|'LL"},
        {"a1234b", "a|1|2|3|4|b"},
        {"x = f(y);\n", "x| =| f|(y|);\n"},
        {"a   b", "a|  | b"},
        {"a  \n\n b  ", "a|  \n\n| b|  "},
        {"  \n", "  \n"},
        {"\tx\r\ny", "\tx|\r\n|y"},
        {"(\u00e9t\u00e9)", "(\u00e9t\u00e9|)"},
        {"a\u180eb", "a|\u180eb"},
        {"a\u180e\u180e!", "a|\u180e\u180e!"}, /* no white space since Unicode 6.3 */
        {"'\u017f", "'\u017f"},                /* long s is a case of s */
        {"\U000322c4're", "\U000322c4|'re"},   /* a letter since Unicode 15 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_pieces(WITH_MARKS, cases[i][0], cases[i][1]);
}

/* Vowel signs belong to their word here, and did not in the older pattern. */
static void words_with_marks_stay_whole(void **state)
{
    (void)state;
    const char *text = "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e";
    expect_pieces(WITH_MARKS, text, "\u0928\u092e\u0938\u094d\u0924\u0947| \u0926\u0941\u0928\u093f\u092f\u093e");
    expect_pieces(WITHOUT_MARKS, text,
                  "\u0928\u092e\u0938|\u094d\u0924|\u0947| \u0926|\u0941\u0928|\u093f\u092f|\u093e");
}

static void what_no_match_covers_is_a_piece(void **state)
{
    (void)state;
    expect_pieces("b+", "aabbacb", "aa|bb|ac|b");
    expect_pieces("z", "\u00e9\u00e9", "\u00e9\u00e9");
    expect_pieces("b*", "a\u00e9bb", "a|\u00e9|bb"); /* a match of nothing only cuts */
}

static void unknown_patterns_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        weir_status status;
        const char *text;
    } bad[] = {
        {"\\w+", WEIR_UNSUPPORTED, "\\w"},        {"\\h", WEIR_UNSUPPORTED, "\\h"},
        {"\\p{Lu}", WEIR_UNSUPPORTED, "\\p{Lu}"}, {"[\\P{L}]", WEIR_UNSUPPORTED, "\\P{L}"},
        {"a$", WEIR_UNSUPPORTED, "anchor"},       {"^a", WEIR_UNSUPPORTED, "anchor"},
        {"(?i)a", WEIR_UNSUPPORTED, "group"},     {"(*NO_JIT)a", WEIR_UNSUPPORTED, "group"},
        {"[a[b]]", WEIR_UNSUPPORTED, "class"},    {"[a&&b]", WEIR_UNSUPPORTED, "class"},
        {"[]a]", WEIR_UNSUPPORTED, "class"},      {"(a", WEIR_FORMAT, "byte 2"},
        {"a\\", WEIR_UNSUPPORTED, "escape"},      {"[a", WEIR_FORMAT, "byte 2"},
        {"\\Qa", WEIR_UNSUPPORTED, "\\Q"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pretokenizer     *p;
        weir_error        err = {.text = ""};
        const weir_status st  = pretokenizer_new(&p, bad[i].pattern, strlen(bad[i].pattern), &err);
        if (st != bad[i].status || strstr(err.text, bad[i].text) == NULL)
            fail_msg("'%s': found status %d, '%s'", bad[i].pattern, (int)st, err.text);
        assert_null(p);
    }
}

/* A pattern that backtracks without end is given up, not waited for. */
static void a_runaway_pattern_is_an_error(void **state)
{
    (void)state;
    const char   *pattern = "(a+)+b";
    char          text[60];
    pretokenizer *p;
    weir_error    err;
    pretoken_cut  cut;
    size_t        start, end;
    memset(text, 'a', sizeof text);
    assert_int_equal(pretokenizer_new(&p, pattern, strlen(pattern), &err), WEIR_OK);
    assert_int_equal(pretoken_cut_init(&cut, p, &err), WEIR_OK);
    pretoken_cut_start(&cut, text, sizeof text);
    const weir_status st = pretoken_cut_next(&cut, &start, &end, &err);
    if (st != WEIR_OK) assert_int_equal(st, WEIR_UNSUPPORTED); /* or the library saw that there is no b */
    pretoken_cut_free(&cut);
    pretokenizer_free(p);
}

/* Every allocation of the compiler fails once. */
static void failing_memory_is_reported(void **state)
{
    (void)state;
    pretokenizer *p;
    weir_error    err;
    uint64_t      n  = 0;
    weir_status   st = WEIR_NO_MEMORY;
    while (st != WEIR_OK) {
        mem_fail_at(++n);
        st = pretokenizer_new(&p, WITH_MARKS, strlen(WITH_MARKS), &err);
        mem_fail_at(0);
        if (st != WEIR_OK) assert_int_equal(st, WEIR_NO_MEMORY);
        assert_true(n < 1000);
    }
    assert_true(n > 5);
    pretokenizer_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_at_words_digits_punctuation_and_spaces),
        cmocka_unit_test(words_with_marks_stay_whole),
        cmocka_unit_test(what_no_match_covers_is_a_piece),
        cmocka_unit_test(unknown_patterns_are_refused_by_name),
        cmocka_unit_test(a_runaway_pattern_is_an_error),
        cmocka_unit_test(failing_memory_is_reported),
    };
    return cmocka_run_group_tests_name("pretokenize", tests, NULL, NULL);
}
