/* engine/verify_files.c - a folder of this run's own for files, with
 *
 *   sequence   what OP_SAVE wrote last
 *   cache/     entries of the prefix tree
 *
 * Everything in it is of this run and goes with it.  A machine without a place for files is
 * no difference: schedules that want one do without, and the counts show it. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/verify_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(verify_files *f)
{
    mem_free(f->dir);
    mem_free(f->sequence);
    mem_free(f->cache);
    *f = (verify_files){.denied = f->denied};
}

void verify_files_deny(verifier *v, const char *why)
{
    if (v->files.denied) return;
    v->files.denied = true;
    log_line(WEIR_LOG_WARN, "verify: %s; nothing goes through files", why);
}

/* Its names; true when there is a folder by each that is one. */
static bool make(verify_files *f, const char *scratch)
{
    f->dir = path_join(scratch, "weir-verify-XXXXXX");
    if (f->dir == NULL || mkdtemp(f->dir) == NULL) {
        mem_free(f->dir);
        f->dir = NULL;
        return false;
    }
    f->sequence = path_join(f->dir, "sequence");
    f->cache    = path_join(f->dir, "cache");
    return f->sequence != NULL && f->cache != NULL;
}

bool verify_files_ready(verifier *v)
{
    verify_files *f = &v->files;
    if (f->denied || f->dir != NULL) return !f->denied;
    const char *scratch = v->opt.scratch != NULL ? v->opt.scratch : "/tmp";
    if (make(f, scratch)) return true;
    str why;
    str_init(&why, 4000);
    str_printf(&why, "%s: cannot make a folder: %s", scratch, strerror(errno));
    verify_files_deny(v, why.data);
    str_free(&why);
    return false;
}

static void remove_files(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
}

void verify_files_clear(verifier *v)
{
    const verify_files *f = &v->files;
    if (f->dir == NULL) return;
    if (f->cache != NULL) remove_files(f->cache);
    if (f->cache != NULL) (void)rmdir(f->cache);
    remove_files(f->dir);
}

void verify_files_free(verifier *v)
{
    verify_files *f = &v->files;
    verify_files_clear(v);
    if (f->dir != NULL) (void)rmdir(f->dir);
    forget(f);
}
