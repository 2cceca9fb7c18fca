/* state/store_writer.c - a queue of jobs and the thread that does them.
 *
 * A job moves from `queue` to `current` to `done`.  The lock is held while lists
 * change, never while a file does. */
#include "state/store_writer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct job {
    struct job *next;
    char        name[STORE_NAME_BYTES];
    bool        put;       /* else a removal */
    bool        cancelled; /* nobody wants to hear of it */
    bool        durable;
    uint64_t    cost, file_bytes;
    store_entry e;      /* tokens and data in `memory` */
    uint8_t    *memory; /* given back as soon as it is written */
} job;

typedef struct job_list {
    job *first, *last;
} job_list;

struct store_writer {
    store_place place;
    uint64_t    queue_bytes;
    uint64_t    started; /* with the process id, makes names of temporaries its own */
    uint64_t    n_temporaries;
    bool        failing; /* the last write failed, and the log says so */
    pthread_t   thread;

    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t  work, idle;
    job_list        queue, done;
    job            *current;
    uint64_t        waiting; /* cost of the puts in queue and current */
    bool            quit;
};

/* -- names */

static char *put_hex(char *to, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    return to;
}

void store_name(char          out[STORE_NAME_BYTES], const uint8_t namespace[STORE_KEY_BYTES],
                const uint8_t key[STORE_KEY_BYTES])
{
    char *p = put_hex(out, namespace, 8);
    *p++    = '-';
    p       = put_hex(p, key, STORE_KEY_BYTES);
    memcpy(p, ".state", sizeof ".state");
}

/* -- lists */

static void append(job_list *l, job *j)
{
    j->next = NULL;
    if (l->first == NULL)
        l->first = j;
    else
        l->last->next = j;
    l->last = j;
}

static job *take_first(job_list *l)
{
    job *j = l->first;
    if (j != NULL) l->first = j->next;
    return j;
}

static void take_out(job_list *l, const job *j)
{
    job *before = NULL;
    for (job *i = l->first; i != j; i = i->next) before = i;
    if (before == NULL)
        l->first = j->next;
    else
        before->next = j->next;
    if (l->last == j) l->last = before;
}

static bool is_put_of(const job *j, const uint8_t *key)
{
    return j->put && !j->cancelled && memcmp(j->e.key, key, STORE_KEY_BYTES) == 0;
}

static job *find_put(const job_list *l, const uint8_t *key)
{
    for (job *j = l->first; j != NULL; j = j->next)
        if (is_put_of(j, key)) return j;
    return NULL;
}

static void job_free(job *j)
{
    mem_free(j->memory);
    mem_free(j);
}

/* -- files, on the thread */

static weir_status failed(const store_writer *w, const char *name, const char *what, weir_error *err)
{
    const int e = errno;
    return status_fail(err, WEIR_IO, "%s/%s: cannot %s: %s", w->place.path, name, what, strerror(e));
}

/* Makes a temporary and locks it, which says to others that its writer lives.
 * Before the lock they may have taken it for a dead one's and removed it. */
static weir_status create_temporary(store_writer *w, char *name, size_t size, int *fd, weir_error *err)
{
    enum { TRIES = 100 };
    struct stat sb;
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(name, size, STORE_TMP_PREFIX "%ld-%" PRIx64 "-%" PRIx64 STORE_TMP_SUFFIX, (long)getpid(),
                       w->started, w->n_temporaries++);
        *fd = openat(w->place.dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*fd < 0 && errno == EEXIST) continue;
        if (*fd < 0) return failed(w, name, "create", err);
        (void)flock(*fd, LOCK_EX); /* where it is not supported, nobody removes temporaries either */
        if (fstat(*fd, &sb) == 0 && sb.st_nlink > 0) return WEIR_OK;
        (void)close(*fd);
    }
    *fd   = -1;
    errno = EEXIST;
    return failed(w, name, "create", err);
}

static bool write_all(int fd, const void *bytes, uint64_t n)
{
    enum { MOST = 1 << 30 }; /* at once; more is not promised to work */
    for (const uint8_t *p = bytes; n > 0;) {
        const ssize_t done = write(fd, p, n < MOST ? n : MOST);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        p += done;
        n -= (uint64_t)done;
    }
    return true;
}

static bool write_entry(int fd, const uint8_t *header, size_t header_bytes, const store_entry *e)
{
    store_piece    pieces[STORE_MAX_PIECES];
    const uint32_t n  = store_pieces(pieces, header, header_bytes, e);
    bool           ok = true;
    for (uint32_t i = 0; ok && i < n; i++) ok = write_all(fd, pieces[i].bytes, pieces[i].n);
    return ok;
}

/* Gives the file its name, for good. */
static weir_status publish(const store_writer *w, int fd, const char *temporary, const char *name, weir_error *err)
{
    const int dir = w->place.dir;
    if (fsync(fd) != 0) return failed(w, name, "sync", err);
    /* What was in memory a moment ago need not push other files out of it. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (renameat(dir, temporary, dir, name) != 0) return failed(w, name, "rename", err);
    if (fsync(dir) == 0 || errno == EINVAL) return WEIR_OK; /* EINVAL: a file system without it */
    const weir_status st = failed(w, name, "sync the folder of", err);
    (void)unlinkat(dir, name, 0);
    return st;
}

static bool is_there(const store_writer *w, const job *j)
{
    struct stat sb;
    return fstatat(w->place.dir, j->name, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(sb.st_mode) &&
           (uint64_t)sb.st_size == j->file_bytes;
}

static weir_status write_file(store_writer *w, const job *j, weir_error *err)
{
    uint8_t *header       = NULL;
    size_t   header_bytes = 0;
    char     temporary[80];
    int      fd = -1;
    if (is_there(w, j)) return WEIR_OK; /* another process was first */
    weir_status st = store_encode(&header, &header_bytes, w->place.namespace, &j->e, NULL, err);
    if (st != WEIR_OK) return status_prefix(err, st, "%s/%s", w->place.path, j->name);
    st = create_temporary(w, temporary, sizeof temporary, &fd, err);
    if (st == WEIR_OK) {
        if (!write_entry(fd, header, header_bytes, &j->e)) st = failed(w, j->name, "write", err);
        if (st == WEIR_OK) st = publish(w, fd, temporary, j->name, err);
        if (st != WEIR_OK) (void)unlinkat(w->place.dir, temporary, 0);
        (void)close(fd); /* and with it the lock: after the rename */
    }
    mem_free(header);
    return st;
}

static void do_put(store_writer *w, job *j)
{
    weir_error err;
    j->durable = write_file(w, j, &err) == WEIR_OK;
    if (!j->durable && !w->failing)
        log_line(WEIR_LOG_WARN, "%s; such entries are dropped, in silence until one is written again", err.text);
    w->failing = !j->durable;
    mem_free(j->memory);
    j->memory = NULL;
}

/* -- the thread */

static void *writer_main(void *arg)
{
    store_writer *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->queue.first == NULL && !w->quit) (void)pthread_cond_wait(&w->work, &w->lock);
        job *j = take_first(&w->queue);
        if (j == NULL) break; /* quit, and everything is done */
        w->current = j;
        (void)pthread_mutex_unlock(&w->lock);
        if (j->put)
            do_put(w, j);
        else
            (void)unlinkat(w->place.dir, j->name, 0);
        (void)pthread_mutex_lock(&w->lock);
        w->current = NULL;
        w->waiting -= j->cost;
        if (j->put && !j->cancelled)
            append(&w->done, j);
        else
            job_free(j);
        if (w->queue.first == NULL) (void)pthread_cond_broadcast(&w->idle);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* No signal is handled on the thread: not those meant for the program's own, nor
 * SIGXFSZ, so that a limit on file sizes is an error like a full disk. */
static int start_thread(store_writer *w)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(&w->thread, NULL, writer_main, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

weir_status store_writer_start(store_writer **out, const store_place *place, uint64_t queue_bytes, weir_error *err)
{
    *out            = NULL;
    store_writer *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", place->path);
    w->place       = *place;
    w->queue_bytes = queue_bytes;
    w->started     = clock_ns();
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->work, NULL);
    (void)pthread_cond_init(&w->idle, NULL);
    const int e = start_thread(w);
    if (e == 0) {
        *out = w;
        return WEIR_OK;
    }
    (void)pthread_cond_destroy(&w->idle);
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_mutex_destroy(&w->lock);
    mem_free(w);
    return status_fail(err, WEIR_NO_MEMORY, "%s: cannot start a thread: %s", place->path, strerror(e));
}

void store_writer_stop(store_writer *w)
{
    if (w == NULL) return;
    (void)pthread_mutex_lock(&w->lock);
    w->quit = true;
    (void)pthread_cond_signal(&w->work);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    for (job *j; (j = take_first(&w->done)) != NULL;) job_free(j);
    (void)pthread_cond_destroy(&w->idle);
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

/* -- the caller's side */

static void enqueue(store_writer *w, job *j)
{
    (void)pthread_mutex_lock(&w->lock);
    append(&w->queue, j);
    w->waiting += j->cost;
    (void)pthread_cond_signal(&w->work);
    (void)pthread_mutex_unlock(&w->lock);
}

uint64_t store_writer_cost(const store_entry *e)
{
    uint64_t cost = sizeof *e->tokens * (uint64_t)e->n_tokens;
    for (uint32_t i = 0; i < e->n_sections; i++) cost += e->sections[i].bytes;
    return cost;
}

bool store_writer_has_room(store_writer *w, uint64_t cost)
{
    (void)pthread_mutex_lock(&w->lock);
    const bool room = w->waiting <= w->queue_bytes && cost <= w->queue_bytes - w->waiting;
    (void)pthread_mutex_unlock(&w->lock);
    return room;
}

/* Copies what the entry points to behind each other. */
static void copy_entry(job *j, const store_entry *e)
{
    const size_t token_bytes = e->n_tokens * sizeof *e->tokens;
    uint8_t     *p           = j->memory;
    j->e                     = *e;
    memcpy(p, e->tokens, token_bytes);
    j->e.tokens = (const uint32_t *)(const void *)p;
    p += token_bytes;
    for (uint32_t i = 0; i < e->n_sections; i++) {
        memcpy(p, e->sections[i].data, e->sections[i].bytes);
        j->e.sections[i].data = p;
        p += e->sections[i].bytes;
    }
}

bool store_writer_put(store_writer *w, const store_entry *e, uint64_t file_bytes)
{
    job *j = mem_zalloc(1, sizeof *j);
    if (j == NULL) return false;
    j->put        = true;
    j->cost       = store_writer_cost(e);
    j->file_bytes = file_bytes;
    j->memory     = mem_alloc(j->cost, 1);
    if (j->memory == NULL) {
        job_free(j);
        return false;
    }
    store_name(j->name, w->place.namespace, e->key);
    copy_entry(j, e);
    enqueue(w, j);
    return true;
}

bool store_writer_cancel(store_writer *w, const uint8_t key[STORE_KEY_BYTES])
{
    (void)pthread_mutex_lock(&w->lock);
    job *waiting = find_put(&w->queue, key), *done = find_put(&w->done, key);
    if (waiting != NULL) {
        take_out(&w->queue, waiting);
        w->waiting -= waiting->cost;
        job_free(waiting);
        if (w->queue.first == NULL && w->current == NULL) (void)pthread_cond_broadcast(&w->idle);
    } else if (w->current != NULL && is_put_of(w->current, key)) {
        w->current->cancelled = true;
    } else if (done != NULL) {
        take_out(&w->done, done);
        job_free(done);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return waiting != NULL;
}

void store_writer_remove(store_writer *w, const char name[STORE_NAME_BYTES])
{
    job *j = mem_zalloc(1, sizeof *j);
    if (j == NULL) { /* rare enough to wait for the disk */
        (void)unlinkat(w->place.dir, name, 0);
        return;
    }
    memcpy(j->name, name, STORE_NAME_BYTES);
    enqueue(w, j);
}

bool store_writer_next(store_writer *w, uint8_t key[STORE_KEY_BYTES], bool *durable)
{
    (void)pthread_mutex_lock(&w->lock);
    job *j = take_first(&w->done);
    (void)pthread_mutex_unlock(&w->lock);
    if (j == NULL) return false;
    memcpy(key, j->e.key, STORE_KEY_BYTES);
    *durable = j->durable;
    job_free(j);
    return true;
}

void store_writer_wait(store_writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (w->queue.first != NULL || w->current != NULL) (void)pthread_cond_wait(&w->idle, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
}
