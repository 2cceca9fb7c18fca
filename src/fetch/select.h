/* fetch/select.h - which files of a repository a model needs.
 *
 * In Hugging Face's form: configuration, tokenizer, template, preprocessors, and
 * the weights once, as safetensors: those that the index names, or where there is
 * none those of one precision.  Pickles (.bin, .pt) run code when they are read and are
 * never taken.  In GGUF's: one quantisation, all parts of a split one. */
#ifndef FETCH_SELECT_H
#define FETCH_SELECT_H

#include "base/str.h"
#include "fetch/listing.h"

#define SELECT_INDEX "model.safetensors.index.json"

/* Whether there are weights in this form. */
bool select_has_safetensors(const listing *l);

/* Marks everything but weights. */
void select_side_files(listing *l);
/* Marks the weights.  `index` is the path of SELECT_INDEX on this machine, NULL
 * where the repository has none; `where` names the repository in messages.
 * WEIR_FORMAT when the index is damaged, or names a shard that is not in the listing;
 * with `missing` such shards are put there instead, with ", " between. */
weir_status select_weights(listing *l, const char *index, const char *where, str *missing, weir_error *err);

/* Marks the .gguf files that `what` means: a path, or a quantisation ("Q4_K_M",
 * in any case); "" is the only one there is, else Q4_K_M.  A draft head beside it
 * (mtp-NAME.gguf) comes along.  *first is the file to open.  WEIR_INVALID lists what there is. */
weir_status select_gguf(listing *l, const char *what, const char *where, size_t *first, weir_error *err);
/* Puts the quantisations that are there, with ", " between, and the parts that are not into `missing`. */
void select_describe_gguf(const listing *l, str *names, str *missing);

#endif
