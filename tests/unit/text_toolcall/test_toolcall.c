/* tests/unit/text_toolcall/test_toolcall.c - replies as models write them, and what they say:
 * whole, cut in two at every place, in single bytes, with tags as marks and as tokens. */
#include "support/cmocka.h"
#include "support/transcript.h"

#include <stdio.h>
#include <string.h>

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"find_notes\",\"parameters\":{\"type\":\"object\",\"required\":["
    "\"tag\"],"
    "\"properties\":{\"folder\":{\"type\":\"string\"},\"tag\":{\"type\":\"string\"},\"most\":{\"type\":\"integer\"},"
    "\"filter\":{\"type\":\"object\"},\"deep\":{\"type\":[\"boolean\",\"null\"]}}}}},"
    "{\"name\":\"write_file\",\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
    "\"text\":{\"type\":\"string\"}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

#define CALL_NOW OPEN "\n<function=now>\n</function>\n" CLOSE
#define WORK "<parameter=folder>\nwork\n</parameter>\n"
#define WRITE(t) OPEN "\n<function=write_file>\n<parameter=text>\n" t
#define CLOSE_ALL "\n</parameter>\n</function>\n" CLOSE
#define WRITTEN(t) "[0 write_file {\"text\":\"" t "\"}]"

typedef struct reply {
    const char *name, *script, *line;
    enum { PLAIN = 0, THINKING = 1, NO_TOOLS = 2, UNDECLARED_TEXT = 4 } how;
    uint32_t    repairs, malformed, duplicates;
    const char *unfinished;
} reply;

static const reply replies[] = {
    /* ---- what the template writes ---- */
    {.name = "no call",
     "Hello, world.\n\nTwo  blanks, a <b>tag</b> and 1 < 2.\n",
     "C(Hello, world.\n\nTwo  blanks, a <b>tag</b> and 1 < 2.\n)"},
    {.name = "nothing", "", ""},
    {.name = "one call",
     OPEN "\n<function=find_notes>\n" WORK "</function>\n" CLOSE,
     "[0 find_notes {\"folder\":\"work\"}]"},
    {.name = "no parameters", CALL_NOW, "[0 now {}]"},
    {.name = "any order, types by the schema",
     OPEN "\n<function=find_notes>\n<parameter=most>\n10\n</parameter>\n<parameter=tag>\nurgent\n</parameter>\n"
          "<parameter=deep>\nTrue\n</parameter>\n</function>\n" CLOSE,
     "[0 find_notes {\"most\":10,\"tag\":\"urgent\",\"deep\":true}]"},
    {.name = "text before, its white space dropped", "One moment. \n\n" CALL_NOW, "C(One moment.)[0 now {}]"},
    {.name = "text behind", "A\n\n" CALL_NOW "\n\nDone.\n", "C(A)[0 now {}]C(\n\nDone.\n)"},
    {.name = "text only behind", CALL_NOW "\n\nDone.", "[0 now {}]C(Done.)"},
    {.name = "two calls",
     CALL_NOW "\n" OPEN "\n<function=find_notes>\n" WORK "</function>\n" CLOSE "\n",
     "[0 now {}][1 find_notes {\"folder\":\"work\"}]"},
    {.name = "two calls, nothing between", CALL_NOW CALL_NOW, "[0 now {}][1 now {}]"},
    {.name = "text between calls", CALL_NOW "\nand\n" CALL_NOW, "[0 now {}]C(and)[1 now {}]"},
    {.name = "all in one line",
     OPEN "<function=find_notes><parameter=tag>a b</parameter></function>" CLOSE,
     "[0 find_notes {\"tag\":\"a b\"}]"},
    {.name = "blanks around the equals sign, quoted names",
     OPEN " \n <function = \"find_notes\" >\n  <parameter= 'tag'>\nx\n</parameter>\n </function>\n " CLOSE,
     "[0 find_notes {\"tag\":\"x\"}]"},
    {.name = "reasoning, then a call",
     "Hm.\nSo." THINK_CLOSE "Yes\n" CALL_NOW,
     "R(Hm.\nSo.)C(Yes)[0 now {}]",
     THINKING},

    /* ---- values ---- */
    {.name = "one newline at either end goes",
     WRITE("  - two\n    - deep  \n\n") "</parameter>\n</function>\n" CLOSE,
     WRITTEN("  - two\\n    - deep  \\n")},
    {.name = "empty value", WRITE("") "</parameter>\n</function>\n" CLOSE, WRITTEN("")},
    {.name = "empty value, as the template writes it", WRITE("") CLOSE_ALL, WRITTEN("")},
    {.name = "value of a newline", WRITE("\n") CLOSE_ALL, WRITTEN("\\n")},
    {.name = "a string is not looked into",
     WRITE("{\"a\": 1, \"b\": [true]}") CLOSE_ALL,
     WRITTEN("{\\\"a\\\": 1, \\\"b\\\": [true]}")},
    {.name = "escapes", WRITE("\"q\" \\ \t\r\b\f/ \x1f") CLOSE_ALL, WRITTEN("\\\"q\\\" \\\\ \\t\\r\\b\\f/ \\u001f")},
    {.name = "unicode",
     WRITE("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8c\x8a") CLOSE_ALL,
     WRITTEN("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8c\x8a")},
    {.name = "an object",
     OPEN "\n<function=find_notes>\n<parameter=filter>\n{\"a\": {\"b\": [1, 2.50, {\"c\": \"x y\"}]},\n"
          " \"n\": 12345678901234567890123}\n</parameter>\n</function>\n" CLOSE,
     "[0 find_notes {\"filter\":{\"a\":{\"b\":[1,2.50,{\"c\":\"x y\"}]},\"n\":12345678901234567890123}}]"},
    {.name = "a closing tag in the middle of a line is text",
     WRITE("echo \"</parameter>\" > a") CLOSE_ALL,
     WRITTEN("echo \\\"</parameter>\\\" > a")},
    {.name = "a closing tag at the beginning of a line is text when a better one comes",
     WRITE("a\n</parameter>\nb") CLOSE_ALL,
     WRITTEN("a\\n</parameter>\\nb")},
    {.name = "tags of calls in a value",
     WRITE("say <tool_call> or " OPEN ", <function=now> and </function>, " CLOSE " too") CLOSE_ALL,
     WRITTEN("say <tool_call> or <tool_call>, <function=now> and </function>, </tool_call> too")},
    {.name = "parameters of others in a value",
     WRITE("<parameter=text>\n<parameter=other>\nx") CLOSE_ALL,
     WRITTEN("<parameter=text>\\n<parameter=other>\\nx")},
    {.name = "think tags in a value", WRITE("<think>a</think>") CLOSE_ALL, WRITTEN("<think>a</think>")},
    {.name = "a closing function in a value",
     WRITE("<x>\n</function>\n</x>") CLOSE_ALL,
     WRITTEN("<x>\\n</function>\\n</x>")},
    {.name = "wrong type is text",
     OPEN "\n<function=find_notes>\n<parameter=most>\nabout ten\n</parameter>\n</function>\n" CLOSE,
     "[0 find_notes {\"most\":\"about ten\"}]"},
    {.name = "of a doubled key the first counts",
     OPEN "\n<function=find_notes>\n" WORK "<parameter=folder>\nhome\n</parameter>\n</function>\n" CLOSE,
     "[0 find_notes {\"folder\":\"work\"}]",
     .duplicates = 1},
    {.name = "a key that is not in the schema",
     OPEN "\n<function=find_notes>\n<parameter=a\"b>\n[1, 2]\n</parameter>\n<parameter=extra>\n[1, 2]\n</parameter>\n"
          "<parameter=more>\n7\n</parameter>\n</function>\n" CLOSE "\n",
     "[0 find_notes {\"extra\":[1,2],\"more\":\"7\"}]C(<parameter=a\"b>\n[1, 2])",
     .repairs = 1},

    /* ---- what models leave out ---- */
    {.name = "doubled closing parameter",
     "One moment.\n\n" OPEN "\n<function=find_notes>\n<parameter=folder>\nwork\n</parameter>\n</parameter>\n"
     "<parameter=tag>\nurgent\n</parameter>\n</function>\n" CLOSE,
     "C(One moment.)[0 find_notes {\"folder\":\"work\",\"tag\":\"urgent\"}]",
     .repairs = 1},
    {.name = "no closing parameter, another follows",
     OPEN "\n<function=find_notes>\n<parameter=folder>\nwork\n<parameter=tag>\nx\n</parameter>\n</function>\n" CLOSE,
     "[0 find_notes {\"folder\":\"work\",\"tag\":\"x\"}]",
     .repairs = 1},
    {.name = "no closing parameter at the end", WRITE("a\nb\n</function>\n") CLOSE, WRITTEN("a\\nb"), .repairs = 1},
    {.name = "no closing function",
     OPEN "\n<function=find_notes>\n" WORK CLOSE,
     "[0 find_notes {\"folder\":\"work\"}]",
     .repairs = 1},
    {.name = "nothing closed but the call", WRITE("a\n") CLOSE "\n" CALL_NOW, WRITTEN("a") "[1 now {}]", .repairs = 2},
    {.name = "nothing closed but the call, in a line", WRITE("a") CLOSE, WRITTEN("a"), .repairs = 2},
    {.name = "nothing closed at all", WRITE("a\nb\n"), WRITTEN("a\\nb"), .repairs = 2},
    {.name = "no closing call, end", OPEN "\n<function=now>\n</function>\n", "[0 now {}]"},
    {.name = "no closing call, another one", OPEN "\n<function=now>\n</function>\n" CALL_NOW, "[0 now {}][1 now {}]"},
    {.name = "no closing call, a bare one",
     OPEN "\n<function=now>\n</function>\n<function=now>\n</function>\n" CLOSE,
     "[0 now {}][1 now {}]",
     .repairs = 1},
    {.name = "no closing function, a bare one",
     OPEN "\n<function=now>\n<function=now>\n</function>\n" CLOSE,
     "[0 now {}][1 now {}]",
     .repairs = 2},
    {.name = "call in an open value",
     WRITE("a\n") OPEN "\n<function=now>\n</function>\n" CLOSE,
     WRITTEN("a") "[1 now {}]",
     .repairs = 2},
    {.name = "candidate and nothing better", WRITE("a\n</parameter>\nb\n") CLOSE, WRITTEN("a") "C(b)", .repairs = 2},
    {.name = "name without its bracket, closed", OPEN "\n<function=now</function>\n" CLOSE, "[0 now {}]", .repairs = 1},
    {.name = "name without its bracket, parameters",
     OPEN "\n<function=find_notes\n" WORK "</function>\n" CLOSE,
     "[0 find_notes {\"folder\":\"work\"}]",
     .repairs = 1},
    {.name = "doubled opening", OPEN "\n" CALL_NOW, "[0 now {}]", .repairs = 1},
    {.name = "bare call",
     "Let me see.\n<function=find_notes>\n" WORK "</function>\n" CLOSE "\n",
     "C(Let me see.)[0 find_notes {\"folder\":\"work\"}]",
     .repairs = 2},
    {.name = "bare call without any call tag", "<function=now>\n</function>", "[0 now {}]", .repairs = 1},
    {.name = "closing tags without a call", CALL_NOW "\n</function>\n" CLOSE "\nok", "[0 now {}]C(ok)", .repairs = 2},
    {.name = "a closing tag alone", "ok\n" CLOSE, "C(ok\n)", .repairs = 1},
    {.name = "text between parameters",
     OPEN "\n<function=find_notes>\nhere it is: \n" WORK "</function>\n" CLOSE,
     "[0 find_notes {\"folder\":\"work\"}]C(here it is:)"},
    {.name = "text between parameters, after content",
     "A\n" OPEN "<function=now>B <i> C</function>" CLOSE "D",
     "C(A)[0 now {}]C(\nB <i> CD)"},

    /* ---- what is no call ---- */
    {.name = "bare call within a line", "Use <function=now> then.", "C(Use <function=now> then.)"},
    {.name = "bare call of no tool", "<function=other>\nx\n</function>\n", "C(<function=other>\nx\n</function>\n)"},
    {.name = "a word like the beginning of one",
     "<functional>\n<function>\n<function=nowhere>",
     "C(<functional>\n<function>\n<function=nowhere>)"},
    {.name = "undeclared, called with its tag",
     OPEN "\n<function=other>\n<parameter=n>\n5\n</parameter>\n</function>\n" CLOSE,
     "[0 other {\"n\":\"5\"}]"},
    {.name = "undeclared as text",
     "x\n\n" OPEN "\n<function=other>\n" WORK "</function>\n" CLOSE "\ny",
     "C(x\n\n<tool_call>\n<function=other>\n" WORK "</function>\n</tool_call>\ny)",
     UNDECLARED_TEXT,
     .malformed = 1},
    {.name = "a block without a name",
     "See:\n" OPEN "\nfind_notes(1)\n" CLOSE "\n.",
     "C(See:\n<tool_call>\nfind_notes(1)\n</tool_call>\n.)",
     .malformed = 1},
    {.name = "an empty block", OPEN "\n" CLOSE, "C(<tool_call>\n</tool_call>)", .malformed = 1},
    {.name = "an empty name",
     OPEN "<function=>\n</function>" CLOSE,
     "C(<tool_call><function=>\n</function></tool_call>)",
     .malformed = 1},
    {.name = "a block that ends at once", "a " OPEN, "C(a <tool_call>)", .malformed = 1},
    {.name = "a call behind a block without a name",
     OPEN "hm\n" CLOSE "\n" CALL_NOW,
     "C(<tool_call>hm\n</tool_call>)[0 now {}]",
     .malformed = 1},
    {.name = "a bare call in a block without a name",
     OPEN "\nSure:\n<function=now>\n</function>\n" CLOSE,
     "C(<tool_call>\nSure:)[0 now {}]",
     .malformed = 1,
     .repairs   = 1},
    {.name = "tags without tools",
     "a " OPEN "\n<function=now>\n</function>\n" CLOSE "\n",
     "C(a <tool_call>\n<function=now>\n</function>\n</tool_call>\n)",
     NO_TOOLS},

    /* ---- objects ---- */
    {.name = "an object",
     OPEN "\n{\"name\": \"find_notes\", \"arguments\": {\"tag\": \"a } b\", \"most\": 1.0}}\n" CLOSE,
     "[0 find_notes {\"tag\":\"a } b\",\"most\":1.0}]"},
    {.name = "an object without arguments", OPEN "{\"name\":\"now\"}" CLOSE, "[0 now {}]"},
    {.name = "arguments as a string",
     OPEN "{\"name\":\"now\",\"arguments\":\"{\\\"a\\\": \\\"\\u00fc\\\"}\"}" CLOSE,
     "[0 now {\"a\":\"\xc3\xbc\"}]"},
    {.name = "an object with tags in it",
     OPEN "{\"arguments\":{\"t\":\"" OPEN "\"},\"name\":\"now\"}" CLOSE,
     "[0 now {\"t\":\"<tool_call>\"}]"},
    {.name = "an object without a name",
     "a\n" OPEN "{\"arguments\":{}}" CLOSE,
     "C(a\n<tool_call>{\"arguments\":{}}</tool_call>)",
     .malformed = 1},
    {.name = "an object that never ends",
     OPEN "{\"name\":\"now\", " CLOSE,
     "C(<tool_call>{\"name\":\"now\", </tool_call>)",
     .malformed = 1},

    /* ---- cut off ---- */
    {.name = "cut in a value",
     WRITE("some \"te") CUT,
     "[0 write_file {\"text\":\"some \\\"te",
     .unfinished = "<tool_call>\n<function=write_file>\n<parameter=text>\nsome \"te"},
    {.name = "cut in a value, at what may be its end",
     WRITE("a\n</par") CUT,
     "[0 write_file {\"text\":\"a",
     .unfinished = "<tool_call>\n<function=write_file>\n<parameter=text>\na\n</par"},
    {.name = "cut in the second call",
     CALL_NOW "\n" OPEN "\n<func" CUT,
     "[0 now {}]",
     .unfinished = "<tool_call>\n<func"},
    {.name = "cut in the text", "ab \n" CUT, "C(ab \n)"},
    {.name = "cut behind a call", CALL_NOW "\n" CUT, "[0 now {}]"},
    {.name = "cut in a bare tag", "a\n<function=no" CUT, "C(a\n<function=no)"},

    /* ---- calls and reasoning ---- */
    {.name = "a call while reasoning, and nothing else", "I see." CALL_NOW, "R(I see.)[0 now {}]", THINKING},
    {.name = "a draft, then the call",
     "Maybe " CALL_NOW " or not.\n" THINK_CLOSE "ok\n" WRITE("a") CLOSE_ALL,
     "R(Maybe <tool_call>\n<function=now>\n</function>\n</tool_call> or not.)C(ok)" WRITTEN("a"),
     THINKING},
    {.name = "tags only spoken of",
     "use " OPEN " and <function=now>" THINK_CLOSE "No.",
     "R(use <tool_call> and <function=now>)C(No.)",
     THINKING},
    {.name = "a closed draft, and nothing behind it",
     "Hm " CALL_NOW "\n" THINK_CLOSE "\n\n",
     "R(Hm )[0 now {}]",
     THINKING},
    {.name = "a bare call while reasoning",
     "<function=now>\n</function>\n" THINK_CLOSE "x",
     "R(<function=now>\n</function>\n)C(x)",
     THINKING},
    {.name = "reasoning that never ends", "and so on" CUT, "R(and so on)", THINKING},
    {.name = "reasoning again", "a" THINK "b" THINK_CLOSE "c", "C(a)R(b)C(c)"},
    {.name = "a draft without tools", "x " OPEN " y" THINK_CLOSE "z", "R(x <tool_call> y)C(z)", THINKING | NO_TOOLS},
};

/* False, and says what is wrong. */
static bool check(const reply *r, const cutting *cut, const char *how)
{
    transcript t;
    transcript_play(&t, r->how & NO_TOOLS ? NULL : tools, r->how & THINKING, r->how & UNDECLARED_TEXT, r->script,
                    strlen(r->script), cut);
    const char *left = r->unfinished != NULL ? r->unfinished : "";
    const bool  good = strcmp(t.line.data, r->line) == 0 && strcmp(t.unfinished.data, left) == 0 && !t.wrong &&
                      t.info.repairs == r->repairs && t.info.malformed == r->malformed &&
                      t.info.duplicates == r->duplicates;
    if (!good)
        print_error(
            "%s (%s, split %zd): expected\n%s\nfound%s\n%s\n%u repairs, %u malformed, %u duplicates, left: %s\n",
            r->name, how, (ssize_t)cut->split, r->line, t.wrong ? " in a wrong order" : "", t.line.data, t.info.repairs,
            t.info.malformed, t.info.duplicates, t.unfinished.data);
    transcript_free(&t);
    return good;
}

static void any_cutting_says_the_same(void **state)
{
    (void)state;
    bool all = true;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        const reply *r    = &replies[i];
        bool         good = true;
        for (int ids = 0; ids < 2; ids++) {
            good = good && check(r, &(cutting){.split = SIZE_MAX, .ids = ids}, "whole");
            good = good && check(r, &(cutting){.split = SIZE_MAX, .every = 1, .ids = ids}, "bytes");
            for (size_t at = 1; at < strlen(r->script); at++)
                good = good && check(r, &(cutting){.split = at, .ids = ids}, "split");
        }
        all = all && good;
    }
    assert_true(all);
}

/* A space run longer than what may stand between tags is text, from the first byte on. */
static void long_white_space_is_cut_nowhere(void **state)
{
    (void)state;
    char script[1000], *at = script + sprintf(script, "%s", WRITE("a") "\n</parameter>");
    memset(at, ' ', 300);
    (void)strcpy(at + 300, "</parameter>\n</function>\n" CLOSE);
    transcript whole;
    transcript_play(&whole, tools, false, false, script, strlen(script), &(cutting){.split = SIZE_MAX});
    for (size_t every = 1; every < 40; every++) {
        transcript t;
        transcript_play(&t, tools, false, false, script, strlen(script), &(cutting){.split = SIZE_MAX, .every = every});
        assert_string_equal(t.line.data, whole.line.data);
        transcript_free(&t);
    }
    assert_int_equal(whole.info.calls, 1);
    assert_int_equal(whole.info.repairs, 0);
    transcript_free(&whole);
}

/* ---- ids ---- */

typedef struct heard_ids {
    char id[2][64];
    int  n;
} heard_ids;

static void hear_id(void *user, const weir_toolcall_event *e)
{
    heard_ids *h = user;
    if (e->kind == WEIR_TOOLCALL_BEGIN && h->n < 2) (void)snprintf(h->id[h->n++], sizeof h->id[0], "%s", e->id);
}

static bool give_bytes(void *user, void *bytes, size_t n)
{
    memset(bytes, *(uint8_t *)user, n);
    *(uint8_t *)user = (uint8_t)(*(uint8_t *)user == 255 ? 61 : 255);
    return true;
}

static bool give_none(void *user, void *bytes, size_t n)
{
    (void)user;
    memset(bytes, 0, n);
    return false;
}

static weir_status two_calls(heard_ids *h, weir_toolcall_options opt)
{
    weir_toolcall_parser *p;
    weir_error            err;
    static const char     calls[] = "<function=now></function>\n<function=now></function>";
    opt.tools_json                = tools;
    assert_int_equal(weir_toolcall_new(&p, &opt, hear_id, h, &err), WEIR_OK);
    const weir_status st = weir_toolcall_text(p, calls, strlen(calls), false, &err);
    assert_int_equal(weir_toolcall_finish(p, true, &err), st);
    weir_toolcall_free(p);
    return st;
}

static void ids_are_random_and_all_letters_equal(void **state)
{
    (void)state;
    heard_ids             h   = {0};
    weir_toolcall_options opt = WEIR_TOOLCALL_OPTIONS_INIT;
    assert_int_equal(two_calls(&h, opt), WEIR_OK);
    assert_int_equal(strlen(h.id[0]), 5 + 24);
    assert_memory_equal(h.id[0], "call_", 5);
    assert_int_equal(strspn(h.id[0] + 5, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 24);
    assert_string_not_equal(h.id[0], h.id[1]);
    /* Bytes that would favour the first letters are drawn again. */
    uint8_t next  = 255;
    h             = (heard_ids){0};
    opt.id_prefix = "toolu_", opt.random = give_bytes, opt.random_user = &next;
    assert_int_equal(two_calls(&h, opt), WEIR_OK);
    assert_string_equal(h.id[0], "toolu_zzzzzzzzzzzzzzzzzzzzzzzz");
    opt.random = give_none;
    assert_int_equal(two_calls(&h, opt), WEIR_NO_MEMORY);
}

static void tools_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *complaint;
    } wrong[] = {
        {"{}", "tools: expected an array, found an object"},
        {"[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name: expected a string, found nothing"},
        {"[{\"name\":\"a\"},{\"name\":7}]", "tools[1].function.name: expected a string, found an integer"},
        {"[", NULL},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weir_toolcall_options opt = WEIR_TOOLCALL_OPTIONS_INIT;
        weir_toolcall_parser *p;
        weir_error            err;
        opt.tools_json = wrong[i].tools;
        assert_int_equal(weir_toolcall_new(&p, &opt, hear_id, NULL, &err), WEIR_INVALID);
        assert_int_equal(err.status, WEIR_INVALID);
        assert_null(p);
        if (wrong[i].complaint != NULL) assert_string_equal(err.text, wrong[i].complaint);
    }
}

/* Bytes that no UTF-8 has are not taken for tags. */
static void bytes_are_no_marks(void **state)
{
    (void)state;
    transcript t;
    transcript_play(&t, tools, false, false,
                    "a\xff\n\xfe"
                    "b",
                    5, &(cutting){.split = SIZE_MAX});
    assert_string_equal(t.line.data, "C(a\xef\xbf\xbd\n\xef\xbf\xbd"
                                     "b)");
    transcript_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cutting_says_the_same),
                                       cmocka_unit_test(long_white_space_is_cut_nowhere),
                                       cmocka_unit_test(ids_are_random_and_all_letters_equal),
                                       cmocka_unit_test(tools_are_checked), cmocka_unit_test(bytes_are_no_marks)};
    return cmocka_run_group_tests_name("tool calls", tests, NULL, NULL);
}
