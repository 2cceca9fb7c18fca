/* base/file.c - whole small files and atomic writes. */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

weir_status file_read(char **out, size_t *len, const char *path, size_t max, weir_error *err)
{
    *out         = NULL;
    *len         = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us waiting */
    if (fd < 0) return status_fail(err, WEIR_IO, "%s: %s", path, strerror(errno));

    weir_status st  = WEIR_OK;
    char       *buf = NULL;
    size_t      n   = 0;
    struct stat sb;
    if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
        st = status_fail(err, WEIR_FORMAT, "%s: expected a regular file", path);
        goto done;
    }
    if ((uint64_t)sb.st_size > max) {
        st = status_fail(err, WEIR_FORMAT, "%s: expected at most %zu bytes, found %lld", path, max,
                         (long long)sb.st_size);
        goto done;
    }
    const size_t size = (size_t)sb.st_size;
    buf               = mem_alloc(size + 1, 1);
    if (buf == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
        goto done;
    }
    while (n < size) {
        const ssize_t got = read(fd, buf + n, size - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            st = status_fail(err, WEIR_IO, "%s: %s", path, got < 0 ? strerror(errno) : "file became shorter");
            goto done;
        }
        n += (size_t)got;
    }
    buf[n] = '\0';
    *out   = buf;
    *len   = n;
    buf    = NULL;
done:
    mem_free(buf);
    (void)close(fd);
    return st;
}

#define SUFFIX ".%08" PRIx32
enum { SUFFIX_LENGTH = 9 };

/* A new file with a name that nobody has: path, a dot, random digits.  Unlike mkstemp
 * it leaves the permissions to the kernel, which knows the mask (umask() can only be
 * read by changing it, and for all threads). */
static int create_beside(const char *path, char *name, size_t size)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        uint32_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return -1;
        (void)snprintf(name, size, "%s" SUFFIX, path, number);
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

weir_status file_create(file_writer *w, const char *path, weir_error *err)
{
    *w = (file_writer){0};
    /* The rename would put a file where a device was, or where a link was. */
    struct stat sb;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode))
        return status_fail(err, WEIR_IO, "%s: expected a regular file or none", path);
    char        *target = realpath(path, NULL); /* NULL: none yet */
    const size_t n      = strlen(target != NULL ? target : path) + SUFFIX_LENGTH + 1;
    w->path             = mem_strdup(target != NULL ? target : path);
    w->temporary        = mem_alloc(n, 1);
    free(target);
    if (w->path == NULL || w->temporary == NULL) {
        file_abandon(w);
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    }
    const int fd = create_beside(w->path, w->temporary, n);
    if (fd < 0) {
        const int e = errno;
        mem_free(w->temporary);
        w->temporary = NULL;
        file_abandon(w);
        return status_fail(err, WEIR_IO, "%s: cannot create: %s", path, strerror(e));
    }
    w->f = fdopen(fd, "wb");
    if (w->f == NULL) {
        (void)close(fd);
        file_abandon(w);
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    }
    return WEIR_OK;
}

weir_status file_write(file_writer *w, const void *bytes, size_t n, weir_error *err)
{
    if (n != 0 && fwrite(bytes, 1, n, w->f) != n)
        return status_fail(err, WEIR_IO, "%s: cannot write: %s", w->path, strerror(errno));
    return WEIR_OK;
}

/* Makes the rename itself durable. */
static void sync_parent(const char *path)
{
    char *dir = mem_strdup(path);
    if (dir == NULL) return;
    char *slash = strrchr(dir, '/');
    if (slash != NULL) slash[slash == dir ? 1 : 0] = '\0';
    const int fd = open(slash != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    mem_free(dir);
}

weir_status file_commit(file_writer *w, weir_error *err)
{
    weir_status st = WEIR_OK;
    if (fflush(w->f) != 0 || fsync(fileno(w->f)) != 0) {
        st = status_fail(err, WEIR_IO, "%s: cannot write: %s", w->path, strerror(errno));
    } else {
        const int failed = fclose(w->f);
        w->f             = NULL;
        if (failed != 0 || rename(w->temporary, w->path) != 0) {
            st = status_fail(err, WEIR_IO, "%s: cannot write: %s", w->path, strerror(errno));
        } else {
            mem_free(w->temporary);
            w->temporary = NULL;
            sync_parent(w->path);
        }
    }
    file_abandon(w);
    return st;
}

void file_abandon(file_writer *w)
{
    if (w->f != NULL) (void)fclose(w->f);
    if (w->temporary != NULL) (void)unlink(w->temporary);
    mem_free(w->temporary);
    mem_free(w->path);
    *w = (file_writer){0};
}

bool file_exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode);
}

bool file_is_dir(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

char *path_join(const char *dir, const char *name)
{
    const size_t n = strlen(dir) + strlen(name) + 2;
    char        *p = mem_alloc(n, 1);
    if (p == NULL) return NULL;
    const bool slash = dir[0] != '\0' && dir[strlen(dir) - 1] == '/';
    (void)snprintf(p, n, "%s%s%s", dir, slash ? "" : "/", name);
    return p;
}
