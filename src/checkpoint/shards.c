/* checkpoint/shards.c - which weight files a checkpoint has.
 *
 * The index is as untrusted as the rest: its values are plain file names of
 * the same directory, and a symbolic link must stay inside it.  The download
 * cache of the Hugging Face hub is the exception: there the files of
 * snapshots/<revision>/ are links to ../../blobs/. */
#include "checkpoint/shards.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX = 64 << 20, MAX_INDEX_DEPTH = 8, MAX_FILES = 10000 };

#define INDEX_NAME "model.safetensors.index.json"

/* A growing, at the end sorted list of owned file names. */
typedef struct name_list {
    char **names;
    size_t n, cap;
} name_list;

static void list_free(name_list *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->names[i]);
    mem_free(l->names);
    *l = (name_list){0};
}

static weir_status list_add(name_list *l, const char *name, const char *where, weir_error *err)
{
    if (l->n == MAX_FILES)
        return status_fail(err, WEIR_FORMAT, "%s: expected at most %d weight files, found more", where, MAX_FILES);
    if (l->n == l->cap) {
        const size_t cap = l->cap == 0 ? 16 : l->cap * 2;
        char       **p   = mem_realloc(l->names, cap, sizeof *p);
        if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", where);
        l->names = p;
        l->cap   = cap;
    }
    char *copy = mem_strdup(name);
    if (copy == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", where);
    l->names[l->n++] = copy;
    return WEIR_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_sort_unique(name_list *l)
{
    if (l->n == 0) return;
    qsort(l->names, l->n, sizeof l->names[0], by_text);
    size_t kept = 1;
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(l->names[i], l->names[kept - 1]) == 0)
            mem_free(l->names[i]);
        else
            l->names[kept++] = l->names[i];
    l->n = kept;
}

static size_t list_index(const name_list *l, const char *name)
{
    char *const *p = bsearch(&name, l->names, l->n, sizeof l->names[0], by_text);
    return p != NULL ? (size_t)(p - l->names) : SIZE_MAX;
}

static bool is_weight_name(const char *name)
{
    static const char head[] = "model", tail[] = ".safetensors";
    const size_t      n = strlen(name);
    return n >= sizeof head + sizeof tail - 2 && strncmp(name, head, sizeof head - 1) == 0 &&
           strcmp(name + n - (sizeof tail - 1), tail) == 0;
}

static weir_status list_directory(name_list *out, const char *dir, weir_error *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) return status_fail(err, WEIR_IO, "%s: %s", dir, strerror(errno));
    weir_status          st = WEIR_OK;
    const struct dirent *e;
    while (st == WEIR_OK && (e = readdir(d)) != NULL)
        if (is_weight_name(e->d_name)) st = list_add(out, e->d_name, dir, err);
    (void)closedir(d);
    if (st != WEIR_OK) return st;
    if (out->n == 0)
        return status_fail(err, WEIR_FORMAT, "%s: expected " INDEX_NAME " or model*.safetensors, found neither", dir);
    list_sort_unique(out);
    return WEIR_OK;
}

/* A name that can only be a file of the directory itself. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strpbrk(name, "/\\") == NULL && strstr(name, "..") == NULL;
}

static weir_status list_index_files(name_list *out, const char *index, const json_t *map, weir_error *err)
{
    const char *tensor, *last = NULL;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, v)
    {
        if (!json_is_string(v))
            return status_fail(err, WEIR_FORMAT, "%s: weight_map.%s: expected a string, found %s", index, tensor,
                               json_kind(v));
        const char *file = json_string_value(v);
        if (!is_plain_name(file))
            return status_fail(err, WEIR_FORMAT, "%s: weight_map.%s: expected a plain file name, found \"%.200s\"",
                               index, tensor, file);
        if (last != NULL && strcmp(last, file) == 0) continue; /* most are in runs */
        last = file;
        if (out->n == MAX_FILES) list_sort_unique(out);
        TRY(list_add(out, file, index, err));
    }
    if (out->n == 0) return status_fail(err, WEIR_FORMAT, "%s: weight_map: expected tensors, found none", index);
    list_sort_unique(out);
    return WEIR_OK;
}

/* True when `file` is below `dir` by name. */
static bool is_below(const char *file, const char *dir)
{
    const size_t n = strlen(dir);
    return strncmp(file, dir, n) == 0 && (file[n] == '/' || (n > 0 && dir[n - 1] == '/'));
}

/* dir = .../snapshots/<revision>: writes .../blobs; else false. */
static bool blobs_of_snapshot(char *out, size_t size, const char *dir)
{
    char copy[PATH_MAX];
    if (strlen(dir) >= sizeof copy) return false;
    memcpy(copy, dir, strlen(dir) + 1);
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(copy, '/');
        if (slash == NULL) return false;
        if (level == 1 && strcmp(slash, "/snapshots") != 0) return false;
        *slash = '\0';
    }
    const int n = snprintf(out, size, "%s/blobs", copy);
    return n > 0 && (size_t)n < size;
}

static weir_status check_link(const char *dir, const char *path, weir_error *err)
{
    char real_dir[PATH_MAX], real_file[PATH_MAX], blobs[PATH_MAX];
    if (realpath(path, real_file) == NULL)
        return status_fail(err, WEIR_IO, "%s: weight file: %s", path, strerror(errno));
    if (realpath(dir, real_dir) == NULL) return status_fail(err, WEIR_IO, "%s: %s", dir, strerror(errno));
    if (is_below(real_file, real_dir)) return WEIR_OK;
    if (blobs_of_snapshot(blobs, sizeof blobs, real_dir) && is_below(real_file, blobs)) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: weight file: expected a file inside %s, found a link to %s", path, dir,
                       real_file);
}

static weir_status open_files(shards *s, const name_list *names, weir_error *err)
{
    s->files = mem_zalloc(names->n, sizeof s->files[0]);
    if (s->files == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", s->dir);
    for (size_t i = 0; i < names->n; i++) {
        char *path = path_join(s->dir, names->names[i]);
        if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", s->dir);
        weir_status st = check_link(s->dir, path, err);
        if (st == WEIR_OK) st = safetensors_open(&s->files[i], path, err);
        mem_free(path);
        if (st != WEIR_OK) return st;
        s->n++;
    }
    return WEIR_OK;
}

/* One listed tensor, for the check that each shard has what the index says. */
typedef struct listed {
    const char *name;
    size_t      file;
} listed;

static int by_file_and_name(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return strcmp(x->name, y->name);
}

static size_t count_tensors(const shards *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += s->files[i].n;
    return n;
}

static weir_status check_index(const shards *s, const name_list *files, const char *index, const json_t *map,
                               weir_error *err)
{
    const size_t n   = count_tensors(s);
    listed      *all = mem_alloc(n, sizeof *all);
    if (all == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", index);
    size_t k = 0;
    for (size_t f = 0; f < s->n; f++)
        for (size_t i = 0; i < s->files[f].n; i++) all[k++] = (listed){s->files[f].tensors[i].name, f};
    qsort(all, n, sizeof *all, by_file_and_name);

    weir_status st = WEIR_OK;
    const char *tensor;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, v)
    {
        const listed key = {tensor, list_index(files, json_string_value(v))};
        if (bsearch(&key, all, n, sizeof *all, by_file_and_name) != NULL) continue;
        st = status_fail(err, WEIR_FORMAT, "%s: weight_map.%s: expected the tensor in %s, found none there", index,
                         tensor, json_string_value(v));
        break;
    }
    mem_free(all);
    return st;
}

static weir_status open_indexed(shards *s, const char *index, weir_error *err)
{
    json_doc doc;
    TRY(check_link(s->dir, index, err));
    TRY(json_load(&doc, index, MAX_INDEX, MAX_INDEX_DEPTH, err));
    name_list     files = {0};
    const json_t *map   = NULL;
    const json_at at    = {.file = index, .where = "", .obj = doc.root};
    weir_status   st    = WEIR_OK;
    if (!json_is_object(doc.root))
        st = status_fail(err, WEIR_FORMAT, "%s: expected an object, found %s", index, json_kind(doc.root));
    if (st == WEIR_OK) st = json_get_object(&at, "weight_map", true, &map, err);
    if (st == WEIR_OK) st = list_index_files(&files, index, map, err);
    if (st == WEIR_OK && (st = open_files(s, &files, err)) == WEIR_IO)
        (void)status_prefix(err, st, "%s: weight_map", index);
    if (st == WEIR_OK) st = check_index(s, &files, index, map, err);
    list_free(&files);
    json_doc_free(&doc);
    return st;
}

static weir_status open_directory(shards *s, weir_error *err)
{
    char *index = path_join(s->dir, INDEX_NAME);
    if (index == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", s->dir);
    weir_status st;
    if (file_exists(index)) {
        st = open_indexed(s, index, err);
    } else {
        name_list names = {0};
        st              = list_directory(&names, s->dir, err);
        if (st == WEIR_OK) st = open_files(s, &names, err);
        list_free(&names);
    }
    mem_free(index);
    return st;
}

static weir_status open_single(shards *s, const char *path, weir_error *err)
{
    s->files = mem_zalloc(1, sizeof s->files[0]);
    if (s->files == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    TRY(safetensors_open(&s->files[0], path, err));
    s->n = 1;
    return WEIR_OK;
}

/* The directory part of a file's path. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return mem_strdup(".");
    return slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
}

weir_status shards_open(shards *out, const char *path, weir_error *err)
{
    *out           = (shards){0};
    const bool dir = file_is_dir(path);
    out->dir       = dir ? mem_strdup(path) : directory_of(path);
    if (out->dir == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = dir ? open_directory(out, err) : open_single(out, path, err);
    if (st != WEIR_OK) shards_close(out);
    return st;
}

weir_status shards_check_file(const char *path, weir_error *err)
{
    char *dir = directory_of(path);
    if (dir == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = check_link(dir, path, err);
    mem_free(dir);
    return st;
}

void shards_close(shards *s)
{
    for (size_t i = 0; i < s->n; i++) safetensors_close(&s->files[i]);
    mem_free(s->files);
    mem_free(s->dir);
    *s = (shards){0};
}
