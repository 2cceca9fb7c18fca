/* tests/unit/checkpoint/made_gguf.h - GGUF files made by hand, byte by byte. */
#ifndef MADE_GGUF_H
#define MADE_GGUF_H

#include "base/str.h"

/* Entries, tensors and data as they will stand in the file. */
typedef struct made_gguf {
    str      entries, tensors, data;
    uint64_t n_entries, n_tensors;
} made_gguf;

void made_gguf_begin(made_gguf *m);
/* key, type and the value's bytes. */
void made_gguf_entry(made_gguf *m, const char *key, uint32_t type, const void *value, size_t n);
void made_gguf_u32(made_gguf *m, const char *key, uint32_t value);
void made_gguf_f32(made_gguf *m, const char *key, float value);
void made_gguf_bool(made_gguf *m, const char *key, bool value);
void made_gguf_text(made_gguf *m, const char *key, const char *value);
/* An array of n elements of a type, whose bytes follow. */
void made_gguf_array(made_gguf *m, const char *key, uint32_t type, uint64_t n, const void *bytes, size_t size);
void made_gguf_texts(made_gguf *m, const char *key, const char *const *values, size_t n);
/* ne fastest first; the data goes behind that of the tensor before, aligned to 32. */
void made_gguf_tensor(made_gguf *m, const char *name, uint32_t rank, const uint64_t *ne, uint32_t type,
                      const void *bytes, size_t n);
/* The file, and forgets the parts.  Free with str_free. */
void made_gguf_end(made_gguf *m, str *file);

#endif
