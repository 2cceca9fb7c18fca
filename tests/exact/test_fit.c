/* tests/exact/test_fit.c - what weir_engine_fit says an engine takes is what it
 * takes, within 5 %, once everything it has is in use.
 *
 *   test_fit [SHAPE [CONTEXT]]                  default: 0.8b 160
 *
 * Requests fill all sequences to the end of the context and the prefix cache
 * with snapshots; then the process's peak is compared. */
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/rng.h"
#include "weir/experimental.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, REPLY = 40, ROUNDS = 3 };

static const char *shape   = "0.8b";
static uint32_t    context = 160;

/* A field of /proc/self/status in bytes. */
static uint64_t status_bytes(const char *field)
{
    char               line[256];
    unsigned long long kb = 0;
    FILE              *f  = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0) (void)sscanf(line + strlen(field), ": %llu", &kb);
    if (f != NULL) (void)fclose(f);
    return kb * 1024;
}

/* Prompts with nothing in common fill sequences and cache. */
static void use_everything(weir_engine *e, const weir_model *m)
{
    const weir_sample_params    p = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g = {.size = sizeof g, .sample = &p, .max_tokens = REPLY};
    for (int round = 0; round < ROUNDS; round++) {
        weir_error    err;
        weir_request *r[SEQUENCES];
        uint32_t      left;
        for (int i = 0; i < SEQUENCES; i++) {
            uint32_t                  *ids = random_ids(m, context, (uint64_t)(round * SEQUENCES + i));
            const weir_request_options o   = {
                  .size = sizeof o, .prompt = ids, .n_prompt = context - REPLY + 1, .generate = &g};
            must(weir_engine_submit(e, &o, &r[i], &err), &err);
            free(ids);
        }
        do must(weir_engine_step(e, &left, &err), &err);
        while (left > 0);
        for (int i = 0; i < SEQUENCES; i++) weir_request_free(r[i]);
    }
}

static void check(const char *draft)
{
    weir_error  err;
    weir_model *m;
    weir_fit    fit, bare;
    must(weir_model_random(&m, shape, "affine4", 1, &err), &err);
    weir_engine_options opt = {.size          = sizeof opt,
                               .threads       = 2,
                               .max_context   = context,
                               .max_sequences = SEQUENCES,
                               .chunk         = 128,
                               .draft         = draft,
                               .fixed_drafts  = true};
    must(weir_engine_fit(m, &opt, &bare, &err), &err);
    /* Room for fewer anchors than there will be. */
    opt.cache_memory = 6 * (bare.snapshot_bytes + 1024 * bare.kv_bytes_per_token);
    must(weir_engine_fit(m, &opt, &fit, &err), &err);
    weir_engine *e = engine_with(m, opt);
    use_everything(e, m);
    weir_cache_info c;
    weir_engine_cache_info(e, &c);
    const double peak = (double)status_bytes("VmHWM"), predicted = (double)fit.total_bytes;
    /* Pages of the cache that its anchors are too short to fill stay untouched. */
    const double unused = (double)fit.cache_bytes - (double)c.memory_bytes;
    print_message("%s, drafts %s: predicted %.1f MB, of them %.1f of the cache unused; peak %.1f MB, %.3f of it\n",
                  shape, draft, predicted * 1e-6, unused * 1e-6, peak * 1e-6, peak / (predicted - unused));
    assert_true(peak <= 1.05 * (predicted - unused));
    assert_true(peak >= 0.95 * (predicted - unused));
    weir_engine_close(e);
    weir_model_close(m);
}

static void test_fit(void **given)
{
    (void)given;
    check("mtp");
}

int main(int argc, char **argv)
{
    if (argc > 1) shape = argv[1];
    if (argc > 2) context = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
