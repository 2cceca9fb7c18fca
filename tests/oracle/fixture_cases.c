/* tests/oracle/fixture_cases.c - every fixture in several forms of the key/value cache. */
#include "fixture_cases.h"

#include <stdio.h>
#include <string.h>

const unsigned prompts[N_PROMPTS] = {1, 2, 3, 4, 5, 37, 130};

/* What the reference itself loses in bfloat16: the column "bf16 max/std" of tests/fixtures/README.md;
 * mlx-modes and trellis, which have no measure of their own, take that of mlx-mixed. */
static const double bf16_of_reference[FIXTURES] = {0.2, 0.163, 0.103, 0.152, 0.151, 0.14, 0.103, 0.156, 0.156, 0.156};

/* Float32 throughout stays this near; the other forms of the cache may cost so much of what
 * bfloat16 everywhere costs. */
static const double bound_f32 = 5e-5;
static const struct {
    const char *kv;
    double      share;
    uint32_t    kv_start;
} forms[FIXTURE_FORMS] = {{"f32", 0, 0},       {"bf16", 0.25, 0},         {"affine8", 0.5, 0},
                          {"affine4", 4.5, 0}, {"affine8,affine4", 4, 0}, {"turbo", 8, 0},
                          {"turbo", 0.25, 256}}; /* rotated, but in bfloat16 */

static fixture_case cases[FIXTURE_CASES];

static int open_case(void **given)
{
    fixture_case *c = *given;
    char          path[1024];
    c->m = model_named(c->fixture);
    c->e = engine_with(c->m,
                       (weir_engine_options){.kv = c->kv, .kv_start = c->kv_start, .threads = 2, .max_context = 192});
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

bool fixture_case_plain(const fixture_case *c)
{
    return strcmp(c->kv, "f32") == 0 || strcmp(c->kv, "bf16") == 0;
}

int fixture_cases_run(const char *group, CMUnitTestFunction test, bool (*wanted)(const fixture_case *c))
{
    struct CMUnitTest tests[FIXTURE_CASES];
    unsigned          n = 0;
    for (unsigned i = 0; i < FIXTURE_CASES; i++) {
        fixture_case  *c  = &cases[i];
        const unsigned at = i / FIXTURE_FORMS, form = i % FIXTURE_FORMS;
        c->fixture  = fixture_names[at];
        c->kv       = forms[form].kv;
        c->kv_start = forms[form].kv_start;
        c->bound    = form == 0 ? bound_f32 : forms[form].share * bf16_of_reference[at];
        (void)snprintf(c->name, sizeof c->name, "%s, %s%s", c->fixture, c->kv, c->kv_start > 0 ? " late" : "");
        if (wanted != NULL && !wanted(c)) continue;
        tests[n++] = (struct CMUnitTest){.name          = c->name,
                                         .test_func     = test,
                                         .setup_func    = open_case,
                                         .teardown_func = close_case,
                                         .initial_state = c};
    }
    return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
