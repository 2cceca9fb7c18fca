/* tests/unit/grammar/test_languages.c - regular expressions, EBNF and choices: what fits, what
 * does not, and what is refused. */
#include "unit/grammar/rig.h"

#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct language_case {
    weir_grammar_kind kind;
    const char       *text;
    const char       *good[10], *bad[10];
} language_case;

static const language_case cases[] = {
    {WEIR_GRAMMAR_REGEX, "abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
    {WEIR_GRAMMAR_REGEX, "^a|bc$", {"a", "bc"}, {"ab", "abc", "ac"}},
    {WEIR_GRAMMAR_REGEX, "a*b+c?", {"b", "aab", "bbc"}, {"", "a", "ac", "bcc"}},
    {WEIR_GRAMMAR_REGEX, "(ab|c){2,3}", {"abab", "cab", "ccc"}, {"ab", "cccc", "abcabc ", ""}},
    {WEIR_GRAMMAR_REGEX, "[a-c\\d_]{2}", {"a0", "_c"}, {"ad", "a", "a01"}},
    {WEIR_GRAMMAR_REGEX, "[^a-y]", {"z", "A", "\xC3\xA9", "\xF0\x9F\x98\x80", "\n"}, {"a", "", "zz"}},
    {WEIR_GRAMMAR_REGEX,
     "a.c",
     {"abc",
      "a\xC3\xA9"
      "c",
      "a.c"},
     {"ac", "a\nc", "abbc"}},
    {WEIR_GRAMMAR_REGEX, "\\w+@\\S+\\s", {"a_1@x\t"}, {"@x ", "a@ x"}},
    {WEIR_GRAMMAR_REGEX,
     "\\u00e9\\x41\\u{1F600}\\.\\/",
     {"\xC3\xA9"
      "A\xF0\x9F\x98\x80./"},
     {"e"}},
    {WEIR_GRAMMAR_REGEX, "(?:a(b(c)?)?)*", {"", "aababc"}, {"b", "ac"}},
    {WEIR_GRAMMAR_REGEX, "a{0}b{2,}?", {"bb", "bbbb"}, {"b", "abb"}},
    {WEIR_GRAMMAR_REGEX,
     "[\xC3\xA0-\xC3\xBF\xE4\xB8\x80-\xE9\xBF\xBF]+",
     {"\xC3\xA9\xE4\xBD\xA0"},
     {"\xC3\x9F", "a", "\xC3"}},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\" b\nb ::= \"b\" | \"c\"", {"ab", "ac"}, {"a", "b", "abc"}},
    {WEIR_GRAMMAR_EBNF,
     "# sums\nroot ::= term (\" + \" term)* # at least one\nterm ::= [0-9]+ | \"(\" root \")\"",
     {"1", "1 + 23", "(1 + (2)) + 3"},
     {"", "1+2", "(1", "1 + ", "()"}},
    {WEIR_GRAMMAR_EBNF,
     "root ::= [a-z]{2,4} \"-\"{2} x{0,1}\nx ::= \"x\" | \"y\" x",
     {"ab--", "abcd--x", "abc--yyx"},
     {"a--", "abcde--", "ab-", "ab--xx", "ab--y"}},
    {WEIR_GRAMMAR_EBNF,
     "root ::= pair{2,3}\npair ::= \"(\" pair? \")\"",
     {"()()", "(())()((()))"},
     {"()", "()()()()", "(()"}},
    {WEIR_GRAMMAR_EBNF, "root ::= (\"a\"{1,2} \"b\"){2}", {"abaab"}, {"ab", "aaabab", "ababab"}},
    {WEIR_GRAMMAR_EBNF,
     "root ::= \"\\\"\" [^\"\\n]* \"\\\"\" . \"\\u00e9\\x41\\t\"",
     {"\"hi\"!\xC3\xA9"
      "A\t",
      "\"\"\n\xC3\xA9"
      "A\t"},
     {"\"hi", "\"\n\"!\xC3\xA9"
              "A\t"}},
    {WEIR_GRAMMAR_EBNF, "root ::= (x | \"\")* \"end\"\nx ::= \"a\"* \"b\"?", {"end", "abend", "bbaabend"}, {"", "ac"}},
    {WEIR_GRAMMAR_EBNF, "list ::= \"a\" list | \"a\"\nroot ::=\n  list\n  \"!\"", {"a!", "aaaaaaaa!"}, {"!", "aa"}},
    {WEIR_GRAMMAR_EBNF,
     "root ::= (\"a\"{1,2} b{2}){1,2} | \"x\"{1,3} root\nb ::= \"b\"{1,3}",
     {"abb", "xxabb", "xxxxaabbbbabb"},
     {"ab", "a", "x", "abbx"}},
    {WEIR_GRAMMAR_CHOICE,
     "[\"yes\",\"no\",\"yesterday\",\"\xC3\xA9\"]",
     {"yes", "no", "yesterday", "\xC3\xA9"},
     {"", "ye", "yesno", "yesterda"}},
    {WEIR_GRAMMAR_CHOICE, "[\"\",\"a\"]", {"", "a"}, {"aa"}},
};

static void texts_fit_or_not(void **state)
{
    (void)state;
    vocabulary v;
    vocabulary_make(&v, 300, 11);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const language_case *c = &cases[i];
        if (c->good[0] == NULL) continue;
        grammar *g = compiled(&v, c->kind, c->text, NULL);
        for (int j = 0; j < 10 && c->good[j] != NULL; j++)
            if (!accepts_by_tokens(&v, g, c->good[j], strlen(c->good[j]), i, true))
                fail_msg("%s: expected \"%s\" to fit", c->text, c->good[j]);
        for (int j = 0; j < 10 && c->bad[j] != NULL; j++)
            if (accepts(g, c->bad[j], strlen(c->bad[j])))
                fail_msg("%s: expected \"%s\" not to fit", c->text, c->bad[j]);
        grammar_release(g);
    }
    vocabulary_free(&v);
}

static const struct {
    weir_grammar_kind kind;
    const char       *text, *why;
} refused[] = {
    {WEIR_GRAMMAR_REGEX, "(", "offset 1: expected )"},
    {WEIR_GRAMMAR_REGEX, "a)", "offset 1: expected the end"},
    {WEIR_GRAMMAR_REGEX, "[a", "expected ] at the end"},
    {WEIR_GRAMMAR_REGEX, "[b-a]", "from lower to higher"},
    {WEIR_GRAMMAR_REGEX, "*a", "nothing to repeat"},
    {WEIR_GRAMMAR_REGEX, "a**", "nothing to repeat"},
    {WEIR_GRAMMAR_REGEX, "a{3,2}", "expected {m}"},
    {WEIR_GRAMMAR_REGEX, "(?!a)", "groups other than"},
    {WEIR_GRAMMAR_REGEX, "(?<n>a)", "groups other than"},
    {WEIR_GRAMMAR_REGEX, "\\bword", "\\b and \\B"},
    {WEIR_GRAMMAR_REGEX, "\\p{L}", "\\p is not"},
    {WEIR_GRAMMAR_REGEX, "(a)\\1", "back references"},
    {WEIR_GRAMMAR_REGEX, "a^b", "^ and $"},
    {WEIR_GRAMMAR_REGEX, "(a$)b", "^ and $"},
    {WEIR_GRAMMAR_REGEX, "\\ud800", "hexadecimal"},
    {WEIR_GRAMMAR_REGEX, "\xFF", "UTF-8"},
    {WEIR_GRAMMAR_REGEX, "((a{100}){100}){100}", "too many states"},
    {WEIR_GRAMMAR_REGEX, "(a|b)*a(a|b){20}", "states"},
    {WEIR_GRAMMAR_REGEX, "[]", "no"},
    {WEIR_GRAMMAR_EBNF, "", "named \"root\""},
    {WEIR_GRAMMAR_EBNF, "x ::= \"a\"", "named \"root\""},
    {WEIR_GRAMMAR_EBNF, "root ::= x", "line 1: rule \"x\" is not defined"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\"\nroot ::= \"b\"", "line 2: this rule"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a", "line 1: expected \""},
    {WEIR_GRAMMAR_EBNF, "root ::= (\"a\"", "expected )"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\")", "expected"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"\\q\"", "expected one of"},
    {WEIR_GRAMMAR_EBNF, "root ::= root \"a\" | \"b\"", "root: it begins with itself"},
    {WEIR_GRAMMAR_EBNF, "root ::= a \"x\"\na ::= b? c\nb ::= \"b\"\nc ::= a | \"c\"", "begins with itself"},
    {WEIR_GRAMMAR_EBNF, "root ::= (\"a\"?){2,3}", "may be empty"},
    {WEIR_GRAMMAR_EBNF, "root ::= (\"a\"{0,2}){2,3}", "may be empty"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\"{0,2} root | \"b\"", "begins with itself"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\" root", "finite text"},
    {WEIR_GRAMMAR_EBNF, "root ::= \"a\"{5,2}", "expected {m}"},
    {WEIR_GRAMMAR_EBNF, "root = \"a\"", "line 1: expected a rule"},
    {WEIR_GRAMMAR_CHOICE, "[]", "expected an array of 1"},
    {WEIR_GRAMMAR_CHOICE, "[1]", "expected a string at index 0"},
    {WEIR_GRAMMAR_CHOICE, "{", "choice"},
};

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    vocabulary v;
    vocabulary_make(&v, 10, 5);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const weir_grammar_options o = WEIR_GRAMMAR_OPTIONS_INIT;
        weir_error                 err;
        grammar                   *g;
        if (grammar_compile(&g, &v.t, refused[i].kind, refused[i].text, strlen(refused[i].text), &o, &err) == WEIR_OK)
            fail_msg("%s: expected a refusal", refused[i].text);
        if (strstr(err.text, refused[i].why) == NULL)
            fail_msg("%s: expected \"%s\", found \"%s\"", refused[i].text, refused[i].why, err.text);
    }
    vocabulary_free(&v);
}

/* Nesting is limited and does not cost memory: deep text is refused where it begins to be too deep,
 * and a list of any length is no nesting. */
static void depth_is_limited_and_length_is_not(void **state)
{
    (void)state;
    enum { DEEP = 3000, LONG = 30000 };
    vocabulary v;
    weir_error err;
    matcher   *m;
    vocabulary_make(&v, 10, 5);
    grammar *g = compiled(&v, WEIR_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", NULL);
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    int depth = 0;
    while (depth < DEEP && matcher_bytes(m, (const uint8_t *)"[", 1, &err) == WEIR_OK) depth++;
    assert_in_range(depth, 100, DEEP - 1);
    for (int i = 0; i < depth; i++) assert_int_equal(matcher_bytes(m, (const uint8_t *)"]", 1, &err), WEIR_OK);
    assert_true(matcher_must_end(m));
    matcher_free(m);
    grammar_release(g);
    /* Every element changes what the array remembers. */
    g = compiled(&v, WEIR_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"maxItems\":30001,\"items\":{\"type\":\"array\"}}",
                 NULL);
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    assert_int_equal(matcher_bytes(m, (const uint8_t *)"[[]", 3, &err), WEIR_OK);
    for (int i = 0; i < LONG; i++) assert_int_equal(matcher_bytes(m, (const uint8_t *)",[]", 3, &err), WEIR_OK);
    assert_int_equal(matcher_bytes(m, (const uint8_t *)",", 1, &err), WEIR_INVALID);
    assert_int_equal(matcher_bytes(m, (const uint8_t *)"]", 1, &err), WEIR_OK);
    matcher_free(m);
    grammar_release(g);
    g = compiled(&v, WEIR_GRAMMAR_EBNF, "root ::= item root | item\nitem ::= \"a\" \"b\"\n", NULL);
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    for (int i = 0; i < LONG; i++) assert_int_equal(matcher_bytes(m, (const uint8_t *)"ab", 2, &err), WEIR_OK);
    assert_true(matcher_may_end(m));
    matcher_free(m);
    grammar_release(g);
    vocabulary_free(&v);
}

static void what_must_come_is_told(void **state)
{
    (void)state;
    vocabulary v;
    weir_error err;
    matcher   *m;
    uint8_t    bytes[32];
    vocabulary_make(&v, 10, 5);
    grammar *g = compiled(&v, WEIR_GRAMMAR_CHOICE, "[\"monday\",\"month\"]", NULL);
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    assert_int_equal(matcher_forced(m, bytes, sizeof bytes), 3);
    assert_memory_equal(bytes, "mon", 3);
    assert_int_equal(matcher_forced(m, bytes, 2), 2);
    assert_int_equal(matcher_bytes(m, (const uint8_t *)"mond", 4, &err), WEIR_OK);
    assert_int_equal(matcher_forced(m, bytes, sizeof bytes), 2);
    assert_false(matcher_may_end(m));
    /* A text that does not fit leaves it where it was. */
    assert_int_equal(matcher_bytes(m, (const uint8_t *)"ax", 2, &err), WEIR_INVALID);
    assert_int_equal(matcher_bytes(m, (const uint8_t *)"ay", 2, &err), WEIR_OK);
    assert_true(matcher_must_end(m));
    assert_int_equal(matcher_forced(m, bytes, sizeof bytes), 0);
    matcher_free(m);
    grammar_release(g);
    vocabulary_free(&v);
}

/* Masks of a string with few characters left are found from those of one without limit: here with
 * tokens that are longer than what is left. */
static void limits_are_felt_by_long_tokens(void **state)
{
    (void)state;
    vocabulary v;
    vocabulary_make(&v, 600, 21);
    for (int most = 1; most <= 40; most++) {
        char     schema[96], text[80];
        matcher *m;
        (void)snprintf(schema, sizeof schema, "{\"type\":\"string\",\"maxLength\":%d,\"minLength\":%d}", most,
                       most / 3);
        size_t n  = 0;
        text[n++] = '"';
        for (int i = 0; i < most; i++) text[n++] = "ab01 "[i % 5];
        text[n++]  = '"';
        grammar *g = compiled(&v, WEIR_GRAMMAR_JSON_SCHEMA, schema, NULL);
        if (!accepts_by_tokens(&v, g, text, n, (uint64_t)most, true))
            fail_msg("%s: expected %.*s to fit", schema, (int)n, text);
        text[n - 1] = 'x';
        assert_false(accepts(g, text, n));
        weir_error err;
        assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
        matcher_free(m);
        grammar_release(g);
    }
    vocabulary_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_fit_or_not),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(depth_is_limited_and_length_is_not),
        cmocka_unit_test(what_must_come_is_told),
        cmocka_unit_test(limits_are_felt_by_long_tokens),
    };
    return cmocka_run_group_tests_name("grammar languages", tests, NULL, NULL);
}
