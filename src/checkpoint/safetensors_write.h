/* checkpoint/safetensors_write.h - a safetensors file whose tensors are known before their numbers.
 *
 * The header comes first and every piece goes to its place as it is made, so
 * no tensor has to be in memory.  Tensors with larger elements come first,
 * otherwise in the order given, which leaves each at a multiple of its
 * element's size.  The file appears under its name when it is complete. */
#ifndef CHECKPOINT_SAFETENSORS_WRITE_H
#define CHECKPOINT_SAFETENSORS_WRITE_H

#include "base/file.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"

typedef struct safetensors_spec {
    const char *name; /* UTF-8 without control characters */
    dtype       type;
    uint32_t    rank;
    uint64_t    shape[CHECKPOINT_MAX_RANK];
    uint64_t    begin, bytes; /* filled by safetensors_layout; begin counts from the start of the data */
} safetensors_spec;

/* What stands in front of the data: the length and the JSON. */
typedef struct safetensors_header {
    str      text;
    uint64_t data; /* bytes that follow */
} safetensors_header;

/* Gives the n tensors their places and makes the header, str_free(&out->text)
 * in any case.  WEIR_INVALID when they do not fit a file. */
weir_status safetensors_layout(safetensors_header *out, safetensors_spec *specs, size_t n, const char *path,
                               weir_error *err);

/* Is the file at `path` one with just this header, and complete? */
bool safetensors_is_written(const char *path, const safetensors_header *h);

typedef struct safetensors_writer {
    file_writer w;
    uint64_t    data; /* where the data begins */
} safetensors_writer;

weir_status safetensors_create(safetensors_writer *w, const char *path, const safetensors_header *h, weir_error *err);
/* n bytes at `at`, counted from the start of the data.  What is never put is zero. */
weir_status safetensors_put(safetensors_writer *w, uint64_t at, const void *bytes, size_t n, weir_error *err);
/* Syncs the file and gives it its name; after a failure nothing is left of it. */
weir_status safetensors_commit(safetensors_writer *w, const safetensors_header *h, weir_error *err);
void        safetensors_abandon(safetensors_writer *w); /* all zero is allowed */

#endif
