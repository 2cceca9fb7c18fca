/* fetch/remove.c - what was downloaded, taken away again.
 *
 * Everything is named from open folders and no link is entered, so what a link
 * leads to stays.  Refs go first, then snapshots, then blobs: what is interrupted
 * leaves nothing that looks complete. */
#include "base/file.h"
#include "base/mem.h"
#include "fetch/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 32 };

typedef struct removal {
    const fetch_name *name;
    char              commit[FETCH_COMMIT_BYTES];
    bool              try_only;
    int               repo;  /* its folder */
    str               path;  /* of it, for messages */
    listing           blobs; /* by hash; wanted: something else uses it */
    fetch_removal    *out;
} removal;

static weir_status fail(const removal *r, const char *what, weir_error *err)
{
    return status_fail(err, WEIR_IO, "%s/%s: cannot remove: %s", r->path.data, what, strerror(errno));
}

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Calls visit for every entry of a folder that is not there, or is; an entry's
 * removal while the folder is read is allowed. */
typedef weir_status visit_fn(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                             weir_error *err);

static weir_status each(removal *r, int at, const char *folder, visit_fn *visit, unsigned depth, weir_error *err)
{
    const int fd = open_folder(at, folder);
    if (fd < 0) return errno == ENOENT ? WEIR_OK : fail(r, folder, err);
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return fail(r, folder, err);
    }
    weir_status st = WEIR_OK;
    for (const struct dirent *e; st == WEIR_OK && (e = readdir(d)) != NULL;) {
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
            st = visit(r, dirfd(d), e->d_name, &sb, depth, err);
    }
    (void)closedir(d);
    return st;
}

/* Removes an entry and all below it. */
static weir_status remove_entry(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                                weir_error *err)
{
    if (!S_ISDIR(sb->st_mode)) return unlinkat(dir, name, 0) == 0 || errno == ENOENT ? WEIR_OK : fail(r, name, err);
    if (depth == MAX_DEPTH) {
        errno = ELOOP;
        return fail(r, name, err);
    }
    TRY(each(r, dir, name, remove_entry, depth + 1, err));
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? WEIR_OK : fail(r, name, err);
}

static weir_status remove_named(removal *r, int dir, const char *name, weir_error *err)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? WEIR_OK : fail(r, name, err);
    return remove_entry(r, dir, name, &sb, 0, err);
}

/* ------------------------------------------------------------------ what is there */

static weir_status note_blob(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                             weir_error *err)
{
    (void)dir, (void)depth;
    return S_ISREG(sb->st_mode) ? listing_add(&r->blobs, name, "", (uint64_t)sb->st_size, err) : WEIR_OK;
}

/* Marks the blob that a link of another revision leads to. */
static weir_status mark_used(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                             weir_error *err)
{
    char target[CACHE_PATH_BYTES];
    if (S_ISDIR(sb->st_mode)) return depth < MAX_DEPTH ? each(r, dir, name, mark_used, depth + 1, err) : WEIR_OK;
    if (!S_ISLNK(sb->st_mode)) return WEIR_OK;
    const ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n <= 0) return WEIR_OK;
    target[n]           = '\0';
    const char   *slash = strrchr(target, '/');
    listing_file *blob  = listing_find(&r->blobs, slash != NULL ? slash + 1 : target);
    if (blob != NULL) blob->wanted = true;
    return WEIR_OK;
}

static weir_status note_snapshot(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                                 weir_error *err)
{
    if (!S_ISDIR(sb->st_mode) && !S_ISLNK(sb->st_mode)) return WEIR_OK;
    r->out->revisions++;
    if (r->commit[0] == '\0' || strcmp(name, r->commit) == 0) return WEIR_OK;
    return mark_used(r, dir, name, sb, depth, err);
}

/* Nobody may be downloading. */
static weir_status check_lock(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                              weir_error *err)
{
    (void)depth;
    if (!S_ISREG(sb->st_mode)) return WEIR_OK;
    const int  fd   = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) (void)close(fd);
    return busy ? status_fail(err, WEIR_IO, "%s: is being downloaded by another program", r->name->repo) : WEIR_OK;
}

/* ------------------------------------------------------------------ removing */

static weir_status remove_ref(removal *r, int dir, const char *name, const struct stat *sb, unsigned depth,
                              weir_error *err)
{
    char text[FETCH_COMMIT_BYTES + 1] = {0};
    if (S_ISDIR(sb->st_mode)) return depth < MAX_DEPTH ? each(r, dir, name, remove_ref, depth + 1, err) : WEIR_OK;
    if (!S_ISREG(sb->st_mode)) return WEIR_OK;
    const int     fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const ssize_t n  = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) (void)close(fd);
    text[n > 0 ? strcspn(text, "\r\n \t") : 0] = '\0';
    if (strcmp(text, r->commit) != 0) return WEIR_OK;
    return unlinkat(dir, name, 0) == 0 || errno == ENOENT ? WEIR_OK : fail(r, name, err);
}

static weir_status remove_revision(removal *r, weir_error *err)
{
    TRY(each(r, r->repo, "refs", remove_ref, 0, err));
    const int snapshots = open_folder(r->repo, "snapshots");
    if (snapshots < 0) return fail(r, "snapshots", err);
    weir_status st = remove_named(r, snapshots, r->commit, err);
    (void)close(snapshots);
    if (st != WEIR_OK) return st;
    const int blobs = open_folder(r->repo, "blobs");
    if (blobs < 0) return fail(r, "blobs", err);
    for (size_t i = 0; st == WEIR_OK && i < r->blobs.n; i++) {
        const listing_file *b = &r->blobs.files[i];
        if (!b->wanted && unlinkat(blobs, b->path, 0) != 0 && errno != ENOENT) st = fail(r, b->path, err);
    }
    (void)close(blobs);
    return st;
}

static weir_status remove_all(removal *r, int root, const char *folder, weir_error *err)
{
    TRY(remove_named(r, r->repo, "refs", err));
    TRY(remove_named(r, r->repo, "snapshots", err));
    TRY(remove_named(r, r->repo, "blobs", err));
    TRY(remove_named(r, root, folder, err));
    const int locks = open_folder(root, ".locks");
    if (locks < 0) return WEIR_OK;
    const weir_status st = remove_named(r, locks, folder, err);
    (void)close(locks);
    return st;
}

/* Counts, decides whether anything stays, and removes. */
static weir_status remove_from(removal *r, int root, const char *folder, weir_error *err)
{
    const int locks = open_folder(root, ".locks");
    if (locks >= 0) {
        const weir_status st = each(r, locks, folder, check_lock, 0, err);
        (void)close(locks);
        TRY(st);
    }
    TRY(each(r, r->repo, "blobs", note_blob, 0, err));
    TRY(listing_finish(&r->blobs, r->path.data, err));
    TRY(each(r, r->repo, "snapshots", note_snapshot, 0, err));
    const bool all = r->commit[0] == '\0' || r->out->revisions == 1;
    if (!all) r->out->revisions = 1;
    for (size_t i = 0; i < r->blobs.n; i++)
        if (all || !r->blobs.files[i].wanted) r->out->bytes += r->blobs.files[i].size;
    if (r->try_only) return WEIR_OK;
    return all ? remove_all(r, root, folder, err) : remove_revision(r, err);
}

weir_status fetch_remove(const fetch_settings *s, const fetch_name *name, bool try_only, fetch_removal *out,
                         weir_error *err)
{
    *out      = (fetch_removal){0};
    removal r = {.name = name, .try_only = try_only, .repo = -1, .out = out};
    if (name->file[0] != '\0')
        return status_fail(err, WEIR_INVALID, "%s:%s: expected ORG/NAME or ORG/NAME@REVISION", name->repo, name->file);
    if (name->revision_given) TRY(cache_read_commit(r.commit, s, name, err));
    str_init(&r.path, CACHE_PATH_BYTES);
    cache_put_repo(&r.path, s, name->repo, "");
    weir_status st   = str_status(&r.path, name->repo, err);
    const int   root = st == WEIR_OK ? open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (st == WEIR_OK) {
        const char *folder = strrchr(r.path.data, '/') + 1;
        r.repo             = root >= 0 ? open_folder(root, folder) : -1;
        if (r.repo < 0)
            st = errno == ENOENT ? status_fail(err, WEIR_UNSUPPORTED, "%s: not in the model cache (looked for %s)",
                                               name->repo, r.path.data)
                                 : status_fail(err, WEIR_IO, "%s: expected a folder: %s", r.path.data, strerror(errno));
        else
            st = remove_from(&r, root, folder, err);
    }
    if (r.repo >= 0) (void)close(r.repo);
    if (root >= 0) (void)close(root);
    listing_free(&r.blobs);
    str_free(&r.path);
    return st;
}
