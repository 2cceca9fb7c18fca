/* tests/support/golden.h - tensors of a safetensors file by name, as they are
 * stored; tensors.h has them widened. */
#ifndef SUPPORT_GOLDEN_H
#define SUPPORT_GOLDEN_H

#include "support/cmocka.h"

#include "base/dtype.h"
#include "checkpoint/safetensors.h"

#include <string.h>

static inline void golden_open(safetensors *f, const char *path)
{
    weir_error err;
    if (safetensors_open(f, path, &err) != WEIR_OK) fail_msg("%s", err.text);
}

/* NULL when the file has no tensor of that name. */
static inline const safetensors_tensor *golden_find(const safetensors *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

/* The data of a tensor that has to be there with this type; *n its elements. */
static inline const void *golden_data(const safetensors *f, const char *name, dtype type, size_t *n)
{
    const safetensors_tensor *t = golden_find(f, name);
    if (t == NULL) fail_msg("no tensor %s", name);
    if (t->type != type) fail_msg("tensor %s: expected %s, found %s", name, dtype_table[type].name, t->type_name);
    if (n != NULL) *n = (size_t)(t->bytes / dtype_table[type].bytes);
    return f->data + t->begin;
}

#endif
