/* tests/exact/test_soak.c - hours in seconds: requests that come and end, are
 * cancelled from outside or by their own callback, with priorities, sampling,
 * drafts of every source, forks that reply, and caches that are always full,
 * in memory and on disk.
 *
 *   test_soak [SECONDS [SEED]]
 *
 * Every request ends: none gets stuck, and those that are there when time is up
 * are waited for.  Then no page, slot or sequence is in use, the disk kept to its
 * budget, and a prompt gets the reply that it got at first.  With each of the
 * engines that had time for 2000 steps (some seconds), memory and files open did
 * not grow after the first 1000, and all that is named above has happened.  What
 * is said on the way is compared elsewhere (test_requests.c). */
#include "base/clock.h"
#include "state/state_parts.h"
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/rng.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ALIVE       = 12,
    TEXTS       = 5,
    CONTEXT     = 700,
    STUCK       = 4000,
    GROWTH      = 4 << 20,
    PROBE       = 200,
    PROBE_REPLY = 20,
    SEQUENCES   = 5
};
enum { WARM = 500, LOOK_EVERY = 64, LONG_LEG = 4 * WARM /* steps: then all of it has happened */ };

typedef struct soak {
    weir_model   *m;
    weir_engine  *e;
    uint64_t      seed, ended, cancelled, stopped, forked, steps;
    uint32_t     *text[TEXTS]; /* [CONTEXT]; they begin alike */
    weir_request *r[ALIVE];
    uint32_t      age[ALIVE]; /* steps */
} soak;

/* One engine after another; those on disk find there what the others left. */
typedef struct leg {
    const char *draft;
    bool        disk;
    uint32_t    threads;
} leg;

static const leg legs[] = {{"off", true, 2}, {"ngram", true, 1}, {"mtp", true, 2}, {"model", false, 1}};
enum { LEGS = sizeof legs / sizeof *legs };

static double   soak_seconds = 6;
static uint64_t soak_seed    = 1;
static char     folder[]     = "/tmp/weir-soak-XXXXXX";

/* ---- what the process takes ---- */

/* Bytes in memory. */
static uint64_t resident(void)
{
    unsigned long pages = 0, whole;
    FILE         *f     = fopen("/proc/self/statm", "re");
    if (f != NULL && fscanf(f, "%lu %lu", &whole, &pages) != 2) pages = 0;
    if (f != NULL) (void)fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t entries(const char *dir)
{
    uint32_t n = 0;
    DIR     *d = opendir(dir);
    while (d != NULL && readdir(d) != NULL) n++;
    if (d != NULL) (void)closedir(d);
    return n;
}

/* When a leg has warmed up (the most of several looks), and at its end. */
typedef struct levels {
    uint64_t warm, end; /* bytes */
    uint32_t warm_files, end_files;
} levels;

/* What waits for the disk comes and goes: it is written first. */
static void look(soak *s, uint64_t *bytes, uint32_t *files)
{
    weir_error err;
    must(weir_engine_flush(s->e, &err), &err);
    const uint64_t now   = resident();
    const uint32_t there = entries("/proc/self/fd");
    if (now > *bytes) *bytes = now;
    if (there > *files) *files = there;
}

/* ---- requests ---- */

/* Its own end, now and then. */
static bool stop_sometimes(void *user, const weir_token *t)
{
    soak *s = user;
    (void)t;
    if (rng_below(&s->seed, 400) != 0) return true;
    s->stopped++;
    return false;
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
    g[i].no_drafts               = rng_below(&s->seed, 8) == 0;
    const weir_request_options o = {.size     = sizeof o,
                                    .prompt   = s->text[rng_below(&s->seed, TEXTS)],
                                    .n_prompt = 1 + rng_below(&s->seed, CONTEXT - 70),
                                    .generate = &g[i],
                                    .priority = (int32_t)rng_below(&s->seed, 3),
                                    .no_cache = rng_below(&s->seed, 8) == 0,
                                    .token    = stop_sometimes,
                                    .user     = s};
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
    } else if (info.status != WEIR_OK && info.reply.finish != WEIR_FINISH_CANCELLED) {
        fail_msg("request %d: %s", i, info.error);
    }
    s->ended++;
    weir_request_free(s->r[i]);
    s->r[i] = NULL;
}

/* A sequence of one's own, a way back, and a fork of it that replies.  Requests leave no room for
 * whole contexts, so nobody comes until there is; false: not yet. */
static bool fork_one(soak *s)
{
    weir_error                  err;
    weir_sequence              *q, *fork;
    weir_snapshot              *snap;
    const weir_generate_options g = {.size = sizeof g, .max_tokens = 5};
    if (state_free_positions(s->e->st) < 2 * (CONTEXT + K_PAGE) || s->e->st->n_sequences + 2 > SEQUENCES) return false;
    must(weir_sequence_new(&q, s->e, &err), &err);
    append(q, s->text[0], 1 + rng_below(&s->seed, 100));
    must(weir_sequence_snapshot(q, &snap, &err), &err);
    must(weir_sequence_fork(&fork, q, &err), &err);
    must(weir_generate(fork, &g, NULL, NULL, NULL, &err), &err);
    append(q, s->text[1], 3);
    must(weir_sequence_rewind(q, snap, &err), &err);
    s->forked++;
    weir_snapshot_free(snap);
    weir_sequence_free(fork);
    weir_sequence_free(q);
    return true;
}

typedef struct said {
    uint32_t ids[PROBE_REPLY], n;
} said;

static bool hear(void *user, const weir_token *t)
{
    said *s = user;
    if (t->id != UINT32_MAX) s->ids[s->n++] = t->id;
    return true;
}

/* What the engine says after the beginning of the first text. */
static said probe(const soak *s)
{
    weir_error                  err;
    weir_request               *r;
    uint32_t                    left = 1;
    said                        out  = {.n = 0};
    const weir_sample_params    p    = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g    = {.size = sizeof g, .sample = &p, .max_tokens = PROBE_REPLY};
    const weir_request_options  o    = {
            .size = sizeof o, .prompt = s->text[0], .n_prompt = PROBE, .generate = &g, .token = hear, .user = &out};
    must(weir_engine_submit(s->e, &o, &r, &err), &err);
    while (left > 0) must(weir_engine_step(s->e, &left, &err), &err);
    weir_request_free(r);
    assert_int_equal(out.n, PROBE_REPLY);
    return out;
}

/* ---- the end ---- */

/* Nobody comes any more, and everybody goes. */
static void drain(soak *s)
{
    uint32_t left = 1;
    for (uint32_t step = 0; left > 0; step++) {
        weir_error err;
        if (step > STUCK) fail_msg("%u requests do not end", left);
        must(weir_engine_step(s->e, &left, &err), &err);
    }
    for (int i = 0; i < ALIVE; i++) {
        weir_request_info info;
        if (s->r[i] == NULL) continue;
        weir_request_get_info(s->r[i], &info);
        assert_int_equal(info.state, WEIR_REQUEST_DONE);
        look_at(s, i);
        assert_null(s->r[i]);
    }
    assert_int_equal(s->e->active.n + s->e->waiting.n, 0);
}

/* No sequence holds anything; `cached`: pages that the cache does. */
static void nothing_is_used(const state *st, uint64_t cached)
{
    assert_int_equal(st->n_sequences, 0);
    assert_int_equal(st->n_promised, 0);
    assert_int_equal(st->n_free_slots, st->n_slots);
    assert_int_equal(st->n_free_pages + cached, st->limits.pages);
}

static void check_state(weir_engine *e)
{
    const prefix_stats c = prefix_tree_stats(e->cache);
    assert_true(c.disk_bytes <= c.disk_budget);
    nothing_is_used(e->st, c.page_bytes / e->page_bytes);
    if (e->drafter != NULL) nothing_is_used(e->drafter->st, 0);
    (void)prefix_tree_flush(e->cache);
    prefix_tree_free(e->cache);
    e->cache = NULL;
    nothing_is_used(e->st, 0);
}

static void report(const soak *s, const leg *g, const levels *l)
{
    weir_cache_info c;
    weir_engine_cache_info(s->e, &c);
    print_message("%s: %llu steps, %llu requests ended, %llu of them cancelled, %llu by themselves; %llu forks\n",
                  g->draft, (unsigned long long)s->steps, (unsigned long long)s->ended,
                  (unsigned long long)s->cancelled, (unsigned long long)s->stopped, (unsigned long long)s->forked);
    print_message("  %llu tokens cached, %llu read; %u anchors, %u on disk in %.1f of %.1f MB\n",
                  (unsigned long long)c.cached_tokens, (unsigned long long)c.read_tokens, c.anchors, c.disk_anchors,
                  (double)c.disk_bytes * 1e-6, (double)c.disk_limit * 1e-6);
    print_message("  %.2f MB and %u files after warming up, %.2f MB and %u files at the end\n", (double)l->warm * 1e-6,
                  l->warm_files, (double)l->end * 1e-6, l->end_files);
    assert_true(s->ended > 0);
    if (s->steps <= LONG_LEG) return;
    assert_true(s->cancelled > 0 && s->stopped > 0 && s->forked > 0 && c.hits > 0 && c.anchors > 0);
    assert_true(!g->disk || c.disk_anchors > 0);
    assert_true(l->warm > 0 && l->end > 0);
    if (l->end > l->warm + GROWTH) fail_msg("%s: memory grew", g->draft);
    if (l->end_files > l->warm_files) fail_msg("%s: more files are open", g->draft);
}

static void run(soak *s, const leg *g)
{
    weir_error                err;
    levels                    l    = {0};
    bool                      lull = false;
    const bool                own  = strcmp(g->draft, "model") == 0; /* it drafts for itself */
    const weir_engine_options opt  = {.threads       = g->threads,
                                      .max_context   = CONTEXT,
                                      .max_sequences = SEQUENCES,
                                      .pool_context  = 4 * CONTEXT,
                                      .chunk         = 64,
                                      .cache_memory  = 24u << 20,
                                      .cache_dir     = g->disk ? folder : NULL,
                                      .cache_disk    = 32u << 20,
                                      .draft         = g->draft,
                                      .draft_model   = own ? s->m : NULL};
    s->e                           = engine_with(s->m, opt);
    s->ended = s->cancelled = s->stopped = s->forked = s->steps = 0;
    const said     first                                        = probe(s);
    const uint64_t start = clock_ns(), whole = (uint64_t)(soak_seconds * 1e9 / LEGS);
    for (uint64_t now = start; now - start < whole || s->ended == 0; now = clock_ns()) {
        for (int i = 0; i < ALIVE; i++)
            if (s->r[i] != NULL)
                look_at(s, i);
            else if (!lull && rng_below(&s->seed, 20) == 0)
                submit(s, i);
        if (lull) lull = !fork_one(s);
        if (rng_below(&s->seed, 200) == 0) lull = true;
        must(weir_engine_step(s->e, NULL, &err), &err);
        s->steps++;
        if (s->steps >= WARM && s->steps <= 2 * WARM && s->steps % LOOK_EVERY == 0) look(s, &l.warm, &l.warm_files);
    }
    look(s, &l.end, &l.end_files);
    drain(s);
    const said last = probe(s);
    assert_memory_equal(&last, &first, sizeof first);
    report(s, g, &l);
    check_state(s->e);
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
    for (size_t i = 0; i < LEGS; i++) run(&s, &legs[i]);
    for (int i = 0; i < TEXTS; i++) free(s.text[i]);
    weir_model_close(s.m);
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) (void)closedir(d);
    (void)rmdir(folder);
}

int main(int argc, char **argv)
{
    if (argc > 1) soak_seconds = strtod(argv[1], NULL);
    if (argc > 2) soak_seed = strtoull(argv[2], NULL, 10);
    if (mkdtemp(folder) == NULL) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    const int               failed  = cmocka_run_group_tests_name("soak", tests, NULL, NULL);
    remove_folder();
    return failed;
}
