/* fetch/snapshot.h - the names under which a revision's blobs are found. */
#ifndef FETCH_SNAPSHOT_H
#define FETCH_SNAPSHOT_H

#include "base/status.h"

#include <stdbool.h>

/* Puts a link at `path` below the snapshot's folder that leads to blob `hash`
 * (../../blobs/HASH, one more ".." for each folder of the path), and makes these folders.
 * What stands there is replaced.  Where the file system has no links, or with
 * `copy`, the blob is copied.  Folders that are links themselves are not entered. */
weir_status snapshot_place(const char *folder, const char *path, const char *hash, bool copy, weir_error *err);

#endif
