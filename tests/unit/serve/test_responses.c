/* Requests of the Responses API, as chats: items, tools and fields. */
#include "serve/responses_items.h"
#include "serve/responses_request.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

/* JSON with ' for ". */
static json_t *json(const char *text)
{
    char *own = strdup(text);
    for (char *c = own; *c != '\0'; c++)
        if (*c == '\'') *c = '"';
    json_t *v = json_loads(own, JSON_DECODE_ANY, NULL);
    if (v == NULL) fail_msg("no JSON: %s", own);
    free(own);
    return v;
}

static void assert_json(const json_t *found, const char *expected)
{
    json_t *e = json(expected);
    char   *a = json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY), *b = json_dumps(e, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(a, b);
    free(a);
    free(b);
    json_decref(e);
}

static void to_messages(const char *input, const char *expected, size_t left_out)
{
    api_error err;
    size_t    n     = 0;
    json_t   *given = json(input), *items, *messages = json_array();
    if (!responses_items_read(given, &items, &err)) fail_msg("%s", err.message);
    if (!responses_items_to_messages(items, messages, &n, &err)) fail_msg("%s", err.message);
    assert_json(messages, expected);
    assert_int_equal(n, left_out);
    json_decref(messages);
    json_decref(items);
    json_decref(given);
}

static void test_messages(void **state)
{
    (void)state;
    to_messages("'hi'", "[{'role':'user','content':'hi'}]", 0);
    to_messages(
        "[{'role':'developer','content':'d'},"
        "{'type':'message','role':'user','content':[{'type':'input_text','text':'a'},{'type':'text','text':'b'}]},"
        "{'role':'assistant','content':[{'type':'output_text','text':'c'},{'type':'refusal','refusal':'r'}]}]",
        "[{'role':'developer','content':'d'},{'role':'user','content':'ab'},{'role':'assistant','content':'cr'}]", 0);
    /* what nobody can read, or needs a store of somebody else's, is skipped */
    to_messages("[{'type':'web_search_call','id':'ws_1'},{'type':'item_reference','id':'msg_1'},{'type':'brand_new'},"
                "{'role':'user','content':'x'}]",
                "[{'role':'user','content':'x'}]", 3);
}

/* Think, text and calls of a turn are one message; what goes back in that order begins another. */
static void test_turns(void **state)
{
    (void)state;
    to_messages(
        "[{'role':'user','content':'q'},"
        "{'type':'reasoning','summary':[{'type':'summary_text','text':'s'}],'content':[{'type':'reasoning_text','text':"
        "'t'}]},"
        "{'type':'message','role':'assistant','content':[{'type':'output_text','text':'a'}]},"
        "{'type':'function_call','call_id':'c1','name':'f','arguments':'{\\\"x\\\":1}'},"
        "{'type':'function_call','call_id':'c2','name':'g','namespace':'ns','arguments':''},"
        "{'type':'function_call_output','call_id':'c1','output':'o1'},"
        "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'o2'},{'type':'input_"
        "image'}]},"
        "{'type':'reasoning','summary':[{'type':'summary_text','text':'s1'},{'type':'summary_text','text':'s2'}]},"
        "{'role':'assistant','content':'b'}]",
        "[{'role':'user','content':'q'},"
        "{'role':'assistant','content':'a','reasoning_content':'t','tool_calls':["
        "{'type':'function','function':{'name':'f','arguments':{'x':1}},'id':'c1'},"
        "{'type':'function','function':{'name':'ns.g','arguments':{}},'id':'c2'}]},"
        "{'role':'tool','tool_call_id':'c1','content':'o1'},"
        "{'role':'tool','tool_call_id':'c2','content':'o2[left out: this model reads text only]'},"
        "{'role':'assistant','content':'b','reasoning_content':'s1\\n\\ns2'}]",
        0);
    to_messages("[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},"
                "{'type':'reasoning','content':[{'text':'t'}],'summary':[]}]",
                "[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},"
                "{'role':'assistant','content':'','reasoning_content':'t'}]",
                0);
    to_messages("[{'type':'reasoning','summary':[],'encrypted_content':'zzz'},{'role':'user','content':'x'}]",
                "[{'role':'user','content':'x'}]", 0);
}

static void test_other_calls(void **state)
{
    (void)state;
    to_messages("[{'type':'custom_tool_call','call_id':'c','name':'patch','input':'*** \\\"x\\\"'},"
                "{'type':'custom_tool_call_output','call_id':'c','output':'ok'},"
                "{'type':'local_shell_call','call_id':'s','action':{'type':'exec','command':['ls'],'timeout_ms':5,'"
                "working_directory':'/'}},"
                "{'type':'local_shell_call_output','call_id':'s','output':{'code':0}},"
                "{'type':'function_call','call_id':'d','name':'f','arguments':'no JSON'}]",
                "[{'role':'assistant','content':'','tool_calls':[{'type':'function','function':{'name':'patch','"
                "arguments':{'input':'*** \\\"x\\\"'}},'id':'c'}]},"
                "{'role':'tool','tool_call_id':'c','content':'ok'},"
                "{'role':'assistant','content':'','tool_calls':[{'type':'function','function':{'name':'shell','"
                "arguments':{'command':['ls'],'timeout_ms':5,'workdir':'/'}},'id':'s'}]},"
                "{'role':'tool','tool_call_id':'s','content':'{\\\"code\\\":0}'},"
                "{'role':'assistant','content':'','tool_calls':[{'type':'function','function':{'name':'f','arguments':{"
                "'arguments':'no JSON'}},'id':'d'}]}]",
                0);
}

static void test_items_are_kept(void **state)
{
    api_error err;
    json_t   *given =
        json("[{'role':'user','content':'x'},{'type':'reasoning','id':'rs_own','summary':[]},{'type':'new'}]");
    json_t *items;
    (void)state;
    assert_true(responses_items_read(given, &items, &err));
    const json_t *first = json_array_get(items, 0);
    assert_string_equal(json_string_value(json_object_get(first, "type")), "message");
    assert_memory_equal(json_string_value(json_object_get(first, "id")), "msg_", 4);
    assert_json(json_object_get(first, "content"), "[{'type':'input_text','text':'x'}]");
    assert_json(json_array_get(items, 1), "{'type':'reasoning','id':'rs_own','summary':[]}");
    assert_memory_equal(json_string_value(json_object_get(json_array_get(items, 2), "id")), "item_", 5);
    assert_null(json_object_get(json_array_get(given, 0), "id")); /* the request stays as it was */
    json_decref(items);
    json_decref(given);
}

/* ---- requests ---- */

static bool read_all(const json_t *body, const json_t *history, responses_request *r, api_error *err)
{
    return responses_request_read(body, r, err) && responses_request_fold(r, body, history, err);
}

static void assert_chat(const char *request, const char *history, const char *key, const char *expected)
{
    api_error         err;
    responses_request r;
    json_t           *body = json(request), *before = history != NULL ? json(history) : NULL;
    if (!read_all(body, before, &r, &err)) fail_msg("%s", err.message);
    const json_t *found = json_object_get(r.chat, key);
    if (expected != NULL)
        assert_json(found, expected);
    else
        assert_null(found);
    responses_request_free(&r);
    json_decref(before);
    json_decref(body);
}

static void test_tools(void **state)
{
    static const char tools[] =
        "{'input':'x','tools':["
        "{'type':'function','name':'f','description':'d','parameters':{'type':'object'},'strict':true},"
        "{'type':'function','function':{'name':'nested','parameters':{'type':'object'}}},"
        "{'type':'custom','name':'patch','description':'p','format':{'type':'grammar','syntax':'lark','definition':'"
        "start: X'}},"
        "{'type':'namespace','name':'ns','tools':[{'type':'function','name':'g'},{'type':'web_search'}]},"
        "{'type':'local_shell'},"
        "{'type':'web_search'},{'type':'file_search'},{'type':'mcp'},{'type':'tool_search'},{'type':'of next year'}]}";
    api_error         err;
    responses_request r;
    json_t           *body = json(tools);
    (void)state;
    assert_true(read_all(body, NULL, &r, &err));
    assert_json(json_object_get(r.chat, "tools"),
                "[{'type':'function','function':{'name':'f','description':'d','parameters':{'type':'object'}}},"
                "{'type':'function','function':{'name':'nested','parameters':{'type':'object'}}},"
                "{'type':'function','function':{'name':'patch','description':'p\\n\\nThe input has to follow this Lark "
                "grammar:\\nstart: X',"
                "'parameters':{'type':'object','properties':{'input':{'type':'string'}},'required':['input']}}},"
                "{'type':'function','function':{'name':'ns.g'}},"
                "{'type':'function','function':{'name':'shell','description':'Runs a command and returns its output.',"
                "'parameters':{'type':'object','properties':{'command':{'type':'array','items':{'type':'string'}},"
                "'timeout_ms':{'type':'integer'},'workdir':{'type':'string'}},'required':['command']}}}]");
    assert_json(r.tools.told,
                "{'patch':{'custom':true,'name':'patch'},'ns.g':{'custom':false,'name':'g','namespace':'ns'}}");
    assert_int_equal(r.tools.left_out, 6);
    responses_request_free(&r);
    json_decref(body);
    assert_chat("{'input':'x','tools':[{'type':'web_search'}],'tool_choice':'required'}", NULL, "tools", NULL);
    assert_chat("{'input':'x','tools':[{'type':'web_search'}],'tool_choice':'required'}", NULL, "tool_choice", NULL);
}

#define TWO "'input':'x','tools':[{'type':'function','name':'f'},{'type':'custom','name':'g'}],'tool_choice':"

static void test_tool_choice(void **state)
{
    (void)state;
    assert_chat("{" TWO "'none'}", NULL, "tool_choice", "'none'");
    assert_chat("{" TWO "{'type':'custom','name':'g'}}", NULL, "tool_choice",
                "{'type':'function','function':{'name':'g'}}");
    assert_chat("{" TWO "{'type':'web_search'}}", NULL, "tool_choice", NULL);
#define ALLOWED(mode) "{'type':'allowed_tools','mode':'" mode "','tools':[{'type':'function','name':'f'}]}"
    assert_chat("{" TWO ALLOWED("auto") "}", NULL, "tools", "[{'type':'function','function':{'name':'f'}}]");
    assert_chat("{" TWO ALLOWED("auto") "}", NULL, "tool_choice", NULL);
    assert_chat("{" TWO ALLOWED("required") "}", NULL, "tool_choice", "'required'");
}

static void test_fields(void **state)
{
    (void)state;
    assert_chat("{'input':'x','max_output_tokens':7,'n':3,'max_tokens':1}", NULL, "max_tokens", "7");
    assert_chat("{'input':'x','n':3,'temperature':0.5}", NULL, "n", NULL);
    assert_chat("{'input':'x','n':3,'temperature':0.5}", NULL, "temperature", "0.5");
    assert_chat("{'input':'x','reasoning':{'effort':'max','summary':'auto'}}", NULL, "reasoning", "{'effort':'max'}");
    assert_chat("{'input':'x','text':{'format':{'type':'json_schema','name':'n','schema':{}}}}", NULL,
                "response_format",
                "{'type':'json_schema','json_schema':{'type':'json_schema','name':'n','schema':{}}}");
    assert_chat("{'instructions':'i','input':'new'}", "[{'type':'message','role':'user','content':'old'}]", "messages",
                "[{'role':'system','content':'i'},{'role':'user','content':'old'},{'role':'user','content':'new'}]");
}

static void test_flags(void **state)
{
    api_error         err;
    responses_request r;
    json_t           *body = json("{'input':'x','store':false,'parallel_tool_calls':false,'max_output_tokens':1,"
                                            "'previous_response_id':'resp_0','reasoning':{'summary':'auto'},"
                                            "'include':['reasoning.encrypted_content','message.output_text.logprobs'],'top_logprobs':2}");
    (void)state;
    assert_true(responses_request_read(body, &r, &err));
    assert_true(!r.store && r.one_call && r.limited && r.summary && r.logprobs && r.top_logprobs == 2);
    assert_string_equal(r.previous, "resp_0");
    responses_request_free(&r);
    json_decref(body);

    body = json("{'input':'x','conversation':null,'background':false,'include':['reasoning.encrypted_content']}");
    assert_true(responses_request_read(body, &r, &err));
    assert_true(r.store && !r.one_call && !r.limited && !r.summary && !r.logprobs);
    assert_null(r.previous);
    responses_request_free(&r);
    json_decref(body);
}

static void test_refused(void **state)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{}", "input"},
        {"{'input':[]}", "input"},
        {"{'input':5}", "input"},
        {"{'input':['x']}", "input[0]"},
        {"{'input':[{'content':'x'}]}", "input[0]"},
        {"{'input':[{'role':'user','content':'x'},{'role':'user','content':[{'type':'input_image','image_url':'data:'}]"
         "}]}",
         "input[1].content[0]"},
        {"{'input':[{'role':'user','content':7}]}", "input[0].content"},
        {"{'input':[{'type':'function_call','call_id':'c'}]}", "input[0]"},
        {"{'input':'x','instructions':[]}", "instructions"},
        {"{'input':'x','conversation':'conv_1'}", "conversation"},
        {"{'input':'x','background':true}", "background"},
        {"{'input':'x','prompt':{'id':'p'}}", "prompt"},
        {"{'input':'x','max_output_tokens':0}", "max_output_tokens"},
        {"{'input':'x','top_logprobs':21}", "top_logprobs"},
        {"{'input':'x','tools':{}}", "tools"},
        {"{'input':'x','tools':[{'type':'function'}]}", "tools[0]"},
        {"{'input':'x','tools':[{'type':'namespace','name':'n','tools':[{'type':'custom'}]}]}", "tools[0].tools[0]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        api_error         err;
        responses_request r;
        json_t           *body = json(cases[i].body);
        if (read_all(body, NULL, &r, &err)) fail_msg("%s was read", cases[i].body);
        assert_int_equal(err.kind, API_INVALID);
        assert_string_equal(err.param, cases[i].param);
        responses_request_free(&r);
        json_decref(body);
    }
}

static void test_echo(void **state)
{
    api_error                err;
    responses_request        r;
    const weir_sample_params p    = {.temperature = (double)0.7f, .top_p = 1};
    json_t                  *body = json("{'input':'x','metadata':{'a':'b'},'text':{'verbosity':'low'},"
                                                          "'reasoning':{'effort':'low'},'tools':[{'type':'mcp'}]}");
    str                      before, behind;
    (void)state;
    str_init(&before, 1000);
    str_init(&behind, 1000);
    assert_true(responses_request_read(body, &r, &err));
    responses_put_echo(body, &r, "m", &p, &before, &behind);
    assert_string_equal(before.data, "\"instructions\":null,\"max_output_tokens\":null,\"max_tool_calls\":null,"
                                     "\"metadata\":{\"a\":\"b\"},\"model\":\"m\"");
    assert_string_equal(
        behind.data, "\"parallel_tool_calls\":true,\"previous_response_id\":null,\"prompt_cache_key\":null,"
                     "\"reasoning\":{\"effort\":\"low\",\"summary\":null},\"service_tier\":\"default\",\"store\":true,"
                     "\"temperature\":0.7,\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"low\"},"
                     "\"tool_choice\":\"auto\",\"tools\":[{\"type\":\"mcp\"}],\"top_logprobs\":0,\"top_p\":1,"
                     "\"truncation\":\"disabled\",\"user\":null");
    str_free(&before);
    str_free(&behind);
    responses_request_free(&r);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),       cmocka_unit_test(test_turns), cmocka_unit_test(test_other_calls),
        cmocka_unit_test(test_items_are_kept), cmocka_unit_test(test_tools), cmocka_unit_test(test_tool_choice),
        cmocka_unit_test(test_fields),         cmocka_unit_test(test_flags), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_echo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
