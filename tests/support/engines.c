/* tests/support/engines.c - the fixture models and engines on them. */
#include "support/engines.h"

#include "kernels/open.h"
#include "support/cmocka.h"
#include "support/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fixture_names[FIXTURES] = {"tiny-dense", "tiny-dense-tied", "tiny-moe",  "tiny-odd",  "mlx-q4",
                                             "mlx-q8",     "mlx-moe-q4",      "mlx-mixed", "mlx-modes", "trellis"};

void must(weir_status st, const weir_error *err)
{
    if (st != WEIR_OK) fail_msg("%s", err->text);
}

weir_model *model_named(const char *name)
{
    char        path[1024];
    weir_error  err;
    weir_model *m;
    if (strcmp(name, "demo") == 0)
        (void)snprintf(path, sizeof path, "%s/models/demo", WEIR_SOURCE_DIR);
    else
        (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s", WEIR_SOURCE_DIR, name);
    must(weir_model_open(&m, path, &err), &err);
    return m;
}

weir_engine *engine_with(const weir_model *m, weir_engine_options opt)
{
    weir_error   err;
    weir_engine *e;
    opt.size = sizeof opt;
    must(weir_engine_open(&e, m, &opt, &err), &err);
    return e;
}

weir_sequence *sequence_on(weir_engine *e)
{
    weir_error     err;
    weir_sequence *s;
    must(weir_sequence_new(&s, e, &err), &err);
    return s;
}

void append(weir_sequence *s, const uint32_t *ids, size_t n)
{
    weir_error err;
    must(weir_sequence_append(s, ids, n, NULL, NULL, &err), &err);
}

size_t isas(const char *names[MAX_ISAS])
{
    return kernels_isas(names, MAX_ISAS);
}

uint32_t *random_ids(const weir_model *m, size_t n, uint64_t seed)
{
    weir_model_info info;
    weir_model_get_info(m, &info);
    uint32_t *ids = malloc(n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++) ids[i] = rng_below(&seed, info.vocab_size);
    return ids;
}
