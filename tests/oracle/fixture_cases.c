/* tests/oracle/fixture_cases.c - every fixture in both formats of the key/value cache. */
#include "fixture_cases.h"

#include <stdio.h>
#include <string.h>

const unsigned prompts[N_PROMPTS] = {1, 2, 3, 4, 5, 37, 130};

/* What the reference itself loses in bfloat16: the column "bf16 max/std" of tests/fixtures/README.md;
 * mlx-modes, which has no measure of its own, takes that of mlx-mixed. */
static const double bf16_of_reference[FIXTURES] = {0.2, 0.163, 0.103, 0.152, 0.151, 0.14, 0.103, 0.156, 0.156};

/* Float32 throughout stays this near; the cache in bfloat16 may cost a quarter
 * of what bfloat16 everywhere costs. */
static const double bound_f32 = 5e-5, share_bf16 = 0.25;

static fixture_case cases[FIXTURE_CASES];

static int open_case(void **given)
{
    fixture_case *c = *given;
    char          path[1024];
    c->m = model_named(c->fixture);
    c->e = engine_with(c->m, (weir_engine_options){.kv = c->kv, .threads = 2, .max_context = 192});
    c->s = sequence_on(c->e);
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s/expected.safetensors", WEIR_SOURCE_DIR, c->fixture);
    tensors_open(&c->expected, path);
    return 0;
}

static int close_case(void **given)
{
    fixture_case *c = *given;
    safetensors_close(&c->expected);
    weir_sequence_free(c->s);
    weir_engine_close(c->e);
    weir_model_close(c->m);
    return 0;
}

int fixture_cases_run(const char *group, CMUnitTestFunction test, bool (*wanted)(const fixture_case *c))
{
    struct CMUnitTest tests[FIXTURE_CASES];
    unsigned          n = 0;
    for (unsigned i = 0; i < FIXTURE_CASES; i++) {
        fixture_case *c = &cases[i];
        c->fixture      = fixture_names[i / 2];
        c->kv           = i % 2 == 0 ? "f32" : "bf16";
        c->bound        = i % 2 == 0 ? bound_f32 : share_bf16 * bf16_of_reference[i / 2];
        (void)snprintf(c->name, sizeof c->name, "%s, %s", c->fixture, c->kv);
        if (wanted != NULL && !wanted(c)) continue;
        tests[n++] = (struct CMUnitTest){.name          = c->name,
                                         .test_func     = test,
                                         .setup_func    = open_case,
                                         .teardown_func = close_case,
                                         .initial_state = c};
    }
    return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
