/* Events of replies to what clients of the Responses API read: whole sequences of frames. */
#include "base/mem.h"
#include "serve/responses.h"
#include "support/cmocka.h"

#include <ctype.h>
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

/* Takes form's `told`, which is written as JSON. */
static dialect *make(responses_form form, const char *told, outlet *out)
{
    openai_head head = {.id = "resp_1", .model = mem_strdup("m"), .created = 5, .fingerprint = "fp_0"};
    str_init(&form.before, 100);
    str_init(&form.behind, 100);
    str_puts(&form.before, "\"model\":\"m\"");
    str_puts(&form.behind, "\"tools\":[]");
    form.told  = told != NULL ? json_loads(told, 0, NULL) : NULL;
    dialect *d = responses_writer_new(&head, &form, "req_1", out);
    assert_non_null(d);
    return d;
}

/* The ids that the writer draws, in the order in which they appear first. */
typedef struct names {
    char   seen[16][25];
    size_t n;
} names;

static size_t id_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n])) n++;
    return n;
}

/* Everything that was written, with '#N' for the N-th random id, 'T' for the time at the end and
 * ' for ". */
static const char *taken(outlet *o)
{
    static char raw[65536], text[65536];
    names       ids    = {0};
    size_t      to     = 0;
    const long  n      = outlet_take(o, raw, sizeof raw - 1);
    raw[n > 0 ? n : 0] = '\0';
    for (const char *at = raw; *at != '\0';) {
        if (*at == '_' && id_length(at + 1) == 24) {
            size_t i = 0;
            while (i < ids.n && strncmp(ids.seen[i], at + 1, 24) != 0) i++;
            if (i == ids.n) memcpy(ids.seen[ids.n++], at + 1, 24);
            text[to++] = '#';
            text[to++] = (char)('1' + i);
            at += 25;
        } else if (strncmp(at, "\"completed_at\":1", 16) == 0) {
            memcpy(text + to, "'completed_at':T", 16);
            to += 16;
            at += 15;
            while (isdigit((unsigned char)*at)) at++;
        } else {
            text[to++] = *at == '"' ? '\'' : *at;
            at++;
        }
    }
    text[to] = '\0';
    return text;
}

static const reply_usage usage = {.prompt = 10, .cached = 4, .completion = 6, .reasoning = 2};

static void say(dialect *d, reply_kind kind, const char *text)
{
    d->event(d, &(reply_event){.kind = kind, .text = text, .len = text != NULL ? strlen(text) : 0});
}

static void call(dialect *d, uint32_t k, const char *id, const char *name)
{
    d->event(d, &(reply_event){.kind = REPLY_CALL, .call = k, .call_id = id, .name = name});
}

static void over(dialect *d, reply_finish finish)
{
    d->event(d, &(reply_event){.kind = REPLY_END, .finish = finish});
    d->end(d, &usage);
}

static void done(dialect *d, outlet *o)
{
    assert_int_equal(outlet_take(o, (char[1]){0}, 1), OUTLET_END);
    d->free(d);
    outlet_close(o);
}

#define USAGE \
    "{'input_tokens':10,'input_tokens_details':{'cached_tokens':4},'output_tokens':6,'output_tokens_details':{" \
    "'reasoning_tokens':2},'total_tokens':16}"
#define RESPONSE(at, status, error, details, output, use) \
    "{'id':'resp_1','object':'response','created_at':5,'completed_at':" at ",'status':'" status \
    "','background':false,'error':" error ",'incomplete_details':" details ",'model':'m','output':[" output \
    "],'tools':[],'usage':" use "}"
#define EVENT(type, n, rest) \
    "event: response." type "\ndata: {'type':'response." type "','sequence_number':" n "," rest "}\n\n"
#define BEGIN \
    EVENT("created", "0", "'response':" RESPONSE("null", "in_progress", "null", "null", "", "null")) \
    EVENT("in_progress", "1", "'response':" RESPONSE("null", "in_progress", "null", "null", "", "null"))

#define REASONING(status, summary, content) \
    "{'id':'rs#1','type':'reasoning','status':'" status "','summary':[" summary "],'content':[" content \
    "],'encrypted_content':null}"
#define TEXT(text) "{'type':'output_text','text':'" text "','annotations':[],'logprobs':[]}"
#define MESSAGE(id, status, content) \
    "{'id':'msg#" id "','type':'message','status':'" status "','role':'assistant','content':[" content "]}"
#define OF(id, index) "'item_id':'" id "','output_index':" index

/* Message `id` as item `index`, of two pieces, in the events from n0 to n6. */
#define MESSAGE_EVENTS(id, index, a, b, status, n0, n1, n2, n3, n4, n5, n6) \
    EVENT("output_item.added", n0, "'output_index':" index ",'item':" MESSAGE(id, "in_progress", "")) \
    EVENT("content_part.added", n1, OF("msg#" id, index) ",'content_index':0,'part':" TEXT("")) \
    EVENT("output_text.delta", n2, OF("msg#" id, index) ",'content_index':0,'delta':'" a "','logprobs':[]") \
    EVENT("output_text.delta", n3, OF("msg#" id, index) ",'content_index':0,'delta':'" b "','logprobs':[]") \
    EVENT("output_text.done", n4, OF("msg#" id, index) ",'content_index':0,'text':'" a b "','logprobs':[]") \
    EVENT("content_part.done", n5, OF("msg#" id, index) ",'content_index':0,'part':" TEXT(a b)) \
    EVENT("output_item.done", n6, "'output_index':" index ",'item':" MESSAGE(id, status, TEXT(a b)))

static void test_text(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make((responses_form){.stream = true}, NULL, o);
    (void)state;
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_REASONING, "h");
    say(d, REPLY_REASONING, "m");
    say(d, REPLY_CONTENT, "ye");
    say(d, REPLY_CONTENT, "s\n");
    over(d, REPLY_STOP);
#define PART "{'type':'reasoning_text','text':'hm'}"
    assert_string_equal(
        taken(o),
        BEGIN EVENT("output_item.added", "2", "'output_index':0,'item':" REASONING("in_progress", "", ""))
            EVENT("reasoning_text.delta", "3", OF("rs#1", "0") ",'content_index':0,'delta':'h'")
                EVENT("reasoning_text.delta", "4", OF("rs#1", "0") ",'content_index':0,'delta':'m'")
                    EVENT("reasoning_text.done", "5", OF("rs#1", "0") ",'content_index':0,'text':'hm'")
                        EVENT("output_item.done", "6", "'output_index':0,'item':" REASONING("completed", "", PART))
                            MESSAGE_EVENTS("2", "1", "ye", "s\\n", "completed", "7", "8", "9", "10", "11", "12", "13")
                                EVENT("completed", "14",
                                      "'response':" RESPONSE("T", "completed", "null", "null",
                                                             REASONING("completed", "", PART) "," MESSAGE(
                                                                 "2", "completed", TEXT("yes\\n")),
                                                             USAGE)));
#undef PART
    done(d, o);
}

static void test_summary(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make((responses_form){.stream = true, .summary = true, .limited = true}, NULL, o);
    (void)state;
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_REASONING, "hm");
    over(d, REPLY_LENGTH);
#define PART(text) "{'type':'summary_text','text':'" text "'}"
    assert_string_equal(
        taken(o),
        BEGIN EVENT("output_item.added", "2", "'output_index':0,'item':" REASONING("in_progress", "", ""))
            EVENT("reasoning_summary_part.added", "3", OF("rs#1", "0") ",'summary_index':0,'part':" PART("")) EVENT(
                "reasoning_summary_text.delta", "4", OF("rs#1", "0") ",'summary_index':0,'delta':'hm'")
                EVENT("reasoning_summary_text.done", "5", OF("rs#1", "0") ",'summary_index':0,'text':'hm'") EVENT(
                    "reasoning_summary_part.done", "6", OF("rs#1", "0") ",'summary_index':0,'part':" PART("hm"))
                    EVENT("output_item.done", "7", "'output_index':0,'item':" REASONING("incomplete", PART("hm"), ""))
                        EVENT("incomplete", "8",
                              "'response':" RESPONSE("null", "incomplete", "null", "{'reason':'max_output_tokens'}",
                                                     REASONING("incomplete", PART("hm"), ""), USAGE)));
#undef PART
    done(d, o);
}

/* ---- calls ---- */

static const char told[] = "{\"patch\":{\"custom\":true,\"name\":\"patch\"},"
                           "\"fs.read\":{\"custom\":false,\"name\":\"read\",\"namespace\":\"fs\"}}";

static void two_calls(dialect *d)
{
    say(d, REPLY_BEGIN, NULL);
    call(d, 0, "call_a", "fs.read");
    say(d, REPLY_ARGUMENTS, "{\"x\":");
    say(d, REPLY_ARGUMENTS, "1}");
    say(d, REPLY_CALL_END, NULL);
    call(d, 1, "call_b", "patch");
    say(d, REPLY_ARGUMENTS, "{\"input\":\"a");
    say(d, REPLY_ARGUMENTS, "\\n'\"}");
    say(d, REPLY_CALL_END, NULL);
    over(d, REPLY_TOOL_CALLS);
}

#define FUNCTION(arguments, status) \
    "{'id':'fc#1','type':'function_call','status':'" status \
    "','call_id':'call_a','namespace':'fs','name':'read','arguments':'" arguments "'}"
#define CUSTOM(input, status) \
    "{'id':'ctc#2','type':'custom_tool_call','status':'" status "','call_id':'call_b','name':'patch','input':'" input \
    "'}"

static void test_calls(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make((responses_form){.stream = true}, told, o);
    (void)state;
    two_calls(d);
    assert_string_equal(
        taken(o),
        BEGIN EVENT("output_item.added", "2", "'output_index':0,'item':" FUNCTION("", "in_progress"))
            EVENT("function_call_arguments.delta", "3", OF("fc#1", "0") ",'delta':'{\\'x\\':'")
                EVENT("function_call_arguments.delta", "4", OF("fc#1", "0") ",'delta':'1}'") EVENT(
                    "function_call_arguments.done", "5", OF("fc#1", "0") ",'arguments':'{\\'x\\':1}','name':'read'")
                    EVENT("output_item.done", "6", "'output_index':0,'item':" FUNCTION("{\\'x\\':1}", "completed"))
                        EVENT("output_item.added", "7", "'output_index':1,'item':" CUSTOM("", "in_progress"))
                            EVENT("custom_tool_call_input.delta", "8", OF("ctc#2", "1") ",'delta':'a\\n''")
                                EVENT("custom_tool_call_input.done", "9", OF("ctc#2", "1") ",'input':'a\\n''") EVENT(
                                    "output_item.done", "10", "'output_index':1,'item':" CUSTOM("a\\n'", "completed"))
                                    EVENT("completed", "11",
                                          "'response':" RESPONSE(
                                              "T", "completed", "null", "null",
                                              FUNCTION("{\\'x\\':1}", "completed") "," CUSTOM("a\\n'", "completed"),
                                              USAGE)));
    done(d, o);
}

static void test_whole_calls(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make((responses_form){.stream = false}, told, o);
    (void)state;
    two_calls(d);
    assert_string_equal(taken(o),
                        RESPONSE("T", "completed", "null", "null",
                                 FUNCTION("{\\'x\\':1}", "completed") "," CUSTOM("a\\n'", "completed"), USAGE));
    done(d, o);

    o = make_outlet(); /* one at most: the second is not told */
    d = make((responses_form){.one_call = true}, told, o);
    two_calls(d);
    assert_string_equal(taken(o),
                        RESPONSE("T", "completed", "null", "null", FUNCTION("{\\'x\\':1}", "completed"), USAGE));
    done(d, o);
}

/* The limit inside of a call, and a custom tool's arguments that are no object: all of it is told. */
static void test_broken_call(void **state)
{
    outlet  *o = make_outlet();
    dialect *d = make((responses_form){.stream = false}, told, o);
    (void)state;
    say(d, REPLY_BEGIN, NULL);
    say(d, REPLY_CONTENT, "x");
    call(d, 0, "call_b", "patch");
    say(d, REPLY_ARGUMENTS, "{\"input\":\"a");
    over(d, REPLY_LENGTH);
    assert_string_equal(
        taken(o), RESPONSE("null", "incomplete", "null", "{'reason':'max_output_tokens'}",
                           MESSAGE("1", "completed", TEXT("x")) "," CUSTOM("{\\'input\\':\\'a", "incomplete"), USAGE));
    done(d, o);
}

/* ---- failures ---- */

static void test_failures(void **state)
{
    api_error e;
    (void)state;
    (void)api_fail(&e, API_NUMERICS, NULL, "no");
    for (int begun = 0; begun < 2; begun++) {
        outlet     *o = make_outlet();
        dialect    *d = make((responses_form){.stream = true}, NULL, o);
        outlet_head h;
        if (begun) outlet_begin(o);
        (d->fail)(d, &e); /* cmocka has a macro of that name */
        outlet_get_head(o, &h);
        assert_int_equal(h.status, begun ? 200 : 500);
        assert_string_equal(
            taken(o),
            begun ? BEGIN EVENT("failed", "2",
                                "'response':" RESPONSE("null", "failed", "{'code':'server_error','message':'no'}",
                                                       "null", "", "null"))
                  : "{'error':{'message':'no','type':'server_error','param':null,'code':'numerics'}}");
        done(d, o);
    }
}

/* A prompt that is too long is told in the stream, and so is a context that reasoning filled. */
static void test_overflow(void **state)
{
    api_error e;
    outlet   *o = make_outlet();
    dialect  *d = make((responses_form){.stream = true}, NULL, o);
    (void)state;
    (void)api_fail(&e, API_CONTEXT, "input", "too long");
    (d->fail)(d, &e);
    assert_string_equal(
        taken(o),
        BEGIN EVENT("failed", "2",
                    "'response':" RESPONSE("null", "failed", "{'code':'context_length_exceeded','message':'too long'}",
                                           "null", "", "null")));
    done(d, o);

    static const struct {
        bool        limited, content;
        const char *last;
    } cases[] = {{false, false, "event: response.failed"},
                 {true, false, "event: response.incomplete"},
                 {false, true, "event: response.incomplete"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        o = make_outlet();
        d = make((responses_form){.stream = true, .limited = cases[i].limited}, NULL, o);
        say(d, REPLY_REASONING, "hm");
        if (cases[i].content) say(d, REPLY_CONTENT, "x");
        over(d, REPLY_LENGTH);
        const char *text = taken(o);
        assert_non_null(strstr(text, cases[i].last));
        assert_int_equal(strstr(text, "'code':'context_length_exceeded'") != NULL, i == 0);
        done(d, o);
    }
}

/* What is over is stored as it was answered. */
static void test_keeping(void **state)
{
    response_store *store;
    weir_error      err;
    stored_response found;
    (void)state;
    assert_int_equal(response_store_open(&store, &(response_store_options){.max_bytes = 1 << 20, .seconds = 60}, &err),
                     WEIR_OK);
    for (int stream = 0; stream < 2; stream++) {
        outlet  *o = make_outlet();
        dialect *d = make(
            (responses_form){
                .stream = stream, .previous = mem_strdup("resp_0"), .items = mem_strdup("[1]"), .store = store},
            NULL, o);
        say(d, REPLY_CONTENT, "x");
        over(d, REPLY_STOP);
        static char raw[65536];
        const long  n = outlet_take(o, raw, sizeof raw - 1);
        assert_true(n > 0);
        raw[n] = '\0';
        assert_true(response_store_get(store, "resp_1", &found));
        assert_non_null(strstr(raw, found.response));
        assert_string_equal(found.previous, "resp_0");
        assert_string_equal(found.items, "[1]");
        stored_response_free(&found);
        assert_true(response_store_delete(store, "resp_1"));
        done(d, o);
    }
    response_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),        cmocka_unit_test(test_summary),     cmocka_unit_test(test_calls),
        cmocka_unit_test(test_whole_calls), cmocka_unit_test(test_broken_call), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_overflow),    cmocka_unit_test(test_keeping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
