/* checkpoint/safetensors_write.c - writing safetensors files; the format is in safetensors.h. */
#include "checkpoint/safetensors_write.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000, MAX_ELEMENT = 8 };

static bool count_bytes(safetensors_spec *s)
{
    s->bytes = dtype_table[s->type].bytes;
    for (uint32_t i = 0; i < s->rank; i++)
        if (__builtin_mul_overflow(s->bytes, s->shape[i], &s->bytes)) return false;
    return true;
}

static void put_name(str *s, const char *name)
{
    str_putc(s, '"');
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\\') str_putc(s, '\\');
        str_putc(s, *name);
    }
    str_putc(s, '"');
}

static void put_record(str *text, const safetensors_spec *s)
{
    str_putc(text, ',');
    put_name(text, s->name);
    str_printf(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_table[s->type].name);
    for (uint32_t i = 0; i < s->rank; i++) str_printf(text, "%s%" PRIu64, i > 0 ? "," : "", s->shape[i]);
    str_printf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", s->begin, s->begin + s->bytes);
}

weir_status safetensors_layout(safetensors_header *out, safetensors_spec *specs, size_t n, const char *path,
                               weir_error *err)
{
    uint64_t len = 0;
    *out         = (safetensors_header){0};
    str_init(&out->text, MAX_HEADER);
    str_put(&out->text, &len, sizeof len);
    str_puts(&out->text, "{\"__metadata__\":{\"format\":\"mlx\"}"); /* what MLX's own writer puts there */
    for (unsigned size = MAX_ELEMENT; size > 0; size /= 2)
        for (size_t i = 0; i < n; i++) {
            safetensors_spec *s = &specs[i];
            if (dtype_table[s->type].bytes != size) continue;
            s->begin = out->data;
            if (!count_bytes(s) || __builtin_add_overflow(out->data, s->bytes, &out->data) || out->data > INT64_MAX / 2)
                return status_fail(err, WEIR_INVALID, "%s: %s: too large for a file", path, s->name);
            put_record(&out->text, s);
        }
    str_putc(&out->text, '}');
    while (out->text.len % 8 != 0 && !out->text.failed) str_putc(&out->text, ' ');
    TRY(str_status(&out->text, path, err));
    len = out->text.len - sizeof len;
    memcpy(out->text.data, &len, sizeof len);
    return WEIR_OK;
}

bool safetensors_is_written(const char *path, const safetensors_header *h)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    struct stat sb;
    bool   same = fstat(fileno(f), &sb) == 0 && S_ISREG(sb.st_mode) && (uint64_t)sb.st_size == h->text.len + h->data;
    char   piece[4096];
    size_t at = 0;
    while (same && at < h->text.len) {
        const size_t left = h->text.len - at, n = left < sizeof piece ? left : sizeof piece;
        same = fread(piece, 1, n, f) == n && memcmp(piece, h->text.data + at, n) == 0;
        at += n;
    }
    (void)fclose(f);
    return same;
}

weir_status safetensors_create(safetensors_writer *w, const char *path, const safetensors_header *h, weir_error *err)
{
    *w             = (safetensors_writer){.data = h->text.len};
    weir_status st = file_create(&w->w, path, err);
    if (st == WEIR_OK) st = file_write(&w->w, h->text.data, h->text.len, err);
    if (st != WEIR_OK) safetensors_abandon(w);
    return st;
}

weir_status safetensors_put(safetensors_writer *w, uint64_t at, const void *bytes, size_t n, weir_error *err)
{
    if (fseeko(w->w.f, (off_t)(w->data + at), SEEK_SET) != 0)
        return status_fail(err, WEIR_IO, "%s: cannot seek: %s", w->w.path, strerror(errno));
    return file_write(&w->w, bytes, n, err);
}

weir_status safetensors_commit(safetensors_writer *w, const safetensors_header *h, weir_error *err)
{
    if (fflush(w->w.f) != 0 || ftruncate(fileno(w->w.f), (off_t)(h->text.len + h->data)) != 0) {
        const int e = errno;
        (void)status_fail(err, WEIR_IO, "%s: cannot write: %s", w->w.path, strerror(e));
        safetensors_abandon(w);
        return WEIR_IO;
    }
    return file_commit(&w->w, err);
}

void safetensors_abandon(safetensors_writer *w)
{
    file_abandon(&w->w);
}
