/* fetch/fetch.h - models from a hub: download, find, list, remove.
 *
 * The folder on disk is huggingface_hub's, so that programs share what one of
 * them downloaded:
 *
 *   ROOT/models--ORG--NAME/blobs/HASH               a file's bytes
 *   ROOT/models--ORG--NAME/blobs/HASH.incomplete    the first of them
 *   ROOT/models--ORG--NAME/snapshots/COMMIT/PATH    a link to its blob
 *   ROOT/models--ORG--NAME/refs/REVISION            the commit that a branch or tag names
 *   ROOT/.locks/models--ORG--NAME/HASH.lock         held (flock) while the blob is downloaded
 *
 * HASH is the SHA-256 of a file in large storage, else git's SHA-1 of a blob.
 * A blob has its name only once its bytes have the hash; links come when all blobs
 * are there, and the ref after the links.  So whatever ends a download, nothing
 * looks complete that is not, and the next one goes on with what is there.
 *
 * Statuses: WEIR_INVALID, a name that is none; WEIR_UNSUPPORTED, the hub has
 * nothing of that name or does not give it; WEIR_FORMAT, what came is damaged, or
 * what is in the cache incomplete; WEIR_IO, network or disk; WEIR_CANCELLED. */
#ifndef FETCH_FETCH_H
#define FETCH_FETCH_H

#include "weir/base.h"

#include <stdbool.h>

typedef struct fetch_settings {
    const char *root;          /* the cache's folder */
    const char *endpoint;      /* "https://huggingface.co", without a slash behind */
    const char *token;         /* sent to the endpoint and nobody else; NULL: none */
    const char *certificates;  /* a file of trusted certificates; NULL: the system's */
    bool        offline;       /* no request at all */
    uint32_t    stall_seconds; /* a transfer that brings nothing for so long begins again */
    uint32_t    backoff_ms;    /* before the second try; doubles with every further one */
    /* Asked often, by the thread that called; true ends the work.  NULL: never. */
    bool (*stopped)(void *user);
    void *user;
} fetch_settings;

enum { FETCH_REPO_BYTES = 200, FETCH_REVISION_BYTES = 256, FETCH_FILE_BYTES = 512, FETCH_COMMIT_BYTES = 41 };

/* ORG/NAME, and with it :FILE (or :QUANT) and @REVISION in any order. */
typedef struct fetch_name {
    char repo[FETCH_REPO_BYTES];
    char revision[FETCH_REVISION_BYTES]; /* "main" where none is given */
    char file[FETCH_FILE_BYTES];         /* a .gguf file's path or quantisation; "": none given */
    bool revision_given;
} fetch_name;

/* Whether the text has the form of a name, with "hf:" before it or not. */
bool fetch_is_name(const char *text);
/* WEIR_INVALID says what is wrong. */
weir_status fetch_parse_name(fetch_name *out, const char *text, weir_error *err);

/* The path of what is in the cache under this name, with no request: the
 * snapshot's folder, or a .gguf file in it (the first one of a split model).
 * *path is released with mem_free. */
weir_status fetch_find(const fetch_settings *s, const fetch_name *name, char **path, weir_error *err);

typedef struct fetch_progress {
    uint64_t done, total; /* bytes of all files; the total grows once when the weights are known */
    uint64_t received;    /* of `done`, what this call brought */
} fetch_progress;
typedef void fetch_progress_fn(void *user, const fetch_progress *p);

typedef struct fetch_result {
    char     commit[FETCH_COMMIT_BYTES];
    char    *path; /* as fetch_find gives it; mem_free */
    uint32_t files;
    uint64_t bytes;    /* of these files */
    uint64_t received; /* of these, what came over the network now */
    bool     offline;  /* nothing was asked: what is in the cache is complete */
} fetch_result;

/* Downloads what a model needs, and goes on where an earlier call ended.
 * `progress` (may be NULL) is called from this thread some ten times a second.
 * On failure *out is all zero. */
weir_status fetch_pull(const fetch_settings *s, const fetch_name *name, fetch_progress_fn *progress, void *user,
                       fetch_result *out, weir_error *err);

/* One revision in the cache.  Everything is borrowed and holds during the call. */
typedef struct fetch_revision {
    const char *repo, *commit, *path;
    const char *refs;    /* names of the revision, with ", " between; "": none */
    const char *format;  /* "bfloat16", "affine 4 bits", "gguf Q4_K_M, Q8_0", ... */
    const char *missing; /* what keeps it from being complete, with ", " between; "": nothing */
    uint32_t    files;
    uint64_t    bytes; /* of its files; what revisions share counts in each */
} fetch_revision;
typedef void fetch_visit_fn(void *user, const fetch_revision *r);

/* Visits what the cache holds, by name.  A repository of which only the
 * beginnings of files are there is visited with commit "". */
weir_status fetch_list(const fetch_settings *s, fetch_visit_fn *visit, void *user, weir_error *err);

typedef struct fetch_removal {
    uint32_t revisions;
    uint64_t bytes; /* of the blobs that nothing else uses */
} fetch_removal;

/* Removes a repository, or one revision of it when the name gives it.  With `try_only`
 * it only counts.  Links are removed and never followed.  WEIR_IO also when the
 * repository is being downloaded. */
weir_status fetch_remove(const fetch_settings *s, const fetch_name *name, bool try_only, fetch_removal *out,
                         weir_error *err);

#endif
