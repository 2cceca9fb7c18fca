/* tests/unit/state/test_prefix_disk.c - what the tree keeps on disk is found again with the
 * bytes of its tokens, or not at all. */
#include "base/mem.h"
#include "made_sequences.h"
#include "state/prefix_disk.h"
#include "state/store_writer.h"
#include "support/cmocka.h"
#include "support/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = 1500, MOST_TEXTS = 2000, MOST_FILES = 2048, MOST_ROUNDS = 200, RECENT = 16 };

static const uint8_t  ours[STORE_KEY_BYTES] = "test_prefix_disk", theirs[STORE_KEY_BYTES] = "another one";
static const uint64_t roomy = 64 << 20;

static text  texts[MOST_TEXTS], past[MOST_ROUNDS];
static world w;
static char  dir[64];
static bool  quiet;

static void hear(void *user, weir_log_level level, const char *line)
{
    (void)user;
    if (level <= WEIR_LOG_WARN && !quiet) fail_msg("the log says: %s", line);
}

/* ---- the directory ---- */

typedef struct listing {
    size_t n;
    char   path[MOST_FILES][192];
} listing;

static listing files;

/* Paths of all files. */
static size_t list(void)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    files.n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        assert_true(files.n < MOST_FILES);
        (void)snprintf(files.path[files.n++], sizeof files.path[0], "%s/%.100s", dir, e->d_name);
    }
    (void)closedir(d);
    return files.n;
}

static int make_dir(void **given)
{
    (void)given;
    quiet = false;
    weir_log_set(hear, NULL);
    (void)strcpy(dir, "/tmp/weir-disk-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int drop_dir(void **given)
{
    (void)given;
    (void)list();
    for (size_t i = 0; i < files.n; i++) (void)unlink(files.path[i]);
    return rmdir(dir);
}

/* ---- opening ---- */

typedef struct shape {
    uint32_t pages, snapshots;
    bool     carry;
    uint64_t budget;
} shape;

static void open_as(const shape *s, const uint8_t *namespace)
{
    world_open(&w, s->pages, s->snapshots, s->carry);
    assert_int_equal(prefix_tree_open_disk(w.t, dir, namespace, s->budget, &w.err), WEIR_OK);
}

static void reopen(const shape *s)
{
    world_close(&w);
    open_as(s, ours);
}

static void audit_entry(const disk_entry *e, uint32_t *n, uint32_t *anchors, uint64_t *bytes)
{
    uint8_t key[STORE_KEY_BYTES];
    for (const disk_entry *c = e->children; c != NULL; c = c->next) {
        assert_true(e == &w.t->disk->root || e->n == PREFIX_BLOCK); /* only blocks have children */
        assert_ptr_equal(c->parent, e);
        assert_int_equal(c->end, e->end + c->n);
        assert_int_equal(store_key(key, e->key, c->tokens, c->n, NULL), WEIR_OK);
        assert_memory_equal(c->key, key, sizeof key);
        assert_true(c->durable);
        ++*n;
        *anchors += c->n < PREFIX_BLOCK;
        *bytes += c->bytes;
        audit_entry(c, n, anchors, bytes);
    }
}

/* With everything written: the entries are the files, and add up. */
static void audit_disk(void)
{
    const prefix_disk *d = w.t->disk;
    uint32_t           n = 0, anchors = 0, chained = 0, unused = 0;
    uint64_t           bytes = 0;
    audit_entry(&d->root, &n, &anchors, &bytes);
    for (const disk_entry *e = d->unused; e != NULL; e = e->next) unused++;
    for (uint32_t i = 0; i < d->n_entries; i++)
        for (const disk_entry *e = d->buckets[i]; e != NULL; e = e->chain) chained++;
    const prefix_stats s = prefix_tree_stats(w.t);
    assert_int_equal(s.disk_entries, n);
    assert_int_equal(s.disk_anchors, anchors);
    assert_int_equal(s.disk_bytes, bytes);
    assert_int_equal(chained, n);
    assert_int_equal(n + unused, d->fresh);
    assert_true(bytes <= s.disk_budget);
}

static void flush(void)
{
    assert_true(prefix_tree_flush(w.t));
    audit_disk();
    assert_int_equal(list(), prefix_tree_stats(w.t).disk_entries);
}

/* ---- texts ---- */

static text *made(uint64_t seed, uint32_t n)
{
    text *x = mem_alloc(1, sizeof *x);
    assert_non_null(x);
    x->n = n;
    for (uint32_t i = 0; i < MOST_POSITIONS; i++) x->ids[i] = 7 + rng_below(&seed, 1000);
    return x;
}

static void store_at(const text *x, uint32_t n)
{
    world_make(&w, 0, n);
    world_run(&w, 0, x->ids, n);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
}

/* Looks for x and adopts what there is; the hit's length in *found, the adopted one is returned. */
static uint32_t adopt(const text *x, uint32_t n, uint32_t *found)
{
    prefix_hit hit;
    world_make(&w, 1, n);
    prefix_tree_find(w.t, NULL, x->ids, n, &hit);
    const uint32_t got = prefix_tree_adopt(w.t, &hit, w.q[1]);
    assert_int_equal(sequence_length(w.q[1]), got);
    assert_memory_equal(sequence_tokens(w.q[1]), x->ids, got * sizeof *x->ids);
    world_check(&w, 1);
    world_audit(&w);
    world_drop(&w, 1);
    world_audit(&w);
    if (found != NULL) *found = hit.length;
    return got;
}

/* ---- single cases ---- */

/* Around the borders of pages and blocks, with a restart between writing and reading. */
static void test_lengths(void **given)
{
    (void)given;
    static const uint32_t lengths[] = {1, 2, 63, 64, 65, 128, 255, 256, 257, 511, 512, 513, 1024, 1500};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const uint32_t n = lengths[i];
        const shape    s = {64, 4, i % 2 == 0, roomy};
        text          *x = made(50 + i, n + 1);
        open_as(&s, ours);
        store_at(x, n);
        assert_int_equal(prefix_tree_stats(w.t).disk_entries, 0);
        flush();
        assert_int_equal(prefix_tree_stats(w.t).disk_anchors, 1);
        assert_int_equal(prefix_tree_stats(w.t).disk_entries, n / PREFIX_BLOCK + 1);
        reopen(&s);
        audit_disk();
        assert_int_equal(prefix_tree_stats(w.t).anchors, 0);
        assert_int_equal(adopt(x, n - 1, NULL), 0);
        uint32_t found;
        assert_int_equal(adopt(x, n + 1, &found), n);
        assert_int_equal(found, n);
        assert_int_equal(prefix_tree_stats(w.t).anchors, 1); /* in memory now */
        assert_true(w.t->anchors[0].written);
        assert_int_equal(prefix_tree_stats(w.t).page_bytes, (n + 63) / 64 * state_page_bytes(&w.s->limits));
        flush(); /* nothing is written twice */
        assert_int_equal(files.n, n / PREFIX_BLOCK + 1);
        x->ids[n - 1]++;
        assert_int_equal(adopt(x, n + 1, &found), 0);
        assert_int_equal(found, 0);
        world_close(&w);
        for (size_t k = 0; k < files.n; k++) (void)unlink(files.path[k]);
        mem_free(x);
    }
}

/* A short anchor, one at the block's end and one behind it, all on one path. */
static void test_path(void **given)
{
    (void)given;
    const shape s = {64, 8, true, roomy};
    text       *x = made(1, 700);
    open_as(&s, ours);
    store_at(x, 100);
    store_at(x, 256);
    store_at(x, 300);
    store_at(x, 600);
    flush();
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 4 + 2);
    reopen(&s);
    for (uint32_t n = 700, want = 600; want > 0; n = want - 1, want = n > 300 ? 300 : n > 256 ? 256 : n > 100 ? 100 : 0)
        assert_int_equal(adopt(x, n, NULL), want);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 4);
    world_close(&w);
    mem_free(x);
}

/* What memory gives up is found on disk; what both have is not read. */
static void test_given_up_by_memory(void **given)
{
    (void)given;
    const shape s = {64, 1, false, roomy};
    text       *x = made(2, 600), *y = made(3, 600);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    store_at(y, 600);
    flush();
    assert_int_equal(prefix_tree_stats(w.t).anchors, 1);
    assert_int_equal(prefix_tree_stats(w.t).disk_anchors, 2);
    for (size_t i = 0; i < files.n; i++) assert_int_equal(chmod(files.path[i], 0), 0);
    assert_int_equal(adopt(y, 600, NULL), 600); /* from memory */
    for (size_t i = 0; i < files.n; i++) assert_int_equal(chmod(files.path[i], 0600), 0);
    assert_int_equal(adopt(x, 600, NULL), 600);
    assert_int_equal(adopt(y, 600, NULL), 600);
    assert_int_equal(adopt(x, 600, NULL), 600);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* Blocks that memory has are not read again, and their pages are shared. */
static void test_shares_blocks(void **given)
{
    (void)given;
    const shape s = {64, 4, false, roomy};
    text       *x = made(4, 1000), *y = made(4, 1000);
    for (uint32_t i = 700; i < 1000; i++) y->ids[i]++;
    open_as(&s, ours);
    store_at(x, 900);
    store_at(y, 900);
    flush();
    reopen(&s);
    assert_int_equal(adopt(x, 1000, NULL), 900);
    assert_int_equal(adopt(y, 1000, NULL), 900);
    /* 512 tokens in common, then a block each and a part of one. */
    assert_int_equal(prefix_tree_stats(w.t).page_bytes, (8 + 2 * 7) * state_page_bytes(&w.s->limits));
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* The pages for what comes from disk are made room for, the path's own being kept. */
static void test_few_pages(void **given)
{
    (void)given;
    const shape s = {16, 8, true, roomy};
    text       *x = made(5, 1000), *y = made(6, 1000);
    open_as(&s, ours);
    store_at(x, 900);
    flush();
    store_at(y, 300);
    store_at(y, 600);
    flush();
    store_at(x, 512); /* a part of its path is in memory */
    world_make(&w, 2, 64);
    world_run(&w, 2, y->ids, 64);
    assert_int_equal(adopt(x, 960, NULL), 900);
    assert_int_equal(adopt(y, 960, NULL), 600);
    world_check(&w, 2);
    world_drop(&w, 2);
    assert_int_equal(adopt(x, 1000, NULL), 900);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

static void test_no_snapshots(void **given)
{
    (void)given;
    shape s = {64, 4, false, roomy};
    text *x = made(7, 300);
    open_as(&s, ours);
    store_at(x, 300);
    flush();
    s.snapshots = 0;
    reopen(&s);
    assert_int_equal(adopt(x, 300, NULL), 0);
    world_close(&w);
    mem_free(x);
}

/* Another namespace finds nothing and harms nothing. */
static void test_others(void **given)
{
    (void)given;
    const shape s = {64, 4, false, roomy};
    text       *x = made(8, 600);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    world_close(&w);
    open_as(&s, theirs);
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 0);
    uint32_t found;
    assert_int_equal(adopt(x, 600, &found), 0);
    assert_int_equal(found, 0);
    store_at(x, 300);
    assert_true(prefix_tree_flush(w.t));
    assert_int_equal(list(), 3 + 2);
    world_close(&w);
    open_as(&s, ours);
    assert_int_equal(adopt(x, 600, NULL), 600);
    world_close(&w);
    mem_free(x);
}

/* ---- damage ---- */

/* The file of the entry that has these n tokens behind `at`. */
static const char *file_of(const disk_entry *e)
{
    static char name[STORE_NAME_BYTES], path[256];
    store_name(name, ours, e->key);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static disk_entry *entry_at(const text *x, uint32_t start, uint32_t n)
{
    disk_entry *at = &w.t->disk->root;
    while (at->end < start) {
        at = prefix_disk_child(at, prefix_no_origin, x->ids + at->end, PREFIX_BLOCK);
        assert_non_null(at);
    }
    disk_entry *e = prefix_disk_child(at, prefix_no_origin, x->ids + at->end, n);
    assert_non_null(e);
    return e;
}

static void flip(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    assert_true(fputc(c ^ 1, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

typedef enum harm { FLIPPED, REMOVED, CUT, HARMS } harm;

static void do_harm(harm how, const char *path)
{
    struct stat sb;
    if (how == FLIPPED) flip(path, 1);
    if (how == REMOVED) assert_int_equal(unlink(path), 0);
    if (how == CUT) {
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(truncate(path, sb.st_size / 2), 0);
    }
}

/* x has anchors at 200, 256, 600 and 900.  The entry at `start` of n tokens is harmed: `left` is
 * the deepest that can be had, `entries` what stays. */
static void harmed(harm how, bool before_opening, uint32_t start, uint32_t n, uint32_t left, uint32_t entries)
{
    const shape s = {64, 8, false, roomy};
    text       *x = made(9, 1000);
    uint32_t    found;
    open_as(&s, ours);
    store_at(x, 200);
    store_at(x, 256);
    store_at(x, 600);
    store_at(x, 900);
    flush();
    assert_int_equal(files.n, 7);
    reopen(&s);
    const char *path = file_of(entry_at(x, start, n));
    quiet            = true;
    do_harm(how, path);
    if (before_opening) reopen(&s);
    const bool seen = before_opening && how != FLIPPED; /* a section is not read before it is needed */
    assert_int_equal(adopt(x, 1000, &found), left);
    assert_int_equal(found, seen ? left : 900);
    audit_disk();
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, entries);
    store_at(x, 900); /* is read anew, and written */
    flush();
    quiet = false;
    reopen(&s);
    assert_int_equal(adopt(x, 1000, NULL), 900);
    world_close(&w);
    (void)list();
    for (size_t k = 0; k < files.n; k++) (void)unlink(files.path[k]);
    mem_free(x);
}

static void test_damage(void **given)
{
    (void)given;
    for (harm how = 0; how < HARMS; how++) {
        for (int before = 0; before < 2; before++) {
            harmed(how, before != 0, 768, 132, 600, 6); /* the anchor's own */
            harmed(how, before != 0, 512, 256, 600, 5); /* the last block, and the anchor behind it */
            harmed(how, before != 0, 256, 256, 256, 3); /* the second: with 600 and all behind */
            harmed(how, before != 0, 0, 256, 200, 1);   /* the first: with all but the one inside it */
        }
    }
}

/* The loss of a block that memory has is found out when memory has it no more; and what is
 * read anew then is kept again. */
static void test_damage_below_memory(void **given)
{
    (void)given;
    const shape s = {64, 2, false, roomy};
    text       *x = made(10, 1000);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    quiet = true;
    do_harm(REMOVED, file_of(entry_at(x, 0, 256)));
    assert_int_equal(adopt(x, 1000, NULL), 600);
    store_at(x, 900);
    assert_true(prefix_tree_flush(w.t));
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 5);
    reopen(&s);
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 0); /* nothing leads to them */
    assert_int_equal(adopt(x, 1000, NULL), 0);
    store_at(x, 900);
    flush();
    reopen(&s);
    assert_int_equal(adopt(x, 1000, NULL), 900);
    world_close(&w);
    mem_free(x);
}

/* A file that is sound, but whose name and content are not what the tree writes. */
static void test_strays(void **given)
{
    (void)given;
    const shape         s = {64, 4, false, roomy};
    static uint8_t      bytes[1 << 16];
    uint32_t            ids[PREFIX_BLOCK] = {1, 2, 3};
    store              *st;
    const store_options o = {dir, ours, roomy, 1 << 20, NULL, NULL};
    open_as(&s, ours);
    const uint64_t kept = state_size(w.s), page = state_page_bytes(&w.s->limits);
    world_close(&w);
    const store_entry strays[] = {
        {.kind = STORE_BLOCK, .n_tokens = 255, .n_sections = 1, .sections = {{DISK_KV, 4 * page, bytes}}},
        {.kind = STORE_BLOCK, .n_tokens = 256, .n_sections = 1, .sections = {{DISK_KV, 3 * page, bytes}}},
        {.kind       = STORE_BLOCK,
         .n_tokens   = 256,
         .position   = 64,
         .n_sections = 1,
         .sections   = {{DISK_KV, 4 * page, bytes}}},
        {.kind       = STORE_BLOCK,
         .n_tokens   = 256,
         .position   = 256,
         .n_sections = 1,
         .sections   = {{DISK_KV, 4 * page, bytes}}},
        {.kind = STORE_SNAPSHOT, .n_tokens = 3, .n_sections = 1, .sections = {{DISK_STATE, kept, bytes}}},
        {.kind       = STORE_SNAPSHOT,
         .n_tokens   = 3,
         .n_sections = 2,
         .sections   = {{DISK_STATE, kept + 1, bytes}, {DISK_KV, page, bytes}}},
        {.kind       = STORE_SNAPSHOT,
         .n_tokens   = 1,
         .position   = 255,
         .n_sections = 1,
         .sections   = {{DISK_STATE, kept, bytes}}},
        {.kind       = STORE_SEQUENCE,
         .n_tokens   = 3,
         .n_sections = 2,
         .sections   = {{DISK_STATE, kept, bytes}, {DISK_KV, page, bytes}}},
    };
    assert_int_equal(store_open(&st, &o, &w.err), WEIR_OK);
    for (uint32_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        store_entry e = strays[i];
        ids[0]        = i;
        e.tokens      = ids;
        assert_int_equal(store_key(e.key, e.parent, ids, e.n_tokens, NULL), WEIR_OK);
        assert_int_equal(store_put(st, &e), STORE_QUEUED);
    }
    store_entry wrong = {.kind       = STORE_SNAPSHOT,
                         .n_tokens   = 3,
                         .tokens     = ids,
                         .n_sections = 2,
                         .sections   = {{DISK_STATE, kept, bytes}, {DISK_KV, page, bytes}}};
    wrong.key[0]      = 77; /* not that of its tokens */
    assert_int_equal(store_put(st, &wrong), STORE_QUEUED);
    store_close(st);
    assert_int_equal(list(), 9);
    open_as(&s, ours);
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 0);
    flush();
    assert_int_equal(files.n, 0);
    world_close(&w);
}

/* ---- little room on disk ---- */

/* The system prompt of many conversations outlives them, and what is kept can be used. */
static void test_shared_prompt_stays(void **given)
{
    (void)given;
    const shape s = {200, 8, false, 120000};
    text       *x = made(20, 900);
    open_as(&s, ours);
    store_at(x, 512);
    for (uint32_t i = 0; i < 40; i++) {
        for (uint32_t k = 512; k < 900; k++) x->ids[k] = 2000 + i;
        assert_int_equal(adopt(x, 900, NULL), 512);
        store_at(x, 900);
        flush();
        assert_true(prefix_tree_stats(w.t).disk_anchors >= 2);
    }
    assert_true(prefix_tree_stats(w.t).disk_anchors < 20);
    reopen(&s);
    assert_int_equal(adopt(x, 900, NULL), 900);
    x->ids[600]++;
    assert_int_equal(adopt(x, 900, NULL), 512);
    world_close(&w);
    mem_free(x);
}

/* What is used again and again, if only out of memory, stays on disk. */
static void test_use_counts(void **given)
{
    (void)given;
    const shape s = {200, 8, false, 120000};
    text       *x = made(21, 600);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    for (uint64_t i = 0; i < 60; i++) {
        text *y = made(100 + i, 600);
        store_at(y, 600);
        flush();
        assert_int_equal(adopt(x, 600, NULL), 600);
        mem_free(y);
    }
    assert_true(prefix_tree_stats(w.t).disk_anchors < 20);
    reopen(&s);
    assert_int_equal(adopt(x, 600, NULL), 600);
    world_close(&w);
    mem_free(x);
}

/* A smaller budget than what is there: the rest is given up at opening. */
static void test_smaller_budget(void **given)
{
    (void)given;
    shape s = {200, 8, false, roomy};
    open_as(&s, ours);
    for (uint64_t i = 0; i < 8; i++) {
        text *x = made(30 + i, 900);
        store_at(x, 900);
        mem_free(x);
    }
    flush();
    assert_int_equal(files.n, 8 * 4);
    s.budget = prefix_tree_stats(w.t).disk_bytes / 2;
    reopen(&s);
    assert_true(prefix_tree_stats(w.t).disk_bytes <= s.budget);
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 4 * 4);
    flush();
    world_close(&w);
}

/* What cannot fit as a whole is not begun, for others would go for nothing. */
static void test_too_long(void **given)
{
    (void)given;
    const shape s = {200, 8, false, 40000};
    text       *x = made(41, 600), *y = made(42, 2000);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    store_at(y, 2000);
    flush();
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 3);
    store_at(y, 300); /* the part that does */
    flush();
    reopen(&s);
    assert_int_equal(adopt(x, 600, NULL), 600);
    assert_int_equal(adopt(y, 2000, NULL), 300);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* Sets the time of last use of all files that are there and were not there before. */
static void set_age(const listing *before, time_t seconds)
{
    (void)list();
    for (size_t i = 0; i < files.n; i++) {
        bool known = false;
        for (size_t k = 0; k < before->n; k++) known |= strcmp(before->path[k], files.path[i]) == 0;
        const struct timespec when[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
        if (!known) assert_int_equal(utimensat(AT_FDCWD, files.path[i], when, 0), 0);
    }
}

/* At opening, what was used last stays, whatever was written first. */
static void test_ages(void **given)
{
    (void)given;
    static listing      before;
    static const time_t hours[] = {7, 2, 9, 4, 1};
    enum { N = sizeof hours / sizeof *hours };
    shape s = {400, 8, false, roomy};
    text *x[N];
    open_as(&s, ours);
    before.n = 0;
    for (uint64_t i = 0; i < N; i++) {
        x[i] = made(70 + i, 900);
        store_at(x[i], 900);
        assert_true(prefix_tree_flush(w.t));
        set_age(&before, 1000000 + 3600 * hours[i]);
        (void)list();
        before = files;
    }
    s.budget = prefix_tree_stats(w.t).disk_bytes * 3 / N;
    reopen(&s);
    for (uint32_t i = 0; i < N; i++) {
        prefix_hit hit;
        prefix_tree_find(w.t, NULL, x[i]->ids, 900, &hit);
        assert_int_equal(hit.length, hours[i] >= 4 ? 900 : 0);
        mem_free(x[i]);
    }
    world_close(&w);
}

/* No room for a single block: nothing is kept, nothing goes wrong. */
static void test_hardly_any_budget(void **given)
{
    (void)given;
    const shape s = {64, 4, false, 5000};
    text       *x = made(40, 900);
    open_as(&s, ours);
    store_at(x, 900);
    flush();
    assert_int_equal(prefix_tree_stats(w.t).disk_anchors, 0);
    assert_int_equal(adopt(x, 900, NULL), 900);
    world_close(&w);
    mem_free(x);
}

/* ---- against a list ---- */

static uint32_t random_length(uint64_t *seed, uint32_t most)
{
    uint32_t n = rng_below(seed, most) + 1;
    if (rng_below(seed, 2) == 0) n = n / K_PAGE * K_PAGE + rng_below(seed, 3);
    if (rng_below(seed, 3) == 0) n = n / PREFIX_BLOCK * PREFIX_BLOCK + rng_below(seed, 3);
    return n < 1 ? 1 : n > most ? most : n;
}

/* Begins like a recent one, mostly. */
static void random_text(uint64_t *seed, text *out, uint32_t n_past)
{
    uint32_t at = 0;
    out->n      = random_length(seed, LONGEST);
    if (n_past > 0 && rng_below(seed, 8) > 0) {
        const text *x = &past[n_past - 1 - rng_below(seed, n_past < RECENT ? n_past : RECENT)];
        at            = random_length(seed, LONGEST);
        if (at > x->n) at = x->n;
        memcpy(out->ids, x->ids, at * sizeof *out->ids);
        if (out->n <= at) out->n = at + 1;
    }
    const uint32_t kinds = 2 + rng_below(seed, 2);
    for (; at < out->n; at++) out->ids[at] = 7 + rng_below(seed, kinds);
}

/* The texts of all entries below e, anchors or (with blocks) all. */
static void collect(const disk_entry *e, bool blocks, uint32_t *n)
{
    for (const disk_entry *c = e->children; c != NULL; c = c->next) {
        if (c->durable && (blocks || c->n < PREFIX_BLOCK)) {
            assert_true(*n < MOST_TEXTS);
            text *x = &texts[(*n)++];
            x->n    = c->end;
            for (const disk_entry *up = c; up->parent != NULL; up = up->parent)
                memcpy(x->ids + up->end - up->n, up->tokens, up->n * sizeof *up->tokens);
        }
        collect(c, blocks, n);
    }
}

/* The text of every anchor, in memory and on disk, then of the blocks on disk. */
static uint32_t all_texts(uint32_t *anchors)
{
    uint32_t n = world_texts(&w, texts);
    collect(&w.t->disk->root, false, &n);
    *anchors = n;
    collect(&w.t->disk->root, true, &n);
    return n;
}

static uint32_t check_find(const text *x, uint32_t n)
{
    uint32_t       matched = 0, length = 0, anchors;
    prefix_hit     hit;
    const uint32_t all = all_texts(&anchors);
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t m = prefix_common(texts[i].ids, x->ids, n < texts[i].n ? n : texts[i].n);
        if (m > matched) matched = m;
        if (i < anchors && m == texts[i].n && m > length) length = m;
    }
    prefix_tree_find(w.t, NULL, x->ids, n, &hit);
    assert_int_equal(hit.matched, matched);
    assert_int_equal(hit.length, length);
    return length;
}

static void run_random(const shape *s, int rounds, uint64_t seed)
{
    static text x;
    uint32_t    hits = 0, from_disk = 0, losses = 0;
    open_as(s, ours);
    for (int round = 0; round < rounds; round++) {
        const int i = (int)rng_below(&seed, 3);
        world_drop(&w, i);
        random_text(&seed, &x, (uint32_t)round);
        past[round]          = x;
        const uint32_t found = check_find(&x, x.n - 1), free = state_free_positions(w.s);
        if (x.n > free) continue;
        prefix_hit in_memory;
        prefix_tree_find(w.t, NULL, x.ids, x.n - 1, &in_memory);
        from_disk += in_memory.disk != NULL;
        hits += found > 0;
        assert_int_equal(world_read(&w, i, &x, x.n), found);
        prefix_tree_store(w.t, NULL, w.q[i]);
        for (int k = 0; k < 3; k++)
            if (w.q[k] != NULL) world_check(&w, k);
        world_audit(&w);
        const uint32_t what = rng_below(&seed, 16);
        if (what < 8) prefix_tree_write(w.t);
        if (what == 8) flush();
        if (what != 9) continue;
        const bool flushed = rng_below(&seed, 2) == 0;
        losses += !flushed;
        if (flushed) flush();
        reopen(s);
        audit_disk();
    }
    print_message("%u hits, %u from disk, %u restarts unannounced, %u entries at the end\n", hits, from_disk, losses,
                  prefix_tree_stats(w.t).disk_entries);
    assert_true(hits > (uint32_t)rounds / 12 && from_disk > (uint32_t)rounds / 80);
    world_close(&w);
    (void)list();
    for (size_t k = 0; k < files.n; k++) (void)unlink(files.path[k]);
}

static void test_random(void **given)
{
    (void)given;
    run_random(&(shape){400, 40, true, roomy}, 100, 1);
    run_random(&(shape){60, 6, false, roomy}, MOST_ROUNDS, 2); /* memory runs out */
    run_random(&(shape){60, 6, true, 400000}, MOST_ROUNDS, 3); /* and the disk */
    run_random(&(shape){200, 12, false, 100000}, MOST_ROUNDS, 4);
    run_random(&(shape){40, 3, true, 90000}, MOST_ROUNDS, 5);
}

/* ---- failures ---- */

static void test_no_dir(void **given)
{
    (void)given;
    char        path[128];
    const shape s = {64, 4, false, roomy};
    (void)snprintf(path, sizeof path, "%s/none/here", dir);
    world_open(&w, s.pages, s.snapshots, false);
    assert_int_equal(prefix_tree_open_disk(w.t, path, ours, roomy, &w.err), WEIR_IO);
    assert_non_null(strstr(w.err.text, path));
    assert_null(w.t->disk);
    world_close(&w);
}

/* The directory goes away: nothing is kept, and the tree goes on. */
static void test_dir_lost(void **given)
{
    (void)given;
    const shape s = {64, 4, false, roomy};
    text       *x = made(60, 900);
    char        kept[64];
    open_as(&s, ours);
    quiet = true;
    (void)strcpy(kept, dir);
    assert_int_equal(rmdir(dir), 0);
    store_at(x, 900);
    assert_false(prefix_tree_flush(w.t));
    assert_int_equal(prefix_tree_stats(w.t).disk_entries, 0);
    assert_true(prefix_tree_flush(w.t)); /* it was tried, and is not tried again */
    assert_int_equal(adopt(x, 900, NULL), 900);
    world_close(&w);
    assert_int_equal(mkdir(kept, 0700), 0);
    mem_free(x);
}

static void test_no_memory(void **given)
{
    (void)given;
    const shape s = {64, 4, false, roomy};
    text       *x = made(61, 600);
    open_as(&s, ours);
    store_at(x, 600);
    flush();
    world_close(&w);
    world_open(&w, s.pages, s.snapshots, s.carry);
    for (uint64_t n = 1;; n++) {
        mem_fail_at(n);
        const weir_status st = prefix_tree_open_disk(w.t, dir, ours, roomy, &w.err);
        mem_fail_at(0);
        if (st == WEIR_OK) break;
        assert_int_equal(st, WEIR_NO_MEMORY);
        assert_null(w.t->disk);
    }
    assert_int_equal(adopt(x, 600, NULL), 600);
    world_close(&w);
    mem_free(x);
}

static void test_bytes(void **given)
{
    (void)given;
    const shape s = {64, 4, true, 1 << 20};
    open_as(&s, ours);
    const state_limits *l    = &w.s->limits;
    const uint64_t      disk = prefix_tree_bytes(l, 4, s.budget) - prefix_tree_bytes(l, 4, 0);
    assert_int_equal(disk, prefix_tree_disk_bytes(l, s.budget));
    assert_true(disk > w.t->disk->n_entries * sizeof(disk_entry) + (32 << 20));
    /* No more entries than smallest files fit. */
    assert_int_equal(w.t->disk->n_entries, s.budget / (state_size(w.s) + STORE_FIXED_BYTES));
    world_close(&w);
}

int main(void)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_lengths),
        WITH_DIR(test_path),
        WITH_DIR(test_given_up_by_memory),
        WITH_DIR(test_shares_blocks),
        WITH_DIR(test_few_pages),
        WITH_DIR(test_no_snapshots),
        WITH_DIR(test_others),
        WITH_DIR(test_damage),
        WITH_DIR(test_damage_below_memory),
        WITH_DIR(test_strays),
        WITH_DIR(test_shared_prompt_stays),
        WITH_DIR(test_smaller_budget),
        WITH_DIR(test_use_counts),
        WITH_DIR(test_hardly_any_budget),
        WITH_DIR(test_ages),
        WITH_DIR(test_too_long),
        WITH_DIR(test_random),
        WITH_DIR(test_no_dir),
        WITH_DIR(test_dir_lost),
        WITH_DIR(test_no_memory),
        WITH_DIR(test_bytes),
    };
    return cmocka_run_group_tests_name("prefix_disk", tests, NULL, NULL);
}
