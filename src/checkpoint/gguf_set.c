/* checkpoint/gguf_set.c - the GGUF files of one checkpoint.
 *
 * The names of siblings follow from the path that was given, never from what
 * is in a file. */
#include "checkpoint/gguf_set.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "checkpoint/shards.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 10000, MAX_PATH = 4096, NAMED = 8 };

static const char suffix[] = ".gguf";

/* Bytes of NAME in .../NAME-00002-of-00003.gguf counted from the start of the
 * path, and the two numbers; 0 for another form. */
static size_t split_name(const char *path, unsigned *number, unsigned *count)
{
    enum { TAIL = sizeof "-00001-of-00003.gguf" - 1 };
    const size_t n = strlen(path);
    char         again[TAIL + 1];
    if (n <= TAIL || sscanf(path + n - TAIL, "-%5u-of-%5u.gguf", number, count) != 2) return 0;
    (void)snprintf(again, sizeof again, "-%05u-of-%05u%s", *number, *count, suffix);
    return strcmp(again, path + n - TAIL) == 0 ? n - TAIL : 0;
}

static weir_status numbers(const gguf *g, uint32_t *number, uint32_t *count, weir_error *err)
{
    *number = 0;
    *count  = 1;
    TRY(gguf_get_u32(g, "split.count", false, 0, MAX_FILES, count, err));
    if (*count == 0) *count = 1;
    return gguf_get_u32(g, "split.no", *count > 1, 0, *count - 1, number, err);
}

static weir_status open_sibling(gguf_set *s, const char *path, size_t name, uint32_t i, uint32_t n, weir_error *err)
{
    str file;
    str_init(&file, MAX_PATH);
    str_put(&file, path, name);
    str_printf(&file, "-%05u-of-%05u%s", i + 1, n, suffix);
    weir_status st = str_status(&file, path, err);
    if (st == WEIR_OK) st = shards_check_file(file.data, err);
    if (st == WEIR_OK) st = gguf_open(&s->files[i], file.data, err);
    str_free(&file);
    if (st != WEIR_OK) return st;
    s->n++;
    uint32_t number = 0, count = 0;
    TRY(numbers(&s->files[i], &number, &count, err));
    if (number == i && count == n) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: split.no, split.count: expected %u of %u, found %u of %u",
                       s->files[i].path, i, n, number, count);
}

static weir_status open_split(gguf_set *s, const char *path, uint32_t n, weir_error *err)
{
    unsigned     number = 0, count = 0;
    const size_t name  = split_name(path, &number, &count);
    uint64_t     found = 0;
    uint32_t     total = 0;
    if (name == 0 || count != n)
        return status_fail(err, WEIR_FORMAT,
                           "%s: split.count: expected a file named NAME-00001-of-%05u.gguf, found another name", path,
                           n);
    s->files = mem_zalloc(n, sizeof s->files[0]);
    if (s->files == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    for (uint32_t i = 0; i < n; i++) {
        TRY(open_sibling(s, path, name, i, n, err));
        found += s->files[i].n_tensors;
    }
    TRY(gguf_get_u32(&s->files[0], "split.tensors.count", true, 0, UINT32_MAX, &total, err));
    if (found == total) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: split.tensors.count: expected %u tensors in all files, found %" PRIu64,
                       s->files[0].path, total, found);
}

static weir_status open_all(gguf_set *s, const char *path, weir_error *err)
{
    gguf     first;
    uint32_t number = 0, count = 0;
    TRY(gguf_open(&first, path, err));
    weir_status st = numbers(&first, &number, &count, err);
    if (st == WEIR_OK && count == 1) {
        s->files = mem_zalloc(1, sizeof s->files[0]);
        if (s->files != NULL) {
            s->files[0] = first;
            s->n        = 1;
            return WEIR_OK;
        }
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    }
    gguf_close(&first);
    return st == WEIR_OK ? open_split(s, path, count, err) : st;
}

weir_status gguf_set_open(gguf_set *out, const char *path, weir_error *err)
{
    *out                 = (gguf_set){0};
    const weir_status st = open_all(out, path, err);
    if (st != WEIR_OK) gguf_set_close(out);
    return st;
}

void gguf_set_close(gguf_set *s)
{
    for (size_t i = 0; i < s->n; i++) gguf_close(&s->files[i]);
    mem_free(s->files);
    *s = (gguf_set){0};
}

weir_status gguf_set_open_mtp(gguf_set *out, const char *path, weir_error *err)
{
    str          file;
    unsigned     number, count;
    const char  *slash = strrchr(path, '/');
    const size_t dir = slash != NULL ? (size_t)(slash - path) + 1 : 0, name = split_name(path, &number, &count);
    *out = (gguf_set){0};
    str_init(&file, MAX_PATH);
    str_put(&file, path, dir);
    str_puts(&file, "mtp-");
    if (name > dir)
        str_printf(&file, "%.*s%s", (int)(name - dir), path + dir, suffix);
    else
        str_puts(&file, path + dir);
    weir_status st = str_status(&file, path, err);
    if (st == WEIR_OK && file_exists(file.data)) {
        st = shards_check_file(file.data, err);
        if (st == WEIR_OK) st = gguf_set_open(out, file.data, err);
    }
    str_free(&file);
    return st;
}

/* ---- a folder ---- */

/* Is it a GGUF file by its name, and not one that goes beside a model? */
static bool is_model(const char *name)
{
    const size_t n = strlen(name), s = sizeof suffix - 1;
    if (name[0] == '.' || n <= s || strcmp(name + n - s, suffix) != 0) return false;
    return strncmp(name, "mtp-", 4) != 0 && strncmp(name, "mmproj", 6) != 0;
}

/* The file that stands for the model of `name`: of a split one the first.  mem_free. */
static char *model_of(const char *name)
{
    unsigned     number, count;
    const size_t n     = split_name(name, &number, &count);
    char        *model = mem_strdup(name);
    if (n > 0 && model != NULL) memcpy(model + n, "-00001", sizeof "-00001" - 1);
    return model;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One name for each file that is_model, sorted; the caller frees them. */
static weir_status read_folder(char ***models, size_t *n, const char *dir)
{
    weir_status st = WEIR_OK;
    DIR        *d  = opendir(dir);
    if (d == NULL) return WEIR_OK; /* whoever looks next says why */
    for (const struct dirent *e; st == WEIR_OK && *n < MAX_FILES && (e = readdir(d)) != NULL;) {
        if (!is_model(e->d_name)) continue;
        char *model = model_of(e->d_name), **more = mem_realloc(*models, *n + 1, sizeof **models);
        if (more != NULL) *models = more;
        if (more != NULL && model != NULL) {
            more[(*n)++] = model;
        } else {
            mem_free(model);
            st = WEIR_NO_MEMORY;
        }
    }
    (void)closedir(d);
    if (*n > 0) qsort(*models, *n, sizeof **models, by_name);
    return st;
}

/* Is it another model than the one before? */
static bool is_another(char *const *models, size_t i)
{
    return i == 0 || strcmp(models[i], models[i - 1]) != 0;
}

static weir_status several(const char *dir, char *const *models, size_t n, size_t different, weir_error *err)
{
    str    names;
    size_t named = 0;
    str_init(&names, MAX_PATH);
    for (size_t i = 0; i < n && named < NAMED; i++)
        if (is_another(models, i)) str_printf(&names, "%s%.120s", named++ > 0 ? ", " : "", models[i]);
    weir_status st = str_status(&names, dir, err);
    if (st == WEIR_OK)
        st = status_fail(err, WEIR_FORMAT, "%s: expected one model, found %zu: %s%s", dir, different, names.data,
                         different > NAMED ? ", ..." : "");
    str_free(&names);
    return st;
}

/* The path of the one model among the sorted names. */
static weir_status take_one(char **out, const char *dir, char *const *models, size_t n, weir_error *err)
{
    size_t different = 0;
    for (size_t i = 0; i < n; i++) different += is_another(models, i);
    if (different == 0) return WEIR_OK;
    if (different > 1) return several(dir, models, n, different, err);
    *out = path_join(dir, models[0]);
    return *out != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
}

weir_status gguf_set_in_folder(char **out, const char *dir, weir_error *err)
{
    char **models = NULL;
    size_t n      = 0;
    *out          = NULL;
    if (!file_is_dir(dir)) return WEIR_OK;
    char *path = path_join(dir, "config.json");
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    const bool safe = file_exists(path); /* its weights are safetensors */
    mem_free(path);
    if (safe) return WEIR_OK;
    weir_status st = read_folder(&models, &n, dir);
    st = st == WEIR_OK ? take_one(out, dir, models, n, err) : status_fail(err, st, "%s: out of memory", dir);
    for (size_t i = 0; i < n; i++) mem_free(models[i]);
    mem_free(models);
    return st;
}

const gguf_tensor *gguf_set_find(const gguf_set *s, const char *name)
{
    for (size_t f = 0; f < s->n; f++)
        for (size_t i = 0; i < s->files[f].n_tensors; i++)
            if (strcmp(s->files[f].tensors[i].name, name) == 0) return &s->files[f].tensors[i];
    return NULL;
}
