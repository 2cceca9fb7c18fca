/* fetch/listing.h - the files of one revision: as the hub lists them, or as they
 * are in a snapshot's folder. */
#ifndef FETCH_LISTING_H
#define FETCH_LISTING_H

#include "base/json.h"
#include "fetch/hash.h"

enum { LISTING_PATH_MAX = 1024, LISTING_MAX_FILES = 100000 };

typedef struct listing_file {
    char    *path;                  /* below the snapshot's folder; owned */
    char     hash[HASH_TEXT_BYTES]; /* 64 or 40 digits; "" in a folder's */
    uint64_t size;
    bool     wanted; /* chosen by select.h */
} listing_file;

typedef struct listing {
    listing_file *files; /* by path, after listing_finish */
    size_t        n, capacity;
} listing;

/* Adds the files of one page of /api/models/REPO/tree: an array of objects with
 * type, path, size, oid and lfs.  WEIR_FORMAT when a path could lead out of its
 * folder, or a size or hash is none. */
weir_status listing_add_page(listing *l, const char *text, size_t len, const char *where, weir_error *err);
/* Adds one file; `hash` may be "". */
weir_status listing_add(listing *l, const char *path, const char *hash, uint64_t size, weir_error *err);
/* Sorts by path; WEIR_FORMAT when a path is there twice. */
weir_status listing_finish(listing *l, const char *where, weir_error *err);
/* The file of this path, after listing_finish; NULL: none. */
listing_file *listing_find(const listing *l, const char *path);
void          listing_free(listing *l); /* all zero is allowed */

/* The commit in the answer of /api/models/REPO/revision. */
weir_status listing_read_commit(char commit[HASH_SHA1_DIGITS + 1], const char *text, size_t len, const char *where,
                                weir_error *err);

#endif
