/* tests/unit/checkpoint/made_files.h - files made by hand, sound and unsound, in a temporary folder. */
#ifndef MADE_FILES_H
#define MADE_FILES_H

#include "base/status.h"
#include "base/str.h"

/* A new empty folder, or NULL; made_remove deletes it with all that is in it. */
char *made_dir(void);
void  made_remove(char *dir);

/* Writes dir/name; the test fails when that is impossible. */
void made_file(const char *dir, const char *name, const void *bytes, size_t n);
void made_text(const char *dir, const char *name, const char *text);
/* u64 header length, header, n bytes of data. */
void made_safetensors(const char *dir, const char *name, const char *header, const void *data, size_t n);

/* Collects tensors and writes them as one file. */
typedef struct made_tensors {
    str      header, data;
    unsigned n;
} made_tensors;

void made_begin(made_tensors *m);
/* BF16 of a shape like "[4, 1, 4]" with n elements, all of `value` (exact in bfloat16). */
void made_bf16(made_tensors *m, const char *name, const char *shape, size_t n, float value);
void made_raw(made_tensors *m, const char *name, const char *dtype, const char *shape, const void *bytes, size_t n);
void made_write(made_tensors *m, const char *dir, const char *name); /* and forgets them */

/* The call failed with `status`, and its message has every one of the NULL-ended fragments. */
void check_failure(weir_status found, weir_status expected, const weir_error *err, const char *what,
                   const char *const *fragments);

#endif
