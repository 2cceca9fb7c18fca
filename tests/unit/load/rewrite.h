/* tests/unit/load/rewrite.h - a fixture written anew with other tensors. */
#ifndef LOAD_REWRITE_H
#define LOAD_REWRITE_H

#include "../checkpoint/made_files.h"
#include "support/cmocka.h"
#include "support/mtp_rig.h"

/* Sees every tensor of the text model and of MTP, and emits what shall be in its place. */
typedef void rewrite_fn(made_tensors *out, const checkpoint_tensor *t, const void *user);

/* Reads tests/fixtures/<fixture> and writes it to a new folder (made_remove)
 * with its config.json.  */
char *rewrite(const char *fixture, rewrite_fn *fn, const void *user);

/* The tensor under another name, type and shape, n bytes; and as it is. */
void emit(made_tensors *out, const char *name, const checkpoint_tensor *like, uint32_t rank, const uint64_t *shape,
          const void *data, size_t n);
void emit_same(made_tensors *out, const checkpoint_tensor *t);

bool ends_in(const char *s, const char *tail);

/* Logits [vocab] after some tokens with the model in `dir`; free(). */
float *logits_of(const char *dir, uint32_t *vocab);
/* Both models give the same bits; and so do their MTP heads. */
void check_same_logits(const char *dir_a, const char *dir_b);
void check_same_guesses(const char *dir_a, const char *dir_b);
/* Opening an engine on `dir` fails with `status` and all of the NULL-ended fragments. */
void check_refused(const char *dir, weir_status status, const char *const *fragments);

#endif
