/* kernels/cpu/decode.h - weights of a row as floats, in any format and in plain C. */
#ifndef KERNELS_CPU_DECODE_H
#define KERNELS_CPU_DECODE_H

#include "kernels/cpu/linear_layout.h"

enum { DECODE_PIECE = 256 }; /* columns: whole blocks and whole groups of every format */

/* y[i] = the weight of column at + i, i < n; `at` a multiple of DECODE_PIECE, at + n the
 * row's end or another one. */
void weight_decode(const lin_weight *w, size_t row, size_t at, size_t n, float *y);

#endif
