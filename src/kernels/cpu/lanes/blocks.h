/* kernels/cpu/lanes/blocks.h - scalar/blocks.c on 16 lanes.
 *
 * A piece of a weight row is decoded to floats that stay in L1, then used for
 * all rows of x; some weight rows together, so that sums do not wait for one another. */
#ifndef KERNELS_CPU_LANES_BLOCKS_H
#define KERNELS_CPU_LANES_BLOCKS_H

#include "kernels/cpu/decode.h"
#include "kernels/cpu/lanes/groups.h"
#include "kernels/cpu/lanes/trellis.h"
#include "quant/blocks_decode.h"

INLINE size_t block_piece(const lin_weight *w, size_t at)
{
    return w->cols - at < DECODE_PIECE ? w->cols - at : DECODE_PIECE;
}

/* As weight_decode. */
static NOINLINE void block_floats(const lin_weight *w, size_t row, size_t at, size_t n, float *q)
{
    if (k_is_grouped(w->format)) {
        grouped_floats(w, row, at, n, q);
        return;
    }
    if (w->format == K_TRELLIS) {
        trellis_floats(w, row, at, q);
        return;
    }
    const dtype type = k_block_type(w->format);
    block_run(q, w->data + row * w->row_bytes + blocks_bytes(type, at), type, n);
}

enum { BLOCK_TILE = 4 }; /* most weight rows together */

/* R weight rows from `row` times M rows of x into y[m][0 .. R-1]. */
INLINE void block_tile(const lin_weight *w, size_t row, const int R, const float *const *x, const int M,
                       float *const *y, size_t y_at)
{
    _Alignas(64) float q[BLOCK_TILE][DECODE_PIECE];
    vf                 acc[BLOCK_TILE][DOT_ROWS];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_zero();
    for (size_t at = 0; at < w->cols; at += DECODE_PIECE) {
        const size_t piece = block_piece(w, at);
        for (int r = 0; r < R; r++) block_floats(w, row + (size_t)r, at, piece, q[r]);
        for (size_t i = 0; i < piece; i += LANES) UNROLL for (int m = 0; m < M; m++)
            {
                const vf v                                   = vf_load(x[m] + at + i);
                UNROLL for (int r = 0; r < R; r++) acc[r][m] = vf_fma(vf_load(q[r] + i), v, acc[r][m]);
            }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) y[m][y_at + (size_t)r] = vf_sum(acc[r][m]);
}

INLINE void block_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, const int M, float *const *y)
{
    const int R = M == 1 ? 4 : M <= 3 ? 2 : 1;
    size_t    r = 0;
    for (; r + (size_t)R <= n; r += (size_t)R) block_tile(w, row0 + r, R, x, M, y, r);
    for (; r < n; r++) block_tile(w, row0 + r, 1, x, M, y, r);
}

static void block_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    if (w->format == K_TRELLIS_ACROSS) {
        across_dot(w, row0, n, x, m, y);
        return;
    }
    if (w->format == K_TRELLIS && m <= TRELLIS_DOT_MOST) {
        trellis_dot(w, row0, n, x, m, y);
        return;
    }
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

/* One panel of n <= PANEL_ROWS rows. */
static void block_panel(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    _Alignas(64) float q[DECODE_PIECE];
    for (size_t at = 0; at < w->cols; at += DECODE_PIECE) {
        const size_t piece = block_piece(w, at);
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            float *to = panel + at * PANEL_ROWS + r * LANES;
            if (r < n) block_floats(w, row0 + r, at, piece, q);
            for (size_t i = 0; i < piece; i += LANES, to += PANEL_ROWS * LANES)
                vf_store(to, r < n ? vf_load(q + i) : vf_zero());
        }
    }
}

static void block_expand(const lin_weight *w, size_t row0, size_t n, float *panels)
{
    if (w->format == K_TRELLIS_ACROSS) {
        across_expand(w, row0, n, panels);
        return;
    }
    const size_t padded = (w->cols + LANES - 1) / LANES * LANES;
    for (size_t r = 0; r < n; r += PANEL_ROWS)
        block_panel(w, row0 + r, n - r < PANEL_ROWS ? n - r : PANEL_ROWS, panels + r * padded);
}

INLINE void lanes_blocks(cpu_isa *t)
{
    t->block_dot    = block_dot;
    t->block_expand = block_expand;
}

#endif
