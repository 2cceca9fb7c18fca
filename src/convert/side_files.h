/* convert/side_files.h - what is written beside the weights (what is copied: checkpoint/companions.h). */
#ifndef CONVERT_SIDE_FILES_H
#define CONVERT_SIDE_FILES_H

#include "base/json.h"
#include "convert/plan.h"

/* config.json of the source; *scale_type is the type it names for weights
 * (DTYPE_COUNT: none). */
weir_status side_config_load(json_doc *out, const char *source, dtype *scale_type, weir_error *err);

/* The config of the output: the source's with the quantization block, twice, as
 * mlx-lm writes it.  Modules that differ from `r`'s width and group are listed. */
weir_status side_config_write(const json_doc *doc, const plan *p, const recipe *r, const char *path, weir_error *err);

/* model.safetensors.index.json. */
weir_status side_index_write(const plan *p, const char *path, weir_error *err);

/* All bytes or none under that name. */
weir_status side_write(const char *path, const char *bytes, size_t n, weir_error *err);

#endif
