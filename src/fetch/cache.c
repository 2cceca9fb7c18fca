/* fetch/cache.c - the cache's folder, read; see cache.h.
 *
 * Other programs write here too, so everything that is read is checked as if it
 * came from the network. */
#include "fetch/cache.h"

#include "base/file.h"
#include "base/mem.h"
#include "fetch/name.h"
#include "fetch/select.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 8, CONFIG_BYTES = 16 << 20, REF_BYTES = 1024, SHORT_COMMIT = 7 };
static const char prefix[] = "models--";

void cache_put_repo(str *out, const fetch_settings *s, const char *repo, const char *below)
{
    const char *slash = strchr(repo, '/');
    str_printf(out, "%s/%s%.*s--%s%s%s", s->root, prefix, (int)(slash - repo), repo, slash + 1,
               below[0] != '\0' ? "/" : "", below);
}

void cache_put_locks(str *out, const fetch_settings *s, const char *repo)
{
    const char *slash = strchr(repo, '/');
    str_printf(out, "%s/.locks/%s%.*s--%s", s->root, prefix, (int)(slash - repo), repo, slash + 1);
}

bool cache_repo_of(char repo[FETCH_REPO_BYTES], const char *folder)
{
    const size_t n = sizeof prefix - 1;
    if (strncmp(folder, prefix, n) != 0) return false;
    const char *dashes = strstr(folder + n, "--");
    if (dashes == NULL || strlen(folder + n) >= FETCH_REPO_BYTES) return false;
    (void)snprintf(repo, FETCH_REPO_BYTES, "%.*s/%s", (int)(dashes - folder - (ptrdiff_t)n), folder + n, dashes + 2);
    return strpbrk(repo, ":@") == NULL && fetch_is_name(repo);
}

static bool is_commit(const char *text)
{
    const size_t n = strspn(text, "0123456789abcdef");
    return n >= SHORT_COMMIT && n < FETCH_COMMIT_BYTES && text[n] == '\0';
}

/* A ref's file, and what it says. */
static weir_status read_ref(char commit[FETCH_COMMIT_BYTES], const char *path, weir_error *err)
{
    char  *text;
    size_t n;
    TRY(file_read(&text, &n, path, REF_BYTES, err));
    text[strcspn(text, "\r\n \t")] = '\0';
    weir_status st                 = WEIR_OK;
    if (is_commit(text))
        memcpy(commit, text, strlen(text) + 1);
    else
        st = status_fail(err, WEIR_FORMAT, "%s: expected a commit, found \"%.60s\"", path, text);
    mem_free(text);
    return st;
}

weir_status cache_read_commit(char commit[FETCH_COMMIT_BYTES], const fetch_settings *s, const fetch_name *name,
                              weir_error *err)
{
    str ref, snapshot;
    str_init(&ref, CACHE_PATH_BYTES);
    str_init(&snapshot, CACHE_PATH_BYTES);
    cache_put_repo(&ref, s, name->repo, "refs/");
    str_puts(&ref, name->revision);
    cache_put_repo(&snapshot, s, name->repo, "snapshots/");
    str_puts(&snapshot, name->revision);

    weir_status st;
    if (ref.failed || snapshot.failed)
        st = status_fail(err, WEIR_IO, "%s: the path of the model cache is too long", name->repo);
    else if (file_exists(ref.data))
        st = read_ref(commit, ref.data, err);
    else if (is_commit(name->revision) && file_is_dir(snapshot.data)) {
        memcpy(commit, name->revision, strlen(name->revision) + 1);
        st = WEIR_OK;
    } else
        st = status_fail(err, WEIR_UNSUPPORTED, "%s: not in the model cache (looked for %s); weir pull downloads it",
                         name->repo, ref.data);
    str_free(&ref);
    str_free(&snapshot);
    return st;
}

weir_status cache_make_folders(const char *path, weir_error *err)
{
    char *copy = mem_strdup(path);
    if (copy == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    weir_status st = WEIR_OK;
    for (char *at = copy + 1; st == WEIR_OK; at++) {
        if (*at != '/' && *at != '\0') continue;
        const char was = *at;
        *at            = '\0';
        if (mkdir(copy, 0777) != 0 && (errno != EEXIST || !file_is_dir(copy)))
            st = status_fail(err, WEIR_IO, "%s: cannot make this folder: %s", copy, strerror(errno));
        *at = was;
        if (was == '\0') break;
    }
    mem_free(copy);
    return st;
}

/* ------------------------------------------------------------------ a snapshot */

static void put_name(str *list, const char *name)
{
    if (list == NULL) return;
    if (list->len > 0) str_puts(list, ", ");
    str_puts(list, name);
}

/* Adds the files of the folder `fd`, whose path below the snapshot is `at`; closes it. */
static weir_status list_folder(listing *out, int fd, str *at, unsigned depth, str *missing, weir_error *err)
{
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd);
        return status_fail(err, WEIR_IO, "%s: %s", at->data, strerror(errno));
    }
    const size_t before = at->len;
    weir_status  st     = WEIR_OK;
    for (const struct dirent *e; st == WEIR_OK && (e = readdir(d)) != NULL;) {
        struct stat own, sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        at->len                          = before;
        at->data[before * (at->cap > 0)] = '\0';
        if (before > 0) str_putc(at, '/');
        str_puts(at, e->d_name);
        if (at->failed || !name_is_path(at->data, LISTING_PATH_MAX)) {
            at->failed = false;
            continue; /* nothing that a hub could have sent */
        }
        if (fstatat(dirfd(d), e->d_name, &own, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISDIR(own.st_mode)) {
            const int below = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (below >= 0 && depth < MAX_DEPTH)
                st = list_folder(out, below, at, depth + 1, missing, err);
            else if (below >= 0)
                (void)close(below);
        } else if (fstatat(dirfd(d), e->d_name, &sb, 0) != 0) {
            put_name(missing, at->data);
        } else if (S_ISREG(sb.st_mode)) {
            st = listing_add(out, at->data, "", (uint64_t)sb.st_size, err);
        }
    }
    at->len = before;
    if (at->cap > 0) at->data[before] = '\0';
    (void)closedir(d);
    return st;
}

weir_status cache_list_snapshot(listing *out, const char *folder, str *missing, weir_error *err)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return status_fail(err, WEIR_FORMAT, "%s: %s", folder, strerror(errno));
    str at;
    str_init(&at, LISTING_PATH_MAX);
    weir_status st = list_folder(out, fd, &at, 0, missing, err);
    str_free(&at);
    return st == WEIR_OK ? listing_finish(out, folder, err) : st;
}

/* "affine 4 bits", "fp8", "bfloat16" by config.json; "safetensors" when it does not say. */
static void put_weight_format(str *out, const char *config)
{
    json_doc doc;
    if (json_load(&doc, config, CONFIG_BYTES, JSON_MAX_DEPTH, NULL) != WEIR_OK) {
        str_puts(out, "safetensors");
        return;
    }
    const json_t *text = json_object_get(doc.root, "text_config"), *mlx = json_object_get(doc.root, "quantization");
    const json_t *other = json_object_get(doc.root, "quantization_config");
    const char   *mode = json_string_value(json_object_get(mlx, "mode")), *type = NULL;
    const json_t *places[] = {doc.root, text};
    for (size_t i = 0; i < 2 && type == NULL; i++) {
        type = json_string_value(json_object_get(places[i], "dtype"));
        if (type == NULL) type = json_string_value(json_object_get(places[i], "torch_dtype"));
    }
    if (json_is_integer(json_object_get(mlx, "bits")) && (mode == NULL || strcmp(mode, "affine") == 0))
        str_printf(out, "affine %d bits", (int)json_integer_value(json_object_get(mlx, "bits")));
    else if (mode != NULL)
        str_printf(out, "%.40s", mode);
    else if (json_is_string(json_object_get(other, "quant_method")))
        str_printf(out, "%.40s", json_string_value(json_object_get(other, "quant_method")));
    else
        str_printf(out, "%.40s", type != NULL ? type : "safetensors");
    json_doc_free(&doc);
}

weir_status cache_describe(listing *l, const char *folder, str *format, str *missing, weir_error *err)
{
    const bool gguf_only = !select_has_safetensors(l) && listing_find(l, "config.json") == NULL;
    str        names;
    str_init(&names, CACHE_PATH_BYTES);
    select_describe_gguf(l, &names, missing);
    if (names.len > 0) str_printf(format, "gguf %s", names.data);
    str_free(&names);
    if (gguf_only && format->len > 0) return WEIR_OK;

    const bool adapter = listing_find(l, "adapter_config.json") != NULL;
    if (!adapter && listing_find(l, "config.json") == NULL) put_name(missing, "config.json");
    char       *config = path_join(folder, "config.json"), *index = path_join(folder, SELECT_INDEX);
    weir_status st = WEIR_OK;
    if (config == NULL || index == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", folder);
    } else if (listing_find(l, SELECT_INDEX) != NULL) {
        st = select_weights(l, index, folder, missing, err);
        if (st == WEIR_FORMAT) {
            put_name(missing, "a sound " SELECT_INDEX);
            st = WEIR_OK;
        }
    } else if (!select_has_safetensors(l)) {
        put_name(missing, "weights (.safetensors)");
    }
    if (st == WEIR_OK) {
        if (format->len > 0) str_puts(format, ", ");
        if (adapter)
            str_puts(format, "adapter");
        else
            put_weight_format(format, config);
    }
    mem_free(config);
    mem_free(index);
    return st;
}

weir_status cache_open(const fetch_name *name, const char *folder, bool complete, char **path, weir_error *err)
{
    listing files = {0};
    str     format, missing;
    size_t  first = 0;
    *path         = NULL;
    str_init(&format, CACHE_PATH_BYTES);
    str_init(&missing, CACHE_PATH_BYTES);
    weir_status st = cache_list_snapshot(&files, folder, &missing, err);
    if (st != WEIR_OK) goto done;
    const bool as_model =
        name->file[0] == '\0' && (select_has_safetensors(&files) || listing_find(&files, "config.json") != NULL);
    if (!as_model) {
        st = select_gguf(&files, name->file, name->repo, &first, err);
        if (st == WEIR_OK) *path = path_join(folder, files.files[first].path);
    } else {
        if (complete) st = cache_describe(&files, folder, &format, &missing, err);
        if (st == WEIR_OK && missing.len > 0)
            st = status_fail(err, WEIR_FORMAT,
                             "%s: incomplete in the model cache: %.600s missing; weir pull %s%s%s goes on", name->repo,
                             missing.data, name->repo, name->revision_given ? "@" : "",
                             name->revision_given ? name->revision : "");
        if (st == WEIR_OK) *path = mem_strdup(folder);
    }
    if (st == WEIR_OK && *path == NULL) st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", folder);
done:
    listing_free(&files);
    str_free(&format);
    str_free(&missing);
    return st;
}

weir_status fetch_find(const fetch_settings *s, const fetch_name *name, char **path, weir_error *err)
{
    char commit[FETCH_COMMIT_BYTES];
    *path = NULL;
    TRY(cache_read_commit(commit, s, name, err));
    str folder;
    str_init(&folder, CACHE_PATH_BYTES);
    cache_put_repo(&folder, s, name->repo, "snapshots/");
    str_puts(&folder, commit);
    weir_status st = str_status(&folder, "model cache", err);
    if (st == WEIR_OK) st = cache_open(name, folder.data, true, path, err);
    str_free(&folder);
    return st;
}
