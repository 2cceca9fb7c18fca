/* tests/unit/engine/test_told.c - tokens of a reply that are told in advance, and what ends it:
 * the budget of the reasoning, the beginning of the content, ids to stop at, strings that
 * do not stop a call. */
#include "base/str.h"
#include "support/cmocka.h"
#include "support/engines.h"
#include "weir/toolcall.h"

#include <string.h>

enum { MOST = 64, CONTEXT = 200 };

typedef struct told {
    uint32_t ids[MOST], n, n_forced;
    char     forced[MOST]; /* '1' for those that were */
    str      reasoning, content;
} told;

static bool hear_token(void *user, const weir_token *t)
{
    told *h = user;
    str_put(t->reasoning ? &h->reasoning : &h->content, t->text, t->text_len);
    if (t->id == UINT32_MAX) return true;
    assert_true(h->n < MOST);
    h->forced[h->n] = t->forced ? '1' : '0';
    h->ids[h->n++]  = t->id;
    h->n_forced += t->forced;
    return true;
}

typedef struct rig {
    weir_model           *m;
    weir_engine          *e;
    weir_toolcall_options tags;
    told                  heard;
    weir_generate_result  result;
    weir_sample_params    sample;
} rig;

static void rig_open(rig *r)
{
    *r   = (rig){.m = model_named("demo"), .tags = WEIR_TOOLCALL_OPTIONS_INIT, .sample = WEIR_SAMPLE_PARAMS_INIT};
    r->e = engine_with(r->m, (weir_engine_options){.threads = 1, .max_context = CONTEXT, .draft = "ngram"});
    weir_toolcall_tags(r->m, &r->tags);
    assert_int_equal(r->tags.tool_open, 8180);
    assert_int_equal(r->tags.tool_close, 8181);
    assert_int_equal(r->tags.think_open, 8190);
    assert_int_equal(r->tags.think_close, 8191);
    r->sample.temperature = 0;
    r->sample.ignore_eos  = true;
    str_init(&r->heard.reasoning, 10000);
    str_init(&r->heard.content, 10000);
}

static void rig_close(rig *r)
{
    str_free(&r->heard.reasoning);
    str_free(&r->heard.content);
    weir_engine_close(r->e);
    weir_model_close(r->m);
}

static weir_ids ids_of(const rig *r, const char *text)
{
    weir_ids   ids = {0};
    weir_error err;
    must(weir_tokenize(r->m, text, strlen(text), true, &ids, &err), &err);
    return ids;
}

static weir_status try_say(rig *r, weir_generate_options opt, weir_error *err)
{
    weir_ids       prompt = ids_of(r, "<|im_start|>user\nWhat is a weir?<|im_end|>\n<|im_start|>assistant\n<think>\n");
    weir_sequence *s      = sequence_on(r->e);
    opt.size              = sizeof opt;
    opt.sample            = &r->sample;
    if (opt.max_tokens == 0) opt.max_tokens = 40;
    append(s, prompt.data, prompt.n);
    str_clear(&r->heard.reasoning);
    str_clear(&r->heard.content);
    r->heard.n = r->heard.n_forced = 0;
    const weir_status st           = weir_generate(s, &opt, hear_token, &r->heard, &r->result, err);
    weir_sequence_free(s);
    weir_ids_free(&prompt);
    return st;
}

static void say(rig *r, weir_generate_options opt)
{
    weir_error err;
    must(try_say(r, opt, &err), &err);
}

static void forced_are(const rig *r, uint32_t from, const weir_ids *ids)
{
    assert_int_equal(r->heard.n_forced, ids->n);
    for (size_t i = 0; i < ids->n; i++) {
        assert_int_equal(r->heard.ids[from + i], ids->data[i]);
        assert_int_equal(r->heard.forced[from + i], '1');
    }
}

static void reasoning_is_closed_after_its_budget(void **given)
{
    (void)given;
    rig r;
    rig_open(&r);
    weir_ids close = ids_of(&r, "\n</think>\n\n");
    /* What may not be drawn can be told all the same. */
    weir_logit_bias ban   = {.id = r.tags.think_close, .bias = -100};
    r.sample.logit_bias   = &ban;
    r.sample.n_logit_bias = 1;
    say(&r, (weir_generate_options){.thinking_open = true});
    assert_int_equal(r.result.reasoning_tokens, 40); /* without a budget it goes on */
    assert_int_equal(r.heard.n_forced, 0);
    const told free_reply = r.heard;
    for (uint32_t budget = 0; budget < 8; budget++) {
        say(&r, (weir_generate_options){.thinking_open = true, .limit_reasoning = true, .reasoning_budget = budget});
        assert_memory_equal(r.heard.ids, free_reply.ids, budget * sizeof *r.heard.ids);
        forced_are(&r, budget, &close);
        assert_int_equal(r.result.tokens, 40);
        /* The line break before the tag is reasoning, too; none of it is content. */
        assert_int_equal(r.result.reasoning_tokens, budget + close.n - 2);
        assert_int_equal(close.n, 3);
        assert_null(strstr(r.heard.content.data, "think"));
        assert_int_not_equal(r.heard.content.data[0], '\n');
        assert_int_equal(r.heard.reasoning.len == 0, budget == 0);
    }
    weir_ids own = ids_of(&r, "Enough. </think>Well");
    say(&r, (weir_generate_options){.thinking_open     = true,
                                    .limit_reasoning   = true,
                                    .reasoning_budget  = 0,
                                    .reasoning_close   = own.data,
                                    .n_reasoning_close = own.n});
    forced_are(&r, 0, &own);
    assert_string_equal(r.heard.reasoning.data, "Enough.");
    assert_memory_equal(r.heard.content.data, "Well", 4);
    /* Where there is no reasoning it closes none. */
    say(&r, (weir_generate_options){.limit_reasoning = true});
    assert_int_equal(r.heard.n_forced, 0);
    weir_ids_free(&own);
    weir_ids_free(&close);
    rig_close(&r);
}

static void content_begins_with_the_prefix(void **given)
{
    (void)given;
    rig r;
    rig_open(&r);
    weir_ids prefix = ids_of(&r, "<tool_call>\n<function="), both = ids_of(&r, "\n</think>\n\n<tool_call>\n<function=");
    say(&r, (weir_generate_options){.prefix = prefix.data, .n_prefix = prefix.n});
    forced_are(&r, 0, &prefix);
    assert_memory_equal(r.heard.content.data, "<tool_call>\n<function=", 22);
    say(&r, (weir_generate_options){.thinking_open    = true,
                                    .limit_reasoning  = true,
                                    .reasoning_budget = 2,
                                    .prefix           = prefix.data,
                                    .n_prefix         = prefix.n});
    forced_are(&r, 2, &both);
    /* The model closes its reasoning itself: as third token, by a bias that nothing withstands. */
    weir_ids        behind = ids_of(&r, "\n\n<tool_call>\n<function=");
    weir_logit_bias bias   = {.id = r.tags.think_close, .bias = 100};
    r.sample.logit_bias    = &bias;
    r.sample.n_logit_bias  = 1;
    say(&r, (weir_generate_options){.thinking_open = true, .prefix = prefix.data, .n_prefix = prefix.n});
    assert_int_equal(r.heard.ids[0], r.tags.think_close);
    assert_int_equal(r.heard.forced[0], '0');
    forced_are(&r, 1, &behind); /* once, though the tag comes again */
    assert_int_equal(r.result.reasoning_tokens, 0);
    /* A call that ends the reasoning leaves no place for it. */
    bias.id = r.tags.tool_open;
    say(&r, (weir_generate_options){.thinking_open = true, .prefix = prefix.data, .n_prefix = prefix.n});
    assert_int_equal(r.heard.n_forced, 0);
    assert_int_equal(r.result.reasoning_tokens, 0);
    assert_memory_equal(r.heard.content.data, "<tool_call>", 11);
    weir_ids_free(&behind);
    weir_ids_free(&both);
    weir_ids_free(&prefix);
    rig_close(&r);
}

static void ids_stop(void **given)
{
    (void)given;
    rig r;
    rig_open(&r);
    say(&r, (weir_generate_options){.max_tokens = 12});
    assert_int_equal(r.result.finish, WEIR_FINISH_LENGTH);
    assert_int_equal(r.result.stop_id, UINT32_MAX);
    const told free_reply = r.heard;
    uint32_t   at         = 0;
    for (uint32_t i = 1; i < 12 && at == 0; i++) { /* one that was not there before */
        at = i;
        for (uint32_t k = 0; k < i; k++)
            if (free_reply.ids[k] == free_reply.ids[i]) at = 0;
    }
    assert_true(at > 0);
    const uint32_t stops[] = {8000, free_reply.ids[at]};
    say(&r, (weir_generate_options){.stop_ids = stops, .n_stop_ids = 2});
    assert_int_equal(r.result.finish, WEIR_FINISH_STOP);
    assert_int_equal(r.result.stop_id, stops[1]);
    assert_int_equal(r.result.tokens, at);
    assert_null(r.result.stop);
    assert_memory_equal(r.heard.ids, free_reply.ids, at * sizeof *stops);
    rig_close(&r);
}

/* A call that is told in full, and text behind it that holds the stop string. */
static void strings_stop_content_and_no_call(void **given)
{
    (void)given;
    rig r;
    rig_open(&r);
    static const char *const stop[] = {"ab", "a\n<tool"};
    weir_ids                 prefix = ids_of(&r, "a\n<tool_call>\n<function=f>\nab</function>\n</tool_call>xabz");
    say(&r, (weir_generate_options){.prefix = prefix.data, .n_prefix = prefix.n, .stop = stop, .n_stop = 2});
    assert_string_equal(r.heard.content.data, "a\n<tool_call>\n<function=f>\nab</function>\n</tool_call>x");
    assert_ptr_equal(r.result.stop, stop[0]);
    say(&r,
        (weir_generate_options){.prefix = prefix.data, .n_prefix = prefix.n, .stop = stop, .n_stop = 2, .raw = true});
    assert_string_equal(r.heard.content.data, "");
    assert_ptr_equal(r.result.stop, stop[1]);
    weir_ids_free(&prefix);
    prefix = ids_of(&r, "<tool_call> is a tag, ab");
    say(&r, (weir_generate_options){.prefix = prefix.data, .n_prefix = prefix.n, .stop = stop, .n_stop = 2});
    assert_string_equal(r.heard.content.data, "<tool_call> is a tag, ");
    weir_ids_free(&prefix);
    rig_close(&r);
}

static void wrong_ids_are_refused(void **given)
{
    (void)given;
    rig r;
    rig_open(&r);
    static const uint32_t wrong[] = {3, 8192}, many[65] = {0};
    const struct {
        weir_generate_options opt;
        const char           *complaint;
    } cases[] = {
        {{.prefix = wrong, .n_prefix = 2}, "prefix[1]: expected a token id below 8192, found 8192"},
        {{.stop_ids = wrong, .n_stop_ids = 2}, "stop_ids[1]: expected a token id below 8192, found 8192"},
        {{.stop_ids = NULL, .n_stop_ids = 1}, "stop_ids: expected token ids, found NULL"},
        {{.stop_ids = many, .n_stop_ids = 65}, "stop_ids: expected at most 64, found 65"},
        {{.limit_reasoning = true, .reasoning_close = wrong, .n_reasoning_close = 1},
         "reasoning_close: expected the id of </think> (8191), found others"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err;
        assert_int_equal(try_say(&r, cases[i].opt, &err), WEIR_INVALID);
        assert_string_equal(err.text, cases[i].complaint);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reasoning_is_closed_after_its_budget),
                                       cmocka_unit_test(content_begins_with_the_prefix), cmocka_unit_test(ids_stop),
                                       cmocka_unit_test(strings_stop_content_and_no_call),
                                       cmocka_unit_test(wrong_ids_are_refused)};
    return cmocka_run_group_tests_name("told tokens", tests, NULL, NULL);
}
