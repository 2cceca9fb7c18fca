/* checkpoint/gguf_model.h - a GGUF file of this family in the words of the rest: config and tensor names. */
#ifndef CHECKPOINT_GGUF_MODEL_H
#define CHECKPOINT_GGUF_MODEL_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_set.h"

/* Fills the config from the metadata of the first file and a few shapes.
 * WEIR_UNSUPPORTED for another architecture and what would change the graph,
 * WEIR_FORMAT for what is missing or contradicts itself; both name file and
 * key.  On failure *out is all zero. */
weir_status gguf_read_config(config *out, const gguf_set *s, weir_error *err);

/* Room for a canonical name; tensor names have at most 63 bytes. */
enum { GGUF_MAX_CANONICAL = 128 };

/* The part that a tensor belongs to and its canonical name ("layers.0....",
 * written to name).  A name that is not known stays as it is, in the trunk.
 * n_layers: those of the trunk; blocks behind them are the MTP head's. */
checkpoint_part gguf_canonical(const char *raw, uint32_t n_layers, char name[GGUF_MAX_CANONICAL]);

/* The other way: the file's name of a canonical one; false for a name that the files do not have. */
bool gguf_raw(checkpoint_part part, const char *name, uint32_t n_layers, char raw[GGUF_MAX_CANONICAL]);

/* Brings a shape to the canonical one: [C, K] of conv1d to [C, 1, K], [h] of
 * the shared expert's gate to [1, h]. */
void gguf_canonical_shape(checkpoint_tensor *t);

#endif
