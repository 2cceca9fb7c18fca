/* tests/unit/engine/test_grammar_replies.c - replies of the demo model within grammars: valid
 * however wild the draws, reasoning left free, and an end that says why. */
#include "base/json.h"
#include "support/cmocka.h"
#include "support/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLIES = 200, AT_ONCE = 25, TEXT_MOST = 2048 };

/* What a reply said, by channel. */
typedef struct said {
    char   content[TEXT_MOST], reasoning[TEXT_MOST];
    size_t n_content, n_reasoning;
} said;

static bool listen(void *user, const weir_token *t)
{
    said   *s  = user;
    char   *to = t->reasoning ? s->reasoning : s->content;
    size_t *n  = t->reasoning ? &s->n_reasoning : &s->n_content;
    assert_true(*n + t->text_len < TEXT_MOST);
    memcpy(to + *n, t->text, t->text_len);
    *n += t->text_len;
    return true;
}

static weir_grammar *compile(const weir_model *m, weir_grammar_kind kind, const char *text)
{
    weir_error    err;
    weir_grammar *g;
    must(weir_grammar_compile(&g, m, kind, text, strlen(text), NULL, &err), &err);
    return g;
}

static weir_request *submit(weir_engine *e, const weir_ids *prompt, const weir_generate_options *g, said *s)
{
    weir_error                 err;
    weir_request              *r;
    const weir_request_options o = {
        .size = sizeof o, .prompt = prompt->data, .n_prompt = prompt->n, .generate = g, .token = listen, .user = s};
    must(weir_engine_submit(e, &o, &r, &err), &err);
    return r;
}

static void run_all(weir_engine *e)
{
    weir_error err;
    for (uint32_t left = 1; left > 0;) must(weir_engine_step(e, &left, &err), &err);
}

/* By hand what the schema of the test below says. */
static void check_person(const said *s)
{
    json_doc   doc;
    weir_error err;
    if (json_parse(&doc, s->content, s->n_content, "reply", 8, &err) != WEIR_OK)
        fail_msg("%.*s: %s", (int)s->n_content, s->content, err.text);
    const json_t *name = json_object_get(doc.root, "name"), *age = json_object_get(doc.root, "age");
    const json_t *pets = json_object_get(doc.root, "pets");
    const char   *key;
    json_t       *v;
    assert_true(json_is_string(name));
    assert_true(json_is_integer(age));
    assert_in_range(json_integer_value(age), 0, 120);
    json_object_foreach(doc.root, key, v)
        assert_true(strcmp(key, "name") == 0 || strcmp(key, "age") == 0 || strcmp(key, "pets") == 0);
    assert_true(pets == NULL || (json_is_array(pets) && json_array_size(pets) <= 1));
    for (size_t i = 0; i < json_array_size(pets); i++) {
        const char *pet = json_string_value(json_array_get(pets, i));
        assert_true(pet != NULL && (strcmp(pet, "cat") == 0 || strcmp(pet, "dog") == 0));
    }
    size_t characters = 0;
    for (const char *c = json_string_value(name); *c != '\0'; c++) characters += ((uint8_t)*c & 0xC0) != 0x80;
    assert_in_range(characters, 1, 5);
    json_doc_free(&doc);
}

static void wild_replies_are_valid(void **unused)
{
    (void)unused;
    weir_model   *m    = model_named("demo");
    weir_grammar *form = compile(
        m, WEIR_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":5},"
        "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":120},\"pets\":{\"type\":\"array\",\"items\":{\"enum\":"
        "[\"cat\",\"dog\"]},\"maxItems\":1}},\"required\":[\"name\",\"age\"]}");
    weir_engine *e      = engine_with(m, (weir_engine_options){.max_context = 160, .max_sequences = AT_ONCE});
    weir_ids     prompt = {0};
    weir_error   err;
    must(weir_tokenize(m, "Ann:", 4, false, &prompt, &err), &err);
    said                        *s = calloc(REPLIES, sizeof *s);
    static weir_sample_params    p[REPLIES];
    static weir_generate_options g[REPLIES];
    weir_request                *r[REPLIES];
    assert_non_null(s);
    for (uint32_t i = 0; i < REPLIES; i++) {
        p[i]             = (weir_sample_params)WEIR_SAMPLE_PARAMS_INIT;
        p[i].temperature = 1.5;
        p[i].fresh_seed  = false;
        p[i].seed        = i;
        g[i]             = (weir_generate_options){.size = sizeof *g, .sample = &p[i], .raw = true, .grammar = form};
        r[i]             = submit(e, &prompt, &g[i], &s[i]);
    }
    run_all(e);
    for (uint32_t i = 0; i < REPLIES; i++) {
        weir_request_info info;
        weir_request_get_info(r[i], &info);
        if (info.status != WEIR_OK) fail_msg("%s", info.error);
        assert_int_equal(info.reply.finish, WEIR_FINISH_STOP);
        check_person(&s[i]);
        weir_request_free(r[i]);
    }
    free(s);
    weir_ids_free(&prompt);
    weir_engine_close(e);
    weir_grammar_free(form);
    weir_model_close(m);
}

/* Reasoning is not held to the grammar, nor cut off by it; the content is, from its first character. */
static void reasoning_stays_free(void **unused)
{
    (void)unused;
    weir_model        *m    = model_named("demo");
    weir_grammar      *form = compile(m, WEIR_GRAMMAR_REGEX, "[0-9]{1,3} cats");
    weir_engine       *e    = engine_with(m, (weir_engine_options){.max_context = 512, .max_sequences = 8});
    weir_sample_params p[4];
    said              *s = calloc(4, sizeof *s);
    weir_prompt        prompt;
    weir_error         err;
    weir_request      *r[4];
    assert_non_null(s);
    must(weir_chat_render(m, "[{\"role\":\"user\",\"content\":\"How many cats?\"}]", NULL,
                          "{\"enable_thinking\":true,\"add_generation_prompt\":true}", &prompt, &err),
         &err);
    assert_true(prompt.thinking_open);
    weir_generate_options g[4];
    for (uint32_t i = 0; i < 4; i++) {
        p[i]             = (weir_sample_params)WEIR_SAMPLE_PARAMS_INIT;
        p[i].temperature = 0.7;
        p[i].fresh_seed  = false;
        p[i].seed        = i;
        g[i]             = (weir_generate_options){.size          = sizeof *g,
                                                   .sample        = &p[i],
                                                   .grammar       = form,
                                                   .thinking_open = i < 3,
                                                   .max_tokens    = i == 2 ? 4 : 150};
        r[i]             = submit(e, &prompt.ids, &g[i], &s[i]);
    }
    run_all(e);
    for (uint32_t i = 0; i < 4; i++) {
        weir_request_info info;
        weir_request_get_info(r[i], &info);
        if (info.status != WEIR_OK) fail_msg("%s", info.error);
        if (i == 2) { /* cut off while reasoning: no content, and nothing of it elsewhere */
            assert_int_equal(info.reply.finish, WEIR_FINISH_LENGTH);
            assert_int_equal(s[i].n_content, 0);
        } else {
            assert_int_equal(info.reply.finish, WEIR_FINISH_STOP);
            assert_true(s[i].n_content >= 6 && s[i].content[0] >= '0' && s[i].content[0] <= '9');
            assert_memory_equal(s[i].content + s[i].n_content - 5, " cats", 5);
            assert_true(i == 3 ? s[i].n_reasoning == 0 : s[i].n_reasoning > 10);
        }
        weir_request_free(r[i]);
    }
    free(s);
    weir_prompt_free(&prompt);
    weir_engine_close(e);
    weir_grammar_free(form);
    weir_model_close(m);
}

/* Where nothing is left to draw the request ends with the reason, and the others go on. */
static void a_dead_end_is_told(void **unused)
{
    (void)unused;
    weir_model       *m    = model_named("demo");
    weir_grammar     *form = compile(m, WEIR_GRAMMAR_REGEX, "xx+"), *empty = compile(m, WEIR_GRAMMAR_REGEX, "");
    weir_engine      *e      = engine_with(m, (weir_engine_options){.max_context = 64, .max_sequences = 4});
    weir_ids          prompt = {0};
    weir_error        err;
    weir_logit_bias   bias[64];
    size_t            n = 0, len;
    static said       s[3];
    weir_request_info info;
    must(weir_tokenize(m, "Ann:", 4, false, &prompt, &err), &err);
    for (uint32_t id = 0; id < 8192 && n < 64; id++) {
        const uint8_t *b = weir_token_bytes(m, id, &len);
        if (b != NULL && b[0] == 'x') bias[n++] = (weir_logit_bias){id, -100};
    }
    weir_sample_params banned        = WEIR_SAMPLE_PARAMS_INIT;
    banned.logit_bias                = bias;
    banned.n_logit_bias              = n;
    const weir_generate_options none = {
        .size = sizeof none, .sample = &banned, .raw = true, .grammar = form, .max_tokens = 5};
    const weir_generate_options some = {.size = sizeof some, .raw = true, .grammar = form, .max_tokens = 5};
    const weir_generate_options end  = {.size = sizeof end, .raw = true, .grammar = empty, .max_tokens = 5};
    weir_request               *a = submit(e, &prompt, &none, &s[0]), *b = submit(e, &prompt, &some, &s[1]),
                 *c = submit(e, &prompt, &end, &s[2]);
    run_all(e);
    weir_request_get_info(a, &info);
    assert_int_equal(info.status, WEIR_NUMERICS);
    assert_non_null(strstr(info.error, "leave no token"));
    weir_request_get_info(b, &info);
    assert_int_equal(info.status, WEIR_OK);
    assert_memory_equal(s[1].content, "xx", 2);
    weir_request_get_info(c, &info);
    assert_int_equal(info.status, WEIR_OK);
    assert_int_equal(info.reply.finish, WEIR_FINISH_STOP);
    assert_int_equal(info.reply.tokens, 0);
    weir_request_free(a);
    weir_request_free(b);
    weir_request_free(c);
    weir_ids_free(&prompt);
    weir_engine_close(e);
    weir_grammar_free(form);
    weir_grammar_free(empty);
    weir_model_close(m);
}

static void matchers_fork_and_end(void **unused)
{
    (void)unused;
    weir_model   *m     = model_named("demo");
    weir_grammar *form  = compile(m, WEIR_GRAMMAR_CHOICE, "[\"a\",\"ab\"]"),
                 *again = compile(m, WEIR_GRAMMAR_CHOICE, "[\"a\",\"ab\"]");
    weir_matcher   *one, *two;
    weir_error      err;
    weir_ids        a = {0}, b = {0};
    uint64_t        bits[1024];
    size_t          n_eos;
    const uint32_t *eos = weir_model_eos_ids(m, &n_eos);
    must(weir_tokenize(m, "a", 1, false, &a, &err), &err);
    must(weir_tokenize(m, "b", 1, false, &b, &err), &err);
    must(weir_matcher_new(&one, form, &err), &err);
    assert_int_equal(weir_matcher_accept(one, eos[0], &err), WEIR_INVALID);
    must(weir_matcher_accept(one, a.data[0], &err), &err);
    must(weir_matcher_fork(&two, one, &err), &err);
    assert_true(weir_matcher_may_end(one));
    assert_false(weir_matcher_is_terminated(one));
    must(weir_matcher_accept(two, b.data[0], &err), &err);
    assert_true(weir_matcher_is_terminated(two));
    must(weir_matcher_mask(one, bits, 1024, &err), &err);
    assert_true(bits[b.data[0] / 64] >> b.data[0] % 64 & 1);
    assert_true(bits[eos[0] / 64] >> eos[0] % 64 & 1);
    assert_false(bits[a.data[0] / 64] >> a.data[0] % 64 & 1);
    must(weir_matcher_accept(one, eos[0], &err), &err);
    assert_true(weir_matcher_is_terminated(one));
    assert_int_equal(weir_matcher_accept(one, b.data[0], &err), WEIR_INVALID);
    assert_int_equal(weir_matcher_mask(one, bits, 1, &err), WEIR_INVALID);
    weir_grammar_free(form); /* matchers keep what they need */
    weir_grammar_free(again);
    must(weir_matcher_mask(two, bits, 1024, &err), &err);
    weir_matcher_free(one);
    weir_matcher_free(two);
    weir_ids_free(&a);
    weir_ids_free(&b);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wild_replies_are_valid),
        cmocka_unit_test(reasoning_stays_free),
        cmocka_unit_test(a_dead_end_is_told),
        cmocka_unit_test(matchers_fork_and_end),
    };
    return cmocka_run_group_tests_name("grammar replies", tests, NULL, NULL);
}
