/* kernels/cpu/lanes/blocks.h - scalar/blocks.c on 16 lanes.
 *
 * A piece of a weight row is decoded to floats that stay in L1, then used for
 * all rows of x. */
#ifndef KERNELS_CPU_LANES_BLOCKS_H
#define KERNELS_CPU_LANES_BLOCKS_H

#include "quant/blocks_decode.h"

enum { BLOCK_PIECE = 256 }; /* weights: one large block, or eight small ones */

INLINE size_t block_piece(const lin_weight *w, size_t at)
{
    return w->cols - at < BLOCK_PIECE ? w->cols - at : BLOCK_PIECE;
}

INLINE void block_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, const int M, float *const *y)
{
    const dtype        type = k_block_type(w->format);
    _Alignas(64) float q[BLOCK_PIECE];
    for (size_t r = 0; r < n; r++) {
        const uint8_t *p = w->data + (row0 + r) * w->row_bytes;
        vf             acc[DOT_ROWS];
        UNROLL for (int m = 0; m < M; m++) acc[m] = vf_zero();
        for (size_t at = 0; at < w->cols; at += BLOCK_PIECE) {
            const size_t piece = block_piece(w, at);
            block_run(q, p, type, piece);
            p += blocks_bytes(type, piece);
            for (size_t i = 0; i < piece; i += LANES) {
                const vf v                                = vf_load(q + i);
                UNROLL for (int m = 0; m < M; m++) acc[m] = vf_fma(v, vf_load(x[m] + at + i), acc[m]);
            }
        }
        UNROLL for (int m = 0; m < M; m++) y[m][r] = vf_sum(acc[m]);
    }
}

static void block_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    switch (m) {
    case 1: block_rows(w, row0, n, x, 1, y); break;
    case 2: block_rows(w, row0, n, x, 2, y); break;
    case 3: block_rows(w, row0, n, x, 3, y); break;
    case 4: block_rows(w, row0, n, x, 4, y); break;
    case 5: block_rows(w, row0, n, x, 5, y); break;
    case 6: block_rows(w, row0, n, x, 6, y); break;
    case 7: block_rows(w, row0, n, x, 7, y); break;
    default: block_rows(w, row0, n, x, 8, y); break;
    }
}

static void block_expand(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    const dtype        type = k_block_type(w->format);
    _Alignas(64) float q[BLOCK_PIECE];
    for (size_t at = 0; at < w->cols; at += BLOCK_PIECE) {
        const size_t piece = block_piece(w, at);
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            float *to = panel + at * PANEL_ROWS + r * LANES;
            if (r < n) block_run(q, w->data + (row0 + r) * w->row_bytes + blocks_bytes(type, at), type, piece);
            for (size_t i = 0; i < piece; i += LANES, to += PANEL_ROWS * LANES)
                vf_store(to, r < n ? vf_load(q + i) : vf_zero());
        }
    }
}

INLINE void lanes_blocks(cpu_isa *t)
{
    t->block_dot    = block_dot;
    t->block_expand = block_expand;
}

#endif
