/* tests/unit/state/test_store.c - a directory of entries: what is kept, found, refused and removed. */
#include "base/file.h"
#include "base/mem.h"
#include "made_entries.h"
#include "state/store.h"
#include "state/store_file.h"
#include "state/store_writer.h"
#include "support/cmocka.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FOUND = 16, MAX_LOG = 4096, ROOM = 1 << 20 };

/* -- the log, which can also hold up the thread that writes a line */

static struct {
    pthread_mutex_t lock;
    char            text[MAX_LOG];
    size_t          len, lines;
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool            gate_closed; /* by the test */

static void close_gate(void)
{
    (void)pthread_mutex_lock(&gate);
    gate_closed = true;
}

static void open_gate(void)
{
    if (gate_closed) (void)pthread_mutex_unlock(&gate);
    gate_closed = false;
}

static void sink(void *user, weir_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)pthread_mutex_lock(&logged.lock);
    logged.lines++;
    logged.len += (size_t)snprintf(logged.text + logged.len, MAX_LOG - logged.len, "%s\n", line);
    assert_true(logged.len < MAX_LOG);
    (void)pthread_mutex_unlock(&logged.lock);
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
}

static void clear_log(void)
{
    (void)pthread_mutex_lock(&logged.lock);
    logged.len = logged.lines = 0;
    logged.text[0]            = '\0';
    (void)pthread_mutex_unlock(&logged.lock);
}

static size_t lines_logged(void)
{
    (void)pthread_mutex_lock(&logged.lock);
    const size_t n = logged.lines;
    (void)pthread_mutex_unlock(&logged.lock);
    return n;
}

/* Exactly this many lines so far, with the words in them; then none. */
static void expect_log(size_t lines, const char *words)
{
    (void)pthread_mutex_lock(&logged.lock);
    const bool as_expected = logged.lines == lines && (lines == 0 || strstr(logged.text, words) != NULL);
    (void)pthread_mutex_unlock(&logged.lock);
    if (!as_expected) fail_msg("expected %zu lines with '%s', found %zu:\n%s", lines, words, logged.lines, logged.text);
    clear_log();
}

/* -- a folder for each test, and the store in it */

typedef struct fixture {
    char         dir[64], path[512];
    store       *s;
    store_entry *e[4];
    uint64_t     budget, queue;
    size_t       n_found, n_durable, n_lost;
    store_entry  found[MAX_FOUND]; /* tokens are not kept */
    uint64_t     found_bytes[MAX_FOUND];
    int64_t      found_used[MAX_FOUND];
    uint8_t      reported[STORE_KEY_BYTES]; /* the last one */
} fixture;

static int setup(void **given)
{
    fixture *f = calloc(1, sizeof *f);
    if (f == NULL) return 1;
    (void)strcpy(f->dir, "/tmp/weir-store-XXXXXX");
    if (mkdtemp(f->dir) == NULL) return 1;
    f->budget = f->queue = ROOM;
    for (uint32_t i = 0; i < 4; i++)
        f->e[i] = made_entry(&(made_shape){.kind = STORE_BLOCK, .n_tokens = 5, .first_token = i, .bytes = {100, 3000}});
    clear_log();
    weir_log_set(sink, NULL);
    *given = f;
    return 0;
}

static const char *in_dir(fixture *f, const char *name)
{
    (void)snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    return f->path;
}

static const char *file_of(fixture *f, const store_entry *e)
{
    char name[STORE_NAME_BYTES];
    store_name(name, made_namespace, e->key);
    return in_dir(f, name);
}

static size_t count_files(const fixture *f)
{
    size_t n = 0;
    DIR   *d = opendir(f->dir);
    if (d == NULL) return 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static int teardown(void **given)
{
    fixture *f = *given;
    open_gate(); /* a failed test may have left it closed */
    store_close(f->s);
    DIR *d = opendir(f->dir);
    if (d != NULL) {
        for (const struct dirent *e; (e = readdir(d)) != NULL;)
            if (e->d_name[0] != '.') (void)remove(in_dir(f, e->d_name));
        (void)closedir(d);
        (void)rmdir(f->dir);
    }
    for (size_t i = 0; i < 4; i++) made_free(f->e[i]);
    free(f);
    weir_log_set(NULL, NULL);
    return 0;
}

static void visit(void *user, const store_found *found)
{
    fixture *f = user;
    assert_true(f->n_found < MAX_FOUND);
    for (uint32_t i = 1; i < found->entry->n_tokens; i++)
        assert_int_equal(found->entry->tokens[i] - found->entry->tokens[i - 1], 2654435761u);
    f->found[f->n_found]       = *found->entry;
    f->found_bytes[f->n_found] = found->file_bytes;
    f->found_used[f->n_found]  = found->used;
    f->n_found++;
}

static store_options options(fixture *f, const uint8_t *namespace)
{
    return (store_options){.dir          = f->dir,
                           .namespace    = namespace,
                           .budget_bytes = f->budget,
                           .queue_bytes  = f->queue,
                           .visit        = visit,
                           .user         = f};
}

static void open_as(fixture *f, const uint8_t *namespace)
{
    const store_options o = options(f, namespace);
    weir_error          err;
    store_close(f->s);
    f->n_found = 0;
    if (store_open(&f->s, &o, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static void open_store(fixture *f)
{
    open_as(f, made_namespace);
}

static void written(void *user, const uint8_t key[STORE_KEY_BYTES], bool durable)
{
    fixture *f = user;
    f->n_durable += durable;
    f->n_lost += !durable;
    memcpy(f->reported, key, STORE_KEY_BYTES);
}

/* Waits for the writer: so many entries durable since the last time, so many lost. */
static void expect_written(fixture *f, size_t durable, size_t lost)
{
    f->n_durable = f->n_lost = 0;
    store_flush(f->s);
    store_poll(f->s, written, f);
    assert_int_equal(f->n_durable, durable);
    assert_int_equal(f->n_lost, lost);
}

static void put(fixture *f, size_t i)
{
    assert_int_equal(store_put(f->s, f->e[i]), STORE_QUEUED);
    expect_written(f, 1, 0);
    assert_memory_equal(f->reported, f->e[i]->key, STORE_KEY_BYTES);
}

static uint64_t size_of(const store_entry *e)
{
    uint64_t bytes = 0;
    assert_int_equal(store_file_bytes(e, &bytes, NULL), WEIR_OK);
    return bytes;
}

static store_get_status get(fixture *f, size_t i, uint32_t type)
{
    uint8_t                to[3000] = {0};
    const uint64_t         bytes    = f->e[i]->sections[type - 1].bytes;
    const store_get_status st       = store_get(f->s, f->e[i]->key, type, to, bytes);
    assert_true(st != STORE_OK || made_is_section(to, bytes, type));
    return st;
}

static void change_byte(const char *path, off_t at, uint8_t by)
{
    uint8_t   b  = 0;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &b, 1, at) == 1);
    b ^= by;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    (void)close(fd);
}

static void set_age(const char *path, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = 1000000 - seconds}, {.tv_sec = 1000000 - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0;
}

/* -- tests */

static void entries_outlive_the_store(void **given)
{
    fixture *f = *given;
    open_store(f);
    assert_int_equal(f->n_found, 0);
    assert_int_equal(store_budget(f->s), ROOM);
    uint64_t bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        put(f, i);
        bytes += size_of(f->e[i]);
        assert_int_equal(store_bytes(f->s), bytes);
        struct stat sb;
        assert_int_equal(stat(file_of(f, f->e[i]), &sb), 0);
        assert_int_equal(sb.st_size, size_of(f->e[i]));
        assert_int_equal(sb.st_mode & 0777, 0600);
    }
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < 4; i++)
            for (uint32_t type = 1; type <= 2; type++) assert_int_equal(get(f, i, type), STORE_OK);
        open_store(f);
        assert_int_equal(f->n_found, 4);
        assert_int_equal(store_bytes(f->s), bytes);
    }
    for (size_t i = 0; i < 4; i++) {
        size_t k = 0;
        while (k < 4 && memcmp(f->found[k].key, f->e[i]->key, STORE_KEY_BYTES) != 0) k++;
        assert_true(k < 4);
        assert_memory_equal(f->found[k].parent, made_no_parent, STORE_KEY_BYTES);
        assert_int_equal(f->found[k].kind, STORE_BLOCK);
        assert_int_equal(f->found[k].n_tokens, 5);
        assert_int_equal(f->found[k].n_sections, 2);
        assert_int_equal(f->found[k].sections[1].bytes, 3000);
        assert_int_equal(f->found_bytes[k], size_of(f->e[i]));
        assert_int_equal(store_put(f->s, f->e[i]), STORE_PRESENT);
    }
    assert_int_equal(count_files(f), 4);
    expect_log(0, "");
}

/* The thread's files are those of store_file_write. */
static void one_format_whoever_writes(void **given)
{
    fixture *f = *given;
    char    *a, *b;
    size_t   na, nb;
    open_store(f);
    put(f, 0);
    assert_int_equal(file_read(&a, &na, file_of(f, f->e[0]), ROOM, NULL), WEIR_OK);
    assert_int_equal(store_file_write(in_dir(f, "x"), made_namespace, f->e[0], NULL, NULL), WEIR_OK);
    assert_int_equal(file_read(&b, &nb, f->path, ROOM, NULL), WEIR_OK);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    mem_free(a);
    mem_free(b);
}

static void the_folder_is_made_for_its_user(void **given)
{
    fixture      *f = *given;
    store_options o = options(f, made_namespace);
    struct stat   sb;
    weir_error    err;
    assert_int_equal(rmdir(f->dir), 0);
    open_store(f);
    assert_true(stat(f->dir, &sb) == 0 && S_ISDIR(sb.st_mode));
    assert_int_equal(sb.st_mode & 0777, 0700);
    store *s;
    o.dir = "/nowhere/at/all";
    assert_int_equal(store_open(&s, &o, &err), WEIR_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all: cannot create"));
    assert_null(s);
    o.dir = "/dev/null";
    assert_int_equal(store_open(&s, &o, &err), WEIR_IO);
    assert_non_null(strstr(err.text, "/dev/null: cannot open"));
}

static void others_may_write_the_same_entry(void **given)
{
    fixture *f      = *given;
    store   *second = NULL;
    open_store(f);
    const store_options o = options(f, made_namespace);
    assert_int_equal(store_open(&second, &o, NULL), WEIR_OK);
    put(f, 0);
    struct stat before, after;
    assert_int_equal(stat(file_of(f, f->e[0]), &before), 0);
    assert_int_equal(store_put(second, f->e[0]), STORE_QUEUED);
    store_flush(second);
    f->n_durable = 0;
    store_poll(second, written, f);
    assert_int_equal(f->n_durable, 1);
    assert_int_equal(stat(f->path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* it was not written twice */
    uint8_t to[100];
    assert_int_equal(store_get(second, f->e[0]->key, 1, to, 100), STORE_OK);
    store_close(second);
    assert_int_equal(get(f, 0, 1), STORE_OK);
}

static void a_vanished_file_is_a_miss(void **given)
{
    fixture *f = *given;
    open_store(f);
    put(f, 0);
    put(f, 1);
    assert_int_equal(unlink(file_of(f, f->e[0])), 0);
    assert_int_equal(get(f, 0, 1), STORE_GONE);
    assert_int_equal(store_bytes(f->s), size_of(f->e[1]));
    assert_int_equal(get(f, 0, 1), STORE_GONE);
    assert_int_equal(get(f, 2, 1), STORE_GONE); /* never was there */
    assert_int_equal(get(f, 1, 1), STORE_OK);
    put(f, 0);
    assert_int_equal(get(f, 0, 1), STORE_OK);
    expect_log(0, "");
}

static void a_damaged_section_is_found_when_read(void **given)
{
    fixture *f = *given;
    open_store(f);
    for (size_t i = 0; i < 4; i++) put(f, i);
    change_byte(file_of(f, f->e[0]), (off_t)size_of(f->e[0]) - 1, 0x10);
    assert_int_equal(get(f, 0, 1), STORE_OK); /* the other one is sound */
    assert_int_equal(get(f, 0, 2), STORE_DAMAGED);
    expect_log(1, "section of type 2: its checksum does not match; removed");
    assert_false(exists(file_of(f, f->e[0])));
    assert_int_equal(get(f, 0, 1), STORE_GONE);

    assert_int_equal(truncate(file_of(f, f->e[1]), 1000), 0);
    assert_int_equal(get(f, 1, 1), STORE_DAMAGED);
    expect_log(1, "file length: expected");

    /* A file under another's name. */
    char other[512];
    (void)strcpy(other, file_of(f, f->e[2]));
    assert_int_equal(rename(file_of(f, f->e[3]), other), 0);
    assert_int_equal(get(f, 2, 1), STORE_DAMAGED);
    expect_log(1, "key: expected a file named");
    assert_int_equal(get(f, 3, 1), STORE_GONE);
    assert_int_equal(store_bytes(f->s), 0);
    assert_int_equal(count_files(f), 0);
}

static void a_section_of_another_size_is_damage(void **given)
{
    fixture *f = *given;
    uint8_t  to[200];
    open_store(f);
    put(f, 0);
    assert_int_equal(store_get(f->s, f->e[0]->key, 1, to, 99), STORE_DAMAGED);
    expect_log(1, "section of type 1: expected 99 bytes, found 100; removed");
    put(f, 0);
    assert_int_equal(store_get(f->s, f->e[0]->key, 7, to, 100), STORE_DAMAGED);
    expect_log(1, "expected a section of type 7, found none; removed");
    assert_int_equal(count_files(f), 0);
}

static void damaged_headers_are_found_at_opening(void **given)
{
    fixture *f = *given;
    static const struct {
        off_t       at;
        uint8_t     by;
        const char *reason;
    } damages[] = {
        {0, 1, "magic: expected a state file of weir; removed"},
        {8, 3, "version: expected 1, found 2; removed"},
        {64, 1, "header: its checksum does not match; removed"},
        {-1, 0, "file length: expected"},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        open_store(f);
        put(f, 0);
        put(f, 1);
        store_close(f->s);
        f->s             = NULL;
        const char *path = file_of(f, f->e[0]);
        if (damages[i].at >= 0)
            change_byte(path, damages[i].at, damages[i].by);
        else
            assert_int_equal(truncate(path, 1000), 0);
        open_store(f);
        expect_log(1, damages[i].reason);
        assert_int_equal(f->n_found, 1);
        assert_memory_equal(f->found[0].key, f->e[1]->key, STORE_KEY_BYTES);
        assert_int_equal(store_bytes(f->s), size_of(f->e[1]));
        assert_int_equal(count_files(f), 1);
        store_drop(f->s, f->e[1]->key);
    }
    /* Sound in itself, but of a namespace that only begins like this one. */
    uint8_t almost[STORE_KEY_BYTES];
    memcpy(almost, made_namespace, sizeof almost);
    almost[31] ^= 1;
    open_as(f, almost);
    put(f, 0);
    open_store(f);
    expect_log(1, "namespace: expected the one in its name; removed");
    assert_int_equal(f->n_found, 0);
}

/* A link, a pipe, a folder, a file that may not be read (root may read any: then it is skipped). */
static bool make_odd(int kind, const char *path)
{
    switch (kind) {
    case 0: return symlink("/etc/passwd", path) == 0;
    case 1: return mkfifo(path, 0600) == 0;
    case 2: return mkdir(path, 0700) == 0;
    default: return geteuid() != 0 && close(creat(path, 0000)) == 0;
    }
}

static void what_is_not_ours_is_left_alone(void **given)
{
    static const char        zeros[] = "0000000000000000000000000000000000000000000000000000000000000000.state";
    static const char *const names[] = {
        "notes.txt",
        "weir-.tmp",
        "weir-12-zz.tmp",
        "weir-12-ab.tmp.old",
        "0001020304050607.state",
        "0001020304050607-000000000000000000000000000000000000000000000000000000000000000.state",
        "0001020304050607-000000000000000000000000000000000000000000000000000000000000000G.state",
        "0001020304050607-0000000000000000000000000000000000000000000000000000000000000000.stat_",
        "0001020304050607-0000000000000000000000000000000000000000000000000000000000000000.statex",
    };
    enum { NAMES = sizeof names / sizeof *names };
    fixture *f = *given;
    f->budget  = 0;
    for (size_t i = 0; i < NAMES; i++) assert_int_equal(close(creat(in_dir(f, names[i]), 0600)), 0);
    /* With a name of this namespace, then of another; of those, what may not be read counts. */
    for (int kind = 0; kind < 7; kind++) {
        char name[100];
        (void)snprintf(name, sizeof name, "%s-%s", kind < 4 ? "0001020304050607" : "fe01020304050607", zeros);
        if (!make_odd(kind % 4, in_dir(f, name))) continue;
        open_store(f);
        assert_int_equal(f->n_found, 0);
        assert_int_equal(store_bytes(f->s), 0);
        assert_int_equal(count_files(f), NAMES + 1);
        assert_int_equal(remove(in_dir(f, name)), 0);
    }
    expect_log(0, "");
}

static void leftovers_of_dead_writers_go(void **given)
{
    fixture *f = *given;
    char     live[512];
    (void)strcpy(live, in_dir(f, "weir-1-abc-0.tmp"));
    const int fd = open(live, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(close(creat(in_dir(f, "weir-1-abc-1.tmp"), 0600)), 0);
    open_store(f);
    assert_true(exists(live));
    assert_int_equal(count_files(f), 1);
    (void)close(fd);
    open_store(f);
    assert_int_equal(count_files(f), 0);
    expect_log(0, "");
}

/* A store that is opened all the time must not take a live writer for a dead one. */
static void opening_spares_what_others_write(void **given)
{
    enum { ROUNDS = 20, LARGE = 2000000 };
    fixture     *f = *given;
    store_entry *e = made_entry(&(made_shape){.kind = STORE_SNAPSHOT, .n_tokens = 1, .bytes = {LARGE}});
    f->budget = f->queue = 4 * LARGE;
    open_store(f);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(store_put(f->s, e), STORE_QUEUED);
        f->n_durable = f->n_lost = 0;
        while (f->n_durable + f->n_lost == 0) {
            const store_options o      = options(f, made_namespace);
            store              *second = NULL;
            f->n_found                 = 0;
            assert_int_equal(store_open(&second, &o, NULL), WEIR_OK);
            store_close(second);
            store_poll(f->s, written, f);
        }
        assert_int_equal(f->n_durable, 1);
        store_drop(f->s, e->key);
    }
    expect_log(0, "");
    made_free(e);
}

/* What one drops, the other misses. */
static void others_may_drop(void **given)
{
    fixture            *f      = *given;
    store              *second = NULL;
    const store_options o      = options(f, made_namespace);
    open_store(f);
    put(f, 0);
    assert_int_equal(store_open(&second, &o, NULL), WEIR_OK);
    store_drop(second, f->e[0]->key);
    store_close(second);
    assert_int_equal(get(f, 0, 1), STORE_GONE);
    assert_int_equal(store_bytes(f->s), 0);
    put(f, 0);
    assert_int_equal(get(f, 0, 1), STORE_OK);
}

static void other_namespaces_count_and_go_first(void **given)
{
    fixture       *f   = *given;
    const uint64_t one = size_of(f->e[0]);
    char           paths[3][512];
    open_as(f, made_other_namespace);
    for (size_t i = 0; i < 3; i++) {
        char name[STORE_NAME_BYTES];
        put(f, i);
        store_name(name, made_other_namespace, f->e[i]->key);
        (void)strcpy(paths[i], in_dir(f, name));
    }
    set_age(paths[0], 200);
    set_age(paths[1], 300);
    set_age(paths[2], 100);
    f->budget = 2 * one + one / 2;
    open_store(f); /* one too many */
    assert_int_equal(f->n_found, 0);
    assert_int_equal(store_bytes(f->s), 2 * one);
    assert_true(exists(paths[0]) && !exists(paths[1]) && exists(paths[2]));
    expect_log(1, "removed 1 entries of other models");
    put(f, 0); /* the same key, another namespace */
    assert_int_equal(store_bytes(f->s), 2 * one);
    assert_true(!exists(paths[0]) && exists(paths[2]) && exists(file_of(f, f->e[0])));
    put(f, 1);
    assert_int_equal(store_bytes(f->s), 2 * one);
    assert_false(exists(paths[2]));
    /* No more of others: now it is the caller's turn. */
    assert_int_equal(store_put(f->s, f->e[2]), STORE_FULL);
    assert_int_equal(count_files(f), 2);
    store_drop(f->s, f->e[0]->key);
    put(f, 2);
    assert_int_equal(get(f, 1, 2), STORE_OK);
    assert_int_equal(get(f, 2, 2), STORE_OK);
    assert_int_equal(count_files(f), 2);
}

static void entries_over_the_budget_stay_until_dropped(void **given)
{
    fixture       *f   = *given;
    const uint64_t one = size_of(f->e[0]);
    open_store(f);
    for (size_t i = 0; i < 3; i++) put(f, i);
    f->budget = 2 * one;
    open_store(f);
    assert_int_equal(f->n_found, 3);
    assert_int_equal(store_bytes(f->s), 3 * one);
    assert_int_equal(store_put(f->s, f->e[3]), STORE_FULL);
    store_drop(f->s, f->e[0]->key);
    assert_int_equal(store_put(f->s, f->e[3]), STORE_FULL);
    store_drop(f->s, f->e[1]->key);
    put(f, 3);
    f->budget = one - 1;
    open_store(f);
    assert_int_equal(store_put(f->s, f->e[0]), STORE_REFUSED); /* larger than the whole */
    expect_log(0, "");
}

/* The next write fails and logs, and the log holds up the writer until the gate opens. */
static void block_writer(fixture *f)
{
    close_gate();
    assert_int_equal(rmdir(f->dir), 0);
    assert_int_equal(store_put(f->s, f->e[3]), STORE_QUEUED);
    while (lines_logged() == 0) (void)usleep(1000);
}

static void unblock_writer(void)
{
    open_gate();
    clear_log();
}

static void a_full_queue_says_busy_and_never_waits(void **given)
{
    fixture *f = *given;
    f->queue   = 2 * store_writer_cost(f->e[0]) + 1;
    open_store(f);
    block_writer(f);
    assert_int_equal(store_put(f->s, f->e[3]), STORE_PRESENT); /* queued is present */
    assert_int_equal(get(f, 3, 1), STORE_FAILED);              /* but not readable yet */
    assert_int_equal(store_put(f->s, f->e[0]), STORE_QUEUED);
    assert_int_equal(store_put(f->s, f->e[1]), STORE_BUSY);
    assert_int_equal(store_put(f->s, f->e[1]), STORE_BUSY);
    assert_int_equal(store_bytes(f->s), 2 * size_of(f->e[0]));
    store_drop(f->s, f->e[0]->key); /* leaves the queue: room again */
    assert_int_equal(store_put(f->s, f->e[1]), STORE_QUEUED);
    assert_int_equal(store_put(f->s, f->e[2]), STORE_BUSY);
    store_poll(f->s, written, f);
    assert_int_equal(f->n_durable + f->n_lost, 0);
    unblock_writer();
    expect_written(f, 0, 2);
    assert_int_equal(store_put(f->s, f->e[2]), STORE_QUEUED);
    expect_written(f, 0, 1);
    f->queue = store_writer_cost(f->e[0]) - 1;
    assert_int_equal(store_bytes(f->s), 0);
    assert_int_equal(mkdir(f->dir, 0700), 0);
    open_store(f);
    assert_int_equal(store_put(f->s, f->e[0]), STORE_REFUSED); /* larger than the whole queue */
}

static void a_removed_folder_costs_entries_and_one_line(void **given)
{
    fixture *f = *given;
    open_store(f);
    assert_int_equal(rmdir(f->dir), 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(store_put(f->s, f->e[i]), STORE_QUEUED);
    expect_written(f, 0, 4);
    expect_log(1, "cannot create: No such file or directory; such entries are dropped");
    assert_int_equal(store_bytes(f->s), 0);
    assert_int_equal(get(f, 0, 1), STORE_GONE);
}

static void a_full_disk_costs_entries_and_one_line(void **given)
{
    fixture      *f = *given;
    struct rlimit before, small;
    open_store(f);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int round = 0; round < 2; round++) {
        small          = before;
        small.rlim_cur = 2000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (size_t i = 0; i < 2; i++) assert_int_equal(store_put(f->s, f->e[i]), STORE_QUEUED);
        expect_written(f, 0, 2);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        expect_log(1, "cannot write: File too large; such entries are dropped");
        assert_int_equal(count_files(f), (size_t)round); /* and no leftovers */
        put(f, 2 + (size_t)round);                       /* afterwards it works, and the next failure is news */
    }
    assert_int_equal(get(f, 2, 2), STORE_OK);
    assert_int_equal(store_bytes(f->s), 2 * size_of(f->e[2]));
}

static void a_dropped_entry_is_gone_at_once(void **given)
{
    fixture *f = *given;
    open_store(f);
    put(f, 0);
    store_drop(f->s, f->e[0]->key);
    assert_int_equal(get(f, 0, 1), STORE_GONE);
    assert_int_equal(store_bytes(f->s), 0);
    store_drop(f->s, f->e[0]->key); /* not there: allowed */
    expect_written(f, 0, 0);
    assert_int_equal(count_files(f), 0);
    /* Put, dropped and put again before anyone looked: the last word counts. */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(store_put(f->s, f->e[1]), STORE_QUEUED);
        if (i % 2 == 0) (void)usleep(200);
        store_drop(f->s, f->e[1]->key);
    }
    expect_written(f, 0, 0);
    assert_int_equal(count_files(f), 0);
    for (int i = 0; i < 50; i++) {
        if (i > 0) store_drop(f->s, f->e[1]->key);
        assert_int_equal(store_put(f->s, f->e[1]), STORE_QUEUED);
        if (i % 2 == 0) (void)usleep(200);
    }
    expect_written(f, 1, 0);
    assert_int_equal(get(f, 1, 2), STORE_OK);
    assert_int_equal(store_bytes(f->s), size_of(f->e[1]));
}

static void drop_the_others(void *user, const uint8_t key[STORE_KEY_BYTES], bool durable)
{
    fixture *f = user;
    written(user, key, durable);
    for (size_t i = 0; i < 4; i++)
        if (memcmp(f->e[i]->key, key, STORE_KEY_BYTES) != 0) store_drop(f->s, f->e[i]->key);
}

static void the_report_may_drop(void **given)
{
    fixture *f = *given;
    open_store(f);
    for (size_t i = 0; i < 4; i++) assert_int_equal(store_put(f->s, f->e[i]), STORE_QUEUED);
    store_flush(f->s);
    store_poll(f->s, drop_the_others, f);
    assert_int_equal(f->n_durable, 1);
    store_flush(f->s);
    assert_int_equal(count_files(f), 1);
    assert_int_equal(store_bytes(f->s), size_of(f->e[0]));
    assert_int_equal(get(f, 0, 1), STORE_OK);
}

static void closing_writes_what_is_queued(void **given)
{
    fixture *f = *given;
    open_store(f);
    for (size_t i = 0; i < 4; i++) assert_int_equal(store_put(f->s, f->e[i]), STORE_QUEUED);
    open_store(f); /* closes first */
    assert_int_equal(f->n_found, 4);
    for (size_t i = 0; i < 4; i++) assert_int_equal(get(f, i, 2), STORE_OK);
}

static void reading_is_a_use(void **given)
{
    fixture *f = *given;
    open_store(f);
    put(f, 0);
    set_age(file_of(f, f->e[0]), 100);
    open_store(f);
    assert_int_equal(f->found_used[0], 1000000 - 100);
    assert_int_equal(get(f, 0, 1), STORE_OK);
    open_store(f);
    assert_true(f->found_used[0] > 1000000);
}

static void without_descriptors_the_entry_stays(void **given)
{
    fixture      *f = *given;
    struct rlimit before, none;
    open_store(f);
    put(f, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none          = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const store_get_status st = get(f, 0, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(st, STORE_FAILED);
    expect_log(1, "Too many open files");
    assert_int_equal(get(f, 0, 1), STORE_OK);
}

static void without_memory(void **given)
{
    fixture *f = *given;
    open_store(f);
    put(f, 0);
    for (uint64_t n = 1; n <= 2; n++) { /* the job, the copy */
        mem_fail_at(n);
        assert_int_equal(store_put(f->s, f->e[1]), STORE_REFUSED);
        mem_fail_at(0);
        assert_int_equal(store_bytes(f->s), size_of(f->e[0]));
    }
    mem_fail_at(3); /* the writer's header */
    assert_int_equal(store_put(f->s, f->e[1]), STORE_QUEUED);
    expect_written(f, 0, 1);
    mem_fail_at(0);
    expect_log(1, "header: out of memory; such entries are dropped");
    put(f, 1);
    store_close(f->s);
    f->s                   = NULL;
    const store_options o  = options(f, made_namespace);
    weir_status         st = WEIR_NO_MEMORY;
    uint64_t            n  = 1;
    for (; st != WEIR_OK; n++) {
        f->n_found = 0;
        mem_fail_at(n);
        st = store_open(&f->s, &o, NULL);
        mem_fail_at(0);
        assert_int_equal(st, st == WEIR_OK ? WEIR_OK : WEIR_NO_MEMORY);
    }
    assert_true(n > 4);
    assert_int_equal(f->n_found, 2); /* nothing was taken for damaged */
    store_get_status got = STORE_FAILED;
    for (n = 1; got != STORE_OK; n++) {
        mem_fail_at(n);
        got = get(f, 1, 1);
        mem_fail_at(0);
        assert_int_equal(got, got == STORE_OK ? STORE_OK : STORE_FAILED);
    }
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(entries_outlive_the_store),
        IN_A_FOLDER(one_format_whoever_writes),
        IN_A_FOLDER(the_folder_is_made_for_its_user),
        IN_A_FOLDER(others_may_write_the_same_entry),
        IN_A_FOLDER(a_vanished_file_is_a_miss),
        IN_A_FOLDER(a_damaged_section_is_found_when_read),
        IN_A_FOLDER(a_section_of_another_size_is_damage),
        IN_A_FOLDER(damaged_headers_are_found_at_opening),
        IN_A_FOLDER(what_is_not_ours_is_left_alone),
        IN_A_FOLDER(leftovers_of_dead_writers_go),
        IN_A_FOLDER(opening_spares_what_others_write),
        IN_A_FOLDER(others_may_drop),
        IN_A_FOLDER(other_namespaces_count_and_go_first),
        IN_A_FOLDER(entries_over_the_budget_stay_until_dropped),
        IN_A_FOLDER(a_full_queue_says_busy_and_never_waits),
        IN_A_FOLDER(a_removed_folder_costs_entries_and_one_line),
        IN_A_FOLDER(a_full_disk_costs_entries_and_one_line),
        IN_A_FOLDER(a_dropped_entry_is_gone_at_once),
        IN_A_FOLDER(the_report_may_drop),
        IN_A_FOLDER(closing_writes_what_is_queued),
        IN_A_FOLDER(reading_is_a_use),
        IN_A_FOLDER(without_descriptors_the_entry_stays),
        IN_A_FOLDER(without_memory),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
