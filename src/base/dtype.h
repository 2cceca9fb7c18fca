/* base/dtype.h - element types a checkpoint file can hold: a table, no code. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>

/* clang-format off */
/* id, name in safetensors, bytes of one element */
#define DTYPE_LIST(X)           \
    X(BOOL, "BOOL", 1)          \
    X(U8, "U8", 1)              \
    X(I8, "I8", 1)              \
    X(U16, "U16", 2)            \
    X(I16, "I16", 2)            \
    X(U32, "U32", 4)            \
    X(I32, "I32", 4)            \
    X(U64, "U64", 8)            \
    X(I64, "I64", 8)            \
    X(F16, "F16", 2)            \
    X(BF16, "BF16", 2)          \
    X(F32, "F32", 4)            \
    X(F64, "F64", 8)            \
    X(F8_E4M3, "F8_E4M3", 1)    \
    X(F8_E5M2, "F8_E5M2", 1)    \
    X(F8_E8M0, "F8_E8M0", 1)

typedef enum dtype {
#define X(id, name, bytes) DTYPE_##id,
    DTYPE_LIST(X)
#undef X
    DTYPE_COUNT, /* a type that is known by no name above */
} dtype;
/* clang-format on */

static const struct {
    const char *name;
    uint8_t     bytes;
} dtype_table[] = {
#define X(id, name, bytes) {name, bytes},
    DTYPE_LIST(X)
#undef X
};

#endif
