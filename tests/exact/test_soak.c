/* tests/exact/test_soak.c - hours in seconds: requests that come, are cancelled
 * and end, forks that reply, and a cache that is always full.
 *
 *   test_soak [SECONDS [SEED]]
 *
 * At the end nothing is left, nothing got stuck, and memory did not grow after
 * the first tenth.  What is said is compared elsewhere (test_requests.c). */
#include "base/clock.h"
#include "state/state_parts.h"
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIVE = 12, TEXTS = 5, CONTEXT = 700, STUCK = 4000, GROWTH = 4 << 20 };

typedef struct soak {
    weir_model   *m;
    weir_engine  *e;
    uint64_t      seed, ended, cancelled, forked, cached;
    uint32_t     *text[TEXTS]; /* [CONTEXT]; they begin alike */
    weir_request *r[ALIVE];
    uint32_t      age[ALIVE]; /* steps */
} soak;

static double            soak_seconds = 6;
static uint64_t          soak_seed    = 1;
static const char *const drafts[]     = {"off", "ngram", "mtp"};

/* Bytes of this process in memory. */
static uint64_t resident(void)
{
    unsigned long pages = 0, whole;
    FILE         *f     = fopen("/proc/self/statm", "re");
    if (f != NULL && fscanf(f, "%lu %lu", &whole, &pages) != 2) pages = 0;
    if (f != NULL) (void)fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void submit(soak *s, int i)
{
    weir_error                   err;
    const weir_sample_params     p = {.size               = sizeof p,
                                      .temperature        = rng_below(&s->seed, 2),
                                      .top_p              = 1,
                                      .repetition_penalty = 1,
                                      .seed               = rng_below(&s->seed, 5)};
    static weir_sample_params    kept[ALIVE]; /* requests borrow their options */
    static weir_generate_options g[ALIVE];
    kept[i] = p;
    g[i] = (weir_generate_options){.size = sizeof g[i], .sample = &kept[i], .max_tokens = 1 + rng_below(&s->seed, 60)};
    const weir_request_options o = {.size     = sizeof o,
                                    .prompt   = s->text[rng_below(&s->seed, TEXTS)],
                                    .n_prompt = 1 + rng_below(&s->seed, CONTEXT - 70),
                                    .generate = &g[i],
                                    .priority = (int32_t)rng_below(&s->seed, 3),
                                    .no_cache = rng_below(&s->seed, 8) == 0};
    must(weir_engine_submit(s->e, &o, &s->r[i], &err), &err);
    s->age[i] = 0;
}

static void look_at(soak *s, int i)
{
    weir_request_info info;
    weir_request_get_info(s->r[i], &info);
    if (info.state != WEIR_REQUEST_DONE) {
        if (++s->age[i] > STUCK) fail_msg("request %d is stuck in state %d", i, (int)info.state);
        if (rng_below(&s->seed, 150) != 0) return;
        weir_request_cancel(s->r[i]);
        s->cancelled++;
    } else if (info.status != WEIR_OK) {
        fail_msg("request %d: %s", i, info.error);
    }
    s->cached += info.cached_tokens;
    s->ended++;
    weir_request_free(s->r[i]);
    s->r[i] = NULL;
}

/* A sequence of one's own, and a fork of it that replies; there may be no room for them. */
static void fork_one(soak *s)
{
    weir_sequence              *q, *fork = NULL;
    const weir_generate_options g = {.size = sizeof g, .max_tokens = 5};
    if (weir_sequence_new(&q, s->e, NULL) != WEIR_OK) return;
    append(q, s->text[0], 1 + rng_below(&s->seed, 100));
    if (weir_sequence_fork(&fork, q, NULL) == WEIR_OK) {
        weir_error err;
        must(weir_generate(fork, &g, NULL, NULL, NULL, &err), &err);
        s->forked++;
    }
    weir_sequence_free(fork);
    weir_sequence_free(q);
}

static void run(soak *s, const char *draft)
{
    weir_error                err;
    const weir_engine_options opt = {.threads       = 2,
                                     .max_context   = CONTEXT,
                                     .max_sequences = 5,
                                     .pool_context  = 4 * CONTEXT,
                                     .chunk         = 64,
                                     .cache_memory  = 24u << 20,
                                     .draft         = draft};
    s->e                          = engine_with(s->m, opt);
    const uint64_t start = clock_ns(), whole = (uint64_t)(soak_seconds * 1e9 / 3);
    uint64_t       warm = 0;
    for (uint64_t now = start; now - start < whole || s->ended == 0; now = clock_ns()) {
        for (int i = 0; i < ALIVE; i++)
            if (s->r[i] != NULL)
                look_at(s, i);
            else if (rng_below(&s->seed, 20) == 0)
                submit(s, i);
        if (rng_below(&s->seed, 200) == 0) fork_one(s);
        must(weir_engine_step(s->e, NULL, &err), &err);
        if (warm == 0 && now - start > whole / 10) warm = resident();
    }
    const uint64_t  end = resident();
    weir_cache_info c;
    weir_engine_cache_info(s->e, &c);
    print_message(
        "%s: %llu requests ended, %llu of them cancelled, %llu forks; %llu tokens cached, %llu read; %u anchors; "
        "%.1f MB after a tenth, %.1f at the end\n",
        draft, (unsigned long long)s->ended, (unsigned long long)s->cancelled, (unsigned long long)s->forked,
        (unsigned long long)c.cached_tokens, (unsigned long long)c.read_tokens, c.anchors, (double)warm * 1e-6,
        (double)end * 1e-6);
    assert_true(s->ended > 0);
    if (soak_seconds > 300 && end > warm + GROWTH) fail_msg("%s: memory grew", draft);
    for (int i = 0; i < ALIVE; i++) {
        weir_request_free(s->r[i]);
        s->r[i] = NULL;
    }
    assert_int_equal(s->e->active.n + s->e->waiting.n, 0);
    assert_int_equal(s->e->st->n_promised, 0);
    assert_int_equal(s->e->st->n_free_slots, s->e->st->n_slots);
    weir_engine_close(s->e);
}

static void test_soak(void **given)
{
    (void)given;
    soak s = {.m = model_named("tiny-dense"), .seed = soak_seed};
    for (int i = 0; i < TEXTS; i++) {
        s.text[i] = random_ids(s.m, CONTEXT, 5 + (uint64_t)i);
        memcpy(s.text[i], s.text[0], (size_t)(i * 90) * sizeof **s.text);
    }
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) run(&s, drafts[i]);
    for (int i = 0; i < TEXTS; i++) free(s.text[i]);
    weir_model_close(s.m);
}

int main(int argc, char **argv)
{
    if (argc > 1) soak_seconds = strtod(argv[1], NULL);
    if (argc > 2) soak_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
