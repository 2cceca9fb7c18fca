/* tests/unit/checkpoint/made_files.c - files made by hand in a temporary folder. */
#include "made_files.h"

#include "base/half.h"
#include "support/cmocka.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DATA = 64 << 20 };

char *made_dir(void)
{
    const char *tmp = "/tmp"; /* any folder would do */
    char       *dir = malloc(64);
    assert_non_null(dir);
    (void)snprintf(dir, 64, "%s/weir-test-XXXXXX", tmp);
    assert_non_null(mkdtemp(dir));
    return dir;
}

static void remove_tree(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char        path[4096];
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (lstat(path, &sb) == 0 && S_ISDIR(sb.st_mode))
            remove_tree(path);
        else
            (void)unlink(path);
    }
    (void)closedir(d);
    (void)rmdir(dir);
}

void made_remove(char *dir)
{
    if (dir != NULL) remove_tree(dir);
    free(dir);
}

void made_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void made_text(const char *dir, const char *name, const char *text)
{
    made_file(dir, name, text, strlen(text));
}

void made_safetensors(const char *dir, const char *name, const char *header, const void *data, size_t n)
{
    str            file;
    const uint64_t len = strlen(header);
    str_init(&file, MAX_DATA);
    str_put(&file, &len, sizeof len);
    str_puts(&file, header);
    str_put(&file, data, n);
    assert_false(file.failed);
    made_file(dir, name, file.data, file.len);
    str_free(&file);
}

void made_begin(made_tensors *m)
{
    m->n = 0;
    str_init(&m->header, MAX_DATA);
    str_init(&m->data, MAX_DATA);
    str_putc(&m->header, '{');
}

void made_raw(made_tensors *m, const char *name, const char *dtype, const char *shape, const void *bytes, size_t n)
{
    str_printf(&m->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", m->n++ > 0 ? "," : "",
               name, dtype, shape, m->data.len, m->data.len + n);
    str_put(&m->data, bytes, n);
}

void made_bf16(made_tensors *m, const char *name, const char *shape, size_t n, float value)
{
    const uint16_t h = bf16_from_f32(value);
    uint16_t      *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = h;
    made_raw(m, name, "BF16", shape, p, n * sizeof *p);
    free(p);
}

void made_write(made_tensors *m, const char *dir, const char *name)
{
    str_putc(&m->header, '}');
    assert_false(m->header.failed || m->data.failed);
    made_safetensors(dir, name, m->header.data, m->data.data, m->data.len);
    str_free(&m->header);
    str_free(&m->data);
}

void check_failure(weir_status found, weir_status expected, const weir_error *err, const char *what,
                   const char *const *fragments)
{
    if (found != expected)
        fail_msg("%s: expected \"%s\", found \"%s\": %s", what, weir_status_text(expected), weir_status_text(found),
                 found == WEIR_OK ? "" : err->text);
    assert_int_equal(err->status, expected);
    for (; *fragments != NULL; fragments++)
        if (strstr(err->text, *fragments) == NULL)
            fail_msg("%s: expected \"%s\" in the message, found: %s", what, *fragments, err->text);
}
