/* Events of replies to what Chat Completions' clients read. */
#include "base/mem.h"
#include "serve/openai.h"
#include "serve/replier.h"
#include "support/cmocka.h"

#include <string.h>

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

static dialect *make(bool stream, bool usage, uint32_t n, outlet *out)
{
    openai_head     head = {.id = "chatcmpl-1", .model = mem_strdup("m"), .created = 5, .fingerprint = "fp_0"};
    const chat_form form = {.form = {.stream = stream, .include_usage = usage}, .n = n};
    dialect        *d    = chat_writer_new(&head, &form, "req_1", out);
    assert_non_null(d);
    return d;
}

/* Everything that was written, and whether the answer ended. */
static const char *taken(outlet *o)
{
    static char text[16384];
    const long  n       = outlet_take(o, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const reply_usage usage = {.prompt = 10, .cached = 4, .completion = 6, .reasoning = 2};

static void say(dialect *d, reply_kind kind, uint32_t choice, const char *text)
{
    d->event(d, &(reply_event){.kind = kind, .choice = choice, .text = text, .len = text != NULL ? strlen(text) : 0});
}

static void call(dialect *d, uint32_t k, const char *id, const char *name)
{
    d->event(d, &(reply_event){.kind = REPLY_CALL, .call = k, .call_id = id, .name = name});
}

static void argue(dialect *d, uint32_t k, const char *text)
{
    d->event(d, &(reply_event){.kind = REPLY_ARGUMENTS, .call = k, .text = text, .len = strlen(text)});
}

static void two_calls(dialect *d)
{
    say(d, REPLY_BEGIN, 0, NULL);
    call(d, 0, "call_a", "f");
    argue(d, 0, "{\"x\":");
    argue(d, 0, "\"\n\"}");
    d->event(d, &(reply_event){.kind = REPLY_CALL_END, .call = 0});
    call(d, 1, "call_b", "g");
    argue(d, 1, "{}");
    d->event(d, &(reply_event){.kind = REPLY_CALL_END, .call = 1});
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = REPLY_TOOL_CALLS});
    d->end(d, &usage);
}

#define HEAD(object) \
    "\"id\":\"chatcmpl-1\",\"object\":\"" object "\",\"created\":5,\"model\":\"m\",\"system_fingerprint\":\"fp_0\"," \
    "\"service_tier\":\"default\","
#define CHUNK(delta, end) \
    "data: {" HEAD("chat.completion.chunk") "\"choices\":[{\"index\":0,\"delta\":{" delta "},\"logprobs\":null," \
                                            "\"finish_reason\":" end "}],\"usage\":null}\n\n"
#define USAGE \
    "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":6,\"total_tokens\":16,\"prompt_tokens_details\":{" \
    "\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2,\"accepted_prediction_tokens\":0," \
    "\"rejected_prediction_tokens\":0}}"

static void test_stream(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(true, true, 1, o);
    (void)state;
    say(d, REPLY_BEGIN, 0, NULL);
    say(d, REPLY_REASONING, 0, "hm\n");
    say(d, REPLY_CONTENT, 0, "\"yes\"");
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = REPLY_STOP, .stop = "###"});
    d->end(d, &usage);
    assert_string_equal(taken(o), CHUNK("\"role\":\"assistant\",\"content\":\"\"", "null")
                                      CHUNK("\"reasoning_content\":\"hm\\n\",\"reasoning\":\"hm\\n\"", "null")
                                          CHUNK("\"content\":\"\\\"yes\\\"\"", "null")
                                              CHUNK("", "\"stop\",\"stop_reason\":\"###\"") "data: {" HEAD(
                                                  "chat.completion.chunk") "\"choices\":[]," USAGE "}\n\n"
                                                                           "data: [DONE]\n\n");
    assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
    d->free(d);
    outlet_close(o);
}

static void test_streamed_calls(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(true, true, 1, o);
    (void)state;
    two_calls(d);
    const char       *text = taken(o);
    static const char expected[] =
        CHUNK("\"tool_calls\":[{\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"\"}}]",
              "null") CHUNK("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}]", "null")
            CHUNK("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"\\n\\\"}\"}}]", "null") CHUNK(
                "\"tool_calls\":[{\"index\":1,\"id\":\"call_b\",\"type\":\"function\",\"function\":{\"name\":\"g\","
                "\"arguments\":\"\"}}]",
                "null") CHUNK("\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{}\"}}]", "null")
                CHUNK("", "\"tool_calls\",\"stop_reason\":null");
    assert_non_null(strstr(text, expected));
    d->free(d);
    outlet_close(o);
}

static void test_whole_calls(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(false, false, 1, o);
    (void)state;
    two_calls(d);
    static const char expected[] = "{" HEAD(
        "chat.completion") "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,\"refusal\":"
                           "null,\"annotations\":[],"
                           "\"tool_calls\":[{\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                           "\"arguments\":"
                           "\"{\\\"x\\\":\\\"\\n\\\"}\"}},{\"id\":\"call_b\",\"type\":\"function\",\"function\":{"
                           "\"name\":\"g\",\"arguments\":"
                           "\"{}\"}}]},\"logprobs\":null,\"finish_reason\":\"tool_calls\",\"stop_reason\":null}]," USAGE
                           "}";
    assert_string_equal(taken(o), expected);
    d->free(d);
    outlet_close(o);
}

static void test_whole_choices(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make(false, false, 2, o);
    (void)state;
    say(d, REPLY_BEGIN, 1, NULL);
    say(d, REPLY_BEGIN, 0, NULL);
    say(d, REPLY_CONTENT, 1, "b");
    say(d, REPLY_REASONING, 0, "r");
    say(d, REPLY_CONTENT, 1, "c");
    d->event(d, &(reply_event){.kind = REPLY_END, .choice = 1, .finish = REPLY_LENGTH});
    d->event(d, &(reply_event){.kind = REPLY_END, .choice = 0, .finish = REPLY_STOP});
    d->end(d, &usage);
    const char *text = taken(o);
    assert_non_null(strstr(text,
                           "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null,"
                           "\"annotations\":[],\"reasoning_content\":\"r\",\"reasoning\":\"r\"},\"logprobs\":null,"
                           "\"finish_reason\":\"stop\""));
    assert_non_null(strstr(text, "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"bc\",\"refusal\":null,"
                                 "\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"length\""));
    d->free(d);
    outlet_close(o);
}

/* Before the stream begins an error has a status; afterwards it is a frame, and no [DONE] follows. */
static void test_failures(void **state)
{
    api_error e;
    (void)state;
    (void)api_fail(&e, API_NUMERICS, NULL, "no");
#define ERROR "{\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":null,\"code\":\"numerics\"}}"
    for (int begun = 0; begun < 2; begun++) {
        outlet     *o = make_outlet();
        dialect    *d = make(true, false, 1, o);
        outlet_head h;
        if (begun) outlet_begin(o);
        (d->fail)(d, &e); /* cmocka has a macro of that name */
        outlet_get_head(o, &h);
        assert_int_equal(h.status, begun ? 200 : 500);
        assert_int_equal(h.n_headers, begun ? 0 : 1);
        assert_string_equal(taken(o), begun ? "data: " ERROR "\n\n" : ERROR);
        assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
        d->free(d);
        outlet_close(o);
    }
}

/* ---- tokens to events ---- */

typedef struct recorder {
    dialect base;
    str     told;
} recorder;

static void record(dialect *d, const reply_event *e)
{
    str *s = &((recorder *)d)->told;
    str_printf(s, "%d:%.*s", (int)e->kind, (int)e->len, e->text != NULL ? e->text : "");
    for (uint32_t i = 0; i < e->n_logprobs; i++) str_printf(s, "/%u", e->logprobs[i].chosen.id);
    str_putc(s, ' ');
}

static void test_tokens_to_events(void **state)
{
    recorder to = {.base = {.event = record}};
    replier  r;
    (void)state;
    str_init(&to.told, 1024);
    replier_init(&r, &to.base, 0, true);
    replier_token(&r, &(weir_token){.id = 1, .text = "a", .text_len = 1, .reasoning = true});
    replier_token(&r, &(weir_token){.id = 2, .text = "", .reasoning = true});
    replier_token(&r, &(weir_token){.id = 3, .text = ""});
    replier_token(&r, &(weir_token){.id = 4, .text = "bc", .text_len = 2});
    replier_token(&r, &(weir_token){.id = 5, .text = ""});
    replier_token(&r, &(weir_token){.id = UINT32_MAX, .text = "d", .text_len = 1});
    replier_end(&r, &(weir_generate_result){.finish = WEIR_FINISH_LENGTH});
    assert_string_equal(to.told.data, "0: 1:a 2:bc/3/4 2:d/5 6: ");
    replier_free(&r);

    str_clear(&to.told); /* a reply that is over at once still begins */
    replier_init(&r, &to.base, 0, false);
    replier_token(&r, &(weir_token){.id = UINT32_MAX, .text = ""});
    replier_end(&r, &(weir_generate_result){.finish = WEIR_FINISH_STOP});
    assert_string_equal(to.told.data, "0: 6: ");
    replier_free(&r);
    str_free(&to.told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),      cmocka_unit_test(test_streamed_calls),
        cmocka_unit_test(test_whole_calls), cmocka_unit_test(test_whole_choices),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_tokens_to_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
