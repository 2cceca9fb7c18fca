/* cli/find_model.c - names of models to paths.
 *
 * What is in the local Hugging Face cache is found by fetch/, which also puts it
 * there; nothing is downloaded here. */
#include "cli/find_model.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/hub.h"

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

static weir_status find_in_cache(const char *text, char **path, weir_error *err)
{
    hub        h;
    fetch_name name;
    TRY(fetch_parse_name(&name, text, err));
    TRY(hub_open(&h, err));
    const weir_status st = fetch_find(&h.settings, &name, path, err);
    hub_close(&h);
    if (st == WEIR_UNSUPPORTED) return status_prefix(err, st, "no such file or directory");
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
    if (access(argument, F_OK) != 0 && fetch_is_name(argument)) return find_in_cache(argument, path, err);
    return copy_path(argument, path, err);
}
