/* base/map.h - read-only file mapping with checked spans. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/status.h"

typedef struct file_map {
    char          *path; /* owned; for messages */
    const uint8_t *data;
    uint64_t       size;
} file_map;

/* Maps the whole file read-only.  On failure *out is all zero. */
weir_status file_map_open(file_map *out, const char *path, weir_error *err);
/* All zero is allowed; leaves it all zero. */
void file_map_close(file_map *f);
/* Borrows bytes [off, off+len); WEIR_FORMAT when they are not all inside. */
weir_status file_map_span(const file_map *f, uint64_t off, uint64_t len, const uint8_t **out, weir_error *err);
/* Gives back the memory that whole pages of the n bytes at p, which lie in such
 * a mapping, take in this process.  They can still be read: from the file. */
void file_map_rest(const void *p, size_t n);

#endif
