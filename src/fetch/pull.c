/* fetch/pull.c - a download from beginning to end.
 *
 *   revision -> commit -> list of files -> small files -> which weights -> weights
 *   -> links -> ref
 *
 * The index of the weights is one of the small files, so that the weights are
 * chosen by what it names.  The ref comes last. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "fetch/cache.h"
#include "fetch/name.h"
#include "fetch/select.h"
#include "fetch/snapshot.h"
#include "fetch/workers.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ANSWER_BYTES = 32 << 20, MAX_PAGES = 200, URL_BYTES = HTTP_URL_BYTES, FEW_TRIES = 2 };
static const uint64_t spare_bytes = UINT64_C(1) << 30; /* left on the disk in any case */

typedef struct pull {
    const fetch_settings *s;
    const fetch_name     *name;
    fetch_progress_fn    *progress;
    void                 *user;
    http                 *h; /* for the questions */
    atomic_bool           never;
    char                  commit[FETCH_COMMIT_BYTES];
    listing               files;
    bool                  gguf;
    str                   blobs, locks, snapshot; /* folders */
    int                   dir;                    /* blobs, open */
    blob_counts           counts;
} pull;

static weir_status ask(pull *p, const char *url, unsigned tries, str *answer, http_head *head, weir_error *err)
{
    str_init(answer, ANSWER_BYTES);
    const weir_status st = http_get(p->h, url, tries, answer, head, err);
    if (st != WEIR_OK) str_free(answer);
    return st;
}

static weir_status resolve(pull *p, unsigned tries, weir_error *err)
{
    str       url, answer;
    http_head head;
    str_init(&url, URL_BYTES);
    str_printf(&url, "%s/api/models/%s/revision/", p->s->endpoint, p->name->repo);
    http_put_escaped(&url, p->name->revision, false);
    weir_status st = str_status(&url, p->name->repo, err);
    if (st == WEIR_OK) st = ask(p, url.data, tries, &answer, &head, err);
    if (st == WEIR_OK) {
        st = listing_read_commit(p->commit, answer.data, answer.len, url.data, err);
        str_free(&answer);
    }
    /* A full commit can name nothing but itself. */
    if (st == WEIR_OK && name_is_hash(p->name->revision, HASH_SHA1_DIGITS) && strcmp(p->commit, p->name->revision) != 0)
        st = status_fail(err, WEIR_FORMAT, "%s: expected commit %s, the hub answered with %s", url.data,
                         p->name->revision, p->commit);
    str_free(&url);
    return st;
}

/* The list of files, page by page.  Where a page leads to another host, that one could
 * answer with any hashes it likes. */
static weir_status list_files(pull *p, weir_error *err)
{
    str       url;
    http_head head;
    str_init(&url, URL_BYTES);
    str_printf(&url, "%s/api/models/%s/tree/%s?recursive=true", p->s->endpoint, p->name->repo, p->commit);
    weir_status st = str_status(&url, p->name->repo, err);
    for (unsigned page = 0; st == WEIR_OK && url.len > 0; page++) {
        str answer;
        if (page == MAX_PAGES) {
            st = status_fail(err, WEIR_FORMAT, "%s: expected at most %d pages of files", p->name->repo, MAX_PAGES);
            break;
        }
        st = ask(p, url.data, HTTP_TRIES, &answer, &head, err);
        if (st != WEIR_OK) break;
        st = listing_add_page(&p->files, answer.data, answer.len, url.data, err);
        str_free(&answer);
        if (st == WEIR_OK && head.next[0] != '\0' && !http_is_endpoint(p->h, head.next))
            st = status_fail(err, WEIR_FORMAT, "%s: expected a next page at %s, found %.200s", p->name->repo,
                             p->s->endpoint, head.next);
        str_clear(&url);
        str_puts(&url, head.next);
    }
    str_free(&url);
    return st == WEIR_OK ? listing_finish(&p->files, p->name->repo, err) : st;
}

static weir_status make_place(pull *p, weir_error *err)
{
    str refs;
    str_init(&refs, CACHE_PATH_BYTES);
    cache_put_repo(&refs, p->s, p->name->repo, "refs");
    cache_put_repo(&p->blobs, p->s, p->name->repo, "blobs");
    cache_put_locks(&p->locks, p->s, p->name->repo);
    cache_put_repo(&p->snapshot, p->s, p->name->repo, "snapshots/");
    str_puts(&p->snapshot, p->commit);
    weir_status st = WEIR_OK;
    if (refs.failed || p->blobs.failed || p->locks.failed || p->snapshot.failed)
        st = status_fail(err, WEIR_IO, "%s: the path of the model cache is too long", p->name->repo);
    if (st == WEIR_OK) st = cache_make_folders(refs.data, err);
    if (st == WEIR_OK) st = cache_make_folders(p->blobs.data, err);
    if (st == WEIR_OK) st = cache_make_folders(p->locks.data, err);
    str_free(&refs);
    if (st != WEIR_OK) return st;
    p->dir = open(p->blobs.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->dir >= 0 ? WEIR_OK : status_fail(err, WEIR_IO, "%s: %s", p->blobs.data, strerror(errno));
}

static blob_place place_of(const pull *p)
{
    return (blob_place){.folder = p->blobs.data,
                        .locks  = p->locks.data,
                        .dir    = p->dir,
                        .repo   = p->name->repo,
                        .s      = p->s,
                        .halt   = &p->never};
}

/* Fails unless the disk has room for what is still to come. */
static weir_status check_space(const pull *p, weir_error *err)
{
    const blob_place place = place_of(p);
    uint64_t         need  = 0;
    struct statvfs   disk;
    for (size_t i = 0; i < p->files.n; i++)
        if (p->files.files[i].wanted) need += p->files.files[i].size - blob_present(&place, &p->files.files[i]);
    if (need == 0 || statvfs(p->blobs.data, &disk) != 0) return WEIR_OK;
    const uint64_t unit = disk.f_frsize != 0 ? disk.f_frsize : disk.f_bsize, room = disk.f_bavail * unit;
    if (need + spare_bytes <= room) return WEIR_OK;
    return status_fail(err, WEIR_IO, "%s: no room: %.2f GB are to come and 1 GiB is to stay free, %s has %.2f GB",
                       p->name->repo, (double)need * 1e-9, p->s->root, (double)room * 1e-9);
}

static void sum_wanted(const pull *p, uint32_t *n, uint64_t *bytes)
{
    *n     = 0;
    *bytes = 0;
    for (size_t i = 0; i < p->files.n; i++) {
        if (!p->files.files[i].wanted) continue;
        ++*n;
        *bytes += p->files.files[i].size;
    }
}

static weir_status download(pull *p, weir_error *err)
{
    TRY(check_space(p, err));
    workers_job job = {.s        = p->s,
                       .name     = p->name,
                       .commit   = p->commit,
                       .place    = place_of(p),
                       .files    = &p->files,
                       .progress = p->progress,
                       .user     = p->user,
                       .counts   = &p->counts};
    uint32_t    n;
    sum_wanted(p, &n, &job.total);
    atomic_store(&p->counts.done, 0);
    return workers_run(&job, err);
}

/* Chooses and downloads. */
static weir_status get_files(pull *p, weir_error *err)
{
    size_t first;
    p->gguf = p->name->file[0] != '\0' || !select_has_safetensors(&p->files);
    if (p->gguf) {
        TRY(select_gguf(&p->files, p->name->file, p->name->repo, &first, err));
        return download(p, err);
    }
    select_side_files(&p->files);
    TRY(download(p, err));
    const listing_file *index = listing_find(&p->files, SELECT_INDEX);
    char               *path  = index != NULL ? path_join(p->blobs.data, index->hash) : NULL;
    if (index != NULL && path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", p->name->repo);
    const weir_status st = select_weights(&p->files, path, p->name->repo, NULL, err);
    mem_free(path);
    TRY(st);
    return download(p, err);
}

static weir_status write_ref(const pull *p, weir_error *err)
{
    str         path;
    file_writer w;
    if (strcmp(p->name->revision, p->commit) == 0) return WEIR_OK;
    str_init(&path, CACHE_PATH_BYTES);
    cache_put_repo(&path, p->s, p->name->repo, "refs/");
    str_puts(&path, p->name->revision);
    weir_status st    = str_status(&path, p->name->repo, err);
    char       *slash = strrchr(path.data, '/');
    if (st == WEIR_OK) {
        *slash = '\0';
        st     = cache_make_folders(path.data, err);
        *slash = '/';
    }
    if (st == WEIR_OK) st = file_create(&w, path.data, err);
    if (st == WEIR_OK) {
        st = file_write(&w, p->commit, strlen(p->commit), err);
        if (st == WEIR_OK)
            st = file_commit(&w, err);
        else
            file_abandon(&w);
    }
    str_free(&path);
    return st;
}

/* The links, that of the config behind all others, and the ref. */
static weir_status publish(pull *p, weir_error *err)
{
    TRY(cache_make_folders(p->snapshot.data, err));
    const listing_file *config = listing_find(&p->files, "config.json");
    for (size_t i = 0; i < p->files.n; i++) {
        const listing_file *f = &p->files.files[i];
        if (f->wanted && f != config) TRY(snapshot_place(p->snapshot.data, f->path, f->hash, false, err));
    }
    if (config != NULL && config->wanted) TRY(snapshot_place(p->snapshot.data, config->path, config->hash, false, err));
    return write_ref(p, err);
}

static weir_status fill_result(const pull *p, fetch_result *out, weir_error *err)
{
    fetch_name name = *p->name;
    memcpy(out->commit, p->commit, sizeof out->commit);
    sum_wanted(p, &out->files, &out->bytes);
    out->received = atomic_load(&p->counts.received);
    return cache_open(&name, p->snapshot.data, !p->gguf, &out->path, err);
}

/* What is in the cache, when nobody is or can be asked. */
static weir_status use_local(const fetch_settings *s, const fetch_name *name, fetch_result *out, weir_error *err)
{
    *out = (fetch_result){.offline = true};
    TRY(cache_read_commit(out->commit, s, name, err));
    TRY(fetch_find(s, name, &out->path, err));
    str folder;
    str_init(&folder, CACHE_PATH_BYTES);
    cache_put_repo(&folder, s, name->repo, "snapshots/");
    str_puts(&folder, out->commit);
    listing     files = {0};
    weir_status st    = str_status(&folder, name->repo, err);
    if (st == WEIR_OK) st = cache_list_snapshot(&files, folder.data, NULL, err);
    for (size_t i = 0; i < files.n; i++) out->bytes += files.files[i].size;
    out->files = (uint32_t)files.n;
    listing_free(&files);
    str_free(&folder);
    return st;
}

static weir_status pull_online(pull *p, fetch_result *out, weir_error *err)
{
    fetch_result local = {0};
    const bool   have  = use_local(p->s, p->name, &local, NULL) == WEIR_OK;
    weir_status  st    = http_open(&p->h, p->s, p->name, &p->never, err);
    if (st == WEIR_OK) {
        weir_error why;
        st = resolve(p, have ? FEW_TRIES : HTTP_FIRST_TRIES, &why);
        if (st == WEIR_IO && have) {
            log_line(WEIR_LOG_WARN, "%s; taking what is in the cache", why.text);
            *out = local;
            return WEIR_OK;
        }
        if (st != WEIR_OK && err != NULL) *err = why;
    }
    mem_free(local.path);
    if (st == WEIR_OK) st = list_files(p, err);
    if (st == WEIR_OK) st = make_place(p, err);
    if (st == WEIR_OK) st = get_files(p, err);
    if (st == WEIR_OK) st = publish(p, err);
    if (st == WEIR_OK) st = fill_result(p, out, err);
    return st;
}

weir_status fetch_pull(const fetch_settings *s, const fetch_name *name, fetch_progress_fn *progress, void *user,
                       fetch_result *out, weir_error *err)
{
    *out   = (fetch_result){0};
    pull p = {.s = s, .name = name, .progress = progress, .user = user, .dir = -1};
    str_init(&p.blobs, CACHE_PATH_BYTES);
    str_init(&p.locks, CACHE_PATH_BYTES);
    str_init(&p.snapshot, CACHE_PATH_BYTES);
    weir_status st;
    if (s->offline) {
        st = use_local(s, name, out, err);
    } else if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: cannot start libcurl", name->repo);
    } else {
        st = pull_online(&p, out, err);
        http_close(p.h);
        curl_global_cleanup();
    }
    if (st != WEIR_OK) {
        mem_free(out->path);
        *out = (fetch_result){0};
    }
    listing_free(&p.files);
    str_free(&p.blobs);
    str_free(&p.locks);
    str_free(&p.snapshot);
    if (p.dir >= 0) (void)close(p.dir);
    return st;
}
