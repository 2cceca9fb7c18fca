/* cli/find_model.c - names of models to paths.
 *
 * The cache's layout is huggingface_hub's: models--ORG--NAME/refs/main holds a
 * commit, snapshots/COMMIT the files.  Nothing is downloaded here. */
#include "cli/find_model.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LIMIT = 4096 };

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static weir_status no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "model path: out of memory");
}

/* Gives the builder's text to *path. */
static weir_status finish(str *s, char **path, weir_error *err)
{
    const weir_status st = str_status(s, "model path", err);
    if (st == WEIR_OK) *path = str_take(s);
    str_free(s);
    return st == WEIR_OK && *path == NULL ? no_memory(err) : st;
}

/* The cache's folder; later variables hold only where earlier ones are unset. */
static void put_cache_folder(str *s)
{
    const char *dir;
    if ((dir = env("HF_HUB_CACHE")) != NULL)
        str_puts(s, dir);
    else if ((dir = env("HF_HOME")) != NULL)
        str_printf(s, "%s/hub", dir);
    else if ((dir = env("XDG_CACHE_HOME")) != NULL)
        str_printf(s, "%s/huggingface/hub", dir);
    else if ((dir = env("HOME")) != NULL)
        str_printf(s, "%s/.cache/huggingface/hub", dir);
    else
        str_puts(s, ".");
}

/* ORG/NAME: one slash, and nothing that could lead out of the cache. */
static bool is_repository(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t      org       = strspn(name, allowed);
    if (org == 0 || name[0] == '.' || name[org] != '/') return false;
    const char *rest = name + org + 1;
    return rest[0] != '\0' && rest[0] != '.' && strspn(rest, allowed) == strlen(rest);
}

static bool is_commit(const char *text)
{
    const size_t n = strspn(text, "0123456789abcdef");
    return n >= 7 && text[n] == '\0';
}

static weir_status find_in_cache(const char *name, char **path, weir_error *err)
{
    const char *slash = strchr(name, '/');
    char       *commit;
    size_t      n;
    str         dir, ref;
    str_init(&dir, PATH_LIMIT);
    str_init(&ref, PATH_LIMIT);
    put_cache_folder(&dir);
    str_printf(&dir, "/models--%.*s--%s", (int)(slash - name), name, slash + 1);
    str_printf(&ref, "%s/refs/main", dir.data);

    weir_status st = WEIR_OK;
    if (ref.failed || dir.failed) {
        st = status_fail(err, WEIR_IO, "%s: the path of the model cache is too long", name);
    } else if (!file_exists(ref.data)) {
        st = status_fail(err, WEIR_IO, "%s: no such file or directory, and not in the model cache (looked for %s)",
                         name, ref.data);
    } else if ((st = file_read(&commit, &n, ref.data, 1024, err)) == WEIR_OK) {
        commit[strcspn(commit, "\r\n \t")] = '\0';
        if (!is_commit(commit))
            st = status_fail(err, WEIR_FORMAT, "%s: expected a commit, found \"%.60s\"", ref.data, commit);
        else
            str_printf(&dir, "/snapshots/%s", commit);
        mem_free(commit);
    }
    str_free(&ref);
    if (st == WEIR_OK) return finish(&dir, path, err);
    str_free(&dir);
    return st;
}

/* PREFIX/share/weir/models/demo for a program in PREFIX/bin. */
static weir_status find_installed_demo(char **path, weir_error *err)
{
    char          exe[PATH_LIMIT];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return status_fail(err, WEIR_IO, "demo model: /proc/self/exe: %s", strerror(errno));
    exe[n]      = '\0';
    char *slash = strrchr(exe, '/');
    if (slash != NULL) *slash = '\0';
    str s;
    str_init(&s, PATH_LIMIT);
    str_printf(&s, "%s/../share/weir/models/demo", exe);
    if (!s.failed && !file_is_dir(s.data)) {
        const weir_status st = status_fail(
            err, WEIR_IO, "the demo model is not installed (looked for %s); name a MODEL or set WEIR_DEMO", s.data);
        str_free(&s);
        return st;
    }
    return finish(&s, path, err);
}

static weir_status copy_path(const char *text, char **path, weir_error *err)
{
    *path = mem_strdup(text);
    return *path != NULL ? WEIR_OK : no_memory(err);
}

weir_status find_model(const char *argument, char **path, weir_error *err)
{
    *path = NULL;
    if (argument == NULL) {
        const char *demo = env("WEIR_DEMO");
        if (demo == NULL && file_is_dir(WEIR_BUILD_DEMO)) demo = WEIR_BUILD_DEMO;
        return demo != NULL ? copy_path(demo, path, err) : find_installed_demo(path, err);
    }
    if (access(argument, F_OK) != 0 && is_repository(argument)) return find_in_cache(argument, path, err);
    return copy_path(argument, path, err);
}
