/* tests/unit/convert/quantized.h - fixtures quantised into temporary folders. */
#ifndef CONVERT_QUANTIZED_H
#define CONVERT_QUANTIZED_H

#include "../load/rewrite.h"
#include "convert/quantize.h"

/* tests/fixtures/<name>, in a buffer of its own that the next call overwrites. */
const char *fixture_path(const char *name);

/* Quantises `source` into a new folder (made_remove), in files of about
 * file_bytes (0: one of each kind). */
char *quantized(const char *source, weir_quantize_options opt, uint64_t file_bytes);

/* Both folders hold files of the same names with the same bytes. */
void check_same_folder(const char *a, const char *b);

/* The names of a folder's files, sorted, each with a NUL behind; free(). */
char *names_in(const char *dir, size_t *n);

#endif
