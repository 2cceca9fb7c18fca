/* kernels/cpu/lanes/blocks.h - scalar/blocks.c on 16 lanes.
 *
 * Weights are decoded in registers (pieces.h) and used for all rows of x there; PIECE_R
 * weight rows together, so that sums do not wait for one another. */
#ifndef KERNELS_CPU_LANES_BLOCKS_H
#define KERNELS_CPU_LANES_BLOCKS_H

#include "kernels/cpu/lanes/pieces.h"
#include "kernels/cpu/lanes/trellis.h"

enum { PIECE_TILE = 4 }; /* most weight rows together */

/* What prefetching reaches ahead: whole groups of R rows. */
INLINE size_t piece_ahead(const lin_weight *w, const size_t R)
{
    const size_t group = R * w->row_bytes;
    return (PREFETCH_BYTES + group - 1) / group * group;
}

/* acc[r][m] += vectors 2 i to 2 i + n - 1 of each of R pieces times x[m] from `at` on. */
INLINE void piece_step(vf acc[PIECE_TILE][PIECE_MOST], const piece *p, const int i, const int n, const int R,
                       const float *const *x, const int M, size_t at, const k_format format)
{
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int half = 0; half < n; half++)
    {
        const vf     q                               = piece_floats(&p[r], i, half, format);
        const size_t from                            = at + (size_t)half * LANES;
        UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_hold(vf_fma(q, vf_load(x[m] + from), acc[r][m]));
    }
}

/* Weight rows row + r, r from `first` on and below n, R of them, times M rows of x into
 * y[m][r].  Past the end the last row comes again. */
INLINE void piece_tile(const lin_weight *w, size_t row, size_t first, size_t n, const int R, const float *const *rows,
                       const int M, float *const *y, const k_format format)
{
    const size_t ahead = piece_ahead(w, (size_t)R), bytes = w->row_bytes * DECODE_PIECE / w->cols;
    const float *x[PIECE_MOST];
    vf           acc[PIECE_TILE][PIECE_MOST];
    piece        p[PIECE_TILE];
    size_t       at                         = 0, r_of[PIECE_TILE];
    UNROLL for (int m = 0; m < M; m++) x[m] = rows[m];
    UNROLL for (int r = 0; r < R; r++)
    {
        r_of[r]                                      = first + (size_t)r < n ? first + (size_t)r : n - 1;
        UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_zero();
    }
    for (; at + DECODE_PIECE <= w->cols; at += DECODE_PIECE) {
        for (int r = 0; r < R; r++) {
            piece_open(&p[r], w, row + r_of[r], at, format);
            for (size_t i = 0; i < bytes; i += LINE) PREFETCH(p[r].at + ahead + i);
        }
        /* Unrolled, shifts are by constants; with more rows of x they matter less. */
        if (M == 1 && PIECE_MOST > 1 && piece_is_whole(format)) {
            UNROLL for (int i = 0; i < PIECE_PAIRS; i++)
                piece_step(acc, p, i, 2, R, x, M, at + (size_t)i * PAIR, format);
        } else {
            for (int i = 0; i < PIECE_PAIRS; i++) piece_step(acc, p, i, 2, R, x, M, at + (size_t)i * PAIR, format);
        }
    }
    if (at < w->cols) {
        for (int r = 0; r < R; r++) piece_open(&p[r], w, row + r_of[r], at, format);
        int i = 0;
        for (; at + PAIR <= w->cols; i++, at += PAIR) piece_step(acc, p, i, 2, R, x, M, at, format);
        if (at < w->cols) piece_step(acc, p, i, 1, R, x, M, at, format);
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) y[m][r_of[r]] = vf_sum(acc[r][m]);
}

/* Functions of their own: inlined into one another they run out of registers. */
typedef void piece_fn(const lin_weight *w, size_t row, size_t n, const float *const *x, float *const *y);
#define PIECE_KERNEL(format, M) \
    static NOINLINE void piece_##format##_##M(const lin_weight *w, size_t row, size_t n, const float *const *x, \
                                              float *const *y) \
    { \
        for (size_t r = 0; r < n; r += PIECE_R(M)) piece_tile(w, row, r, n, PIECE_R(M), x, M, y, format); \
    }
#if PIECE_MOST == 1
#define PIECE_ALL(X, format) X(format, 1)
#else
#define PIECE_ALL(X, format) X(format, 1) X(format, 2) X(format, 3) X(format, 4)
#endif
/* clang-format off */
#define PIECE_FORMATS(X) \
    X(K_AFFINE2) X(K_AFFINE3) X(K_AFFINE5) X(K_AFFINE6) X(K_MLX_MXFP4) X(K_MLX_MXFP8) X(K_MLX_NVFP4) \
    X(K_Q4_0) X(K_Q4_1) X(K_Q5_0) X(K_Q5_1) X(K_Q8_0) X(K_Q2_K) X(K_Q3_K) X(K_Q4_K) X(K_Q5_K) X(K_Q6_K) \
    X(K_IQ4_NL) X(K_IQ4_XS) X(K_MXFP4)
/* clang-format on */

#define PIECE_KERNELS(format) PIECE_ALL(PIECE_KERNEL, format)
PIECE_FORMATS(PIECE_KERNELS)

static piece_fn *piece_function(k_format format, unsigned m)
{
#define PIECE_ENTRY(format, M) piece_##format##_##M,
#define PIECE_ENTRIES(format) [format]               = {PIECE_ALL(PIECE_ENTRY, format)},
    static piece_fn *const fn[K_FORMATS][PIECE_MOST] = {PIECE_FORMATS(PIECE_ENTRIES)};
    return fn[format][m - 1];
#undef PIECE_ENTRY
#undef PIECE_ENTRIES
}

/* More rows of x go in halves: functions for each number of them would take minutes to compile. */
static void block_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    if (w->format == K_TRELLIS_ACROSS) {
        across_dot(w, row0, n, x, m, y);
        return;
    }
    const unsigned size = m <= PIECE_MOST ? m : PIECE_MOST == 1 ? 1 : (m + 1) / 2;
    for (unsigned j = 0; j < m; j += size) {
        const unsigned some = m - j < size ? m - j : size;
        if (w->format == K_TRELLIS)
            trellis_dot(w, row0, n, x + j, some, y + j);
        else
            piece_function(w->format, some)(w, row0, n, x + j, y + j);
    }
}

/* ---- panels ---- */

INLINE void panel_pair(float *panel, const piece *p, const int i, const int n, const k_format format)
{
    UNROLL for (int half = 0; half < n; half++)
        vf_store(panel + (2 * i + half) * PANEL_ROWS * LANES, piece_floats(p, i, half, format));
}

INLINE void panel_row(const lin_weight *w, size_t row, float *panel, const k_format format)
{
    piece p;
    for (size_t at = 0; at < w->cols; at += DECODE_PIECE, panel += DECODE_PIECE * PANEL_ROWS) {
        const size_t left = w->cols - at;
        piece_open(&p, w, row, at, format);
        if (left >= DECODE_PIECE && piece_is_whole(format)) {
            UNROLL for (int i = 0; i < PIECE_PAIRS; i++) panel_pair(panel, &p, i, 2, format);
            continue;
        }
        for (int i = 0; i < PIECE_PAIRS && (size_t)i * PAIR < left; i++)
            panel_pair(panel, &p, i, (size_t)i * PAIR + LANES < left ? 2 : 1, format);
    }
}

typedef void panel_fn(const lin_weight *w, size_t row, float *panel);
#define PANEL_KERNEL(format) \
    static NOINLINE void panel_##format(const lin_weight *w, size_t row, float *panel) \
    { \
        panel_row(w, row, panel, format); \
    }
PIECE_FORMATS(PANEL_KERNEL)

static panel_fn *panel_function(k_format format)
{
#define PANEL_ENTRY(format) [format]     = panel_##format,
    static panel_fn *const fn[K_FORMATS] = {PIECE_FORMATS(PANEL_ENTRY)[K_TRELLIS] = trellis_panel};
#undef PANEL_ENTRY
    return fn[format];
}

static void block_expand(const lin_weight *w, size_t row0, size_t n, float *panels)
{
    if (w->format == K_TRELLIS_ACROSS) {
        across_expand(w, row0, n, panels);
        return;
    }
    const lin_layout lo   = lin_layout_of(w->format, w->group, w->cols);
    const size_t     size = lin_panel_floats(&lo);
    for (size_t r = 0; r < n; r++) {
        float *panel = panels + r / PANEL_ROWS * size;
        if (r % PANEL_ROWS == 0 && n - r < PANEL_ROWS) memset(panel, 0, size * sizeof *panel);
        panel_function(w->format)(w, row0 + r, panel + r % PANEL_ROWS * LANES);
    }
}

INLINE void lanes_blocks(cpu_isa *t)
{
    t->block_dot    = block_dot;
    t->block_expand = block_expand;
}

#endif
