/* checkpoint/safetensors.h - one safetensors file: a header of names and spans over a mapping.
 *
 * u64 N, N bytes of JSON {name: {dtype, shape, data_offsets}}, then the data.
 * The file is untrusted: after safetensors_open every span lies inside the
 * mapping, none overlap, and each is as long as its type and shape say. */
#ifndef CHECKPOINT_SAFETENSORS_H
#define CHECKPOINT_SAFETENSORS_H

#include "base/map.h"
#include "checkpoint/checkpoint.h"

typedef struct safetensors_tensor {
    const char *name; /* in safetensors.names */
    dtype       type; /* DTYPE_COUNT: not one of ours */
    char        type_name[12];
    uint32_t    rank;
    uint64_t    shape[CHECKPOINT_MAX_RANK];
    uint64_t    begin, bytes; /* from the start of the file's data */
} safetensors_tensor;

typedef struct safetensors {
    file_map            map;  /* all zero for bytes in memory */
    char               *path; /* owned; for messages */
    const uint8_t      *data; /* where offsets count from */
    uint64_t            data_size;
    size_t              n;
    safetensors_tensor *tensors; /* in the order of the data */
    char               *names;   /* all names, each with a NUL */
} safetensors;

/* Maps the file and reads its header.  On failure *out is all zero. */
weir_status safetensors_open(safetensors *out, const char *path, weir_error *err);
void        safetensors_close(safetensors *s); /* all zero is allowed */

/* The same for a file's bytes in memory, which stay the caller's and must
 * outlive *out. */
weir_status safetensors_open_memory(safetensors *out, const char *path, const void *bytes, uint64_t size,
                                    weir_error *err);

#endif
