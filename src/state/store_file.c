/* state/store_file.c - reading and writing one state file.
 *
 * Files are read into memory, never mapped: another process may remove or a
 * disk may damage them at any time, and that has to be an error here instead of
 * a signal later. */
#include "state/store_file.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FIRST_READ = 4096,    /* holds most headers */
    MOST_READ  = 1 << 30, /* at once; more is not promised to work */
};

static uint64_t piece_bytes(const store_stream *s, uint64_t i)
{
    return i < s->n_first ? s->first_bytes : s->piece_bytes;
}

uint64_t store_stream_bytes(const store_stream *s)
{
    const uint64_t first = s->n_first < s->n ? s->n_first : s->n;
    uint64_t       a, b, sum;
    if (__builtin_mul_overflow(first, s->first_bytes, &a)) return UINT64_MAX;
    if (__builtin_mul_overflow(s->n - first, s->piece_bytes, &b)) return UINT64_MAX;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static weir_status sum_stream(uint8_t out[STORE_SUM_BYTES], const store_stream *stream, weir_error *err)
{
    store_sum sum;
    store_sum_begin(&sum);
    for (uint64_t i = 0; i < stream->n; i++) {
        stream->move(stream->user, i);
        store_sum_add(&sum, stream->piece, piece_bytes(stream, i));
    }
    return store_sum_end(&sum, out, err);
}

static weir_status write_stream(file_writer *w, const store_stream *stream, weir_error *err)
{
    for (uint64_t i = 0; i < stream->n; i++) {
        stream->move(stream->user, i);
        TRY(file_write(w, stream->piece, piece_bytes(stream, i), err));
    }
    return WEIR_OK;
}

static weir_status write_entry(file_writer *w, const uint8_t *header, size_t header_bytes, const store_entry *e,
                               const store_stream *stream, weir_error *err)
{
    store_piece    pieces[STORE_MAX_PIECES];
    const uint32_t n = store_pieces(pieces, header, header_bytes, e);
    for (uint32_t i = 0; i < n; i++) {
        if (pieces[i].bytes == NULL && stream != NULL)
            TRY(write_stream(w, stream, err));
        else
            TRY(file_write(w, pieces[i].bytes, pieces[i].n, err));
    }
    return WEIR_OK;
}

weir_status store_file_write(const char *path, const uint8_t namespace[STORE_KEY_BYTES], const store_entry *e,
                             const store_stream *stream, weir_error *err)
{
    uint8_t    *header = NULL;
    size_t      n      = 0;
    file_writer w      = {0};
    uint8_t     sum[STORE_SUM_BYTES];
    weir_status st = stream == NULL ? WEIR_OK : sum_stream(sum, stream, err);
    if (st == WEIR_OK) st = store_encode(&header, &n, namespace, e, stream == NULL ? NULL : sum, err);
    if (st != WEIR_OK) return status_prefix(err, st, "%s", path);
    st = file_create(&w, path, err);
    if (st == WEIR_OK) st = write_entry(&w, header, n, e, stream, err);
    if (st == WEIR_OK) st = file_commit(&w, err);
    file_abandon(&w);
    mem_free(header);
    return st;
}

/* Reads n bytes at `offset`.  A system that is short of memory says so. */
static weir_status read_at(int fd, void *to, uint64_t n, uint64_t offset, weir_error *err)
{
    uint8_t *p = to;
    while (n > 0) {
        const ssize_t got = pread(fd, p, n < MOST_READ ? n : MOST_READ, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return status_fail(err, errno == ENOMEM ? WEIR_NO_MEMORY : WEIR_FORMAT, "byte %" PRIu64 ": %s", offset,
                               strerror(errno));
        if (got == 0) return status_fail(err, WEIR_FORMAT, "byte %" PRIu64 ": file became shorter", offset);
        p += got;
        n -= (uint64_t)got;
        offset += (uint64_t)got;
    }
    return WEIR_OK;
}

static weir_status hold(store_file *f, size_t n, weir_error *err)
{
    if (n <= f->capacity) return WEIR_OK;
    uint8_t *grown = mem_realloc(f->memory, n, 1);
    if (grown == NULL) return status_fail(err, WEIR_NO_MEMORY, "header: out of memory");
    f->memory   = grown;
    f->capacity = n;
    return WEIR_OK;
}

static weir_status read_header(store_file *f, weir_error *err)
{
    uint32_t     header_bytes = 0;
    const size_t first        = f->bytes < FIRST_READ ? (size_t)f->bytes : FIRST_READ;
    TRY(hold(f, FIRST_READ, err));
    TRY(read_at(f->fd, f->memory, first, 0, err));
    TRY(store_header_bytes(f->memory, first, f->bytes, &header_bytes, err));
    if (header_bytes > first) {
        TRY(hold(f, header_bytes, err));
        TRY(read_at(f->fd, f->memory + first, header_bytes - first, first, err));
    }
    return store_parse(&f->header, f->memory, header_bytes, f->bytes, err);
}

void store_file_done(store_file *f)
{
    if (f->fd >= 0) (void)close(f->fd);
    f->fd = -1;
}

weir_status store_file_read(store_file *f, int fd, const char *name, weir_error *err)
{
    struct stat sb;
    store_file_done(f);
    mem_free(f->name);
    f->fd          = fd;
    f->name        = mem_strdup(name);
    weir_status st = WEIR_OK;
    if (f->name == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "out of memory");
    } else if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
        st = status_fail(err, WEIR_FORMAT, "expected a regular file");
    } else {
        f->bytes = (uint64_t)sb.st_size;
        st       = read_header(f, err);
    }
    if (st == WEIR_OK) return WEIR_OK;
    store_file_done(f);
    return status_prefix(err, st, "%s", name);
}

weir_status store_file_open(store_file *f, const char *path, const uint8_t namespace[STORE_KEY_BYTES], weir_error *err)
{
    *f           = STORE_FILE_NONE;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us waiting */
    if (fd < 0) return status_fail(err, WEIR_IO, "%s: %s", path, strerror(errno));
    weir_status st = store_file_read(f, fd, path, err);
    if (st == WEIR_OK && memcmp(f->header.namespace, namespace, STORE_KEY_BYTES) != 0)
        st =
            status_fail(err, WEIR_UNSUPPORTED,
                        "%s: namespace: expected state of this model, its storage and adapters, found another's", path);
    if (st != WEIR_OK) store_file_close(f);
    return st;
}

void store_file_close(store_file *f)
{
    store_file_done(f);
    mem_free(f->name);
    mem_free(f->memory);
    *f = STORE_FILE_NONE;
}

/* The section of that type and size: its number in *out. */
static weir_status find_section(const store_file *f, uint32_t type, uint64_t bytes, uint32_t *out, weir_error *err)
{
    const store_entry *e = &f->header.e;
    uint32_t           i = 0;
    while (i < e->n_sections && e->sections[i].type != type) i++;
    if (i == e->n_sections)
        return status_fail(err, WEIR_FORMAT, "%s: expected a section of type %" PRIu32 ", found none", f->name, type);
    if (e->sections[i].bytes != bytes)
        return status_fail(err, WEIR_FORMAT,
                           "%s: section of type %" PRIu32 ": expected %" PRIu64 " bytes, found %" PRIu64, f->name, type,
                           bytes, e->sections[i].bytes);
    *out = i;
    return WEIR_OK;
}

weir_status store_file_stream(const store_file *f, const store_stream *stream, weir_error *err)
{
    uint32_t       i = 0;
    store_sum      sum;
    uint8_t        found[STORE_SUM_BYTES];
    const uint64_t bytes = store_stream_bytes(stream);
    TRY(find_section(f, stream->type, bytes, &i, err));
    weir_status st = WEIR_OK;
    uint64_t    at = f->header.offsets[i];
    store_sum_begin(&sum);
    for (uint64_t k = 0; k < stream->n && st == WEIR_OK; k++) {
        const uint64_t n = piece_bytes(stream, k);
        st               = read_at(f->fd, stream->piece, n, at, err);
        if (st != WEIR_OK) break;
        at += n;
        store_sum_add(&sum, stream->piece, n);
        stream->move(stream->user, k);
    }
    const weir_status ended = store_sum_end(&sum, found, st == WEIR_OK ? err : NULL); /* in any case */
    if (st == WEIR_OK) st = ended;
    /* The caller has it now; the system's copy would push other files out of memory. */
    (void)posix_fadvise(f->fd, (off_t)f->header.offsets[i], (off_t)bytes, POSIX_FADV_DONTNEED);
    if (st == WEIR_OK && memcmp(found, f->header.sums[i], sizeof found) != 0)
        st = status_fail(err, WEIR_FORMAT, "its checksum does not match");
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: section of type %" PRIu32, f->name, stream->type);
}

static void nothing(void *user, uint64_t index)
{
    (void)user;
    (void)index;
}

weir_status store_file_section(const store_file *f, uint32_t type, void *to, uint64_t bytes, weir_error *err)
{
    const store_stream whole = {.type = type, .n = 1, .piece_bytes = bytes, .piece = to, .move = nothing};
    return store_file_stream(f, &whole, err);
}
