/* checkpoint/gguf_set.h - the GGUF files of one checkpoint.
 *
 * A large model is split into NAME-00001-of-00003.gguf and so on; the first
 * file has the metadata, all have tensors.  The multi-token-prediction head may
 * lie beside the model in a file of its own, mtp-NAME.gguf. */
#ifndef CHECKPOINT_GGUF_SET_H
#define CHECKPOINT_GGUF_SET_H

#include "checkpoint/gguf.h"

typedef struct gguf_set {
    size_t n;
    gguf  *files; /* [n]; the first has the metadata */
} gguf_set;

/* Opens the file, and its siblings when it is one of a split model (any of
 * them may be named).  On failure *out is all zero. */
weir_status gguf_set_open(gguf_set *out, const char *path, weir_error *err);
void        gguf_set_close(gguf_set *s); /* all zero is allowed */

/* Opens mtp-NAME.gguf of the model at `path`, NAME without a split's number.
 * Leaves *out all zero when there is none, which is no failure. */
weir_status gguf_set_open_mtp(gguf_set *out, const char *path, weir_error *err);

/* Of a folder without config.json that holds one model as GGUF, *out is the path of its file (of a
 * split model the first; mem_free); NULL when the folder is none such.  Heads (mtp-...) and
 * vision towers (mmproj...) do not count.  WEIR_FORMAT lists the files where there are several
 * models. */
weir_status gguf_set_in_folder(char **out, const char *dir, weir_error *err);

/* A tensor of any of the files, or NULL. */
const gguf_tensor *gguf_set_find(const gguf_set *s, const char *name);

#endif
