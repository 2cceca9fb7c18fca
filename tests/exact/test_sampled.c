/* tests/exact/test_sampled.c - a seed stands for a text: the same tokens on
 * every instruction set, with any threads and chunks. */
#include "trace.h"

#include "support/heard.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT = 30, TOKENS = 32 };

static void sample(const weir_model *m, weir_engine_options opt, uint64_t seed, heard *h)
{
    weir_error         err;
    weir_sample_params p          = WEIR_SAMPLE_PARAMS_INIT;
    p.temperature                 = 0.9;
    p.top_p                       = 0.95;
    p.min_p                       = 0.001;
    p.repetition_penalty          = 1.1;
    p.xtc_probability             = 0.2;
    p.fresh_seed                  = false;
    p.seed                        = seed;
    p.ignore_eos                  = true;
    const weir_generate_options g = {
        .size = sizeof g, .sample = &p, .max_tokens = TOKENS, .logprobs = true, .raw = true};
    opt.max_context    = PROMPT + TOKENS;
    weir_engine   *e   = engine_with(m, opt);
    weir_sequence *s   = sequence_on(e);
    uint32_t      *ids = random_ids(m, PROMPT, 51);
    append(s, ids, PROMPT);
    memset(h, 0, sizeof *h);
    must(weir_generate(s, &g, hear, h, NULL, &err), &err);
    free(ids);
    weir_sequence_free(s);
    weir_engine_close(e);
}

static void test_model(void **given)
{
    static const uint32_t chunks[] = {1, 7, 256};
    weir_model           *m        = model_named(*given);
    const char           *names[MAX_ISAS];
    const size_t          n_isas = isas(names);
    heard                 first, other;
    sample(m, (weir_engine_options){.isa = "scalar", .threads = 1, .chunk = 1}, 1, &first);
    assert_int_equal(first.n, TOKENS);
    for (size_t i = 0; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            if (i == 0 && threads != 2) continue; /* scalar code is slow */
            sample(m, (weir_engine_options){.isa = names[i], .threads = threads, .chunk = chunks[threads - 1]}, 1,
                   &other);
            assert_memory_equal(&other, &first, sizeof first);
        }
    sample(m, (weir_engine_options){.threads = 2}, 2, &other);
    assert_memory_not_equal(other.ids, first.ids, sizeof first.ids); /* another seed, another text */
    weir_model_close(m);
}

int main(void)
{
    static const char *const models[] = {"tiny-dense", "tiny-moe", "mlx-q4", "demo"};
    enum { N = sizeof models / sizeof *models };
    struct CMUnitTest tests[N];
    for (unsigned i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){
            .name = models[i], .test_func = test_model, .initial_state = (void *)(uintptr_t)models[i]};
    return cmocka_run_group_tests_name("exact sampled text", tests, NULL, NULL);
}
