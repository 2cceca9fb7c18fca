/* tests/exact/test_disk.c - a conversation goes on after a restart where it was, with the
 * bits it had; and sequences go into files and come back. */
#include "support/cmocka.h"
#include "support/talks.h"

#include "engine/anchors.h"
#include "engine/sequence_parts.h"
#include "state/store_format.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTEXT = 8192, REPLY = 12 };

typedef struct desk {
    weir_model         *m;
    weir_engine_options opt;
    weir_engine        *e, *plain; /* plain: without a cache */
    chat_marks          marks;
    char                dir[64];
} desk;

/* ---- the folder ---- */

static void make_dir(char dir[64])
{
    (void)strcpy(dir, "/tmp/weir-disk-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

/* Calls fn for each file. */
static size_t each_file(const char *dir, void (*fn)(const char *path))
{
    char   path[512];
    size_t n = 0;
    DIR   *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (fn != NULL) fn(path);
        n++;
    }
    (void)closedir(d);
    return n;
}

static void remove_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void drop_dir(const char *dir)
{
    (void)each_file(dir, remove_file);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- conversations ---- */

static void desk_open(desk *d, weir_engine_options opt)
{
    *d = (desk){.m = model_named("demo")};
    make_dir(d->dir);
    opt.threads     = 2;
    opt.max_context = CONTEXT;
    d->plain        = engine_with(d->m, opt);
    if (opt.cache_memory == 0) opt.cache_memory = 256u << 20;
    opt.cache_dir     = d->dir;
    opt.max_sequences = 2;
    d->opt            = opt;
    d->e              = engine_with(d->m, opt);
    d->marks          = chat_marks_of(d->m);
}

/* Another process, as far as the cache can tell. */
static void restart(desk *d)
{
    weir_engine_close(d->e);
    d->e = engine_with(d->m, d->opt);
    weir_cache_info info;
    weir_engine_cache_info(d->e, &info);
    assert_int_equal(info.anchors, 0);
    assert_int_equal(info.memory_bytes, 0);
    assert_true(info.disk_anchors > 0);
}

static void desk_close(desk *d)
{
    weir_engine_close(d->e);
    weir_engine_close(d->plain);
    weir_model_close(d->m);
    drop_dir(d->dir);
}

/* The logits behind t, read on from where the cache has it, are those of reading it anew. */
static uint32_t same_bits(desk *d, const text *t)
{
    prefix_hit     hit;
    weir_sequence *s = sequence_on(d->e), *dull = sequence_on(d->plain);
    prefix_tree_find(d->e->cache, NULL, t->ids, t->n - 1, &hit);
    const uint32_t at = sequence_take_cached(s, &hit);
    append(s, t->ids + at, t->n - at);
    append(dull, t->ids, t->n);
    assert_memory_equal(weir_sequence_logits(s), weir_sequence_logits(dull), d->e->m.config.vocab_size * sizeof(float));
    weir_sequence_free(s);
    weir_sequence_free(dull);
    return at;
}

/* Asks, and hears what is said alone.  The prompt's tokens that were read. */
static uint32_t asked(const desk *d, const text *t, const reply *expected)
{
    reply r;
    ask(d->e, t, REPLY, &r);
    assert_memory_equal(&r.said, &expected->said, sizeof r.said);
    return t->n - r.info.cached_tokens;
}

static uint32_t ask_both(const desk *d, const text *t)
{
    reply r;
    ask(d->plain, t, REPLY, &r);
    return asked(d, t, &r);
}

/* No prompt costs more after the restart than it did before. */
static void conversation(weir_engine_options opt, uint32_t n_turns)
{
    text     turns[3];
    reply    plain[3];
    uint32_t before[3], after[3];
    desk     d;
    desk_open(&d, opt);
    for (uint32_t i = 0; i < n_turns; i++) {
        turns[i] = text_new(CONTEXT);
        for (uint32_t k = 0; k <= 2 * i; k++) message(&d.marks, &turns[i], k, 200 + 77 * k);
        generation_prompt(&d.marks, &turns[i]);
        ask(d.plain, &turns[i], REPLY, &plain[i]);
        (void)asked(&d, &turns[i], &plain[i]);
    }
    for (uint32_t i = 0; i < n_turns; i++) before[i] = asked(&d, &turns[i], &plain[i]);
    restart(&d);
    for (uint32_t i = 0; i < n_turns; i++) {
        after[i] = asked(&d, &turns[i], &plain[i]);
        print_message("turn %u: %u tokens, read again %u, after a restart %u\n", i, turns[i].n, before[i], after[i]);
        assert_true(after[i] <= before[i] && before[i] <= 64);
    }
    restart(&d); /* and from the disk into a sequence */
    for (uint32_t i = 0; i < n_turns; i++) assert_true(turns[i].n - same_bits(&d, &turns[i]) <= after[i]);
    for (uint32_t i = 0; i < n_turns; i++) text_free(&turns[i]);
    desk_close(&d);
}

static void test_conversation(void **given)
{
    (void)given;
    conversation((weir_engine_options){.kv = "bf16"}, 3);
    conversation((weir_engine_options){.kv = "f32"}, 2);
    conversation((weir_engine_options){.kv = "affine8,affine4"}, 2);
    conversation((weir_engine_options){.kv = "affine4", .kv_start = 300}, 2);
    conversation((weir_engine_options){.draft = "mtp"}, 2);
}

/* Little memory: what it gives up comes back from disk, without a restart. */
static void test_little_memory(void **given)
{
    (void)given;
    enum { TALKS = 5 };
    text talks[TALKS];
    desk d;
    desk_open(&d, (weir_engine_options){.cache_memory = 16u << 20});
    for (uint32_t i = 0; i < TALKS; i++) {
        talks[i] = text_new(CONTEXT);
        message(&d.marks, &talks[i], i, 400);
        generation_prompt(&d.marks, &talks[i]);
        (void)ask_both(&d, &talks[i]);
    }
    weir_error err;
    must(weir_engine_flush(d.e, &err), &err);
    weir_cache_info info;
    weir_engine_cache_info(d.e, &info);
    assert_true(info.anchors < 2 * TALKS && info.disk_anchors >= 2 * TALKS);
    for (uint32_t i = 0; i < TALKS; i++) assert_true(ask_both(&d, &talks[i]) <= 64);
    for (uint32_t i = 0; i < TALKS; i++) text_free(&talks[i]);
    desk_close(&d);
}

static void test_thinking_is_dropped(void **given)
{
    (void)given;
    text t = text_new(CONTEXT);
    desk d;
    desk_open(&d, (weir_engine_options){0});
    message(&d.marks, &t, 1, 200);
    message(&d.marks, &t, 2, 300);
    const uint32_t before = t.n;
    generation_prompt(&d.marks, &t);
    reply r;
    ask(d.e, &t, REPLY, &r); /* thinks */
    restart(&d);
    t.n = before;
    message(&d.marks, &t, 3, 40); /* the answer as it is rendered now */
    message(&d.marks, &t, 4, 60);
    generation_prompt(&d.marks, &t);
    const uint32_t read = ask_both(&d, &t);
    print_message("thinking dropped: %u tokens read after a restart, %u are new\n", read, t.n - before);
    assert_true(read <= t.n - before + 16);
    text_free(&t);
    desk_close(&d);
}

static void test_branch_of_a_long_one(void **given)
{
    (void)given;
    enum { LONG = 4000, NEW = 100 };
    text  t = text_new(CONTEXT);
    desk  d;
    reply r;
    desk_open(&d, (weir_engine_options){0});
    for (uint64_t i = 0; t.n + 1000 <= LONG; i++) message(&d.marks, &t, i, 1000);
    generation_prompt(&d.marks, &t);
    ask(d.e, &t, REPLY, &r);
    for (uint32_t at = 1000; at < LONG; at += 1651) {
        restart(&d);
        t.n = at;
        message(&d.marks, &t, 99 + at, NEW);
        generation_prompt(&d.marks, &t);
        const uint32_t read = ask_both(&d, &t);
        print_message("branch at %u after a restart: %u tokens read, %u are new\n", at, read, t.n - at);
        assert_true(read <= ANCHOR_STRIDE + t.n - at);
        t.n = 0;
        for (uint64_t i = 0; t.n + 1000 <= LONG; i++) message(&d.marks, &t, i, 1000);
    }
    text_free(&t);
    desk_close(&d);
}

/* ---- others in the directory ---- */

/* Engines of another model, format or head share the directory: no hits, no harm. */
static void test_others(void **given)
{
    (void)given;
    text  t = text_new(CONTEXT);
    desk  d;
    reply r;
    desk_open(&d, (weir_engine_options){0});
    for (uint32_t i = 0; i < 600; i++) text_put(&t, 20 + i % 400);
    (void)ask_both(&d, &t);
    weir_engine_close(d.e);
    const size_t              n    = each_file(d.dir, NULL);
    weir_model               *tiny = model_named("tiny-moe");
    const weir_engine_options o    = {.cache_memory = 64u << 20, .cache_dir = d.dir, .max_context = 1024, .threads = 1};
    weir_engine_options       affine = o, mtp = o;
    affine.kv                           = "affine8";
    mtp.draft                           = "mtp";
    const weir_model         *models[]  = {tiny, d.m, d.m, tiny};
    const weir_engine_options options[] = {o, affine, mtp, affine};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        weir_engine    *e = engine_with(models[i], options[i]);
        weir_cache_info info;
        weir_engine_cache_info(e, &info);
        assert_int_equal(info.disk_anchors, 0);
        ask(e, &t, REPLY, &r);
        assert_int_equal(r.info.cached_tokens, 0);
        weir_engine_close(e);
    }
    assert_true(each_file(d.dir, NULL) > n);
    d.e = engine_with(d.m, d.opt);
    assert_true(ask_both(&d, &t) <= 64);
    text_free(&t);
    desk_close(&d);
    weir_model_close(tiny);
}

static void copy(const char *from, const char *to, long flip_at)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    for (long i = 0;; i++) {
        const int c = fgetc(in);
        if (c == EOF) break;
        assert_true(fputc(i == flip_at ? c ^ 1 : c, out) != EOF);
    }
    assert_int_equal(fclose(in) | fclose(out), 0);
}

/* Where the tensor begins in its file. */
static long place_of(const weir_model *m, const char *tensor)
{
    const checkpoint_tensor *t = checkpoint_find(m->c, CHECKPOINT_TRUNK, tensor);
    assert_non_null(t);
    FILE *f = fopen(t->file, "rb");
    assert_non_null(f);
    enum { MOST = 16 << 20 };
    uint8_t     *bytes = malloc(MOST);
    const size_t n     = fread(bytes, 1, MOST, f);
    size_t       at    = 0;
    while (at + t->bytes <= n && memcmp(bytes + at, t->data, t->bytes) != 0) at++;
    assert_true(at + t->bytes <= n);
    free(bytes);
    (void)fclose(f);
    return (long)at;
}

static void identity(uint8_t out[STORE_KEY_BYTES], const weir_model *m, weir_engine_options o)
{
    if (o.max_context == 0) o.max_context = 512;
    weir_engine *e = engine_with(m, o);
    memcpy(out, e->identity, STORE_KEY_BYTES);
    weir_engine_close(e);
}

/* What changes the numbers changes the namespace, and nothing else does. */
static void test_identity(void **given)
{
    (void)given;
    static const char *const parts[] = {"config.json", "model.safetensors"};
    uint8_t                  first[STORE_KEY_BYTES], other[STORE_KEY_BYTES];
    weir_model              *m = model_named("tiny-moe");
    identity(first, m, (weir_engine_options){.threads = 1});
    const weir_engine_options same[] = {
        {.threads = 2},       {.isa = "scalar"},  {.max_context = 700},       {.chunk = 17},
        {.max_sequences = 3}, {.draft = "ngram"}, {.cache_memory = 64 << 20}, {.kv = "bf16"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        identity(other, m, same[i]);
        assert_memory_equal(other, first, sizeof first);
    }
    const weir_engine_options differ[] = {{.kv = "f32"},
                                          {.kv = "affine8"},
                                          {.kv = "bf16,affine8"},
                                          {.kv = "affine8", .kv_start = 1},
                                          {.kv = "affine8", .kv_start = 257},
                                          {.draft = "mtp"},
                                          {.draft = "mtp", .mtp_pre_norm = true}};
    uint8_t                   seen[8][STORE_KEY_BYTES];
    memcpy(seen[0], first, sizeof first);
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++) {
        identity(seen[i + 1], m, differ[i]);
        for (size_t k = 0; k <= i; k++) assert_memory_not_equal(seen[i + 1], seen[k], sizeof first);
    }
    const long place = place_of(m, "norm.weight");
    weir_model_close(m);

    char       dir[64], from[1024], to[512];
    weir_error err;
    make_dir(dir);
    for (int changed = 0; changed < 2; changed++) { /* one bit of the weights */
        for (size_t i = 0; i < 2; i++) {
            (void)snprintf(from, sizeof from, "%s/tests/fixtures/tiny-moe/%s", WEIR_SOURCE_DIR, parts[i]);
            (void)snprintf(to, sizeof to, "%s/%s", dir, parts[i]);
            copy(from, to, changed == 1 && i == 1 ? place : -1);
        }
        must(weir_model_open(&m, dir, &err), &err);
        identity(other, m, (weir_engine_options){.threads = 1});
        assert_int_equal(memcmp(other, first, sizeof first) != 0, changed);
        weir_model_close(m);
    }
    drop_dir(dir);
}

static void test_options(void **given)
{
    (void)given;
    weir_model         *m = model_named("tiny-moe");
    weir_engine        *e;
    weir_error          err;
    weir_engine_options o = {.size = sizeof o, .max_context = 512, .threads = 1, .cache_dir = "/nowhere/at/all"};
    assert_int_equal(weir_engine_open(&e, m, &o, &err), WEIR_INVALID);
    assert_true(strstr(err.text, "cache_dir") != NULL && strstr(err.text, "cache_memory") != NULL);
    o.cache_memory = 64 << 20;
    assert_int_equal(weir_engine_open(&e, m, &o, &err), WEIR_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    o.cache_dir = NULL;
    must(weir_engine_open(&e, m, &o, &err), &err);
    weir_cache_info info;
    weir_engine_cache_info(e, &info);
    assert_int_equal(info.disk_limit, 0);
    must(weir_engine_flush(e, &err), &err);
    weir_engine_close(e);
    char dir[64];
    make_dir(dir);
    o.cache_dir = dir;
    must(weir_engine_open(&e, m, &o, &err), &err);
    weir_engine_cache_info(e, &info);
    assert_int_equal(info.disk_limit, 32ull << 30);
    weir_engine_close(e);
    drop_dir(dir);
    weir_model_close(m);
}

/* ---- a sequence in a file ---- */

static char saved[128];

static void continue_both(weir_sequence *a, weir_sequence *b, const uint32_t *ids, size_t n)
{
    const size_t bytes = a->e->m.config.vocab_size * sizeof(float);
    assert_int_equal(weir_sequence_length(a), weir_sequence_length(b));
    assert_memory_equal(weir_sequence_tokens(a), weir_sequence_tokens(b), weir_sequence_length(a) * sizeof *ids);
    assert_memory_equal(weir_sequence_logits(a), weir_sequence_logits(b), bytes);
    append(a, ids, n);
    append(b, ids, n);
    assert_memory_equal(weir_sequence_logits(a), weir_sequence_logits(b), bytes);
}

static void generate(weir_sequence *s, heard *out)
{
    weir_error                  err;
    const weir_sample_params    p = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g = {.size = sizeof g, .max_tokens = 40, .sample = &p};
    *out                          = (heard){0};
    must(weir_generate(s, &g, hear, out, NULL, &err), &err);
}

static void save_and_load(const char *name, weir_engine_options o, uint32_t n)
{
    weir_model *m    = model_named(name);
    o.threads        = 1;
    o.max_context    = 1024;
    weir_engine   *e = engine_with(m, o), *fresh = engine_with(m, o);
    weir_sequence *s = sequence_on(e), *back = sequence_on(fresh);
    uint32_t      *ids = random_ids(m, n + 50, n);
    weir_error     err;
    heard          a, b;
    append(s, ids, n);
    append(back, ids + 7, 20); /* is not empty */
    must(weir_sequence_save(s, saved, &err), &err);
    must(weir_sequence_load(back, saved, &err), &err);
    continue_both(s, back, ids + n, 50);
    generate(s, &a);
    must(weir_sequence_save(s, saved, &err), &err); /* after a generation, drafts and all */
    must(weir_sequence_load(back, saved, &err), &err);
    continue_both(s, back, ids, 9);
    generate(s, &a);
    generate(back, &b);
    assert_memory_equal(&a, &b, sizeof a);
    free(ids);
    weir_sequence_free(s);
    weir_sequence_free(back);
    weir_engine_close(e);
    weir_engine_close(fresh);
    weir_model_close(m);
}

static void test_save_and_load(void **given)
{
    (void)given;
    static const uint32_t    lengths[] = {1, 63, 64, 65, 256, 700};
    static const char *const kv[]      = {"bf16", "f32", "affine8,affine4"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        save_and_load("tiny-dense", (weir_engine_options){.kv = kv[i % 3]}, lengths[i]);
        save_and_load("tiny-dense", (weir_engine_options){.kv = "affine8", .kv_start = 256}, lengths[i]);
        save_and_load("tiny-moe", (weir_engine_options){.draft = "mtp"}, lengths[i]);
    }
    save_and_load("demo", (weir_engine_options){.draft = "mtp"}, 300);
}

static long size_of(const char *path)
{
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    return (long)sb.st_size;
}

/* The load fails, says why, leaves s empty, and the engine goes on. */
static void refused(weir_sequence *s, const uint32_t *ids, const char *path, weir_status st, const char *why)
{
    weir_error err;
    append(s, ids, 10);
    assert_int_equal(weir_sequence_load(s, path, &err), st);
    if (strstr(err.text, path) == NULL || strstr(err.text, why) == NULL) fail_msg("expected %s: %s", why, err.text);
    assert_int_equal(weir_sequence_length(s), 0);
    assert_null(weir_sequence_logits(s));
}

static void test_bad_files(void **given)
{
    (void)given;
    weir_model               *m = model_named("tiny-moe"), *other = model_named("tiny-dense");
    const weir_engine_options o      = {.threads = 1, .max_context = 400};
    weir_engine_options       longer = o, f32 = o, affine = o;
    longer.max_context = 600;
    f32.kv             = "f32";
    affine.kv          = "affine8";
    weir_engine   *e = engine_with(m, o), *elsewhere = engine_with(other, o);
    weir_engine   *more = engine_with(m, longer), *wide = engine_with(m, f32), *narrow = engine_with(m, affine);
    weir_sequence *s = sequence_on(e), *t = sequence_on(elsewhere), *u = sequence_on(more), *v = sequence_on(wide);
    weir_sequence *w   = sequence_on(narrow);
    uint32_t      *ids = random_ids(m, 500, 1);
    char           bad[160];
    weir_error     err;
    (void)snprintf(bad, sizeof bad, "%s.bad", saved);
    assert_int_equal(weir_sequence_save(s, saved, &err), WEIR_INVALID); /* empty */
    append(s, ids, 300);
    must(weir_sequence_save(s, saved, &err), &err);
    assert_int_equal(weir_sequence_save(s, "/nowhere/at/all", &err), WEIR_IO);
    weir_sequence_reset(s);
    refused(t, ids, saved, WEIR_FORMAT, "another model, adapters, cache format or version");
    refused(v, ids, saved, WEIR_FORMAT, "another model, adapters, cache format or version");
    refused(w, ids, saved, WEIR_FORMAT, "another model, adapters, cache format or version");
    refused(s, ids, "/nowhere/at/all", WEIR_IO, "No such file");
    const long size = size_of(saved), places[] = {0, 9, 20, 50, 70, 200, 1400, size / 2, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        copy(saved, bad, places[i]);
        weir_sequence_reset(s);
        refused(s, ids, bad, WEIR_FORMAT, "");
        copy(saved, bad, -1);
        assert_int_equal(truncate(bad, places[i]), 0);
        weir_sequence_reset(s);
        refused(s, ids, bad, WEIR_FORMAT, "");
    }
    copy(saved, bad, size - 1);
    weir_sequence_reset(s);
    refused(s, ids, bad, WEIR_FORMAT, "checksum");
    append(u, ids, 500);
    must(weir_sequence_save(u, bad, &err), &err);
    refused(s, ids, bad, WEIR_INVALID, "at most 400 tokens (max_context), found 500");
    assert_int_equal(unlink(bad), 0);
    must(weir_sequence_load(s, saved, &err), &err); /* nothing of this has harmed it */
    must(weir_sequence_load(u, saved, &err), &err);
    continue_both(s, u, ids, 30);
    free(ids);
    weir_sequence_free(s);
    weir_sequence_free(t);
    weir_sequence_free(u);
    weir_sequence_free(v);
    weir_sequence_free(w);
    weir_engine_close(e);
    weir_engine_close(elsewhere);
    weir_engine_close(more);
    weir_engine_close(wide);
    weir_engine_close(narrow);
    weir_model_close(m);
    weir_model_close(other);
}

int main(void)
{
    char                    dir[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_thinking_is_dropped),
        cmocka_unit_test(test_branch_of_a_long_one),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_bad_files),
    };
    (void)strcpy(dir, "/tmp/weir-saved-XXXXXX");
    if (mkdtemp(dir) == NULL) return 1;
    (void)snprintf(saved, sizeof saved, "%s/sequence", dir);
    const int failed = cmocka_run_group_tests_name("disk", tests, NULL, NULL);
    (void)unlink(saved);
    (void)rmdir(dir);
    return failed;
}
