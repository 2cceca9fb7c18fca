/* tests/exact/test_allocation.c - a step takes no memory: neither a chunk of a
 * prompt nor a token, sampled or read. */
#include "trace.h"

#include "base/mem.h"

#include <stdlib.h>

enum { CONTEXT = 400, CHUNK = 32, WARM = 3 };

static bool ignore_rows(void *user, const weir_rows *rows)
{
    (void)user;
    (void)rows;
    return true;
}

static void test_reading(void **given)
{
    weir_error     err;
    weir_model    *m      = model_named(*given);
    weir_engine   *e      = engine_with(m, (weir_engine_options){.threads = 2, .max_context = CONTEXT, .chunk = CHUNK});
    weir_sequence *s      = sequence_on(e);
    uint32_t      *ids    = random_ids(m, CONTEXT, 61);
    const uint64_t before = mem_count();
    append(s, ids, 100); /* the first step too */
    for (uint32_t i = 100; i < 200; i++) append(s, ids + i, 1);
    must(weir_sequence_score(s, ids + 200, 100, false, ignore_rows, NULL, &err), &err);
    append(s, ids + 300, 100);
    weir_sequence_reset(s);
    append(s, ids, 5);
    assert_int_equal(mem_count(), before);
    free(ids);
    weir_sequence_free(s);
    weir_engine_close(e);
    weir_model_close(m);
}

typedef struct counted {
    uint64_t warm, last; /* allocations when WARM tokens were out, and at the end */
    uint32_t n;
} counted;

static bool count(void *user, const weir_token *t)
{
    counted *c = user;
    if (t->id == UINT32_MAX) return true;
    if (++c->n == WARM) c->warm = mem_count();
    c->last = mem_count();
    return true;
}

static void test_generating(void **given)
{
    weir_error         err;
    counted            c                = {0};
    weir_sample_params p                = WEIR_SAMPLE_PARAMS_INIT;
    p.top_p                             = 0.9;
    p.repetition_penalty                = 1.1;
    p.fresh_seed                        = false;
    p.ignore_eos                        = true;
    const char *const           never[] = {"a string that is never sampled, we may hope"};
    const weir_generate_options g       = {.size         = sizeof g,
                                           .sample       = &p,
                                           .max_tokens   = 200,
                                           .stop         = never,
                                           .n_stop       = 1,
                                           .logprobs     = true,
                                           .top_logprobs = 5};
    weir_model                 *m       = model_named("demo");
    weir_engine   *e   = engine_with(m, (weir_engine_options){.threads = 2, .max_context = CONTEXT, .chunk = CHUNK});
    weir_sequence *s   = sequence_on(e);
    uint32_t      *ids = random_ids(m, 20, 62);
    (void)given;
    append(s, ids, 20);
    must(weir_generate(s, &g, count, &c, NULL, &err), &err);
    assert_int_equal(c.n, 200);
    assert_int_equal(c.last, c.warm);
    free(ids);
    weir_sequence_free(s);
    weir_engine_close(e);
    weir_model_close(m);
}

int main(void)
{
    struct CMUnitTest tests[FIXTURES + 2];
    for (unsigned i = 0; i <= FIXTURES; i++) {
        const char *name = i < FIXTURES ? fixture_names[i] : "demo";
        tests[i] =
            (struct CMUnitTest){.name = name, .test_func = test_reading, .initial_state = (void *)(uintptr_t)name};
    }
    tests[FIXTURES + 1] = (struct CMUnitTest){.name = "generating", .test_func = test_generating};
    return cmocka_run_group_tests_name("exact allocations", tests, NULL, NULL);
}
