/* fetch/blob.c - the download of one blob; see blob.h.
 *
 * HASH.incomplete holds the first bytes of the file.  An earlier process may have
 * left them, or another program, or a crash of the machine that lost the middle:
 * they are hashed again, and only the hash of the whole decides. */
#include "fetch/blob.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = HASH_TEXT_BYTES + sizeof ".incomplete", READ_BYTES = 1 << 20 };

static bool is_stopped(const blob_place *p)
{
    return atomic_load(p->halt) || (p->s->stopped != NULL && p->s->stopped(p->s->user));
}

static weir_status stopped(const blob_place *p, weir_error *err)
{
    return status_fail(err, WEIR_CANCELLED, "%s: stopped", p->repo);
}

bool blob_is_there(const blob_place *p, const listing_file *f)
{
    struct stat sb;
    return fstatat(p->dir, f->hash, &sb, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(sb.st_mode) &&
           (uint64_t)sb.st_size == f->size;
}

static void incomplete_name(char out[NAME_BYTES], const listing_file *f)
{
    (void)snprintf(out, NAME_BYTES, "%s.incomplete", f->hash);
}

uint64_t blob_present(const blob_place *p, const listing_file *f)
{
    char        name[NAME_BYTES];
    struct stat sb;
    if (blob_is_there(p, f)) return f->size;
    incomplete_name(name, f);
    if (fstatat(p->dir, name, &sb, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(sb.st_mode)) return 0;
    return (uint64_t)sb.st_size <= f->size ? (uint64_t)sb.st_size : 0;
}

/* ------------------------------------------------------------------ the lock */

/* Locks by a file that may be removed while we wait for it: then what we hold is
 * nobody's, and the one that has the name now is waited for. */
static weir_status take_lock(int *out, const blob_place *p, const listing_file *f, weir_error *err)
{
    str path;
    str_init(&path, 8192);
    str_printf(&path, "%s/%s.lock", p->locks, f->hash);
    weir_status st = str_status(&path, p->repo, err);
    *out           = -1;
    while (st == WEIR_OK && *out < 0) {
        struct stat held, named;
        const int   fd = open(path.data, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0) {
            st = status_fail(err, WEIR_IO, "%s: cannot make this lock: %s", path.data, strerror(errno));
            break;
        }
        while (st == WEIR_OK && flock(fd, LOCK_EX | LOCK_NB) != 0) {
            const struct timespec slice = {.tv_nsec = 50 * 1000 * 1000};
            if (errno != EWOULDBLOCK && errno != EINTR)
                st = status_fail(err, WEIR_IO, "%s: cannot lock: %s", path.data, strerror(errno));
            else if (is_stopped(p))
                st = stopped(p, err);
            else
                (void)nanosleep(&slice, NULL);
        }
        if (st == WEIR_OK && fstat(fd, &held) == 0 && stat(path.data, &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev)
            *out = fd;
        else
            (void)close(fd);
    }
    str_free(&path);
    return st;
}

/* ------------------------------------------------------------------ receiving */

/* The bytes of one file as they come. */
typedef struct receiver {
    const blob_place   *p;
    const listing_file *f;
    blob_counts        *counts;
    int                 fd;
    uint64_t            have; /* bytes in the file, all of them hashed */
    hasher              hash;
    char                tag[HTTP_TAG_BYTES]; /* what the storage calls the bytes we have; "": not known */
    weir_status         st;                  /* a disk that fails */
    weir_error          err;
    char                odd[160]; /* why an answer was not taken */
} receiver;

static void count(receiver *r, uint64_t n)
{
    r->have += n;
    (void)atomic_fetch_add(&r->counts->done, n);
}

/* Forgets all bytes. */
static bool restart(receiver *r)
{
    (void)atomic_fetch_sub(&r->counts->done, r->have);
    r->have   = 0;
    r->tag[0] = '\0';
    hash_begin(&r->hash, strlen(r->f->hash), r->f->size);
    if (ftruncate(r->fd, 0) == 0 && lseek(r->fd, 0, SEEK_SET) == 0) return true;
    r->st =
        status_fail(&r->err, WEIR_IO, "%s/%s.incomplete: cannot write: %s", r->p->folder, r->f->hash, strerror(errno));
    return false;
}

static bool begin(void *user, const http_head *head)
{
    receiver *r    = user;
    uint64_t  left = r->f->size - r->have;
    if (head->status == 206) {
        if (!head->has_range || head->range_start != r->have || (head->has_total && head->range_total != r->f->size)) {
            (void)snprintf(r->odd, sizeof r->odd, "expected bytes from %" PRIu64 " on of %" PRIu64 ", got other ones",
                           r->have, r->f->size);
            (void)restart(r);
            return false;
        }
    } else {
        if (r->have > 0 && !restart(r)) return false;
        left = r->f->size;
    }
    if (head->has_length && head->length != left) {
        (void)snprintf(r->odd, sizeof r->odd, "expected %" PRIu64 " bytes, the answer has %" PRIu64, left,
                       head->length);
        return false;
    }
    memcpy(r->tag, head->tag, sizeof r->tag);
    return true;
}

static bool body(void *user, const void *bytes, size_t n)
{
    receiver *r = user;
    if (n > r->f->size - r->have) {
        (void)snprintf(r->odd, sizeof r->odd, "expected %" PRIu64 " bytes, more came", r->f->size);
        (void)restart(r);
        return false;
    }
    for (size_t at = 0; at < n;) {
        const ssize_t put = write(r->fd, (const char *)bytes + at, n - at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            r->st = status_fail(&r->err, WEIR_IO, "%s/%s.incomplete: cannot write: %s", r->p->folder, r->f->hash,
                                strerror(errno));
            /* Only whole pieces are hashed: what a part of this one left is cut off. */
            (void)ftruncate(r->fd, (off_t)r->have);
            return false;
        }
        at += (size_t)put;
    }
    hash_add(&r->hash, bytes, n);
    count(r, n);
    (void)atomic_fetch_add(&r->counts->received, n);
    return true;
}

/* Opens the file and hashes what an earlier call left. */
static weir_status take_prefix(receiver *r, const char *name, weir_error *err)
{
    struct stat sb;
    r->fd = openat(r->p->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (r->fd < 0 || fstat(r->fd, &sb) != 0 || !S_ISREG(sb.st_mode))
        return status_fail(err, WEIR_IO, "%s/%s: cannot write: %s", r->p->folder, name, strerror(errno));
    hash_begin(&r->hash, strlen(r->f->hash), r->f->size);
    if ((uint64_t)sb.st_size > r->f->size) (void)restart(r);
    if (r->st != WEIR_OK || (uint64_t)sb.st_size > r->f->size) goto done;
    char *buf = mem_alloc(READ_BYTES, 1);
    if (buf == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s/%s: out of memory", r->p->folder, name);
    while (r->have < (uint64_t)sb.st_size && r->st == WEIR_OK) {
        const ssize_t n = read(r->fd, buf, READ_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || is_stopped(r->p)) {
            r->st = n <= 0
                        ? status_fail(&r->err, WEIR_IO, "%s/%s: cannot read: %s", r->p->folder, name, strerror(errno))
                        : stopped(r->p, &r->err);
            break;
        }
        hash_add(&r->hash, buf, (size_t)n);
        count(r, (uint64_t)n);
    }
    mem_free(buf);
done:
    if (r->st != WEIR_OK && err != NULL) *err = r->err;
    return r->st;
}

/* What is to be done after a try that left the file incomplete. */
static weir_status after_try(receiver *r, http_outcome outcome, const http_head *head, weir_error *why, weir_error *err)
{
    if (r->st != WEIR_OK) {
        if (err != NULL) *err = r->err;
        return r->st;
    }
    const bool wrong_range = outcome == HTTP_REFUSED && head->status == 416;
    if (wrong_range && !restart(r)) {
        if (err != NULL) *err = r->err;
        return r->st;
    }
    if (outcome == HTTP_AGAIN || wrong_range) return WEIR_OK;
    if (outcome == HTTP_REFUSED || (outcome == HTTP_ENDED && r->odd[0] == '\0')) {
        if (err != NULL) *err = *why;
        return why->status;
    }
    (void)status_fail(why, WEIR_FORMAT, "%s/%s: %s", r->p->repo, r->f->path,
                      r->odd[0] != '\0' ? r->odd : "the answer ended early");
    return WEIR_OK;
}

/* Receives until all bytes are there.  Tries count only while they bring nothing new. */
static weir_status receive(receiver *r, http *h, const char *url, weir_error *err)
{
    uint64_t most = r->have;
    for (unsigned failures = 0; r->have < r->f->size;) {
        http_head          head = {0};
        weir_error         why  = {.status = WEIR_CANCELLED};
        const http_request q    = {
               .url = url, .offset = r->have, .if_range = r->tag, .begin = begin, .body = body, .user = r};
        r->odd[0]                  = '\0';
        const http_outcome outcome = http_try(h, &q, &head, &why);
        if (outcome == HTTP_DONE && r->have == r->f->size) break;
        TRY(after_try(r, outcome, &head, &why, err));
        if (r->have > most) {
            most     = r->have;
            failures = 0;
        }
        if (++failures == HTTP_TRIES)
            return status_fail(err, why.status, "%s (%s, tried %u times)", why.text, r->f->path, failures);
        if (!http_wait(h, failures, &head)) return stopped(r->p, err);
    }
    return WEIR_OK;
}

static weir_status receive_checked(receiver *r, http *h, const char *url, const char *name, weir_error *err)
{
    char found[HASH_TEXT_BYTES];
    for (unsigned mistakes = 0;; mistakes++) {
        TRY(receive(r, h, url, err));
        if (!hash_end(&r->hash, found)) return status_fail(err, WEIR_NO_MEMORY, "%s: cannot hash", r->f->path);
        if (strcmp(found, r->f->hash) == 0) return WEIR_OK;
        if (!restart(r)) {
            if (err != NULL) *err = r->err;
            return r->st;
        }
        if (mistakes == 1 || r->f->size == 0) {
            (void)unlinkat(r->p->dir, name, 0);
            return status_fail(err, WEIR_FORMAT, "%s/%s: damaged: expected the hash %s, found %s", r->p->repo,
                               r->f->path, r->f->hash, found);
        }
    }
}

weir_status blob_fetch(const blob_place *p, http *h, const listing_file *f, const char *url, blob_counts *counts,
                       weir_error *err)
{
    char        name[NAME_BYTES];
    int         lock;
    receiver    r  = {.p = p, .f = f, .counts = counts, .fd = -1};
    weir_status st = take_lock(&lock, p, f, err);
    if (st != WEIR_OK) return st;
    incomplete_name(name, f);
    if (blob_is_there(p, f)) {
        count(&r, f->size);
        goto done;
    }
    st = take_prefix(&r, name, err);
    if (st == WEIR_OK) st = receive_checked(&r, h, url, name, err);
    if (st == WEIR_OK && (fsync(r.fd) != 0 || renameat(p->dir, name, p->dir, f->hash) != 0))
        st = status_fail(err, WEIR_IO, "%s/%s: cannot write: %s", p->folder, f->hash, strerror(errno));
    if (st == WEIR_OK) (void)fsync(p->dir);
done:
    hash_free(&r.hash);
    if (r.fd >= 0) (void)close(r.fd);
    (void)close(lock);
    return st;
}
