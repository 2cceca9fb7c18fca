/* tests/exact/test_disk_kill.c - an engine that keeps its cache on disk is killed, over and over.
 *
 *   test_disk_kill [kills [seed]]
 *
 * A child answers requests, in a directory that is too small for all of them, and gets
 * SIGKILL at a random moment.  Each time the directory must open without a complaint, and
 * whatever is found in it must be continued with the bits that reading anew gives. */
#include "support/rng.h"

#include "engine/sequence_parts.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 40, TEXTS = 10, LENGTH = 700, SHARED = 300, BEYOND = 3, LONGEST_US = 200000 };
static const uint64_t budget = 24 << 20, memory = 16 << 20;

static void check(bool ok, const char *what)
{
    if (ok) return;
    (void)fprintf(stderr, "FAILED: %s\n", what);
    exit(1);
}

typedef struct rig {
    weir_model *m;
    char        dir[64];
    uint32_t    vocab, texts[TEXTS][LENGTH];
    float      *expected[TEXTS]; /* [LENGTH, vocab]: logits behind each token */
    uint64_t    seed;
    size_t      n_hits, n_tokens, n_leftovers, n_opened_empty;
} rig;

static weir_engine *open_engine(const rig *r, bool cache)
{
    weir_engine        *e;
    weir_error          err;
    weir_engine_options o = {.size = sizeof o, .threads = 1, .max_context = LENGTH + 64, .max_sequences = 2};
    if (cache) {
        o.cache_memory = memory;
        o.cache_dir    = r->dir;
        o.cache_disk   = budget;
    }
    check(weir_engine_open(&e, r->m, &o, &err) == WEIR_OK, err.text);
    return e;
}

/* ---- the child ---- */

static void answer(weir_engine *e, const uint32_t *ids, uint32_t n)
{
    weir_request               *q;
    uint32_t                    left;
    const weir_sample_params    p = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g = {.size = sizeof g, .max_tokens = 4, .sample = &p};
    const weir_request_options  o = {.size = sizeof o, .prompt = ids, .n_prompt = n, .generate = &g};
    if (weir_engine_submit(e, &o, &q, NULL) != WEIR_OK) _exit(2);
    do
        if (weir_engine_step(e, &left, NULL) != WEIR_OK) _exit(3);
    while (left > 0);
    weir_request_free(q);
}

/* Until someone kills it. */
static void child_main(const rig *r, uint64_t seed, int out)
{
    weir_engine *e = open_engine(r, true);
    if (write(out, "o", 1) != 1) _exit(4);
    for (;;) {
        answer(e, r->texts[rng_below(&seed, TEXTS)], 1 + rng_below(&seed, LENGTH));
        if (rng_below(&seed, 8) == 0 && weir_engine_flush(e, NULL) != WEIR_OK) _exit(5);
        if (rng_below(&seed, 32) != 0) continue;
        weir_engine_close(e); /* and once more */
        e = open_engine(r, true);
    }
}

/* ---- the parent ---- */

static void complain(void *user, weir_log_level level, const char *line)
{
    (void)user;
    if (level > WEIR_LOG_WARN) return;
    (void)fprintf(stderr, "the log says: %s\n", line);
    check(false, "opening takes no complaint");
}

static size_t each_file(const char *dir, const char *ending, bool remove_it)
{
    char   path[512];
    size_t n = 0;
    DIR   *d = opendir(dir);
    check(d != NULL, "reading the folder");
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' || dot == NULL || (ending != NULL && strcmp(dot, ending) != 0)) continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (remove_it) (void)unlink(path);
        n++;
    }
    (void)closedir(d);
    return n;
}

/* Every anchor on the path of the text, the deepest first. */
static void check_text(rig *r, weir_engine *e, uint32_t i)
{
    weir_sequence *s;
    weir_error     err;
    check(weir_sequence_new(&s, e, &err) == WEIR_OK, err.text);
    for (uint32_t n = LENGTH - BEYOND;;) {
        prefix_hit hit;
        weir_sequence_reset(s);
        prefix_tree_find(e->cache, NULL, r->texts[i], n, &hit);
        if (hit.length == 0) break;
        const uint32_t at = sequence_take_cached(s, &hit);
        check(at == hit.length, "what is found can be had");
        check(weir_sequence_append(s, r->texts[i] + at, BEYOND, NULL, NULL, &err) == WEIR_OK, err.text);
        const float *expected = r->expected[i] + (size_t)(at + BEYOND - 1) * r->vocab;
        check(memcmp(weir_sequence_logits(s), expected, r->vocab * sizeof(float)) == 0, "the bits are the same");
        r->n_hits++;
        r->n_tokens += at;
        n = at - 1;
    }
    weir_sequence_free(s);
}

static void inspect(rig *r)
{
    r->n_leftovers += each_file(r->dir, ".tmp", false);
    weir_engine    *e = open_engine(r, true);
    weir_cache_info info;
    weir_engine_cache_info(e, &info);
    check(info.disk_bytes <= budget, "the budget is kept");
    check(each_file(r->dir, ".tmp", false) == 0, "no file but the entries");
    r->n_opened_empty += info.disk_anchors == 0;
    for (uint32_t i = 0; i < TEXTS; i++) check_text(r, e, i);
    weir_engine_close(e);
}

static void run_and_kill(rig *r)
{
    int      ends[2], status;
    char     said;
    uint64_t seed = rng_next(&r->seed);
    check(pipe(ends) == 0, "a pipe");
    const pid_t pid = fork();
    check(pid >= 0, "a process");
    if (pid == 0) {
        (void)close(ends[0]);
        child_main(r, seed, ends[1]);
    }
    (void)close(ends[1]);
    /* Most die while they answer, some while they open. */
    if (rng_below(&r->seed, 8) != 0) check(read(ends[0], &said, 1) == 1, "the child opens its engine");
    (void)usleep(rng_below(&r->seed, LONGEST_US));
    (void)kill(pid, SIGKILL);
    check(waitpid(pid, &status, 0) == pid, "the child");
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "nothing else ends the child");
    (void)close(ends[0]);
}

/* ---- what is expected ---- */

typedef struct keeper {
    float   *to;
    uint32_t vocab;
} keeper;

static bool keep(void *user, const weir_rows *rows)
{
    const keeper *k = user;
    memcpy(k->to + (size_t)rows->first_position * k->vocab, rows->logits, (size_t)rows->n * k->vocab * sizeof(float));
    return true;
}

/* Texts that begin alike in twos and threes; their logits without a cache. */
static void prepare(rig *r)
{
    weir_engine   *e = open_engine(r, false);
    weir_sequence *s;
    weir_error     err;
    check(weir_sequence_new(&s, e, &err) == WEIR_OK, err.text);
    for (uint32_t i = 0; i < TEXTS; i++) {
        uint64_t seed = 1000 + i / 3;
        for (uint32_t k = 0; k < LENGTH; k++) {
            if (k == SHARED) seed = 2000 + i;
            r->texts[i][k] = rng_below(&seed, r->vocab);
        }
        r->expected[i] = malloc((size_t)LENGTH * r->vocab * sizeof(float));
        check(r->expected[i] != NULL, "memory");
        keeper k = {r->expected[i], r->vocab};
        weir_sequence_reset(s);
        check(weir_sequence_score(s, r->texts[i], LENGTH, false, keep, &k, &err) == WEIR_OK, err.text);
    }
    weir_sequence_free(s);
    weir_engine_close(e);
}

int main(int argc, char **argv)
{
    const unsigned long kills = argc > 1 ? strtoul(argv[1], NULL, 10) : KILLS;
    static rig          r     = {.dir = "/tmp/weir-kill-XXXXXX"};
    weir_error          err;
    weir_model_info     info;
    r.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    weir_log_set(complain, NULL);
    check(mkdtemp(r.dir) != NULL, "a folder");
    check(weir_model_open(&r.m, WEIR_SOURCE_DIR "/tests/fixtures/tiny-moe", &err) == WEIR_OK, err.text);
    weir_model_get_info(r.m, &info);
    r.vocab = info.vocab_size;
    prepare(&r);
    for (unsigned long i = 0; i < kills; i++) {
        run_and_kill(&r);
        inspect(&r);
    }
    (void)printf(
        "%lu kills, %zu of them within a write; %zu continuations of %zu tokens; nothing was found %zu times\n", kills,
        r.n_leftovers, r.n_hits, r.n_tokens, r.n_opened_empty);
    check(kills < KILLS || (r.n_leftovers > 0 && r.n_hits > 10 * kills && r.n_opened_empty < kills / 4),
          "some kills hit a write, and most leave something");
    (void)each_file(r.dir, NULL, true);
    (void)rmdir(r.dir);
    for (uint32_t i = 0; i < TEXTS; i++) free(r.expected[i]);
    weir_model_close(r.m);
    return 0;
}
