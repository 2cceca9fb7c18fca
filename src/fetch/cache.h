/* fetch/cache.h - where things are in the cache's folder (fetch.h draws it). */
#ifndef FETCH_CACHE_H
#define FETCH_CACHE_H

#include "base/str.h"
#include "fetch/fetch.h"
#include "fetch/listing.h"

enum { CACHE_PATH_BYTES = 4096 };

/* ROOT/models--ORG--NAME, and "below" it unless that is "". */
void cache_put_repo(str *out, const fetch_settings *s, const char *repo, const char *below);
/* ROOT/.locks/models--ORG--NAME */
void cache_put_locks(str *out, const fetch_settings *s, const char *repo);
/* ORG/NAME of a folder's name; false when it is none of ours. */
bool cache_repo_of(char repo[FETCH_REPO_BYTES], const char *folder);

/* The commit that the name's revision is in the cache: the ref's, or the revision
 * itself when it is a commit.  WEIR_UNSUPPORTED says where was looked. */
weir_status cache_read_commit(char commit[FETCH_COMMIT_BYTES], const fetch_settings *s, const fetch_name *name,
                              weir_error *err);

/* The folders that lead to a path, made where they are not there. */
weir_status cache_make_folders(const char *path, weir_error *err);

/* The files of a snapshot's folder by their paths below it, links followed.
 * Links that lead nowhere are put into `missing` (NULL: not wanted), with ", " between. */
weir_status cache_list_snapshot(listing *out, const char *folder, str *missing, weir_error *err);

/* What a snapshot lacks to be opened, put into `missing`, and in what format its
 * weights are, into `format`. */
weir_status cache_describe(listing *l, const char *folder, str *format, str *missing, weir_error *err);

/* Fails with WEIR_FORMAT that lists what the snapshot lacks; *path as fetch_find. */
weir_status cache_open(const fetch_name *name, const char *folder, bool complete, char **path, weir_error *err);

#endif
