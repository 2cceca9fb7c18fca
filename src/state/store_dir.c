/* state/store_dir.c - what is in a store's directory when it is opened.
 *
 * Only files whose names this program makes are looked at, and only regular
 * ones: a wrong path in someone's settings must not cost him his files.  Damaged
 * ones are removed, not put aside: everything here can be computed again, and
 * what is put aside fills the disk. */
#include "state/store_parts.h"

#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX_DIGITS = 16, KEY_DIGITS = 2 * STORE_KEY_BYTES };

bool store_is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

static bool has_form_of_entry(const char *name)
{
    static const char hex[] = "0123456789abcdef";
    return strlen(name) == STORE_NAME_BYTES - 1 && strspn(name, hex) == PREFIX_DIGITS && name[PREFIX_DIGITS] == '-' &&
           strspn(name + PREFIX_DIGITS + 1, hex) == KEY_DIGITS &&
           strcmp(name + PREFIX_DIGITS + 1 + KEY_DIGITS, ".state") == 0;
}

/* weir-PID-START-NUMBER.tmp */
static bool has_form_of_temporary(const char *name)
{
    const size_t prefix = sizeof STORE_TMP_PREFIX - 1;
    if (strncmp(name, STORE_TMP_PREFIX, prefix) != 0) return false;
    const size_t n = strspn(name + prefix, "0123456789abcdef-");
    return n > 0 && strcmp(name + prefix + n, STORE_TMP_SUFFIX) == 0;
}

/* A writer holds the lock of its temporary as long as it lives. */
static void remove_if_dead(const store *s, const char *name)
{
    const int fd = openat(s->place.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) (void)unlinkat(s->place.dir, name, 0);
    (void)close(fd);
}

static weir_status add_foreign(store *s, const char *name, const struct stat *sb, weir_error *err)
{
    if (s->n_foreign == s->foreign_capacity) {
        const size_t   capacity = s->foreign_capacity != 0 ? 2 * s->foreign_capacity : 64;
        store_foreign *grown    = mem_realloc(s->foreign, capacity, sizeof *grown);
        if (grown == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", s->path);
        s->foreign          = grown;
        s->foreign_capacity = capacity;
    }
    store_foreign *f = &s->foreign[s->n_foreign++];
    memcpy(f->name, name, STORE_NAME_BYTES);
    f->bytes = (uint64_t)sb->st_size;
    f->used  = (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec;
    s->bytes += f->bytes;
    s->foreign_bytes += f->bytes;
    return WEIR_OK;
}

static weir_status add_own(store *s, const struct stat *sb, store_visit_fn *visit, void *user, weir_error *err)
{
    const store_entry *e    = &s->file.header.e;
    store_slot         slot = {.bytes = s->file.bytes, .durable = true};
    memcpy(slot.key, e->key, STORE_KEY_BYTES);
    /* A folder that changes while it is read may show a name twice. */
    if (store_index_find(&s->index, e->key) != NULL) return WEIR_OK;
    if (!store_index_add(&s->index, &slot)) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", s->path);
    s->bytes += slot.bytes;
    const store_found found = {.entry = e, .file_bytes = slot.bytes, .used = sb->st_mtim.tv_sec};
    visit(user, &found);
    return WEIR_OK;
}

weir_status store_check_name(const store *s, const char *name, weir_error *err)
{
    const store_header *h = &s->file.header;
    char                expected[STORE_NAME_BYTES];
    store_name(expected, h->namespace, h->e.key);
    if (strcmp(name, expected) != 0)
        return status_fail(err, WEIR_FORMAT, "%s: key: expected a file named %s", name, expected);
    if (memcmp(h->namespace, s->place.namespace, STORE_KEY_BYTES) != 0)
        return status_fail(err, WEIR_FORMAT, "%s: namespace: expected the one in its name", name);
    return WEIR_OK;
}

static weir_status read_own(store *s, const char *name, const struct stat *sb, store_visit_fn *visit, void *user,
                            weir_error *err)
{
    const int fd = openat(s->place.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && store_is_shortage(errno))
        return status_fail(err, WEIR_NO_MEMORY, "%s/%s: %s", s->path, name, strerror(errno));
    if (fd < 0) return WEIR_OK; /* gone, or not for us */
    weir_error  why;
    weir_status st = store_file_read(&s->file, fd, name, &why);
    if (st == WEIR_OK) st = store_check_name(s, name, &why);
    if (st == WEIR_OK) return add_own(s, sb, visit, user, err);
    if (st == WEIR_NO_MEMORY) return status_fail(err, st, "%s/%s", s->path, why.text);
    log_line(WEIR_LOG_WARN, "%s/%s; removed", s->path, why.text);
    (void)unlinkat(s->place.dir, name, 0);
    return WEIR_OK;
}

static weir_status read_one(store *s, const char *name, store_visit_fn *visit, void *user, weir_error *err)
{
    const bool  temporary = has_form_of_temporary(name);
    struct stat sb;
    if (!temporary && !has_form_of_entry(name)) return WEIR_OK;
    if (fstatat(s->place.dir, name, &sb, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(sb.st_mode)) return WEIR_OK;
    if (temporary) {
        remove_if_dead(s, name);
        return WEIR_OK;
    }
    if (s->index.n + s->n_foreign >= STORE_MAX_FILES)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: expected at most %d entries", s->path, STORE_MAX_FILES);
    char own[STORE_NAME_BYTES];
    store_name(own, s->place.namespace, s->place.namespace);
    if (memcmp(name, own, PREFIX_DIGITS) != 0) return add_foreign(s, name, &sb, err);
    return read_own(s, name, &sb, visit, user, err);
}

static int by_use_latest_first(const void *a, const void *b)
{
    const store_foreign *x = a, *y = b;
    return (x->used < y->used) - (x->used > y->used);
}

/* Removes files of other namespaces until the budget is kept or none is left. */
static void trim_foreign(store *s)
{
    const size_t before = s->n_foreign;
    while (s->bytes > s->budget && s->n_foreign > 0) {
        const store_foreign *f = &s->foreign[--s->n_foreign];
        (void)unlinkat(s->place.dir, f->name, 0);
        s->bytes -= f->bytes;
        s->foreign_bytes -= f->bytes;
    }
    if (s->n_foreign < before)
        log_line(WEIR_LOG_INFO, "%s: removed %zu entries of other models to keep to %" PRIu64 " bytes", s->path,
                 before - s->n_foreign, s->budget);
}

weir_status store_scan(store *s, store_visit_fn *visit, void *user, weir_error *err)
{
    const int fd = openat(s->place.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR      *d  = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        const int e = errno;
        if (fd >= 0) (void)close(fd);
        return status_fail(err, WEIR_IO, "%s: %s", s->path, strerror(e));
    }
    weir_status st = WEIR_OK;
    errno          = 0;
    for (const struct dirent *e; st == WEIR_OK && (e = readdir(d)) != NULL; errno = 0)
        st = read_one(s, e->d_name, visit, user, err);
    if (st == WEIR_OK && errno != 0) st = status_fail(err, WEIR_IO, "%s: %s", s->path, strerror(errno));
    (void)closedir(d);
    store_file_done(&s->file);
    if (st != WEIR_OK) return st;
    if (s->n_foreign > 0) qsort(s->foreign, s->n_foreign, sizeof *s->foreign, by_use_latest_first);
    trim_foreign(s);
    return WEIR_OK;
}
