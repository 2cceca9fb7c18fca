/* cli/tensor_file.c - the row-wise .safetensors writer; see tensor_file.h.
 *
 * The format: a u64 length, that many bytes of JSON (name -> dtype, shape,
 * data_offsets), the tensors one behind the other. */
#include "cli/tensor_file.h"

#include "base/bytes.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { HEADER_MAX = 1 << 20 };

static uint64_t spec_bytes(const tensor_spec *s)
{
    return s->rows * s->columns * sizeof(float);
}

/* All sizes together stay far below what a file offset can say. */
static bool specs_fit(const tensor_spec *specs, size_t n)
{
    uint64_t total = 0, size;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(specs[i].rows, specs[i].columns, &size) ||
            __builtin_mul_overflow(size, sizeof(float), &size) || __builtin_add_overflow(total, size, &total) ||
            total > INT64_MAX / 2)
            return false;
    }
    return true;
}

static void put_header(str *s, const tensor_spec *specs, size_t n)
{
    uint64_t at = 0;
    str_putc(s, '{');
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = at + spec_bytes(&specs[i]);
        str_printf(s,
                   "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 ",%" PRIu64 "],\"data_offsets\":[%" PRIu64
                   ",%" PRIu64 "]}",
                   i > 0 ? "," : "", specs[i].name, specs[i].rows, specs[i].columns, at, end);
        at = end;
    }
    str_putc(s, '}');
    while (s->len % 8 != 0 && !s->failed) str_putc(s, ' '); /* aligns the tensors */
}

weir_status tensor_file_create(tensor_file *t, const char *path, const tensor_spec *specs, size_t n, weir_error *err)
{
    *t = (tensor_file){.specs = specs, .n = n};
    if (!specs_fit(specs, n)) return status_fail(err, WEIR_INVALID, "%s: too large for a file", path);
    str s;
    str_init(&s, HEADER_MAX);
    put_header(&s, specs, n);
    const uint64_t len = s.len;
    t->data            = sizeof len + len;
    weir_status st     = str_status(&s, path, err);
    if (st == WEIR_OK) st = file_create(&t->w, path, err);
    if (st == WEIR_OK) st = file_write(&t->w, &len, sizeof len, err);
    if (st == WEIR_OK) st = file_write(&t->w, s.data, s.len, err);
    str_free(&s);
    if (st != WEIR_OK) tensor_file_abandon(t);
    return st;
}

weir_status tensor_file_rows(tensor_file *t, size_t index, uint64_t first, uint64_t n, const float *rows,
                             weir_error *err)
{
    uint64_t at = t->data;
    for (size_t i = 0; i < index; i++) at += spec_bytes(&t->specs[i]);
    const size_t row = t->specs[index].columns * sizeof(float);
    if (fseeko(t->w.f, (off_t)(at + first * row), SEEK_SET) != 0)
        return status_fail(err, WEIR_IO, "%s: cannot seek: %s", t->w.path, strerror(errno));
    return file_write(&t->w, rows, n * row, err);
}

weir_status tensor_file_commit(tensor_file *t, weir_error *err)
{
    return file_commit(&t->w, err);
}

void tensor_file_abandon(tensor_file *t)
{
    file_abandon(&t->w);
}
