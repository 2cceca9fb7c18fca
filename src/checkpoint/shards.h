/* checkpoint/shards.h - the weight files of one checkpoint. */
#ifndef CHECKPOINT_SHARDS_H
#define CHECKPOINT_SHARDS_H

#include "checkpoint/safetensors.h"

typedef struct shards {
    char        *dir; /* where config.json is; owned */
    size_t       n;
    safetensors *files;
} shards;

/* Opens the weight files of `path`: of a directory those that
 * model.safetensors.index.json lists, without an index all that are called
 * model*.safetensors; or the one file that `path` is.  On failure *out is all
 * zero. */
weir_status shards_open(shards *out, const char *path, weir_error *err);
void        shards_close(shards *s); /* all zero is allowed */

/* WEIR_FORMAT when the file is a link that leads out of its folder, unless to
 * the blobs of the download cache. */
weir_status shards_check_file(const char *path, weir_error *err);

#endif
