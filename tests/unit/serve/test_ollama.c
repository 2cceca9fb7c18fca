/* Ollama's API: bodies to what the shared readers take, and events to lines. */
#include "base/mem.h"
#include "serve/generation.h"
#include "serve/ollama.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const serve_adapter adapters[] = {{.name = "Tales", .choice = {.scale = 1}}};
static const serve_options options    = {
       .model_id = "org/Demo", .sample = WEIR_SAMPLE_PARAMS_INIT, .adapters = adapters, .n_adapters = 1};
static const server here = {.o = &options, .model = {.vocab_size = 100}};

static json_t *parse(const char *text)
{
    json_t *root = json_loads(text, 0, NULL);
    if (root == NULL) fail_msg("not JSON: %s", text);
    return root;
}

/* ---- requests ---- */

/* What the shared readers get, as text; *q keeps the rest. */
static char *read_body(ollama_kind kind, const char *text, ollama_request *q)
{
    json_t   *given = parse(text);
    api_error err;
    if (!ollama_request_read(&here, given, kind, q, &err)) fail_msg("%s: %s", text, err.message);
    char *body = json_dumps(q->body, JSON_COMPACT);
    ollama_request_free(&(ollama_request){.body = q->body});
    q->model   = NULL; /* of the body */
    q->context = NULL;
    json_decref(given);
    return body;
}

static void expect(ollama_kind kind, const char *text, const char *body)
{
    ollama_request q;
    char          *found = read_body(kind, text, &q);
    assert_string_equal(found, body);
    free(found);
}

static void refuse(ollama_kind kind, const char *text, api_kind why, const char *words)
{
    json_t        *given = parse(text);
    ollama_request q;
    api_error      err;
    assert_false(ollama_request_read(&here, given, kind, &q, &err));
    assert_int_equal(err.kind, why);
    if (strstr(err.message, words) == NULL) fail_msg("expected \"%s\" in \"%s\"", words, err.message);
    ollama_request_free(&q);
    json_decref(given);
}

#define MODEL "\"model\":\"org/Demo\""

static void test_chat(void **state)
{
    (void)state;
    expect(OLLAMA_CHAT,
           "{" MODEL ",\"think\":\"max\",\"adapter\":null,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
           "{\"role\":\"assistant\",\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
           "\"x\":1}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"2\",\"images\":[]}],\"tools\":[{}]}",
           "{" MODEL ",\"reasoning_effort\":\"max\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
           "{\"role\":\"assistant\",\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{"
           "\"x\":1}}}],\"content\":\"\",\"reasoning_content\":\"hm\"},{\"role\":\"tool\",\"tool_name\":\"f\","
           "\"content\":\"2\",\"images\":[],\"name\":\"f\"}],\"tools\":[{}]}");
    ollama_request q;
    free(read_body(OLLAMA_CHAT, "{" MODEL ",\"messages\":[],\"keep_alive\":\"0s\"}", &q));
    assert_true(q.stream && q.truncate && q.load && q.unload && !q.logprobs && q.num_ctx == 0);
    free(read_body(OLLAMA_CHAT,
                   "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"keep_alive\":0,\"stream\":false,"
                   "\"truncate\":false,\"logprobs\":true,\"top_logprobs\":3}",
                   &q));
    assert_true(!q.stream && !q.truncate && !q.load && !q.unload && q.logprobs && q.top_logprobs == 3);
    refuse(OLLAMA_CHAT, "{" MODEL ",\"messages\":[1]}", API_INVALID, "messages[0]: expected an object");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"messages\":[{\"role\":\"user\",\"images\":[\"x\"]}]}", API_INVALID,
           "messages[0].images: ");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"keep_alive\":\"soon\"}", API_INVALID, "keep_alive: ");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"keep_alive\":true}", API_INVALID, "keep_alive: ");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"top_logprobs\":1}", API_INVALID, "top_logprobs: ");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"stream\":1}", API_INVALID, "stream: ");
}

static void test_generate(void **state)
{
    (void)state;
    ollama_request q;
    expect(OLLAMA_GENERATE, "{" MODEL ",\"prompt\":\"a\",\"system\":\"b\",\"think\":false,\"template\":\"t\"}",
           "{" MODEL ",\"enable_thinking\":false,\"messages\":[{\"role\":\"system\",\"content\":\"b\"},{\"role\":"
           "\"user\",\"content\":\"a\"}]}");
    expect(OLLAMA_GENERATE, "{" MODEL ",\"prompt\":\"a\",\"system\":\"\"}",
           "{" MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    char *raw = read_body(OLLAMA_GENERATE, "{" MODEL ",\"prompt\":\"a\",\"raw\":true}", &q);
    assert_string_equal(raw, "{" MODEL "}");
    assert_true(q.raw && !q.load);
    free(raw);
    refuse(OLLAMA_GENERATE, "{" MODEL ",\"raw\":true,\"context\":[1]}", API_INVALID, "context: ");
    refuse(OLLAMA_GENERATE, "{" MODEL ",\"suffix\":\"x\"}", API_INVALID, "suffix: ");
    refuse(OLLAMA_GENERATE, "{" MODEL ",\"images\":[\"x\"]}", API_INVALID, "images: ");
    refuse(OLLAMA_GENERATE, "{" MODEL ",\"format\":5}", API_INVALID, "format: ");
}

#define WITH(options) "{" MODEL ",\"options\":{" options "}}"
#define BODY(members) "{" MODEL members ",\"messages\":[]}"

static void test_options(void **state)
{
    (void)state;
    ollama_request q;
    expect(OLLAMA_CHAT,
           WITH("\"temperature\":\"0.5\",\"top_k\":\"20\",\"top_p\":0.9,\"min_p\":0,\"seed\":9007199254740993,"
                "\"stop\":[\"1\"],\"num_predict\":7,\"num_gpu\":99,\"typical_p\":1,\"num_keep\":4,\"mystery\":{}"),
           BODY(",\"temperature\":0.5,\"top_k\":20,\"top_p\":0.90000000000000002,\"min_p\":0,\"seed\":9007199254740993,"
                "\"stop\":[\"1\"],\"max_tokens\":7"));
    expect(OLLAMA_CHAT, WITH("\"stop\":\"1\""), BODY(",\"stop\":\"1\"")); /* no number */
    for (int n = -2; n <= 0; n++) {                                       /* as many as there is room for */
        char text[100];
        (void)snprintf(text, sizeof text, WITH("\"num_predict\":%d"), n);
        expect(OLLAMA_CHAT, text, BODY(""));
    }
    refuse(OLLAMA_CHAT, WITH("\"num_predict\":-3"), API_INVALID, "options.num_predict: ");
    refuse(OLLAMA_CHAT, WITH("\"num_ctx\":\"1x\""), API_INVALID, "options.num_ctx: ");
    refuse(OLLAMA_CHAT, "{" MODEL ",\"options\":[]}", API_INVALID, "options: ");
    free(read_body(OLLAMA_CHAT, WITH("\"num_ctx\":\"4096\""), &q));
    assert_int_equal(q.num_ctx, 4096);
}

/* The options' penalties as they are drawn with. */
static weir_sample_params sample_of(const char *text)
{
    ollama_request q;
    job_options    o;
    api_error      err;
    char          *found = read_body(OLLAMA_CHAT, text, &q);
    json_t        *body  = parse(found);
    if (!generation_read(&here, body, &o, &err)) fail_msg("%s: %s", text, err.message);
    const weir_sample_params p = o.sample;
    job_options_free(&o);
    json_decref(body);
    free(found);
    return p;
}

static void test_penalties(void **state)
{
    (void)state;
    weir_sample_params p = sample_of(WITH("\"presence_penalty\":1.5"));
    assert_true(p.penalize_prompt && p.presence_penalty == 1.5 && p.repetition_penalty == 1);
    assert_int_equal(p.presence_window, 64);
    p = sample_of(WITH("\"repeat_penalty\":1.5,\"frequency_penalty\":1,\"repeat_last_n\":-1"));
    assert_true(p.penalize_prompt && p.repetition_penalty == 1.5 && p.frequency_penalty == 1);
    assert_int_equal(p.repetition_window, 0); /* all */
    p = sample_of(WITH("\"repeat_penalty\":1.5,\"presence_penalty\":1,\"frequency_penalty\":1,\"repeat_last_n\":0"));
    assert_true(p.repetition_penalty == 1 && p.presence_penalty == 0 && p.frequency_penalty == 0);
    p = sample_of(WITH("\"temperature\":1"));
    assert_false(p.penalize_prompt);
}

static void find(const char *said, const char *expected)
{
    json_t     *body = json_pack("{s:s}", "model", said);
    const char *name, *served = NULL;
    api_error   err;
    const bool  found = ollama_find_model(&here, body, &name, &served, &err);
    if (expected == NULL) {
        assert_false(found);
        assert_int_equal(err.kind, API_NO_MODEL);
    } else {
        assert_true(found);
        assert_string_equal(served, expected);
        assert_string_equal(name, said);
    }
    json_decref(body);
}

static void test_names(void **state)
{
    (void)state;
    find("org/Demo", "org/Demo");
    find("ORG/demo:LATEST", "org/Demo");
    find("tales", "Tales");
    find("tales:latest", "Tales");
    find("org/demo:tales", "Tales");
    find("org/demo:8b", NULL);
    find("org/dem", NULL);
    find(":latest", NULL);
    refuse(OLLAMA_CHAT, "{\"model\":\"x\"}", API_NO_MODEL, "model \"x\" not found");
    refuse(OLLAMA_CHAT, "{}", API_INVALID, "model is required");
    expect(OLLAMA_CHAT, "{\"name\":\"TALES\"}", "{\"model\":\"Tales\",\"messages\":[]}");
}

static json_t *make_chat(const char *roles)
{
    json_t *messages = json_array();
    for (const char *r = roles; *r != '\0'; r++)
        (void)json_array_append_new(messages, json_pack("{s:s}", "role",
                                                        *r == 's'   ? "system"
                                                        : *r == 'u' ? "user"
                                                        : *r == 'a' ? "assistant"
                                                                    : "tool"));
    return messages;
}

static void drop(const char *roles, size_t n, const char *left)
{
    char    found[32];
    json_t *messages = make_chat(roles), *fewer = ollama_drop_turns(messages, n);
    size_t  k = 0;
    for (; k < json_array_size(fewer); k++)
        found[k] = json_string_value(json_object_get(json_array_get(fewer, k), "role"))[0];
    found[k] = '\0';
    assert_string_equal(found, left);
    json_decref(fewer);
    json_decref(messages);
}

static size_t count(const char *roles)
{
    json_t      *messages = make_chat(roles);
    const size_t n        = ollama_count_turns(messages);
    json_decref(messages);
    return n;
}

static void test_dropped_turns(void **state)
{
    (void)state;
    drop("suatuasuaa", 0, "suatuasuaa"); /* turns: uat, ua, uaa */
    drop("suatuasuaa", 1, "suasuaa");
    drop("suatuasuaa", 2, "ssuaa");
    assert_int_equal(count("suatuasuaa"), 2);
    drop("saua", 1, "sua"); /* what the assistant began with */
    assert_int_equal(count("saua"), 1);
    assert_int_equal(count("ssu"), 0);
    assert_int_equal(count("ss"), 0);
}

/* ---- answers ---- */

static void nothing(void *connection)
{
    (void)connection;
}

static dialect *make(ollama_kind kind, bool stream, outlet **out)
{
    *out = outlet_new(&(outlet_sleeper){.suspend = nothing, .resume = nothing});
    assert_non_null(*out);
    dialect *d = ollama_writer_new(&(ollama_form){.kind = kind, .stream = stream, .model = "m\"", .logprobs = true},
                                   "req_1", *out);
    assert_non_null(d);
    return d;
}

static void say(dialect *d, reply_kind kind, const char *text)
{
    d->event(d, &(reply_event){.kind = kind, .text = text, .len = text != NULL ? strlen(text) : 0});
}

static void call(dialect *d, uint32_t k, const char *id, const char *name)
{
    d->event(d, &(reply_event){.kind = REPLY_CALL, .call = k, .call_id = id, .name = name});
}

static const reply_usage usage = {.prompt        = 10,
                                  .cached        = 4,
                                  .completion    = 6,
                                  .reasoning     = 2,
                                  .wait_seconds  = 0.25,
                                  .read_seconds  = 0.5,
                                  .reply_seconds = 2};

/* Everything that was written, with every time of day as T; then nothing may follow. */
static const char *taken(dialect *d, outlet *o)
{
    static char       text[8192];
    static const char key[] = "\"created_at\":\"";
    const long        n     = outlet_take(o, text, sizeof text - 1);
    text[n > 0 ? n : 0]     = '\0';
    assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
    for (char *at = text; (at = strstr(at, key)) != NULL;) {
        at += sizeof key - 1;
        const char *end = strchr(at, '"');
        assert_int_equal(end - at, strlen("2026-01-01T00:00:00.000000000Z"));
        *at = 'T';
        memmove(at + 1, end, strlen(end) + 1);
    }
    d->free(d);
    outlet_close(o);
    return text;
}

#define HEAD "{\"model\":\"m\\\"\",\"created_at\":\"T\","
#define END(reason) \
    ",\"done\":true,\"done_reason\":\"" reason "\",\"total_duration\":2750000000,\"load_duration\":250000000," \
    "\"prompt_eval_count\":10,\"prompt_cached_count\":4,\"prompt_eval_duration\":500000000,\"eval_count\":6," \
    "\"eval_duration\":2000000000}"
#define LINE(members) HEAD "\"message\":{\"role\":\"assistant\"," members "},\"done\":false}\n"
#define CALL_A "{\"id\":\"call_a\",\"function\":{\"index\":0,\"name\":\"f\",\"arguments\":{\"x\":\"\\n\"}}}"
#define CALL_B "{\"id\":\"call_b\",\"function\":{\"index\":1,\"name\":\"g\",\"arguments\":{}}}"

static void two_calls(dialect *d)
{
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_REASONING, "hm\n");
    say(d, REPLY_CONTENT, "\"yes\"");
    call(d, 0, "call_a", "f");
    say(d, REPLY_ARGUMENTS, "{\"x\":");
    say(d, REPLY_ARGUMENTS, "\"\\n\"}");
    say(d, REPLY_CALL_END, NULL);
    call(d, 1, "call_b", "g");
    say(d, REPLY_ARGUMENTS, "{}");
    say(d, REPLY_CALL_END, NULL);
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = REPLY_TOOL_CALLS});
    d->end(d, &usage);
}

static void test_lines(void **state)
{
    outlet  *o;
    dialect *d = make(OLLAMA_CHAT, true, &o);
    (void)state;
    two_calls(d);
    assert_string_equal(taken(d, o), LINE("\"content\":\"\",\"thinking\":\"hm\\n\"") LINE("\"content\":\"\\\"yes\\\"\"")
                                         LINE("\"content\":\"\",\"tool_calls\":[" CALL_A "]")
                                             LINE("\"content\":\"\",\"tool_calls\":[" CALL_B "]") HEAD
                        "\"message\":{\"role\":\"assistant\",\"content\":\"\"}" END("stop") "\n");
}

static void test_whole(void **state)
{
    outlet  *o;
    dialect *d = make(OLLAMA_CHAT, false, &o);
    (void)state;
    two_calls(d);
    assert_string_equal(taken(d, o),
                        HEAD "\"message\":{\"role\":\"assistant\",\"content\":\"\\\"yes\\\"\",\"thinking\":\"hm\\n\","
                             "\"tool_calls\":[" CALL_A "," CALL_B "]}" END("stop"));
}

/* A call that the reply is cut in is none. */
static void test_cut_call(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        outlet  *o;
        dialect *d = make(OLLAMA_CHAT, stream != 0, &o);
        call(d, 0, "call_a", "f");
        say(d, REPLY_ARGUMENTS, "{\"x\":");
        d->event(d, &(reply_event){.kind = REPLY_END, .finish = REPLY_LENGTH});
        d->end(d, &usage);
        const char *text = taken(d, o);
        assert_null(strstr(text, "call_a"));
        assert_non_null(strstr(text, "\"done_reason\":\"length\""));
    }
}

static void test_generated_lines(void **state)
{
    outlet  *o;
    dialect *d = make(OLLAMA_GENERATE, true, &o);
    (void)state;
    say(d, REPLY_REASONING, "hm");
    say(d, REPLY_CONTENT, "yes");
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = REPLY_LENGTH});
    d->end(d, &usage);
    assert_string_equal(taken(d, o),
                        HEAD "\"response\":\"\",\"thinking\":\"hm\",\"done\":false}\n" HEAD
                             "\"response\":\"yes\",\"done\":false}\n" HEAD "\"response\":\"\"" END("length") "\n");
}

static void test_failures(void **state)
{
    (void)state;
    for (int begun = 0; begun < 2; begun++) {
        outlet     *o;
        outlet_head head;
        api_error   err;
        dialect    *d = make(OLLAMA_CHAT, true, &o);
        if (begun) say(d, REPLY_CONTENT, "a");
        (void)api_fail(&err, API_NUMERICS, NULL, "no \"number\"");
        (d->fail)(d, &err); /* cmocka has a macro of that name */
        outlet_get_head(o, &head);
        assert_int_equal(head.status, begun ? 200 : 500);
        assert_string_equal(taken(d, o), begun ? LINE("\"content\":\"a\"") "{\"error\":\"no \\\"number\\\"\"}\n"
                                               : "{\"error\":\"no \\\"number\\\"\"}");
    }
}

static void test_time(void **state)
{
    str out;
    (void)state;
    str_init(&out, 100);
    ollama_put_time(&(struct timespec){.tv_sec = 1767225600 + 86399, .tv_nsec = 7}, &out);
    assert_string_equal(out.data, "\"2026-01-01T23:59:59.000000007Z\"");
    str_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),     cmocka_unit_test(test_generate),
        cmocka_unit_test(test_options),  cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_dropped_turns),
        cmocka_unit_test(test_lines),    cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut_call), cmocka_unit_test(test_generated_lines),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
