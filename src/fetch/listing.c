/* fetch/listing.c - the hub's list of files, all of it untrusted; see listing.h. */
#include "fetch/listing.h"

#include "base/mem.h"
#include "fetch/name.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16 };
static const json_int_t max_size = (json_int_t)1 << 50; /* a petabyte, so that sums cannot overflow */

weir_status listing_add(listing *l, const char *path, const char *hash, uint64_t size, weir_error *err)
{
    if (l->n == LISTING_MAX_FILES)
        return status_fail(err, WEIR_FORMAT, "%s: expected at most %d files", path, LISTING_MAX_FILES);
    if (l->n == l->capacity) {
        const size_t  capacity = l->capacity != 0 ? 2 * l->capacity : 64;
        listing_file *grown    = mem_realloc(l->files, capacity, sizeof *grown);
        if (grown == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
        l->files    = grown;
        l->capacity = capacity;
    }
    listing_file f = {.path = mem_strdup(path), .size = size};
    if (f.path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    memcpy(f.hash, hash, strlen(hash) + 1);
    l->files[l->n++] = f;
    return WEIR_OK;
}

static weir_status get_size(const json_at *at, uint64_t *out, weir_error *err)
{
    const json_t *v = json_object_get(at->obj, "size");
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > max_size)
        return status_fail(err, WEIR_FORMAT, "%s: %s.size: expected 0 to 2^50, found %s", at->file, at->where,
                           json_is_integer(v) ? "another number" : json_kind(v));
    *out = (uint64_t)json_integer_value(v);
    return WEIR_OK;
}

static weir_status get_hash(const json_at *at, size_t digits, const char **out, weir_error *err)
{
    TRY(json_get_string(at, "oid", true, out, err));
    if (!name_is_hash(*out, digits))
        return status_fail(err, WEIR_FORMAT, "%s: %s.oid: expected %zu hexadecimal digits, found \"%.80s\"", at->file,
                           at->where, digits, *out);
    return WEIR_OK;
}

/* {"type": "file", "path": P, "size": N, "oid": SHA-1, "lfs": {"oid": SHA-256, "size": N}} */
static weir_status add_entry(listing *l, const json_at *at, weir_error *err)
{
    const char   *type, *path, *oid;
    const json_t *lfs;
    uint64_t      size;
    TRY(json_get_string(at, "type", true, &type, err));
    if (strcmp(type, "file") != 0) return WEIR_OK; /* a directory, whose files are listed too */
    TRY(json_get_string(at, "path", true, &path, err));
    if (!name_is_path(path, LISTING_PATH_MAX))
        return status_fail(err, WEIR_FORMAT, "%s: %s.path: expected a path below the repository, found \"%.200s\"",
                           at->file, at->where, path);
    TRY(json_get_object(at, "lfs", false, &lfs, err));
    if (lfs != NULL) {
        char where[LISTING_PATH_MAX];
        (void)snprintf(where, sizeof where, "%s.lfs", at->where);
        const json_at below = {.file = at->file, .where = where, .obj = lfs};
        TRY(get_hash(&below, HASH_SHA256_DIGITS, &oid, err));
        TRY(get_size(&below, &size, err));
    } else {
        TRY(get_hash(at, HASH_SHA1_DIGITS, &oid, err));
        TRY(get_size(at, &size, err));
    }
    return listing_add(l, path, oid, size, err);
}

weir_status listing_add_page(listing *l, const char *text, size_t len, const char *where, weir_error *err)
{
    json_doc doc;
    TRY(json_parse(&doc, text, len, where, DEPTH, err));
    weir_status st = WEIR_OK;
    if (!json_is_array(doc.root))
        st = status_fail(err, WEIR_FORMAT, "%s: expected an array, found %s", where, json_kind(doc.root));
    for (size_t i = 0; st == WEIR_OK && i < json_array_size(doc.root); i++) {
        char          entry[32];
        const json_t *v = json_array_get(doc.root, i);
        (void)snprintf(entry, sizeof entry, "[%zu]", i);
        const json_at at = {.file = where, .where = entry, .obj = v};
        st               = json_is_object(v)
                               ? add_entry(l, &at, err)
                               : status_fail(err, WEIR_FORMAT, "%s: %s: expected an object, found %s", where, entry, json_kind(v));
    }
    json_doc_free(&doc);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const listing_file *)a)->path, ((const listing_file *)b)->path);
}

weir_status listing_finish(listing *l, const char *where, weir_error *err)
{
    if (l->n > 0) qsort(l->files, l->n, sizeof *l->files, by_path);
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(l->files[i - 1].path, l->files[i].path) == 0)
            return status_fail(err, WEIR_FORMAT, "%s: %.200s is listed twice", where, l->files[i].path);
    return WEIR_OK;
}

listing_file *listing_find(const listing *l, const char *path)
{
    const listing_file key = {.path = (char *)path};
    return l->n > 0 ? bsearch(&key, l->files, l->n, sizeof *l->files, by_path) : NULL;
}

void listing_free(listing *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->files[i].path);
    mem_free(l->files);
    *l = (listing){0};
}

weir_status listing_read_commit(char commit[HASH_SHA1_DIGITS + 1], const char *text, size_t len, const char *where,
                                weir_error *err)
{
    json_doc    doc;
    const char *sha = NULL;
    TRY(json_parse(&doc, text, len, where, DEPTH, err));
    const json_at at = {.file = where, .where = "", .obj = doc.root};
    weir_status   st = json_get_string(&at, "sha", true, &sha, err);
    if (st == WEIR_OK && !name_is_hash(sha, HASH_SHA1_DIGITS))
        st = status_fail(err, WEIR_FORMAT, "%s: sha: expected a commit, found \"%.80s\"", where, sha);
    if (st == WEIR_OK) memcpy(commit, sha, HASH_SHA1_DIGITS + 1);
    json_doc_free(&doc);
    return st;
}
