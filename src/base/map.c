/* base/map.c - read-only file mapping. */
#include "base/map.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

weir_status file_map_open(file_map *out, const char *path, weir_error *err)
{
    *out         = (file_map){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us waiting */
    if (fd < 0) return status_fail(err, WEIR_IO, "%s: %s", path, strerror(errno));

    weir_status st   = WEIR_OK;
    char       *name = NULL;
    void       *p;
    struct stat sb;
    if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode) || sb.st_size == 0) {
        st = status_fail(err, WEIR_FORMAT, "%s: expected a file with content", path);
        goto done;
    }
    name = mem_strdup(path);
    if (name == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
        goto done;
    }
    p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        mem_free(name);
        st = status_fail(err, WEIR_IO, "%s: cannot map: %s", path, strerror(errno));
        goto done;
    }
    *out = (file_map){.path = name, .data = p, .size = (uint64_t)sb.st_size};
done:
    (void)close(fd); /* the mapping holds its own reference */
    return st;
}

void file_map_close(file_map *f)
{
    if (f->data != NULL) (void)munmap((void *)(uintptr_t)f->data, (size_t)f->size);
    mem_free(f->path);
    *f = (file_map){0};
}

/* The numbers come from the file itself: they are checked here, once, by
 * subtraction, the form that cannot overflow. */
weir_status file_map_span(const file_map *f, uint64_t off, uint64_t len, const uint8_t **out, weir_error *err)
{
    if (off > f->size || len > f->size - off)
        return status_fail(err, WEIR_FORMAT, "%s: bytes %" PRIu64 "+%" PRIu64 " are outside the file of %" PRIu64,
                           f->path, off, len, f->size);
    *out = f->data + off;
    return WEIR_OK;
}

void file_map_rest(const void *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)p + page - 1) / page * page,
                    end = ((uintptr_t)p + n) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}
