/* base/dtype.h - element types a checkpoint file can hold: a table, no code.
 *
 * A block type stores `elements` numbers of a row together in `bytes` bytes
 * (quant/blocks.h says how); of every other type a block is one number. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>

/* clang-format off */
/* id, name in files, elements and bytes of one block; the plain types are
 * safetensors', the block types GGUF's */
#define DTYPE_LIST(X)              \
    X(BOOL, "BOOL", 1, 1)          \
    X(U8, "U8", 1, 1)              \
    X(I8, "I8", 1, 1)              \
    X(U16, "U16", 1, 2)            \
    X(I16, "I16", 1, 2)            \
    X(U32, "U32", 1, 4)            \
    X(I32, "I32", 1, 4)            \
    X(U64, "U64", 1, 8)            \
    X(I64, "I64", 1, 8)            \
    X(F16, "F16", 1, 2)            \
    X(BF16, "BF16", 1, 2)          \
    X(F32, "F32", 1, 4)            \
    X(F64, "F64", 1, 8)            \
    X(F8_E4M3, "F8_E4M3", 1, 1)    \
    X(F8_E5M2, "F8_E5M2", 1, 1)    \
    X(F8_E8M0, "F8_E8M0", 1, 1)    \
    X(Q4_0, "Q4_0", 32, 18)        \
    X(Q4_1, "Q4_1", 32, 20)        \
    X(Q5_0, "Q5_0", 32, 22)        \
    X(Q5_1, "Q5_1", 32, 24)        \
    X(Q8_0, "Q8_0", 32, 34)        \
    X(Q2_K, "Q2_K", 256, 84)       \
    X(Q3_K, "Q3_K", 256, 110)      \
    X(Q4_K, "Q4_K", 256, 144)      \
    X(Q5_K, "Q5_K", 256, 176)      \
    X(Q6_K, "Q6_K", 256, 210)      \
    X(IQ4_NL, "IQ4_NL", 32, 18)    \
    X(IQ4_XS, "IQ4_XS", 256, 136)  \
    X(MXFP4, "MXFP4", 32, 17)

typedef enum dtype {
#define X(id, name, elements, bytes) DTYPE_##id,
    DTYPE_LIST(X)
#undef X
    DTYPE_COUNT, /* a type that is known by no name above */
} dtype;
/* clang-format on */

static const struct {
    const char *name;
    uint16_t    elements;
    uint8_t     bytes;
} dtype_table[] = {
#define X(id, name, elements, bytes) {name, elements, bytes},
    DTYPE_LIST(X)
#undef X
};

#endif
