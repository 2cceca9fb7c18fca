/* state/store.c - the caller's side of a store: what it has and what may enter.
 *
 * Index and sums change on the caller's thread alone, when it puts, drops, polls
 * or meets a damaged file; the writer knows nothing but its jobs. */
#include "state/store.h"

#include "base/log.h"
#include "base/mem.h"
#include "state/store_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weir_status open_dir(store *s, const char *dir, weir_error *err)
{
    s->path = mem_strdup(dir);
    if (s->path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return status_fail(err, WEIR_IO, "%s: cannot create: %s", dir, strerror(errno));
    s->place.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->place.dir < 0) return status_fail(err, WEIR_IO, "%s: cannot open: %s", dir, strerror(errno));
    s->place.path = s->path;
    return WEIR_OK;
}

weir_status store_open(store **out, const store_options *o, weir_error *err)
{
    *out     = NULL;
    store *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", o->dir);
    s->place.dir   = -1;
    s->file        = STORE_FILE_NONE;
    s->budget      = o->budget_bytes;
    s->queue_bytes = o->queue_bytes;
    memcpy(s->place.namespace, o->namespace, STORE_KEY_BYTES);
    weir_status st = open_dir(s, o->dir, err);
    if (st == WEIR_OK) st = store_scan(s, o->visit, o->user, err);
    if (st == WEIR_OK) st = store_writer_start(&s->writer, &s->place, s->queue_bytes, err);
    if (st != WEIR_OK) {
        store_close(s);
        return st;
    }
    *out = s;
    return WEIR_OK;
}

void store_close(store *s)
{
    if (s == NULL) return;
    store_writer_stop(s->writer);
    store_file_close(&s->file);
    store_index_free(&s->index);
    mem_free(s->foreign);
    if (s->place.dir >= 0) (void)close(s->place.dir);
    mem_free(s->path);
    mem_free(s);
}

/* Takes a slot out of index and sums. */
static void forget(store *s, store_slot *slot)
{
    s->bytes -= slot->bytes;
    store_index_remove(&s->index, slot);
}

/* Removes files of other namespaces until `bytes` more fit; false, and nothing
 * is removed, when that does not suffice. */
static bool make_room(store *s, uint64_t bytes)
{
    const uint64_t own = s->bytes - s->foreign_bytes;
    if (own > s->budget || bytes > s->budget - own) return false;
    while (s->bytes > s->budget - bytes) {
        const store_foreign *f = &s->foreign[--s->n_foreign];
        store_writer_remove(s->writer, f->name);
        s->bytes -= f->bytes;
        s->foreign_bytes -= f->bytes;
    }
    return true;
}

store_put_status store_put(store *s, const store_entry *e)
{
    store_slot slot = {0};
    if (store_file_bytes(e, &slot.bytes, NULL) != WEIR_OK) return STORE_REFUSED;
    if (store_index_find(&s->index, e->key) != NULL) return STORE_PRESENT;
    const uint64_t cost = store_writer_cost(e);
    if (cost > s->queue_bytes || slot.bytes > s->budget) return STORE_REFUSED;
    if (s->index.n + s->n_foreign >= STORE_MAX_FILES) return STORE_FULL;
    if (!store_writer_has_room(s->writer, cost)) return STORE_BUSY;
    if (!make_room(s, slot.bytes)) return STORE_FULL;
    memcpy(slot.key, e->key, STORE_KEY_BYTES);
    if (!store_index_add(&s->index, &slot)) return STORE_REFUSED;
    s->bytes += slot.bytes;
    if (store_writer_put(s->writer, e, slot.bytes)) return STORE_QUEUED;
    forget(s, store_index_find(&s->index, e->key));
    return STORE_REFUSED;
}

void store_poll(store *s, store_written_fn *fn, void *user)
{
    uint8_t key[STORE_KEY_BYTES];
    bool    durable;
    /* One at a time: `fn` may drop an entry that is still in the list. */
    while (store_writer_next(s->writer, key, &durable)) {
        store_slot *slot = store_index_find(&s->index, key);
        if (durable)
            slot->durable = true;
        else
            forget(s, slot);
        fn(user, key, durable);
    }
}

void store_flush(store *s)
{
    store_writer_wait(s->writer);
}

/* What a file that cannot be opened says about its entry. */
static store_get_status not_opened(store *s, store_slot *slot, const char *name, int error)
{
    if (error != ENOENT) log_line(WEIR_LOG_WARN, "%s/%s: %s", s->path, name, strerror(error));
    if (store_is_shortage(error)) return STORE_FAILED;
    forget(s, slot);
    return STORE_GONE;
}

static weir_status read_section(store *s, int fd, const char *name, uint32_t type, void *to, uint64_t bytes,
                                weir_error *err)
{
    TRY(store_file_read(&s->file, fd, name, err));
    TRY(store_check_name(s, name, err));
    TRY(store_file_section(&s->file, type, to, bytes, err));
    (void)futimens(fd, NULL); /* its age is counted from the last use; not vital */
    return WEIR_OK;
}

store_get_status store_get(store *s, const uint8_t key[STORE_KEY_BYTES], uint32_t type, void *to, uint64_t bytes)
{
    store_slot *slot = store_index_find(&s->index, key);
    char        name[STORE_NAME_BYTES];
    weir_error  err;
    if (slot == NULL) return STORE_GONE;
    if (!slot->durable) return STORE_FAILED;
    store_name(name, s->place.namespace, key);
    const int fd = openat(s->place.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return not_opened(s, slot, name, errno);
    const weir_status st = read_section(s, fd, name, type, to, bytes, &err);
    store_file_done(&s->file);
    if (st == WEIR_OK) return STORE_OK;
    if (st == WEIR_NO_MEMORY) {
        log_line(WEIR_LOG_WARN, "%s/%s", s->path, err.text);
        return STORE_FAILED;
    }
    log_line(WEIR_LOG_WARN, "%s/%s; removed", s->path, err.text);
    (void)unlinkat(s->place.dir, name, 0);
    forget(s, slot);
    return STORE_DAMAGED;
}

void store_drop(store *s, const uint8_t key[STORE_KEY_BYTES])
{
    store_slot *slot = store_index_find(&s->index, key);
    char        name[STORE_NAME_BYTES];
    if (slot == NULL) return;
    forget(s, slot);
    if (store_writer_cancel(s->writer, key)) return;
    store_name(name, s->place.namespace, key);
    store_writer_remove(s->writer, name);
}

uint64_t store_bytes(const store *s)
{
    return s->bytes;
}

uint64_t store_budget(const store *s)
{
    return s->budget;
}
