/* kernels/cpu/lanes/trellis.h - trellis codes on 16 lanes (quant/trellis.h): weights from the
 * sum of four bytes, without the division.
 *
 * Sixteen weights lie in a window of 2 * bits bytes and what the first state takes beyond it.  The
 * first windows of a block run on into its start, or are looked at past its end; they come from
 * a copy.
 *
 * Along the columns (K_TRELLIS) weights meet x as they are decoded.  Across them a block has
 * 256 rows' weights of one column: a tile of sums [lane][row of x][weight row] stays in L1
 * while the columns pass, column c adding to lane c mod 16, as everywhere. */
#ifndef KERNELS_CPU_LANES_TRELLIS_H
#define KERNELS_CPU_LANES_TRELLIS_H

#include "base/bytes.h"
#include "base/half.h"
#include "kernels/cpu/lanes/pieces.h"

#include <string.h>

enum {
    TRELLIS_VECTORS = TRELLIS_BLOCK / LANES,
    TRELLIS_READS   = 24,   /* the most that TRELLIS_READ is, and no more than the least block */
    ACROSS_SUMS     = 4096, /* floats of the tile: half of L1 */
    ACROSS_AHEAD    = 8     /* columns */
};

/* A block that is being decoded. */
typedef struct trellis_at {
    const uint8_t *block;
    uint8_t        copy[2 * TRELLIS_READS];
} trellis_at;

/* Windows whose look goes past the block's end. */
INLINE size_t trellis_copied(const int bits)
{
    return (size_t)((TRELLIS_READ(bits) + 2 * bits - 1) / (2 * bits)) - 1;
}

INLINE void trellis_begin(trellis_at *t, const uint8_t *block, const int bits)
{
    const size_t n = trellis_copied(bits) * 2 * (size_t)bits;
    t->block       = block;
    memcpy(t->copy, block + trellis_block_bytes((uint32_t)bits) - n, n);
    memcpy(t->copy + n, block, TRELLIS_READS);
}

/* Weights 16 v .. 16 v + 15, over their scale's factor. */
INLINE vf trellis_vector(const trellis_at *t, size_t v, const vf factor, const int bits)
{
    const size_t   step = 2 * (size_t)bits, copied = trellis_copied(bits);
    const uint8_t *p = v < copied ? t->copy + (copied - 1 - v) * step : t->block + (TRELLIS_VECTORS - 1 - v) * step;
    return vf_near_bf16(vf_mul(vf_trellis(p, bits), factor));
}

INLINE vf trellis_scale(const lin_weight *w, size_t i)
{
    return vf_set1(trellis_factor(f16_to_f32(load_u16(w->scales + i * w->scale_row_bytes))));
}

/* Calls fn with the weight's bits as a constant. */
#define TRELLIS_BITS(bits, fn, ...) \
    switch (bits) { \
    case 1: fn(__VA_ARGS__, 1); break; \
    case 2: fn(__VA_ARGS__, 2); break; \
    case 3: fn(__VA_ARGS__, 3); break; \
    case 4: fn(__VA_ARGS__, 4); break; \
    case 5: fn(__VA_ARGS__, 5); break; \
    case 6: fn(__VA_ARGS__, 6); break; \
    case 7: fn(__VA_ARGS__, 7); break; \
    default: fn(__VA_ARGS__, 8); break; \
    }

/* ---- along the columns ---- */

INLINE void trellis_panel_block(float *panel, const uint8_t *block, const vf factor, const int bits)
{
    trellis_at t;
    trellis_begin(&t, block, bits);
    for (size_t v = 0; v < TRELLIS_VECTORS; v++)
        vf_store(panel + v * PANEL_ROWS * LANES, trellis_vector(&t, v, factor, bits));
}

/* A row in its place in a panel. */
static NOINLINE void trellis_panel(const lin_weight *w, size_t row, float *panel)
{
    const uint8_t *block = w->data + row * w->row_bytes;
    const vf       scale = trellis_scale(w, row);
    for (size_t at = 0; at < w->cols; at += TRELLIS_BLOCK, panel += TRELLIS_BLOCK * PANEL_ROWS) {
        TRELLIS_BITS(w->bits, trellis_panel_block, panel, block, scale)
        block += trellis_block_bytes(w->bits);
    }
}

/* `n` weight rows times M rows of x. */
INLINE void trellis_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, float *const *y,
                         const int M, const int bits)
{
    const size_t bytes = trellis_block_bytes((uint32_t)bits);
    for (size_t r = 0; r < n; r++) {
        const uint8_t *block  = w->data + (row0 + r) * w->row_bytes;
        const vf       factor = trellis_scale(w, row0 + r);
        vf             acc[DOT_ROWS];
        UNROLL for (int m = 0; m < M; m++) acc[m] = vf_zero();
        for (size_t at = 0; at < w->cols; at += TRELLIS_BLOCK, block += bytes) {
            trellis_at t;
            trellis_begin(&t, block, bits);
            for (size_t v = 0; v < TRELLIS_VECTORS; v++) {
                const vf q                                = trellis_vector(&t, v, factor, bits);
                UNROLL for (int m = 0; m < M; m++) acc[m] = vf_fma(q, vf_load(x[m] + at + v * LANES), acc[m]);
            }
        }
        UNROLL for (int m = 0; m < M; m++) y[m][r] = vf_sum(acc[m]);
    }
}

#define TRELLIS_ROWS(M) \
    static NOINLINE void trellis_rows_##M(const lin_weight *w, size_t row0, size_t n, const float *const *x, \
                                          float *const *y) \
    { \
        TRELLIS_BITS(w->bits, trellis_rows, w, row0, n, x, y, M) \
    }
TRELLIS_ROWS(1)
#if PIECE_MOST > 1
TRELLIS_ROWS(2)
TRELLIS_ROWS(3)
TRELLIS_ROWS(4)
#endif

/* m at most PIECE_MOST. */
static void trellis_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    switch (m) {
#if PIECE_MOST > 1
    case 2: trellis_rows_2(w, row0, n, x, y); break;
    case 3: trellis_rows_3(w, row0, n, x, y); break;
    case 4: trellis_rows_4(w, row0, n, x, y); break;
#endif
    default: trellis_rows_1(w, row0, n, x, y); break;
    }
}

/* ---- across the columns ---- */

/* Some vectors of one block, that is weight rows, and rows of x. */
typedef struct across_tile {
    const lin_weight   *w;
    size_t              block, v0, n_v; /* vectors v0 .. v0 + n_v - 1 */
    const float *const *x;
    unsigned            m;
    float              *sums; /* [LANES][m][n_v * LANES] */
} across_tile;

INLINE void across_columns(const across_tile *a, const int M, const int bits)
{
    const lin_weight *w = a->w;
    const size_t      m = M == 1 ? 1 : a->m, n_v = a->n_v, v0 = a->v0, width = n_v * LANES;
    for (size_t c = 0; c < w->cols; c++) {
        const uint8_t *block  = lin_across_block(w, c, a->block);
        const vf       factor = trellis_scale(w, c);
        float         *sums   = a->sums + c % LANES * m * width;
        trellis_at     t;
        PREFETCH(block + ACROSS_AHEAD * w->row_bytes);
        trellis_begin(&t, block, bits);
        const vf first = vf_set1(a->x[0][c]);
        for (size_t v = 0; v < n_v; v++) {
            const vf q = trellis_vector(&t, v0 + v, factor, bits);
            vf_store(sums + v * LANES, vf_fma(q, first, vf_load(sums + v * LANES)));
            for (size_t i = 1; i < m; i++) {
                float *to = sums + i * width + v * LANES;
                vf_store(to, vf_fma(q, vf_set1(a->x[i][c]), vf_load(to)));
            }
        }
    }
}

static NOINLINE void across_columns_1(const across_tile *a)
{
    TRELLIS_BITS(a->w->bits, across_columns, a, 1)
}
static NOINLINE void across_columns_m(const across_tile *a){TRELLIS_BITS(a->w->bits, across_columns, a, 0)}

/* The tree over the lanes, for 16 weight rows at a time. */
INLINE void across_reduce(float *out, const float *sums, size_t stride)
{
    vf s[LANES];
    for (size_t l = 0; l < LANES; l++) s[l] = vf_load(sums + l * stride);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) s[l] = vf_add(s[l], s[l + half]);
    vf_store(out, s[0]);
}

/* The tile's sums; of its weight rows those from row0 to row0 + n - 1 go to y[..][row - row0]. */
static void across_finish(const across_tile *a, size_t row0, size_t n, float *const *y)
{
    const size_t width = a->n_v * LANES;
    for (size_t i = 0; i < a->m; i++)
        for (size_t v = 0; v < a->n_v; v++) {
            float        out[LANES];
            const size_t first = a->block * TRELLIS_BLOCK + (a->v0 + v) * LANES;
            const size_t begin = first < row0 ? row0 : first, end = first + LANES < row0 + n ? first + LANES : row0 + n;
            across_reduce(out, a->sums + i * width + v * LANES, a->m * width);
            memcpy(y[i] + (begin - row0), out + (begin - first), (end - begin) * sizeof *out);
        }
}

static void across_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    _Alignas(64) float sums[ACROSS_SUMS];
    const size_t       most = ACROSS_SUMS / LANES / LANES / m;
    for (size_t v = row0 / LANES; v * LANES < row0 + n;) {
        const size_t in_block = TRELLIS_VECTORS - v % TRELLIS_VECTORS, wanted = (row0 + n - 1) / LANES + 1 - v;
        size_t       n_v    = wanted < in_block ? wanted : in_block;
        n_v                 = n_v < most ? n_v : most;
        const across_tile a = {w, v / TRELLIS_VECTORS, v % TRELLIS_VECTORS, n_v, x, m, sums};
        memset(sums, 0, m * n_v * LANES * LANES * sizeof *sums);
        if (m == 1)
            across_columns_1(&a);
        else
            across_columns_m(&a);
        across_finish(&a, row0, n, y);
        v += n_v;
    }
}

/* Vector v of the rows' weights of sixteen columns, [column][row]. */
INLINE void across_square(float *q, const lin_weight *w, size_t column, size_t n, size_t v, const int bits)
{
    for (size_t c = 0; c < n; c++) {
        trellis_at t;
        trellis_begin(&t, lin_across_block(w, column + c, v / TRELLIS_VECTORS), bits);
        vf_store(q + c * LANES, trellis_vector(&t, v % TRELLIS_VECTORS, trellis_scale(w, column + c), bits));
    }
}

static NOINLINE void across_floats(float *q, const lin_weight *w, size_t column, size_t n, size_t v)
{
    TRELLIS_BITS(w->bits, across_square, q, w, column, n, v)
}

/* As block_expand. */
static void across_expand(const lin_weight *w, size_t row0, size_t n, float *panels)
{
    const size_t       padded = (w->cols + LANES - 1) / LANES * LANES;
    _Alignas(64) float q[LANES * LANES];
    memset(panels + n / PANEL_ROWS * PANEL_ROWS * padded, 0, n % PANEL_ROWS != 0 ? PANEL_ROWS * padded * sizeof *q : 0);
    for (size_t column = 0; column < w->cols; column += LANES) {
        const size_t left = w->cols - column, n_columns = left < LANES ? left : LANES;
        for (size_t v = row0 / LANES; v * LANES < row0 + n; v++) {
            const size_t begin = v * LANES < row0 ? row0 : v * LANES;
            const size_t end   = (v + 1) * LANES < row0 + n ? (v + 1) * LANES : row0 + n;
            if (n_columns < LANES) memset(q, 0, sizeof q);
            across_floats(q, w, column, n_columns, v);
            for (size_t row = begin; row < end; row++) {
                const size_t r = row - row0;
                float       *to =
                    panels + r / PANEL_ROWS * PANEL_ROWS * padded + column * PANEL_ROWS + r % PANEL_ROWS * LANES;
                for (size_t c = 0; c < LANES; c++) to[c] = q[c * LANES + row % LANES];
            }
        }
    }
}

#endif
