/* tests/unit/convert/quantized.c - fixtures quantised into temporary folders. */
#include "quantized.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fixture_path(const char *name)
{
    static char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s", WEIR_SOURCE_DIR, name);
    return path;
}

char *quantized(const char *source, weir_quantize_options opt, uint64_t file_bytes)
{
    weir_error           err;
    weir_quantize_result r;
    char                *dir = made_dir();
    opt.size                 = sizeof opt;
    must(quantize(source, dir, &opt, file_bytes != 0 ? file_bytes : UINT64_MAX, &r, &err), &err);
    return dir;
}

enum { MAX_NAMES = 200, NAME_LEN = 128 };

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

char *names_in(const char *dir, size_t *n)
{
    char *names = calloc(MAX_NAMES, NAME_LEN);
    DIR  *d     = opendir(dir);
    assert_non_null(names);
    assert_non_null(d);
    *n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        assert_true(*n < MAX_NAMES && strlen(e->d_name) < NAME_LEN);
        memcpy(names + (*n)++ * NAME_LEN, e->d_name, strlen(e->d_name) + 1);
    }
    (void)closedir(d);
    qsort(names, *n, NAME_LEN, by_text);
    for (size_t i = 0, at = 0; i < *n; i++) { /* one behind the other */
        const size_t len = strlen(names + i * NAME_LEN) + 1;
        memmove(names + at, names + i * NAME_LEN, len);
        at += len;
    }
    return names;
}

static char *bytes_of(const char *dir, const char *name, size_t *n)
{
    weir_error err;
    char      *path = path_join(dir, name), *bytes;
    must(file_read(&bytes, n, path, 1 << 28, &err), &err);
    mem_free(path);
    return bytes;
}

void check_same_folder(const char *a, const char *b)
{
    size_t na, nb;
    char  *names_a = names_in(a, &na), *names_b = names_in(b, &nb);
    assert_int_equal(na, nb);
    const char *p = names_a, *q = names_b;
    for (size_t i = 0; i < na; i++, p += strlen(p) + 1, q += strlen(q) + 1) {
        size_t n, m;
        assert_string_equal(p, q);
        char *x = bytes_of(a, p, &n), *y = bytes_of(b, q, &m);
        if (n != m || memcmp(x, y, n) != 0) fail_msg("%s differs", p);
        mem_free(x);
        mem_free(y);
    }
    free(names_a);
    free(names_b);
}
