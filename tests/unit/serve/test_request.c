/* From the bytes of a body to what is drawn and rendered. */
#include "base/mem.h"
#include "serve/body.h"
#include "serve/chat_request.h"
#include "serve/generation.h"
#include "serve/json_out.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const serve_options options = {.model_id = "demo", .sample = WEIR_SAMPLE_PARAMS_INIT};
static const server        here    = {.o = &options, .model = {.vocab_size = 100}};

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

static void refuse(const char *text, size_t n, const char *why)
{
    json_t   *root;
    api_error err;
    char     *own = mem_strndup(text, n);
    assert_non_null(own);
    assert_false(body_parse(own, n, &root, &err));
    assert_null(root);
    assert_int_equal(err.kind, API_INVALID);
    if (strstr(err.message, why) == NULL) fail_msg("expected \"%s\" in \"%s\"", why, err.message);
    mem_free(own);
}

static void test_body(void **state)
{
    (void)state;
    json_t *o = parse("{\"b\":9223372036854775807,\"a\":-9223372036854775808,\"b2\":1,\"a\":[{}]}");
    char   *s = json_dumps(o, JSON_COMPACT);
    assert_string_equal(s, "{\"b\":9223372036854775807,\"a\":[{}],\"b2\":1}");
    free(s);
    json_decref(o);
    refuse("", 0, "nothing");
    refuse("{", 1, "not valid JSON");
    refuse("{} {}", 5, "not valid JSON");
    refuse("\"a\"", 3, "found a string");
    refuse("{\"a\":\"\xC0\x80\"}", 9, "at byte 6");
    refuse("{\"a\":9223372036854775808}", 25, "integer");
    refuse("{\"a\":1e999}", 11, "overflow");
}

static void test_depth(void **state)
{
    char text[2 * BODY_DEPTH + 16];
    (void)state;
    for (int deep = 0; deep < 2; deep++) { /* the object itself counts */
        const size_t n = BODY_DEPTH - 1 + (size_t)deep;
        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', n);
        memset(text + 5 + n, ']', n);
        memcpy(text + 5 + 2 * n, "}", 2);
        if (deep == 1)
            refuse(text, strlen(text), "deeper than 128 levels at byte 132");
        else
            json_decref(parse(text));
    }
    json_decref(parse("{\"a\":\"[[[[\\\"[[[[\"}")); /* in a string they nest nothing */
}

static void test_surrogates(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"a\":\"\\ud83e\\udd8a\"}", "\xF0\x9F\xA6\x8A"},
        {"{\"a\":\"\\ud83e!\"}", "\xEF\xBF\xBD!"},
        {"{\"a\":\"\\udd8a\\ud83e\"}", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"{\"a\":\"\\ud83e\\ud83e\\udd8a\"}", "\xEF\xBF\xBD\xF0\x9F\xA6\x8A"},
        {"{\"a\":\"\\\\ud83e\"}", "\\ud83e"},
        {"{\"a\":\"\\ud83e\\n\"}", "\xEF\xBF\xBD\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *o = parse(cases[i].json);
        assert_string_equal(json_string_value(json_object_get(o, "a")), cases[i].text);
        json_decref(o);
    }
}

/* ---- how replies are drawn ---- */

static job_options generation(const char *text)
{
    job_options o;
    api_error   err;
    json_t     *body = parse(text);
    if (!generation_read(&here, body, &o, &err)) fail_msg("%s: %s", text, err.message);
    json_decref(body);
    return o;
}

static void refuse_field(const char *text, const char *param)
{
    job_options o;
    api_error   err;
    json_t     *body = parse(text);
    if (generation_read(&here, body, &o, &err)) fail_msg("%s: expected a refusal", text);
    assert_int_equal(err.kind, API_INVALID);
    assert_string_equal(err.param, param);
    job_options_free(&o);
    json_decref(body);
}

static void test_generation_fields(void **state)
{
    (void)state;
    job_options o = generation("{\"temperature\":0.5,\"top_k\":-1,\"min_p\":0.25,\"seed\":9223372036854775807,\"n\":3,"
                               "\"stop\":[\"a\",\"\",\"bc\"],\"logit_bias\":{\"7\":-100,\"0\":2.5},\"max_tokens\":5,"
                               "\"max_completion_tokens\":6,\"priority\":\"high\",\"repetition_context_size\":9,"
                               "\"cache_prompt\":false,\"tool_choice\":null,\"response_format\":{\"type\":\"text\"}}");
    assert_true(o.sample.temperature == 0.5 && o.sample.min_p == 0.25 && o.sample.top_p == 1);
    assert_int_equal(o.sample.top_k, -1);
    assert_true(o.sample.seed == INT64_MAX && !o.sample.fresh_seed);
    assert_int_equal(o.sample.repetition_window, 9);
    assert_int_equal(o.n, 3);
    assert_int_equal(o.max_tokens, 6); /* the newer name wins */
    assert_int_equal(o.n_stop, 2);     /* empty ones say nothing */
    assert_string_equal(o.stop[1], "bc");
    assert_int_equal(o.n_bias, 2);
    assert_int_equal(o.bias[0].id, 7);
    assert_true(o.bias[0].bias == -100 && o.bias[1].bias == 2.5f);
    assert_int_equal(o.priority, 50);
    assert_true(o.no_cache);
    job_options_free(&o);

    o = generation("{\"repeat_penalty\":1.5,\"repeat_last_n\":0}");
    assert_true(o.sample.repetition_penalty == 1.5 && o.sample.penalize_prompt);
    assert_int_equal(o.sample.presence_window, 0);
    job_options_free(&o);

    job_options a = generation("{\"seed\":-1}"), b = generation("{}");
    assert_true(a.sample.seed != b.sample.seed); /* 2^-64 */
    job_options_free(&a);
    job_options_free(&b);
}

static void test_generation_refusals(void **state)
{
    static const char *const cases[][2] = {
        {"{\"temperature\":-0.1}", "temperature"},
        {"{\"temperature\":true}", "temperature"},
        {"{\"top_k\":1.5}", "top_k"},
        {"{\"n\":17}", "n"},
        {"{\"logit_bias\":{\"100\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\" 1\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":null}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":1,\"01\":2}}", "logit_bias"},
        {"{\"stop\":{\"a\":1}}", "stop"},
        {"{\"stop\":[1]}", "stop"},
        {"{\"response_format\":{\"type\":\"json_schema\"}}", "response_format.schema"},
        {"{\"response_format\":\"json\"}", "response_format"},
        {"{\"guided_json\":5}", "guided_json"},
        {"{\"guided_whitespace_pattern\":\"x\"}", "guided_whitespace_pattern"},
        {"{\"grammar_lazy\":true}", "grammar_lazy"},
        {"{\"thinking_budget\":-2}", "thinking_budget"},
        {"{\"reasoning_budget_message\":\"x\"}", "reasoning_budget_message"},
        {"{\"stop_token_ids\":[1,100]}", "stop_token_ids"},
        {"{\"stop_token_ids\":[\"1\"]}", "stop_token_ids"},
        {"{\"stop_token_ids\":5}", "stop_token_ids"},
        {"{\"typical_p\":0.9}", "typical_p"},
        {"{\"dry_multiplier\":0.8}", "dry_multiplier"},
        {"{\"mirostat\":2}", "mirostat"},
        {"{\"top_n_sigma\":1.5}", "top_n_sigma"},
        {"{\"allowed_token_ids\":[1]}", "allowed_token_ids"},
        {"{\"skip_special_tokens\":false}", "skip_special_tokens"},
        {"{\"adapter\":\"x\"}", "adapter"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuse_field(cases[i][0], cases[i][1]);
    job_options o =
        generation("{\"stop_token_ids\":[],\"thinking_budget\":-1,\"best_of\":1,\"grammar\":\"\",\"lora\":[],"
                   "\"typical_p\":1.0,\"mirostat\":0,\"top_n_sigma\":-1,\"skip_special_tokens\":true}");
    assert_false(o.limit_reasoning);
    job_options_free(&o);
}

static void check_budget(const serve_options *so, const char *text, int64_t expected)
{
    const server s = {.o = so, .model = {.vocab_size = 100}};
    job_options  o;
    api_error    err;
    json_t      *body = parse(text);
    assert_true(generation_read(&s, body, &o, &err));
    assert_int_equal(o.limit_reasoning ? (int64_t)o.reasoning_budget : -1, expected);
    job_options_free(&o);
    json_decref(body);
}

static void test_reasoning_budgets(void **state)
{
    static const char *const names[] = {"thinking_token_budget", "reasoning_budget", "thinking_budget_tokens",
                                        "thinking_budget"};
    char                     text[80];
    serve_options            so = options;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof text, "{\"%s\":%zu}", names[i], i);
        check_budget(&so, text, (int64_t)i);
    }
    check_budget(&so, "{\"max_tokens\":10}", -1);
    so.answer_reserve = 4;
    check_budget(&so, "{}", -1); /* nothing is limited, so nothing is kept */
    check_budget(&so, "{\"max_tokens\":10}", 6);
    check_budget(&so, "{\"max_tokens\":3}", 0);
    check_budget(&so, "{\"max_tokens\":10,\"thinking_budget\":9}", 9);
    so.limit_reasoning  = true;
    so.reasoning_budget = 7;
    check_budget(&so, "{}", 7);
    check_budget(&so, "{\"thinking_budget\":-1}", -1);
    check_budget(&so, "{\"max_tokens\":10}", 7);
}

static void test_where_a_reply_ends(void **state)
{
    (void)state;
    job_options o = generation("{\"stop_token_ids\":[7,99],\"include_stop_str_in_output\":true}");
    assert_int_equal(o.n_stop_ids, 2);
    assert_true(o.stop_ids[0] == 7 && o.stop_ids[1] == 99 && o.include_stop);
    job_options_free(&o);
}

/* ---- chats ---- */

/* messages, tools and kwargs as one JSON text, or the param that is refused. */
static void check_chat(const char *text, serve_thinking thinking, const char *expected)
{
    chat_request_parts p;
    api_error          err;
    json_t            *body = parse(text);
    str                all;
    str_init(&all, 4096);
    if (chat_request_read(body, thinking, &p, &err)) {
        char *m = json_dumps(p.messages, JSON_COMPACT), *t = p.tools != NULL ? json_dumps(p.tools, JSON_COMPACT) : NULL;
        char *k = json_dumps(p.kwargs, JSON_COMPACT | JSON_SORT_KEYS);
        str_printf(&all, "%s %s %s%s", m, t != NULL ? t : "-", k, p.no_tool_calls ? " none" : "");
        if (p.force_call) str_printf(&all, " force %s", p.force_name != NULL ? p.force_name : "any");
        if (p.one_call) str_puts(&all, " one");
        free(m);
        free(t);
        free(k);
    } else {
        str_puts(&all, err.param);
    }
    assert_string_equal(all.data, expected);
    str_free(&all);
    chat_request_free(&p);
    json_decref(body);
}

#define USER "{\"role\":\"user\",\"content\":\"x\"}"
#define CHAT(more) "{\"messages\":[" USER "]" more "}"

static void test_chat_thinking(void **state)
{
    (void)state;
    const serve_thinking t = SERVE_THINK_TEMPLATE;
    check_chat(CHAT(""), t, "[" USER "] - {\"add_generation_prompt\":true}");
    check_chat(CHAT(""), SERVE_THINK_OFF, "[" USER "] - {\"add_generation_prompt\":true,\"enable_thinking\":false}");
    check_chat(CHAT(",\"enable_thinking\":true"), SERVE_THINK_OFF,
               "[" USER "] - {\"add_generation_prompt\":true,\"enable_thinking\":true}");
    check_chat(CHAT(",\"enable_thinking\":true,\"chat_template_kwargs\":{\"enable_thinking\":false,\"odd\":1}"), t,
               "[" USER "] - {\"add_generation_prompt\":true,\"enable_thinking\":false,\"odd\":1}");
    check_chat(CHAT(",\"reasoning_effort\":\"xhigh\",\"chat_template_kwargs\":{\"enable_thinking\":false}"), t,
               "[" USER "] - {\"add_generation_prompt\":true,\"enable_thinking\":true,\"reasoning_effort\":\"high\"}");
    check_chat(CHAT(",\"reasoning\":{\"effort\":\"none\"}"), t,
               "[" USER "] - {\"add_generation_prompt\":true,\"enable_thinking\":false}");
    check_chat(CHAT(",\"reasoning_effort\":\"hihg\""), t, "reasoning_effort");
    check_chat(CHAT(",\"reasoning\":{\"effort\":5}"), t, "reasoning.effort");
}

static void test_chat_messages(void **state)
{
    (void)state;
    const serve_thinking t = SERVE_THINK_TEMPLATE;
    check_chat(
        "{\"messages\":[{\"role\":\"function\",\"name\":\"f\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
        "{\"type\":\"refusal\",\"refusal\":\"b\"}]}]}",
        t,
        "[{\"role\":\"tool\",\"name\":\"f\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
        "\"text\":"
        "\"b\"}]}] - {\"add_generation_prompt\":true}");
    check_chat(
        "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"r\"}]}]}", t,
        "[{\"role\":\"assistant\",\"content\":[],\"reasoning_content\":\"r\"}] - {\"add_generation_prompt\":true}");
    check_chat("{\"messages\":[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning\":\"r\"}],\"continue_final_"
               "message\":true}",
               t,
               "[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning\":\"r\",\"reasoning_content\":\"r\"}] - "
               "{\"add_generation_prompt\":true}");
    check_chat(CHAT(",\"continue_final_message\":true"), t, "continue_final_message");
    check_chat(CHAT(",\"add_generation_prompt\":false"), t, "[" USER "] - {\"add_generation_prompt\":false}");
    check_chat("{\"messages\":[" USER ",{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", t,
               "messages[1].content[0]");
    check_chat("{\"messages\":[" USER ",{\"role\":\"user\",\"content\":[5]}]}", t, "messages[1].content[0]");
    check_chat("{\"messages\":[5]}", t, "messages[0]");
    check_chat("{\"messages\":{}}", t, "messages");
    check_chat("{}", t, "messages");
}

static void test_chat_calls(void **state)
{
    (void)state;
    const serve_thinking t = SERVE_THINK_TEMPLATE;
#define PAST(more) "{\"messages\":[{\"role\":\"assistant\"," more "}]}"
#define READ(more) "[{\"role\":\"assistant\"," more "}] - {\"add_generation_prompt\":true}"
#define NAMED(more) "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\"" more "}}]"
    check_chat(PAST(NAMED(",\"arguments\":\"{}\"")), t, READ(NAMED(",\"arguments\":\"{}\"")));
    check_chat(PAST(NAMED(",\"arguments\":{\"b\":1,\"a\":2}")), t, READ(NAMED(",\"arguments\":{\"b\":1,\"a\":2}")));
    check_chat(PAST(NAMED(",\"arguments\":\"\"")), t, READ(NAMED("")));
    check_chat(PAST("\"function_call\":{\"name\":\"f\",\"arguments\":\"\"}"), t,
               READ("\"function_call\":{\"name\":\"f\",\"arguments\":\"\"},\"tool_calls\":[{\"type\":\"function\","
                    "\"function\":{\"name\":\"f\"}}]"));
    check_chat(PAST("\"tool_calls\":[]"), t, READ("\"tool_calls\":[]"));
    check_chat(PAST("\"tool_calls\":[{\"type\":\"custom\",\"custom\":{\"name\":\"f\"}}]"), t,
               "messages[0].tool_calls[0]");
    check_chat(PAST("\"tool_calls\":[{\"function\":{\"name\":5}}]"), t, "messages[0].tool_calls[0]");
    check_chat(PAST("\"tool_calls\":[5]"), t, "messages[0].tool_calls[0]");
}

static void test_chat_tools(void **state)
{
    (void)state;
    const serve_thinking t = SERVE_THINK_TEMPLATE;
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"z\":1,\"a\":2}}"
#define OTHER "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"
    check_chat(CHAT(",\"tools\":[" TOOL ",{\"type\":\"web\"}],\"tool_choice\":\"none\""), t,
               "[" USER "] [" TOOL "] {\"add_generation_prompt\":true} none");
    check_chat(CHAT(",\"tools\":[],\"parallel_tool_calls\":false"), t, "[" USER "] - {\"add_generation_prompt\":true}");
#define SHOWN "[" USER "] [" TOOL "] {\"add_generation_prompt\":true}"
    check_chat(CHAT(",\"tools\":[" TOOL "],\"parallel_tool_calls\":false"), t, SHOWN " one");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":\"required\""), t, SHOWN " force f");
    check_chat(CHAT(",\"tools\":[" TOOL "," OTHER "],\"tool_choice\":\"required\""), t,
               "[" USER "] [" TOOL "," OTHER "] {\"add_generation_prompt\":true} force any");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"), t,
               SHOWN " force f");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}"), t,
               SHOWN " force f");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"), t,
               "tool_choice");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"allowed_tools\"}"), t, "tool_choice");
    check_chat(CHAT(",\"tools\":[" TOOL "],\"tool_choice\":\"auto \""), t, "tool_choice");
    check_chat(CHAT(",\"tool_choice\":\"required\""), t, "tool_choice");
#define FUNCTION "{\"name\":\"f\",\"z\":1,\"a\":2}"
    check_chat(CHAT(",\"functions\":[" FUNCTION "]"), t, SHOWN);
    check_chat(CHAT(",\"functions\":[" FUNCTION "],\"function_call\":\"none\""), t, SHOWN " none");
    check_chat(CHAT(",\"functions\":[" FUNCTION "],\"function_call\":{\"name\":\"f\"}"), t, SHOWN " force f");
    check_chat(CHAT(",\"functions\":[" FUNCTION "],\"function_call\":{\"name\":\"g\"}"), t, "function_call");
    check_chat(CHAT(",\"functions\":[" FUNCTION "],\"function_call\":\"none\",\"tool_choice\":\"auto\""), t,
               "function_call");
    check_chat(CHAT(",\"functions\":[" FUNCTION "],\"tools\":[" TOOL "]"), t, "functions");
    check_chat(CHAT(",\"functions\":[{}]"), t, "functions");
    check_chat(CHAT(",\"tools\":[{\"type\":\"function\"}]"), t, "tools[0]");
    check_chat(CHAT(",\"tools\":[7]"), t, "tools[0]");
}

static void test_json_out(void **state)
{
    str s;
    (void)state;
    str_init(&s, 256);
    json_out_string(&s, "a\"\\\n\x01/\xC3\xA9\xFFz\x7F", 11);
    assert_string_equal(s.data, "\"a\\\"\\\\\\n\\u0001/\xC3\xA9\xEF\xBF\xBDz\x7F\"");
    str_clear(&s);
    json_out_number(&s, 0.1);
    str_putc(&s, ' ');
    json_out_number(&s, -1.0 / 3);
    str_putc(&s, ' ');
    json_out_number(&s, -1.0 / 0.0);
    assert_string_equal(s.data, "0.1 -0.3333333333333333 -9999");
    str_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_surrogates),
        cmocka_unit_test(test_generation_fields),
        cmocka_unit_test(test_generation_refusals),
        cmocka_unit_test(test_reasoning_budgets),
        cmocka_unit_test(test_where_a_reply_ends),
        cmocka_unit_test(test_chat_thinking),
        cmocka_unit_test(test_chat_messages),
        cmocka_unit_test(test_chat_calls),
        cmocka_unit_test(test_chat_tools),
        cmocka_unit_test(test_json_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
