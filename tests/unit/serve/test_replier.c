/* Scripted tokens to events, and on to what Chat Completions' clients read: no model takes part. */
#include "base/mem.h"
#include "serve/openai.h"
#include "serve/replier.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

enum { OPEN = 1000, SHUT = 1001, THINK = 1002, THINK_END = 1003 };

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":{"
    "\"type\":\"integer\"},\"s\":{\"type\":\"string\"}}}}}]";

/* Ids are the same each time: "call_" and as many times the letter of the choice. */
static bool same_bytes(void *user, void *bytes, size_t n)
{
    memset(bytes, *(const int *)user, n);
    return true;
}

static weir_toolcall_options tools(bool thinking_open)
{
    static int            ten = 10;
    weir_toolcall_options o   = WEIR_TOOLCALL_OPTIONS_INIT;
    o.tools_json              = tools_json;
    o.tool_open               = OPEN;
    o.tool_close              = SHUT;
    o.think_open              = THINK;
    o.think_close             = THINK_END;
    o.thinking_open           = thinking_open;
    o.random                  = same_bytes;
    o.random_user             = &ten;
    return o;
}

/* ---- events as one line ---- */

typedef struct recorder {
    dialect base;
    str     told;
} recorder;

static void record(dialect *d, const reply_event *e)
{
    static const char *const kinds[]  = {"begin", "think", "text", "call", "args", "done", "end"};
    static const char *const finish[] = {"stop", "length", "tool_calls"};
    str                     *s        = &((recorder *)d)->told;
    str_puts(s, kinds[e->kind]);
    if (e->kind == REPLY_CALL) str_printf(s, "%u(%s)", e->call, e->name);
    if (e->text != NULL) str_printf(s, "'%.*s'", (int)e->len, e->text);
    for (uint32_t i = 0; i < e->n_logprobs; i++) str_printf(s, "/%u", e->logprobs[i].chosen.id);
    if (e->kind == REPLY_END) str_printf(s, " %s", finish[e->finish]);
    if (e->stop != NULL) str_printf(s, " at %s", e->stop);
    if (e->stop_id != NULL) str_printf(s, " at %u", *e->stop_id);
    if (e->unfinished != NULL) str_printf(s, " cut <%s>", e->unfinished);
    str_putc(s, ' ');
}

/* A script: the tags are tokens, and so is every other run of `width` bytes; ids count from 1. */
typedef struct script {
    const char *text;
    size_t      width;
    bool        reasoning; /* up to </think> */
} script;

static size_t tag_at(const char *s, uint32_t *id)
{
    static const struct {
        const char *text;
        uint32_t    id;
    } tags[] = {{"<tool_call>", OPEN}, {"</tool_call>", SHUT}, {"</think>", THINK_END}};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (strncmp(s, tags[i].text, strlen(tags[i].text)) != 0) continue;
        *id = tags[i].id;
        return strlen(tags[i].text);
    }
    return 0;
}

static void play(replier *r, script s)
{
    uint32_t next = 1;
    for (const char *at = s.text; *at != '\0' && !r->over;) {
        uint32_t id = next;
        size_t   n  = tag_at(at, &id);
        if (n == 0) {
            uint32_t ignored;
            while (n < s.width && at[n] != '\0' && (n == 0 || tag_at(at + n, &ignored) == 0)) n++;
            next++;
        }
        if (id == THINK_END || id == OPEN) s.reasoning = false; /* as the engine tells it */
        replier_token(r, &(weir_token){.id        = id,
                                       .text      = at,
                                       .text_len  = id == THINK_END ? 0 : n,
                                       .reasoning = s.reasoning || id == THINK_END});
        at += n;
    }
}

static void check(script s, bool one_call, bool logprobs, weir_generate_result end, const char *expected)
{
    recorder                    to = {.base = {.event = record}};
    replier                     r;
    const weir_toolcall_options o = tools(s.reasoning);
    str_init(&to.told, 4096);
    replier_init(&r, &to.base, 0, logprobs);
    assert_true(replier_find_calls(&r, &o, one_call));
    play(&r, s);
    replier_end(&r, &end);
    assert_false(r.failed);
    assert_string_equal(to.told.data, expected);
    replier_free(&r);
    str_free(&to.told);
}

static const weir_generate_result ended = {.finish = WEIR_FINISH_STOP, .stop_id = UINT32_MAX},
                                  cut   = {.finish = WEIR_FINISH_LENGTH, .stop_id = UINT32_MAX};

#define CALL(more) "<tool_call>\n<function=f>\n" more "</function>\n</tool_call>"
#define N(value) "<parameter=n>\n" value "\n</parameter>\n"

static void test_calls(void **state)
{
    (void)state;
    check((script){"Hi. " CALL(N("7")) "\n" CALL(""), 64, false}, false, false, ended,
          "begin text'Hi.' call0(f) args'{\"n\":7}' done call1(f) args'{}' done end tool_calls ");
    check((script){"no call", 64, false}, false, false, ended, "begin text'no call' end stop ");
    check((script){"<tool_call>\n<function=odd>\n</function>\n</tool_call>", 64, false}, false, false, ended,
          "begin call0(odd) args'{}' done end tool_calls "); /* an agent answers that there is no such tool */
    check((script){"<tool_call>nothing</tool_call>", 64, false}, false, false, ended,
          "begin text'<tool_call>nothing' text'</tool_call>' end stop ");
    check((script){"hm\n" CALL(""), 64, true}, false, false, ended,
          "begin think'hm\n' call0(f) args'{}' done end tool_calls ");
    check((script){"hm\n" CALL(N("1")) "\n</think>" CALL(N("2")), 64, true}, false, false, ended,
          "begin think'hm\n' think'" CALL(N("1")) "' call0(f) args'{\"n\":2}' done end tool_calls ");
}

/* The limit inside of a call counts as such; behind one it does not. */
static void test_limits(void **state)
{
    (void)state;
    check((script){CALL("") "<tool_call>\n<function=f>\n<parameter=s>\nab", 64, false}, false, false, cut,
          "begin call0(f) args'{}' done call1(f) args'{\"s\":\"ab' end length cut "
          "<<tool_call>\n<function=f>\n<parameter=s>\nab> ");
    check((script){CALL(""), 64, false}, false, false, cut, "begin call0(f) args'{}' done end tool_calls ");
    check((script){"some te", 64, false}, false, false, cut, "begin text'some te' end length ");
    /* A model that stops without its closing tags has called all the same. */
    check((script){"<tool_call>\n<function=f>\n<parameter=n>\n7", 64, false}, false, false, ended,
          "begin call0(f) args'{\"n\":' args'7}' done end tool_calls ");
    check((script){"<tool_call>\n<function=f>\n</function>\n", 64, false}, false, false, cut,
          "begin call0(f) args'{}' done end tool_calls ");
}

static void test_one_call(void **state)
{
    (void)state;
    const weir_generate_result stopped = {.finish = WEIR_FINISH_CANCELLED, .stop_id = UINT32_MAX};
    check((script){CALL("") CALL("") "more", 64, false}, true, false, stopped,
          "begin call0(f) args'{}' done end tool_calls ");
    check((script){"none", 64, false}, true, false, ended, "begin text'none' end stop ");
}

static void test_ends(void **state)
{
    static const uint32_t ids[] = {5, 77};
    recorder              to    = {.base = {.event = record}};
    replier               r;
    (void)state;
    str_init(&to.told, 1024);
    for (uint32_t id = 76; id < 78; id++) { /* only what was asked for is told */
        replier_init(&r, &to.base, 0, false);
        r.stop_ids   = ids;
        r.n_stop_ids = 2;
        replier_end(&r, &(weir_generate_result){.stop_id = id});
        replier_free(&r);
    }
    replier_init(&r, &to.base, 0, true);
    r.include_stop = true;
    replier_token(&r, &(weir_token){.id = 1, .text = "a", .text_len = 1});
    replier_token(&r, &(weir_token){.id = 2, .text = ""});
    replier_end(&r, &(weir_generate_result){.stop = "END", .stop_id = UINT32_MAX});
    replier_free(&r);
    assert_string_equal(to.told.data,
                        "begin end stop begin end stop at 77 begin text'a'/1 text'END'/2 end stop at END ");
    str_free(&to.told);
}

/* Entries go with the content; those of reasoning, of calls and of what separates them are left out. */
static void test_logprobs(void **state)
{
    (void)state;
    check((script){"hm</think>ab" CALL(N("7")) "\ncd", 2, true}, false, true, ended,
          "begin think'hm' text'ab'/2 call0(f) args'{\"n\":' args'7}' done text'\nc'/31 text'd'/32 end tool_calls ");
    check((script){CALL("") "\n\n" CALL("") "\n", 1, false}, false, true, ended,
          "begin call0(f) args'{}' done call1(f) args'{}' done end tool_calls ");
    check((script){"<function=f>\n</function>\nab", 3, false}, false, true, ended,
          "begin call0(f) args'{}' done text'ab'/9 end tool_calls ");
    check((script){"<tool_call>no</tool_call>", 2, false}, false, true, ended,
          "begin text'<tool_call>no'/1000/1 text'</tool_call>'/1001 end stop ");
}

/* ---- through the writer ---- */

static void nothing(void *connection)
{
    (void)connection;
}

static const char *answer(const char *text, size_t width, bool stream, bool inline_reasoning, uint32_t n,
                          weir_generate_result end)
{
    static char                 out[16384];
    const weir_toolcall_options o    = tools(false);
    outlet                     *to   = outlet_new(&(outlet_sleeper){.suspend = nothing, .resume = nothing});
    openai_head                 head = {.id = "c", .model = mem_strdup("m"), .fingerprint = "fp"};
    const chat_form             form = {.form = {.stream = stream}, .n = n, .inline_reasoning = inline_reasoning};
    dialect                    *d    = chat_writer_new(&head, &form, "r", to);
    assert_non_null(d);
    for (uint32_t i = n; i-- > 0;) {
        replier r;
        replier_init(&r, d, i, false);
        assert_true(replier_find_calls(&r, &o, false));
        play(&r, (script){text, width, strstr(text, "</think>") != NULL});
        replier_end(&r, &end);
        replier_free(&r);
    }
    d->end(d, &(reply_usage){0});
    const long got         = outlet_take(to, out, sizeof out - 1);
    out[got > 0 ? got : 0] = '\0';
    d->free(d);
    outlet_close(to);
    return out;
}

#define ARGUMENTS "{\\\"n\\\":7,\\\"s\\\":\\\"a\\\\nb\\\\\\\"\\\"}"
#define ID "call_AAAAAAAAAAAAAAAAAAAAAAAA"
#define MESSAGE(content, more) \
    "\"message\":{\"role\":\"assistant\",\"content\":" content ",\"refusal\":null,\"annotations\":[]" more "}"
#define ONE(arguments) \
    "{\"id\":\"" ID "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"" arguments "\"}}"

static void expect(const char *found, const char *part)
{
    if (strstr(found, part) == NULL) fail_msg("expected %s in %s", part, found);
}

static void test_whole(void **state)
{
    static const char text[] = CALL(N("7") "<parameter=s>\na\nb\"\n</parameter>\n") "\n" CALL("");
    (void)state;
    for (size_t width = 1; width < 40; width += 6) /* however it was cut */
        expect(answer(text, width, false, false, 2, ended),
               "{\"index\":1," MESSAGE(
                   "null", ",\"tool_calls\":[" ONE(ARGUMENTS) "," ONE("{}") "]") ",\"logprobs\":null,"
                                                                                 "\"finish_reason\":\"tool_calls\"");
    expect(answer("Wait. " CALL("") "<tool_call>\n<function=f>\n<parameter=s>\na", 9, false, false, 1, cut),
           MESSAGE("\"Wait.\"",
                   ",\"tool_calls\":[" ONE(
                       "{}") "],\"x_unfinished_tool_call\":"
                             "\"<tool_call>\\n<function=f>\\n<parameter=s>\\na\"") ",\"logprobs\":null,\"finish_"
                                                                                   "reason\":\"length\"");
    expect(answer("<tool_call>\n<function=f>\n", 9, false, false, 1, cut),
           "\"content\":\"\",\"refusal\":null,\"annotations\":[],\"x_unfinished");
}

/* Joined as a client does it: names and ids once, and arguments as in the whole answer. */
static void test_streamed(void **state)
{
    static const char text[] = CALL(N("7") "<parameter=s>\na\nb\"\n</parameter>\n");
    (void)state;
    for (size_t width = 1; width < 40; width += 6) {
        char        joined[200] = "";
        const char *found       = answer(text, width, true, false, 1, ended);
        expect(found,
               "{\"tool_calls\":[{\"index\":0,\"id\":\"" ID "\",\"type\":\"function\",\"function\":{\"name\":\"f\","
               "\"arguments\":\"\"}}]}");
        assert_null(strstr(strstr(found, ID) + 1, ID));
        for (const char *at = found; (at = strstr(at, "{\"index\":0,\"function\":{\"arguments\":\"")) != NULL; at++) {
            const char *from = at + strlen("{\"index\":0,\"function\":{\"arguments\":\"");
            strncat(joined, from, (size_t)(strstr(from, "\"}}]") - from));
        }
        assert_string_equal(joined, ARGUMENTS);
        expect(found, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"");
    }
}

static void test_reasoning_in_the_content(void **state)
{
    (void)state;
    expect(answer("hm\n</think>yes", 4, false, true, 1, ended), MESSAGE("\"<think>\\nhm\\n\\n</think>\\n\\nyes\"", ""));
    expect(answer("hm</think>" CALL(""), 4, false, true, 1, ended),
           MESSAGE("\"<think>\\nhm\\n</think>\\n\\n\"", ",\"tool_calls\":[" ONE("{}") "]"));
    expect(answer("hm</think>", 4, false, true, 1, cut), MESSAGE("\"<think>\\nhm\"", ""));
    const char *found = answer("hm</think>yes", 9, true, true, 1, ended);
    expect(found, "{\"content\":\"<think>\\n\"}");
    expect(found, "{\"content\":\"\\n</think>\\n\\n\"}");
    assert_null(strstr(found, "reasoning"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_one_call), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_logprobs), cmocka_unit_test(test_whole),
        cmocka_unit_test(test_streamed), cmocka_unit_test(test_reasoning_in_the_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
