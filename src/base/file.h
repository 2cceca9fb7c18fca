/* base/file.h - whole small files, and writes that are all or nothing. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Reads the whole file, with a NUL behind, into *out (mem_free).  A file over
 * `max` bytes is refused (WEIR_FORMAT) before memory is taken. */
weir_status file_read(char **out, size_t *len, const char *path, size_t max, weir_error *err);

/* An atomic write: bytes go to a temporary beside `path`; file_commit syncs
 * and renames, file_abandon (or a failed commit) removes it. */
typedef struct file_writer {
    FILE *f;
    char *path, *temporary;
} file_writer;

weir_status file_create(file_writer *w, const char *path, weir_error *err);
weir_status file_write(file_writer *w, const void *bytes, size_t n, weir_error *err);
weir_status file_commit(file_writer *w, weir_error *err);
void        file_abandon(file_writer *w); /* all zero is allowed */

bool file_exists(const char *path); /* a regular file (links are followed) */
bool file_is_dir(const char *path);
/* dir + "/" + name; mem_free. NULL without memory. */
char *path_join(const char *dir, const char *name);

#endif
