/* tests/support/talks.c - see talks.h. */
#include "support/talks.h"

#include "support/cmocka.h"
#include "support/rng.h"

#include <stdlib.h>

text text_new(uint32_t capacity)
{
    text t = {.ids = malloc(capacity * sizeof *t.ids), .capacity = capacity};
    assert_non_null(t.ids);
    return t;
}

void text_free(text *t)
{
    free(t->ids);
    *t = (text){0};
}

void text_put(text *t, uint32_t id)
{
    assert_true(t->n < t->capacity);
    t->ids[t->n++] = id;
}

chat_marks chat_marks_of(const weir_model *m)
{
    chat_marks c;
    assert_true(tokenizer_id(m->tok, "<|im_start|>", &c.start));
    assert_true(tokenizer_id(m->tok, "<|im_end|>", &c.end));
    return c;
}

void message(const chat_marks *c, text *t, uint64_t seed, uint32_t n)
{
    text_put(t, c->start);
    for (uint32_t i = 0; i + 3 < n; i++) text_put(t, 300 + rng_below(&seed, 4000));
    text_put(t, c->end);
    text_put(t, 10);
}

void generation_prompt(const chat_marks *c, text *t)
{
    text_put(t, c->start);
    text_put(t, 77);
    text_put(t, 10);
}

void ask(weir_engine *e, const text *t, uint32_t max_tokens, reply *r)
{
    weir_error                  err;
    weir_request               *q;
    uint32_t                    left;
    const weir_sample_params    p = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g = {.size = sizeof g, .max_tokens = max_tokens, .sample = &p};
    const weir_request_options  o = {
         .size = sizeof o, .prompt = t->ids, .n_prompt = t->n, .generate = &g, .token = hear, .user = &r->said};
    *r = (reply){0};
    must(weir_engine_submit(e, &o, &q, &err), &err);
    do must(weir_engine_step(e, &left, &err), &err);
    while (left > 0);
    weir_request_get_info(q, &r->info);
    assert_int_equal(r->info.status, WEIR_OK);
    assert_int_equal(r->said.n, max_tokens);
    weir_request_free(q);
}
