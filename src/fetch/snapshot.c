/* fetch/snapshot.c - links of a snapshot; see snapshot.h. */
#include "fetch/snapshot.h"

#include "base/mem.h"
#include "base/str.h"
#include "fetch/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".weir-new"

/* Opens the folder of `path` below the open folder `fd` (which is closed), making
 * what is not there; *name is what stands behind the last slash.  -1: errno. */
static int open_below(int fd, const char *path, const char **name, unsigned *depth)
{
    for (const char *slash; fd >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1, ++*depth) {
        char part[256];
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        int below = -1;
        if (mkdirat(fd, part, 0777) == 0 || errno == EEXIST)
            below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        const int e = errno;
        (void)close(fd);
        errno = e;
        fd    = below;
    }
    *name = path;
    return fd;
}

static bool copy_bytes(int from, int to)
{
    enum { BYTES = 1 << 16 };
    char *buf = mem_alloc(BYTES, 1);
    bool  ok  = buf != NULL;
    while (ok) {
        const ssize_t n = read(from, buf, BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            ok = n == 0;
            break;
        }
        for (ssize_t at = 0; ok && at < n;) {
            const ssize_t put = write(to, buf + at, (size_t)(n - at));
            if (put < 0 && errno == EINTR) continue;
            ok = put > 0;
            at += put > 0 ? put : 0;
        }
    }
    mem_free(buf);
    return ok && fsync(to) == 0;
}

/* errno tells why it is false. */
static bool put_copy(int dir, const char *target)
{
    const int from = openat(dir, target, O_RDONLY | O_CLOEXEC);
    if (from < 0) return false;
    const int to = openat(dir, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool      ok = to >= 0 && copy_bytes(from, to);
    const int e  = errno;
    (void)close(from);
    if (to >= 0) ok = close(to) == 0 && ok;
    if (!ok) errno = e;
    return ok;
}

static bool has_no_links(int error)
{
    return error == EPERM || error == ENOSYS || error == EOPNOTSUPP;
}

/* Whether `name` is what it should become already. */
static bool is_there(int dir, const char *name, const char *target, bool copy)
{
    char          found[HASH_TEXT_BYTES + 3 * LISTING_PATH_MAX];
    struct stat   a, b;
    const ssize_t n = readlinkat(dir, name, found, sizeof found - 1);
    if (n > 0) {
        found[n] = '\0';
        return !copy && strcmp(found, target) == 0;
    }
    return fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(a.st_mode) && copy &&
           fstatat(dir, target, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_size == b.st_size;
}

weir_status snapshot_place(const char *folder, const char *path, const char *hash, bool copy, weir_error *err)
{
    const char *name;
    unsigned    depth = 0;
    str         target;
    str_init(&target, HASH_TEXT_BYTES + 3 * LISTING_PATH_MAX);
    const int dir = open_below(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path, &name, &depth);
    for (unsigned i = 0; i < depth + 2; i++) str_puts(&target, "../");
    str_printf(&target, "blobs/%s", hash);

    weir_status st = str_status(&target, path, err);
    if (st == WEIR_OK && (dir < 0 || !is_there(dir, name, target.data, copy))) {
        bool ok = dir >= 0;
        if (ok) (void)unlinkat(dir, TEMPORARY, 0); /* of a process that was ended here */
        if (ok && !copy) {
            ok = symlinkat(target.data, dir, TEMPORARY) == 0;
            if (!ok && has_no_links(errno)) copy = ok = true;
        }
        if (ok && copy) ok = put_copy(dir, target.data);
        ok = ok && renameat(dir, TEMPORARY, dir, name) == 0;
        if (!ok) st = status_fail(err, WEIR_IO, "%s/%s: cannot make this link: %s", folder, path, strerror(errno));
        if (!ok && dir >= 0) (void)unlinkat(dir, TEMPORARY, 0);
    }
    if (dir >= 0) {
        (void)fsync(dir);
        (void)close(dir);
    }
    str_free(&target);
    return st;
}
