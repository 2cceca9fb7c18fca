/* cli/tensor_file.h - writes a .safetensors file of f32 matrices row by row.
 *
 * Shapes are known first, so the header comes first and each row goes to its
 * place as it is computed: no more than a row has to be in memory.  The file
 * appears under its name only when it is complete. */
#ifndef CLI_TENSOR_FILE_H
#define CLI_TENSOR_FILE_H

#include "base/file.h"

#include <stdint.h>

typedef struct tensor_spec {
    char     name[32];
    uint64_t rows, columns;
} tensor_spec;

typedef struct tensor_file {
    file_writer        w;
    const tensor_spec *specs; /* borrowed */
    size_t             n;
    uint64_t           data; /* where the first tensor begins */
} tensor_file;

weir_status tensor_file_create(tensor_file *t, const char *path, const tensor_spec *specs, size_t n, weir_error *err);
/* Writes rows first .. first + n - 1 of tensor `index`. */
weir_status tensor_file_rows(tensor_file *t, size_t index, uint64_t first, uint64_t n, const float *rows,
                             weir_error *err);
/* Gives the file its name; after a failure nothing is left of it. */
weir_status tensor_file_commit(tensor_file *t, weir_error *err);
void        tensor_file_abandon(tensor_file *t); /* all zero is allowed */

#endif
