/* fetch/blob.h - one file's bytes: downloaded, checked, named by their hash. */
#ifndef FETCH_BLOB_H
#define FETCH_BLOB_H

#include "fetch/http.h"
#include "fetch/listing.h"

/* Where blobs go; for any number of threads. */
typedef struct blob_place {
    const char           *folder; /* .../blobs, for messages */
    const char           *locks;  /* the folder of locks */
    int                   dir;    /* .../blobs, open */
    const char           *repo;   /* for messages */
    const fetch_settings *s;
    const atomic_bool    *halt;
} blob_place;

/* Bytes that are there, and of them those that came over the network. */
typedef struct blob_counts {
    _Atomic uint64_t done, received;
} blob_counts;

/* Whether the blob of this file is complete. */
bool blob_is_there(const blob_place *p, const listing_file *f);
/* How many bytes of it are there, complete or not. */
uint64_t blob_present(const blob_place *p, const listing_file *f);

/* Makes sure of it: waits for another process that is at it, goes on with what is
 * there, and gives it its name when all bytes have the hash.  When they do not,
 * once more from the start; then WEIR_FORMAT names the file and both hashes. */
weir_status blob_fetch(const blob_place *p, http *h, const listing_file *f, const char *url, blob_counts *counts,
                       weir_error *err);

#endif
