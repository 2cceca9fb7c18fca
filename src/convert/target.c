/* convert/target.c - the folder that is written.
 *
 * While it is incomplete it holds the plan, as a text with everything that the
 * output depends on.  Files get their names when they are complete, so those of
 * the same plan are as good as new ones. */
#include "convert/target.h"

#include "base/file.h"
#include "base/mem.h"
#include "convert/side_files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_NAME "weir-quantize.plan"

/* "model.safetensors.0123abcd", as base/file.h calls what is not complete. */
static bool is_temporary(const char *name)
{
    enum { DIGITS = 8 };
    const char *dot = strrchr(name, '.');
    return dot != NULL && strlen(dot + 1) == DIGITS && strspn(dot + 1, "0123456789abcdef") == DIGITS;
}

static void remove_temporaries(const char *target)
{
    DIR *d = opendir(target);
    if (d == NULL) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char *path = is_temporary(e->d_name) ? path_join(target, e->d_name) : NULL;
        if (path != NULL) (void)unlink(path);
        mem_free(path);
    }
    (void)closedir(d);
}

/* Makes the folder unless it is there; *empty tells. */
static weir_status open_folder(const char *target, bool *empty, weir_error *err)
{
    *empty = true;
    if (mkdir(target, 0777) == 0) return WEIR_OK;
    if (errno != EEXIST) return status_fail(err, WEIR_IO, "%s: cannot make the folder: %s", target, strerror(errno));
    DIR *d = opendir(target);
    if (d == NULL) return status_fail(err, WEIR_IO, "%s: %s", target, strerror(errno));
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        *empty = *empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    (void)closedir(d);
    return WEIR_OK;
}

static weir_status check_plan(const char *target, const char *path, const str *wanted, weir_error *err)
{
    char  *text;
    size_t n;
    if (!file_exists(path))
        return status_fail(err, WEIR_INVALID, "%s: expected an empty folder or none, found files in it", target);
    TRY(file_read(&text, &n, path, wanted->max, err));
    const bool same = n == wanted->len && memcmp(text, wanted->data, n) == 0;
    mem_free(text);
    if (same) return WEIR_OK;
    return status_fail(err, WEIR_INVALID,
                       "%s: expected the beginning of this conversion, found that of another: the source or the "
                       "options have changed",
                       path);
}

weir_status target_begin(const char *target, const str *plan_text, weir_error *err)
{
    bool empty;
    TRY(open_folder(target, &empty, err));
    char *path = path_join(target, PLAN_NAME);
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", target);
    weir_status st;
    if (empty) {
        st = side_write(path, plan_text->data, plan_text->len, err);
    } else if ((st = check_plan(target, path, plan_text, err)) == WEIR_OK) {
        remove_temporaries(target);
    }
    mem_free(path);
    return st;
}

weir_status target_end(const char *target, weir_error *err)
{
    char *path = path_join(target, PLAN_NAME);
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", target);
    const int failed = unlink(path), e = errno;
    mem_free(path);
    return failed == 0 ? WEIR_OK : status_fail(err, WEIR_IO, "%s: %s: %s", target, PLAN_NAME, strerror(e));
}
