/* fetch/scan.c - what the cache holds; nothing is changed. */
#include "base/file.h"
#include "base/mem.h"
#include "fetch/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 10000, TEXT_BYTES = 4096 };

/* The names in a folder, sorted. */
typedef struct names {
    char **items;
    size_t n;
} names;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(names *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->items[i]);
    mem_free(l->items);
    *l = (names){0};
}

/* Leaves *out empty where there is no such folder. */
static weir_status names_read(names *out, const char *folder, weir_error *err)
{
    *out   = (names){.items = mem_zalloc(MAX_ENTRIES, sizeof(char *))};
    DIR *d = opendir(folder);
    if (out->items == NULL || (d == NULL && errno != ENOENT && errno != ENOTDIR)) {
        const weir_status st = out->items == NULL ? status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", folder)
                                                  : status_fail(err, WEIR_IO, "%s: %s", folder, strerror(errno));
        names_free(out);
        if (d != NULL) (void)closedir(d);
        return st;
    }
    weir_status st = WEIR_OK;
    for (const struct dirent *e; d != NULL && st == WEIR_OK && out->n < MAX_ENTRIES && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        out->items[out->n] = mem_strdup(e->d_name);
        if (out->items[out->n] == NULL)
            st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", folder);
        else
            out->n++;
    }
    if (d != NULL) (void)closedir(d);
    if (st != WEIR_OK)
        names_free(out);
    else
        qsort(out->items, out->n, sizeof *out->items, by_name);
    return st;
}

/* The refs that name the commit, with ", " between. */
static weir_status find_refs(str *out, const char *folder, const listing *refs, const char *commit, weir_error *err)
{
    for (size_t i = 0; i < refs->n; i++) {
        char  *path = path_join(folder, refs->files[i].path), *text = NULL;
        size_t n;
        if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", folder);
        if (file_read(&text, &n, path, FETCH_REVISION_BYTES, NULL) == WEIR_OK) {
            text[strcspn(text, "\r\n \t")] = '\0';
            if (strcmp(text, commit) == 0) {
                if (out->len > 0) str_puts(out, ", ");
                str_puts(out, refs->files[i].path);
            }
        }
        mem_free(text);
        mem_free(path);
    }
    return WEIR_OK;
}

typedef struct scan {
    fetch_visit_fn *visit;
    void           *user;
    const char     *repo, *refs_folder;
    const listing  *refs;
} scan;

static weir_status visit_snapshot(const scan *s, const char *folder, const char *commit, weir_error *err)
{
    listing files = {0};
    str     refs, format, missing;
    str_init(&refs, TEXT_BYTES);
    str_init(&format, TEXT_BYTES);
    str_init(&missing, TEXT_BYTES);
    weir_status st = cache_list_snapshot(&files, folder, &missing, err);
    if (st == WEIR_OK) st = cache_describe(&files, folder, &format, &missing, err);
    if (st == WEIR_OK) st = find_refs(&refs, s->refs_folder, s->refs, commit, err);
    if (st == WEIR_OK) {
        fetch_revision r = {.repo    = s->repo,
                            .commit  = commit,
                            .path    = folder,
                            .refs    = refs.data,
                            .format  = format.data,
                            .missing = missing.data,
                            .files   = (uint32_t)files.n};
        for (size_t i = 0; i < files.n; i++) r.bytes += files.files[i].size;
        s->visit(s->user, &r);
    }
    listing_free(&files);
    str_free(&refs);
    str_free(&format);
    str_free(&missing);
    return st;
}

/* Blobs without a snapshot: a download that was ended. */
static weir_status visit_beginnings(const scan *s, const char *folder, weir_error *err)
{
    listing        blobs = {0};
    weir_status    st    = cache_list_snapshot(&blobs, folder, NULL, err);
    fetch_revision r     = {
            .repo = s->repo, .commit = "", .path = folder, .refs = "", .format = "", .missing = "an unfinished download"};
    for (size_t i = 0; i < blobs.n; i++) r.bytes += blobs.files[i].size;
    r.files = (uint32_t)blobs.n;
    if (st == WEIR_OK && blobs.n > 0) s->visit(s->user, &r);
    listing_free(&blobs);
    return st;
}

static weir_status visit_repository(const fetch_settings *settings, const char *repo, fetch_visit_fn *visit, void *user,
                                    weir_error *err)
{
    listing refs    = {0};
    names   commits = {0};
    str     refs_folder, blobs, snapshots;
    str_init(&refs_folder, CACHE_PATH_BYTES);
    str_init(&blobs, CACHE_PATH_BYTES);
    str_init(&snapshots, CACHE_PATH_BYTES);
    cache_put_repo(&refs_folder, settings, repo, "refs");
    cache_put_repo(&blobs, settings, repo, "blobs");
    cache_put_repo(&snapshots, settings, repo, "snapshots");
    const scan  s  = {.visit = visit, .user = user, .repo = repo, .refs_folder = refs_folder.data, .refs = &refs};
    weir_status st = str_status(&snapshots, repo, err);
    if (st == WEIR_OK && file_is_dir(refs_folder.data)) st = cache_list_snapshot(&refs, refs_folder.data, NULL, err);
    if (st == WEIR_OK) st = names_read(&commits, snapshots.data, err);
    size_t visited = 0;
    for (size_t i = 0; st == WEIR_OK && i < commits.n; i++) {
        char *folder = path_join(snapshots.data, commits.items[i]);
        if (folder == NULL) st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", repo);
        if (st == WEIR_OK && file_is_dir(folder)) {
            st = visit_snapshot(&s, folder, commits.items[i], err);
            visited++;
        }
        mem_free(folder);
    }
    if (st == WEIR_OK && visited == 0 && file_is_dir(blobs.data)) st = visit_beginnings(&s, blobs.data, err);
    names_free(&commits);
    listing_free(&refs);
    str_free(&refs_folder);
    str_free(&blobs);
    str_free(&snapshots);
    return st;
}

weir_status fetch_list(const fetch_settings *s, fetch_visit_fn *visit, void *user, weir_error *err)
{
    names folders;
    TRY(names_read(&folders, s->root, err));
    weir_status st = WEIR_OK;
    for (size_t i = 0; st == WEIR_OK && i < folders.n; i++) {
        char repo[FETCH_REPO_BYTES];
        if (cache_repo_of(repo, folders.items[i])) st = visit_repository(s, repo, visit, user, err);
    }
    names_free(&folders);
    return st;
}
