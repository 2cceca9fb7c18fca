/* cli/input.h - text and token ids that a command reads. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/status.h"
#include "weir/model.h"

/* All of stdin, a NUL behind, into *out (mem_free). */
weir_status input_stdin(char **out, size_t *len, weir_error *err);
/* A JSON array of ids below the model's vocabulary, at least one, into *ids
 * (mem_free). */
weir_status input_ids(const weir_model *m, const char *path, uint32_t **ids, size_t *n, weir_error *err);
/* The ids of a whole text file, spellings of added tokens being those tokens,
 * into *ids (mem_free). */
weir_status input_text(const weir_model *m, const char *path, uint32_t **ids, size_t *n, weir_error *err);

#endif
