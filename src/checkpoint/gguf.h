/* checkpoint/gguf.h - one GGUF file: metadata and tensor spans over a mapping.
 *
 *   "GGUF" | version u32 (2 or 3) | tensors u64 | entries u64
 *   entries x { key: string | type u32 | value }
 *   tensors x { name: string | dimensions u32 | ne u64 each, fastest first | type u32 | offset u64 }
 *   zeros up to the alignment | data, where the offsets count from
 *
 * A string is u64 length and bytes.  The file is untrusted: after gguf_open
 * every entry and every tensor lies inside the mapping, no two tensors overlap,
 * and each is as long as its type and shape say. */
#ifndef CHECKPOINT_GGUF_H
#define CHECKPOINT_GGUF_H

#include "base/dtype.h"
#include "base/map.h"

#include <stdbool.h>

enum { GGUF_MAX_RANK = 4 };

/* As numbered in files. */
typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
} gguf_type;

/* A value of the metadata, or an array of values of one type. */
typedef struct gguf_entry {
    const char    *key; /* in gguf.names */
    gguf_type      type;
    bool           array;
    uint64_t       n;    /* values; 1 unless an array */
    const uint8_t *data; /* of the first value, at any address; checked as far as it goes */
} gguf_entry;

/* Bytes in the mapping, no NUL behind. */
typedef struct gguf_string {
    const char *text;
    size_t      len;
} gguf_string;

typedef struct gguf_tensor {
    const char *name;      /* in gguf.names */
    dtype       type;      /* DTYPE_COUNT: known, but not one of ours */
    const char *type_name; /* as GGML calls it */
    uint32_t    rank;
    uint64_t    shape[GGUF_MAX_RANK]; /* row-major, the reverse of ne */
    uint64_t    begin, bytes;         /* from gguf.data */
} gguf_tensor;

typedef struct gguf {
    file_map       map;  /* all zero for bytes in memory */
    char          *path; /* owned; for messages */
    const uint8_t *data;
    uint64_t       data_size;
    size_t         n_entries;
    gguf_entry    *entries; /* sorted by key */
    size_t         n_tensors;
    gguf_tensor   *tensors; /* in the order of the data */
    char          *names;   /* all keys and names, each with a NUL */
} gguf;

/* Does the file begin as a GGUF file does?  False also for what cannot be read. */
bool gguf_recognise(const char *path);

/* Maps the file and reads all but the data.  On failure *out is all zero. */
weir_status gguf_open(gguf *out, const char *path, weir_error *err);
void        gguf_close(gguf *g); /* all zero is allowed */

/* The same for a file's bytes in memory, which stay the caller's and must
 * outlive *out. */
weir_status gguf_open_memory(gguf *out, const char *path, const void *bytes, uint64_t size, weir_error *err);

/* The types of tensors that can be used here, for messages. */
const char *gguf_usable_types(void);

/* ---- metadata ---- */

const gguf_entry *gguf_find(const gguf *g, const char *key); /* NULL: none */

/* The getters leave *out alone when the key is absent and not required; a value
 * of another kind or range is WEIR_FORMAT.  Whole numbers may have any width. */
weir_status gguf_get_u32(const gguf *g, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *out,
                         weir_error *err);
weir_status gguf_get_double(const gguf *g, const char *key, bool required, double min, double max, double *out,
                            weir_error *err);
weir_status gguf_get_bool(const gguf *g, const char *key, bool required, bool *out, weir_error *err);
weir_status gguf_get_string(const gguf *g, const char *key, bool required, gguf_string *out, weir_error *err);
/* An array of strings, bools or whole numbers (GGUF_U32 stands for any of them). */
weir_status gguf_get_array(const gguf *g, const char *key, bool required, gguf_type type, const gguf_entry **out,
                           weir_error *err);

/* Value i of an entry of whole numbers or bools, cut to what int64_t holds. */
int64_t gguf_integer(const gguf_entry *e, uint64_t i);
/* The string at *at, which moves on to the next one of the array. */
gguf_string gguf_next_string(const uint8_t **at);

/* WEIR_FORMAT: "file: key: expected ..., found ...". */
__attribute__((cold)) weir_status gguf_wrong(const gguf *g, const char *key, const char *expected, const char *found,
                                             weir_error *err);

#endif
