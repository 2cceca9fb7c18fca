/* quant/blocks.h - GGML's block types, as a readable reference.
 *
 * A row is a string of blocks that each hold codes and their scale.  d, m and
 * dmin are IEEE halves, all other fields integers, little-endian; the offset of
 * a field in its block stands behind @.  Arithmetic is float32 in the order
 * that is written; no step is fused.
 *
 * 32 weights.  Weight j < 16 is the low nibble of qs[j], weight j + 16 the high one.
 *   Q8_0    d@0 qs[32]@2 signed         qs d
 *   Q4_0    d@0 qs[16]@2                (q - 8) d
 *   Q4_1    d@0 m@2 qs[16]@4            q d + m
 *   Q5_0    d@0 qh@2 qs[16]@6           (q - 16) d; bit j of the u32 qh is q's bit 4
 *   Q5_1    d@0 m@2 qh@4 qs[16]@8       q d + m; likewise
 *   IQ4_NL  d@0 qs[16]@2                d V[q]
 *   MXFP4   e@0 qs[16]@1                2^(e - 128) M[q]
 *
 * 256 weights, in sub-blocks of 16 or 32 with scales of their own.
 *   Q2_K    scales[16]@0 qs[64]@16 d@80 dmin@82       (d sc) q - (dmin mn)
 *   Q3_K    hmask[32]@0 qs[64]@32 scales[12]@96 d@108 (d sc) q
 *   Q4_K    d@0 dmin@2 scales[12]@4 qs[128]@16        (d sc) q - (dmin mn)
 *   Q5_K    d@0 dmin@2 scales[12]@4 qh[32]@16 qs[128]@48   likewise
 *   Q6_K    ql[128]@0 qh[64]@128 scales[16]@192 signed d@208   (d sc) (q - 32)
 *   IQ4_XS  d@0 scales_h@2 scales_l[4]@4 qs[128]@8    (d (sc - 32)) V[q] */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* Is it one of the types above?  The functions below take no others. */
static inline bool blocks_is(dtype t)
{
    return t != DTYPE_COUNT && dtype_table[t].elements > 1;
}

/* Bytes of n elements, n a multiple of the type's block. */
static inline size_t blocks_bytes(dtype t, size_t n)
{
    return n / dtype_table[t].elements * dtype_table[t].bytes;
}

/* y[i] = element i of the blocks at p, any alignment; i < n, a multiple of the block. */
void blocks_decode(float *y, const uint8_t *p, dtype t, size_t n);

#endif
