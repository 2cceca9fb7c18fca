/* Messages: what requests become, and what events become. */
#include "base/mem.h"
#include "serve/anthropic.h"
#include "serve/body.h"
#include "serve/chat_request.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

static json_t *parse(const char *text)
{
    json_t   *root;
    api_error err;
    char     *own = mem_strdup(text);
    assert_non_null(own);
    if (!body_parse(own, strlen(own), &root, &err)) fail_msg("%s: %s", text, err.message);
    mem_free(own);
    return root;
}

static anthropic_form form;

/* The chat that the request becomes, or the message of what is wrong with it. */
static void check(const char *text, const char *expected)
{
    api_error err;
    json_t   *body = parse(text), *chat;
    if (anthropic_chat(body, &chat, &form, &err)) {
        char *found = json_dumps(chat, JSON_COMPACT);
        assert_string_equal(found, expected);
        free(found);
    } else {
        assert_int_equal(err.kind, API_INVALID);
        assert_string_equal(err.message, expected);
    }
    json_decref(chat);
    json_decref(body);
}

#define M(messages) "{\"messages\":[" messages "]}"
#define USER "{\"role\":\"user\",\"content\":\"x\"}"
#define WITH(more) "{\"messages\":[" USER "]," more "}"
#define CHAT(more) "{\"messages\":[" USER "]," more "}"

static void test_fields(void **state)
{
    (void)state;
    check("{\"model\":\"m\",\"max_tokens\":7,\"temperature\":0.5,\"top_p\":1,\"top_k\":3,\"n\":4,\"stop\":[\"no\"],"
          "\"metadata\":{\"user_id\":\"u\"},\"service_tier\":\"auto\",\"context_management\":{},\"mcp_servers\":[],"
          "\"container\":\"c\",\"seed\":5,\"reasoning_effort\":\"high\",\"stop_sequences\":[\"a\"],\"stream\":true,"
          "\"messages\":[" USER "]}",
          "{\"model\":\"m\",\"max_tokens\":7,\"temperature\":0.5,\"top_p\":1,\"top_k\":3,\"seed\":5,\"messages\":[" USER
          "],\"stop\":[\"a\"]}");
    assert_true(form.stream && !form.marked && !form.limit_thinking);
    check(WITH("\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}"),
          CHAT("\"response_format\":{\"type\":\"json_schema\",\"schema\":{}}"));
    check(WITH("\"output_format\":{\"type\":\"json_schema\",\"schema\":{}}"),
          CHAT("\"response_format\":{\"type\":\"json_schema\",\"schema\":{}}"));
    check(WITH("\"stop_sequences\":[\"a\",5]"), "stop_sequences: expected strings, found an integer");
    check(WITH("\"stop_sequences\":\"a\""), "stop_sequences: expected an array, found a string");
    check(WITH("\"stream\":1"), "stream: expected true or false, found an integer");
    check("{}", "messages: expected an array with at least one message");
    check("{\"messages\":[]}", "messages: expected an array with at least one message");
    check("{\"messages\":\"x\"}", "messages: expected an array, found a string");
}

static void test_system(void **state)
{
    (void)state;
    check(WITH("\"system\":\"be brief\""), M("{\"role\":\"system\",\"content\":\"be brief\"}," USER));
    check(WITH("\"system\":\"\""), M(USER));
    check(WITH("\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cc=1; cch=2;\"},"
               "{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}},"
               "{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"not x-anthropic-billing-header: b\"}]"),
          M("{\"role\":\"system\",\"content\":\"a\"},"
            "{\"role\":\"system\",\"content\":\"not x-anthropic-billing-header: b\"}," USER));
    assert_true(form.marked);
    check(WITH("\"system\":\"x-anthropic-billing-header: cc=1;\\nbe brief\""),
          M("{\"role\":\"system\",\"content\":\"be brief\"}," USER));
    check(WITH("\"system\":\"x-anthropic-billing-header: cc=1;\""), M(USER));
    check(WITH("\"system\":5"), "system: expected a string or blocks, found an integer");
    check(WITH("\"system\":[{\"type\":\"image\"}]"), "system[0]: image: this model reads text only");
    check(M(USER ",{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}"),
          M(USER ",{\"role\":\"system\",\"content\":\"late\"}"));
}

#define BLOCKS(role, blocks) "{\"role\":\"" role "\",\"content\":[" blocks "]}"
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define USE(id) "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"f\",\"input\":{\"b\":1,\"a\":9223372036854775807}}"
#define CALL(id) \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"b\":1,\"a\":" \
    "9223372036854775807}}}"
#define RESULT(id, more) "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\"" more "}"
#define TOOL(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"

static void test_tools_in_history(void **state)
{
    (void)state;
    check(M(USER "," BLOCKS(
              "assistant",
              "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"foreign\"},"
              "{\"type\":\"redacted_thinking\",\"data\":\"x\"}," TEXT("I ") "," USE("t1") "," TEXT("look.") "," USE(
                  "t2")) "," BLOCKS("user",
                                    TEXT("and") "," RESULT("t1", ",\"content\":\"one\"") "," RESULT(
                                        "t2", ",\"is_error\":true,\"content\":[" TEXT("t") "," TEXT(
                                                  "wo") "]") "," TEXT(" so"))),
          M(USER ",{\"role\":\"assistant\",\"content\":\"I look.\",\"reasoning_content\":\"hm\",\"tool_calls\":[" CALL(
              "t1") "," CALL("t2") "]}," TOOL("t1",
                                              "one") "," TOOL("t2",
                                                              "two") ",{\"role\":\"user\",\"content\":\"and so\"}"));
    check(M(USER "," BLOCKS("assistant", USE("t1")) "," BLOCKS("user", RESULT("t1", ",\"cache_control\":{}"))),
          M(USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" CALL("t1") "]}," TOOL("t1", "")));
    assert_true(form.marked);
    check(M(USER "," BLOCKS("user", RESULT("t9", ""))),
          "messages[1].content[0].tool_use_id: expected the id of a tool_use before it, found t9");
    check(M(BLOCKS("user", RESULT("t1", "")) "," BLOCKS("assistant", USE("t1"))),
          "messages[0].content[0].tool_use_id: expected the id of a tool_use before it, found t1");
    check(M(BLOCKS("user", "{\"type\":\"tool_result\"}")),
          "messages[0].content[0].tool_use_id: expected a string, found nothing");
    check(M(BLOCKS("user", USE("t1"))), "messages[0].content[0]: tool_use: not in a message of the user");
    check(M(BLOCKS("assistant", RESULT("t1", ""))),
          "messages[0].content[0]: tool_result: not in a message of the assistant");
    check(M(BLOCKS("assistant", "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":\"{}\"}")),
          "messages[0].content[0].input: expected an object, found a string");
    check(M(BLOCKS("assistant", "{\"type\":\"tool_use\",\"name\":\"f\",\"input\":{}}")),
          "messages[0].content[0]: tool_use: expected an id and a name");
}

static void test_blocks(void **state)
{
    (void)state;
    check(M(BLOCKS("user", "{\"type\":\"document\",\"title\":\"d\",\"source\":{\"type\":\"text\",\"media_type\":"
                           "\"text/plain\",\"data\":\"doc \"}},{\"type\":\"document\",\"source\":{\"type\":\"content\","
                           "\"content\":[" TEXT("b ") "]}},{\"type\":\"search_result\",\"content\":[" TEXT(
                               "s ") "]},"
                                     "{\"type\":\"web_search_tool_result\",\"content\":[" TEXT(
                                         "w ") ",{\"type\":\"web_search_result\"}]},{\"type\":\"server_tool_use\","
                                               "\"id\":\"s\"}," TEXT("q"))),
          M("{\"role\":\"user\",\"content\":\"doc b s w q\"}"));
    check(M(BLOCKS("user", "")), M("{\"role\":\"user\",\"content\":\"\"}"));
    check(M(USER "," USER), M(USER "," USER));
    check(M(USER ",{\"role\":\"assistant\",\"content\":\"Sure \"}"),
          M(USER ",{\"role\":\"assistant\",\"content\":\"Sure \"}"));
    check(M(BLOCKS("user", TEXT("a") ",{\"type\":\"image\",\"source\":{}}")),
          "messages[0].content[1]: image: this model reads text only");
    check(M(BLOCKS("assistant", USE("t")) "," BLOCKS("user", RESULT("t", ",\"content\":[{\"type\":\"image\"}]"))),
          "messages[1].content[0].content[0]: image: this model reads text only");
    check(M(BLOCKS("user", "{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"data\":\"JVBERi0=\"}}")),
          "messages[0].content[0].source: this model reads text only: expected type text or content");
    check(M(BLOCKS("user", "{\"type\":\"hologram\"}")),
          "messages[0].content[0].type: expected a kind of block, found hologram");
    check(M(BLOCKS("user", "{\"type\":\"text\"}")), "messages[0].content[0].text: expected a string, found nothing");
    check(M(BLOCKS("user", "5")), "messages[0].content[0]: expected an object, found an integer");
    check(M("{\"role\":\"user\"}"), "messages[0].content: expected a string or blocks, found nothing");
    check(M("{\"role\":\"tool\",\"content\":\"x\"}"),
          "messages[0].role: expected user, assistant or system, found tool");
    check(M("7"), "messages[0]: expected an object, found an integer");
}

static void test_tools(void **state)
{
    (void)state;
    check(
        WITH("\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\",\"z\":1,\"a\":2},\"description\":\"d\","
             "\"cache_control\":{\"type\":\"ephemeral\"}},{\"type\":\"custom\",\"name\":\"g\",\"strict\":true,"
             "\"input_schema\":{}},{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},{\"type\":\"mcp_"
             "toolset\"}]"),
        CHAT("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
             "\"type\":\"object\",\"z\":1,\"a\":2}}},{\"type\":\"function\",\"function\":{\"name\":\"g\","
             "\"parameters\":{},\"strict\":true}},{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"
             "{\"type\":\"mcp_toolset\"}]"));
    assert_true(form.marked);
    check(WITH("\"tools\":[{\"type\":\"bash_20250124\"}]"), CHAT("\"tools\":[{\"type\":\"bash_20250124\"}]"));
    check(WITH("\"tools\":[{\"name\":\"f\"}]"), "tools[0].input_schema: expected an object, found nothing");
    check(WITH("\"tools\":[{\"input_schema\":{}}]"), "tools[0].name: expected a string");
    check(WITH("\"tools\":[1]"), "tools[0]: expected an object, found an integer");
    check(WITH("\"tools\":{}"), "tools: expected an array, found an object");
}

/* The kinds that clients carry out get a schema, which reads as JSON, under the client's name. */
static void test_known_tools(void **state)
{
    static const char *const kinds[][2] = {
        {"bash_20250124", "command"}, {"text_editor_20250728", "insert_line"}, {"memory_20250818", "new_path"}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        api_error err;
        bool      marked = false;
        json_t   *tools  = json_pack("[{s:s, s:s}]", "type", kinds[i][0], "name", "n"), *out;
        assert_true(anthropic_tools(tools, &out, &marked, &err));
        const json_t *f = json_object_get(json_array_get(out, 0), "function");
        assert_string_equal(json_string_value(json_object_get(f, "name")), "n");
        const json_t *properties = json_object_get(json_object_get(f, "parameters"), "properties");
        assert_true(json_is_object(json_object_get(properties, kinds[i][1])));
        json_decref(tools);
        json_decref(out);
    }
}

static void test_tool_choice(void **state)
{
    (void)state;
    check(WITH("\"tool_choice\":{\"type\":\"auto\"}"), CHAT("\"tool_choice\":\"auto\""));
    check(WITH("\"tool_choice\":{\"type\":\"none\"}"), CHAT("\"tool_choice\":\"none\""));
    check(WITH("\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}"),
          CHAT("\"tool_choice\":\"required\",\"parallel_tool_calls\":false"));
    check(WITH("\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\",\"disable_parallel_tool_use\":false}"),
          CHAT("\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"));
    check(WITH("\"tool_choice\":{\"type\":\"tool\"}"), "tool_choice.name: expected a tool's name");
    check(WITH("\"tool_choice\":{\"type\":\"some\"}"),
          "tool_choice.type: expected auto, any, tool or none, found \"some\"");
    check(WITH("\"tool_choice\":\"auto\""), "tool_choice: expected an object, found a string");
}

static void test_thinking(void **state)
{
    (void)state;
    check(WITH("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2048,\"display\":\"omitted\"},\"max_tokens\":9"),
          "{\"max_tokens\":9,\"messages\":[" USER "],\"reasoning\":{\"enabled\":true}}");
    assert_true(form.limit_thinking && form.omit_thinking);
    assert_int_equal(form.thinking_budget, 2048);
    check(
        WITH("\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"},\"output_config\":{\"effort\":\"max\"}"),
        CHAT("\"reasoning\":{\"enabled\":true,\"effort\":\"max\"}"));
    assert_false(form.limit_thinking || form.omit_thinking);
    check(WITH("\"thinking\":{\"type\":\"disabled\",\"budget_tokens\":5},\"output_config\":{\"effort\":\"low\"}"),
          CHAT("\"reasoning\":{\"enabled\":false}"));
    assert_false(form.limit_thinking);
    check(WITH("\"output_config\":{\"effort\":\"low\"}"), M(USER));
    check(WITH("\"output_config\":{\"effort\":\"lots\"}"),
          "output_config.effort: expected low, medium, high, xhigh or max, found lots");
    check(WITH("\"thinking\":{\"type\":\"on\"}"),
          "thinking.type: expected enabled, adaptive or disabled, found \"on\"");
    check(WITH("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":-1}"),
          "thinking.budget_tokens: expected 0 to 2147483647, found -1");
    check(WITH("\"thinking\":true"), "thinking: expected an object, found a boolean");
}

/* ---- events ---- */

static void nothing(void *connection)
{
    (void)connection;
}

static outlet *make_outlet(void)
{
    outlet *o = outlet_new(&(outlet_sleeper){.suspend = nothing, .resume = nothing});
    assert_non_null(o);
    return o;
}

static anthropic_head head(bool stream)
{
    return (anthropic_head){
        .id = "msg_1", .signature = "c2ln", .model = mem_strdup("m\""), .stream = stream, .max_tokens = 6};
}

static dialect *make(anthropic_head h, outlet *out)
{
    dialect *d = anthropic_writer_new(&h, "req_1", out);
    assert_non_null(d);
    assert_null(h.model);
    return d;
}

static const char *taken(outlet *o)
{
    static char text[16384];
    const long  n       = outlet_take(o, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const reply_usage now   = {.prompt = 10, .cached = 4};
static const reply_usage usage = {.prompt = 10, .cached = 4, .completion = 6, .reasoning = 2};

static void say(dialect *d, reply_kind kind, const char *text)
{
    d->event(d, &(reply_event){.kind = kind, .text = text, .len = text != NULL ? strlen(text) : 0, .now = &now});
}

static void call(dialect *d, const char *id, const char *name)
{
    d->event(d, &(reply_event){.kind = REPLY_CALL, .call_id = id, .name = name, .now = &now});
}

static void finish(dialect *d, reply_finish how, const char *stop)
{
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = how, .stop = stop, .now = &now});
    d->end(d, &usage);
}

/* Thinking, text, two calls (the second without arguments), and thinking and text again. */
static void all_blocks(dialect *d)
{
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_REASONING, "h");
    say(d, REPLY_REASONING, "m\n");
    say(d, REPLY_CONTENT, "\"yes\"");
    say(d, REPLY_CONTENT, "!");
    call(d, "toolu_a", "f");
    say(d, REPLY_ARGUMENTS, "{\"x\":");
    say(d, REPLY_ARGUMENTS, "1}");
    say(d, REPLY_CALL_END, NULL);
    call(d, "toolu_b", "g");
    say(d, REPLY_CALL_END, NULL);
    say(d, REPLY_REASONING, "r");
    say(d, REPLY_CONTENT, "t");
    finish(d, REPLY_TOOL_CALLS, NULL);
}

#define FRAME(type, more) "event: " type "\ndata: {\"type\":\"" type "\"" more "}\n\n"
#define USAGE_AT(input, created, cached, output) \
    "\"usage\":{\"input_tokens\":" #input ",\"cache_creation_input_tokens\":" #created \
    ",\"cache_read_input_tokens\":" #cached ",\"output_tokens\":" #output
#define BEGIN_AT(input, created, cached) \
    FRAME("message_start", \
          ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\\\"\"," \
          "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null," USAGE_AT(input, created, cached, 1) "}}") \
    FRAME("ping", "")
#define OPEN(i, block) FRAME("content_block_start", ",\"index\":" #i ",\"content_block\":{" block "}")
#define DELTA(i, kind, field, text) \
    FRAME("content_block_delta", ",\"index\":" #i ",\"delta\":{\"type\":\"" kind "\",\"" field "\":\"" text "\"}")
#define CLOSE(i) FRAME("content_block_stop", ",\"index\":" #i)
#define SIGNED(i) DELTA(i, "signature_delta", "signature", "c2ln") CLOSE(i)
#define THOUGHT "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\""
#define WORDS "\"type\":\"text\",\"text\":\"\""
#define TOOL_USE_OF(id, name) "\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" name "\",\"input\":{}"
#define END(reason, stop, usage) \
    FRAME("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\",\"stop_sequence\":" stop "}," usage "}") \
    FRAME("message_stop", "")

static void test_stream(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(head(true), o);
    (void)state;
    all_blocks(d);
    assert_string_equal(
        taken(o),
        BEGIN_AT(6, 0, 4) OPEN(0, THOUGHT) DELTA(0, "thinking_delta", "thinking", "h")
            DELTA(0, "thinking_delta", "thinking", "m\\n") SIGNED(0) OPEN(1, WORDS)
                DELTA(1, "text_delta", "text", "\\\"yes\\\"") DELTA(1, "text_delta", "text", "!") CLOSE(1)
                    OPEN(2, TOOL_USE_OF("toolu_a", "f")) DELTA(2, "input_json_delta", "partial_json", "{\\\"x\\\":")
                        DELTA(2, "input_json_delta", "partial_json", "1}") CLOSE(2) OPEN(3, TOOL_USE_OF("toolu_b", "g"))
                            DELTA(3, "input_json_delta", "partial_json", "{}") CLOSE(3) OPEN(4, THOUGHT)
                                DELTA(4, "thinking_delta", "thinking", "r") SIGNED(4) OPEN(5, WORDS)
                                    DELTA(5, "text_delta", "text", "t") CLOSE(5)
                                        END("tool_use", "null", USAGE_AT(6, 0, 4, 6)));
    assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
    d->free(d);
    outlet_close(o);
}

#define WHOLE(content, reason, stop) \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\\\"\",\"content\":[" content \
    "],\"stop_reason\":\"" reason "\",\"stop_sequence\":" stop \
    "," USAGE_AT(6, 0, 4, 6) ",\"service_tier\":\"standard\"}}"

static void test_whole(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(head(false), o);
    (void)state;
    all_blocks(d);
    assert_string_equal(
        taken(o),
        WHOLE("{\"type\":\"thinking\",\"thinking\":\"hm\\n\",\"signature\":\"c2ln\"},{\"type\":\"text\",\"text\":"
              "\"\\\"yes\\\"!\"},{\"type\":\"tool_use\",\"id\":\"toolu_a\",\"name\":\"f\",\"input\":{\"x\":1}},"
              "{\"type\":\"tool_use\",\"id\":\"toolu_b\",\"name\":\"g\",\"input\":{}},{\"type\":\"thinking\","
              "\"thinking\":\"r\",\"signature\":\"c2ln\"},{\"type\":\"text\",\"text\":\"t\"}",
              "tool_use", "null"));
    d->free(d);
    outlet_close(o);
}

static void test_empty(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        outlet  *o = make_outlet();
        dialect *d = make(head(stream == 1), o);
        say(d, REPLY_BEGIN, NULL);
        finish(d, REPLY_STOP, NULL);
        assert_string_equal(taken(o), stream == 1 ? BEGIN_AT(6, 0, 4) END("end_turn", "null", USAGE_AT(6, 0, 4, 6))
                                                  : WHOLE("", "end_turn", "null"));
        d->free(d);
        outlet_close(o);
    }
}

/* A call that the limit cut: its input is no JSON, so it is left out, or ends where it was. */
static void test_cut_call(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        outlet  *o = make_outlet();
        dialect *d = make(head(stream == 1), o);
        say(d, REPLY_BEGIN, NULL);
        say(d, REPLY_CONTENT, "a");
        call(d, "toolu_a", "f");
        say(d, REPLY_ARGUMENTS, "{\"x");
        finish(d, REPLY_LENGTH, NULL);
        assert_string_equal(taken(o), stream == 1 ? BEGIN_AT(6, 0, 4) OPEN(0, WORDS) DELTA(0, "text_delta", "text", "a")
                                                        CLOSE(0) OPEN(1, TOOL_USE_OF("toolu_a", "f"))
                                                            DELTA(1, "input_json_delta", "partial_json", "{\\\"x")
                                                                CLOSE(1) END("max_tokens", "null", USAGE_AT(6, 0, 4, 6))
                                                  : WHOLE("{\"type\":\"text\",\"text\":\"a\"}", "max_tokens", "null"));
        d->free(d);
        outlet_close(o);
    }
}

static void test_omitted_thinking(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        outlet        *o = make_outlet();
        anthropic_head h = head(stream == 1);
        h.omit_thinking  = true;
        h.max_tokens     = 7; /* six came: the context was full */
        dialect *d       = make(h, o);
        say(d, REPLY_BEGIN, NULL);
        say(d, REPLY_REASONING, "secret");
        finish(d, REPLY_LENGTH, NULL);
        assert_string_equal(taken(o), stream == 1
                                          ? BEGIN_AT(6, 0, 4) OPEN(0, THOUGHT) SIGNED(0)
                                                END("model_context_window_exceeded", "null", USAGE_AT(6, 0, 4, 6))
                                          : WHOLE("{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"c2ln\"}",
                                                  "model_context_window_exceeded", "null"));
        d->free(d);
        outlet_close(o);
    }
}

/* A stream begins with the first part of the prompt, once; what is kept anew is not read from the cache. */
static void test_start_and_stop(void **state)
{
    outlet        *o = make_outlet();
    anthropic_head h = head(true);
    (void)state;
    h.kept     = 9;
    dialect *d = make(h, o);
    d->progress(d, &(reply_progress){.total = 10, .cached = 4, .done = 8});
    assert_string_equal(taken(o), BEGIN_AT(1, 5, 4));
    d->progress(d, &(reply_progress){.total = 10, .cached = 4, .done = 10});
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_CONTENT, "a");
    finish(d, REPLY_STOP, "\"#");
    assert_string_equal(taken(o), OPEN(0, WORDS) DELTA(0, "text_delta", "text", "a") CLOSE(0)
                                      END("stop_sequence", "\"\\\"#\"", USAGE_AT(1, 5, 4, 6)));
    d->free(d);
    outlet_close(o);
}

static void test_failures(void **state)
{
    api_error e;
    (void)state;
    (void)api_fail(&e, API_UNAVAILABLE, NULL, "no");
#define ERROR \
    "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"},\"request_id\":\"req_1\"}"
    for (int begun = 0; begun < 2; begun++) {
        outlet     *o = make_outlet();
        dialect    *d = make(head(true), o);
        outlet_head h;
        if (begun) say(d, REPLY_BEGIN, NULL);
        (d->fail)(d, &e); /* cmocka has a macro of that name */
        outlet_get_head(o, &h);
        assert_int_equal(h.status, begun ? 200 : 529);
        assert_string_equal(taken(o), begun ? BEGIN_AT(6, 0, 4) "event: error\ndata: " ERROR "\n\n" : ERROR);
        assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
        d->free(d);
        outlet_close(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_tools_in_history),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_known_tools),
        cmocka_unit_test(test_tool_choice),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cut_call),
        cmocka_unit_test(test_omitted_thinking),
        cmocka_unit_test(test_start_and_stop),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
