/* kernels/cpu/linear_layout.h - how linears lay out their operands.
 *
 * A dot product over K columns has a fixed order that depends on the storage
 * format alone (docs/EXACTNESS.md).  It is described by blocks:
 *
 *   dense (f32, f16, bf16): acc[l] = fma(w[16v + l], x[16v + l], acc[l]) for v
 *   ascending; K is padded with zeros to a multiple of 16.  GGML's block types and
 *   MLX's formats but 4 and 8 bits are dense over the floats that codes stand for,
 *   and so are trellis codes, along either axis.
 *
 *   affine, 4 and 8 bits: 16 groups make a chunk.  Per chunk, first the biases of its groups
 *   (lane g mod 16 = group g):   acc[l] = fma(bias[g], xsum[g], acc[l])
 *   then block by block          tmp[l] = fma(code, x, tmp[l]) from 0, `nv` times,
 *                                acc[l] = fma(tmp[l], scale of lane l, acc[l]).
 *   8 bits: a block is a group, lane l takes elements l, l+16, ...
 *   4 bits: a block is 128 columns = 16 words; lane l takes word l, that is
 *   columns 8l .. 8l+7, lowest nibble first; its scale is that of the group the
 *   word lies in.  What lies beyond K counts as zero code, scale and x.
 *   The code of nibble v < 7 is the number where it stands in the word, 16^v times
 *   the nibble, and x is 16^-v times its value: the same product for a shift less.
 *
 * A prepared row holds x in that order, so that all kernels read it straight:
 *   dense: padded x;   affine: per chunk [16 xsum][blocks][nv][16].
 * A panel holds 4 weight rows as floats in the same order:
 *   dense: [v][4][16];  affine: per chunk [4][16] biases, per block [4][16]
 *   scales and [nv][4][16] codes. */
#ifndef KERNELS_CPU_LINEAR_LAYOUT_H
#define KERNELS_CPU_LINEAR_LAYOUT_H

#include "kernels/kernels.h"
#include "quant/trellis.h"

#include <stddef.h>

enum { PANEL_ROWS = 4, TILE_ROWS = 8, DOT_ROWS = 8 };

/* One matrix [rows, cols] in its storage format. */
typedef struct lin_weight {
    k_format       format;
    uint32_t       rows, cols, group;
    dtype          scale_type;
    const uint8_t *data, *scales, *biases;
    size_t         row_bytes, scale_row_bytes;
    /* trellis: bits of a symbol.  TRELLIS_ACROSS: a "row" of row_bytes and scale_row_bytes is a column's,
     * `run` of its blocks one behind the other; the next ones are run_bytes on. */
    uint32_t bits, run;
    size_t   run_bytes;
} lin_weight;

/* Block b, the rows 256 b .., of a column of K_TRELLIS_ACROSS. */
static inline const uint8_t *lin_across_block(const lin_weight *w, size_t column, size_t b)
{
    return w->data + b / w->run * w->run_bytes + column * w->row_bytes + b % w->run * (TRELLIS_BLOCK / 8) * w->bits;
}

typedef struct lin_layout {
    bool     affine;
    uint32_t group_shift;  /* affine: log2 of the columns of a group */
    uint32_t nv;           /* vectors of 16 in a block */
    uint32_t n_blocks;     /* in all; dense: vectors */
    uint32_t chunk_blocks; /* blocks in a chunk; dense: vectors */
    uint32_t n_chunks;
    uint32_t piece_blocks; /* blocks of a piece: what a kernel does of a chunk at once */
    uint32_t n_pieces;
    uint32_t x_chunk, panel_chunk; /* floats a chunk takes in a prepared row / a panel */
} lin_layout;

/* The layout of a format over `cols` columns. */
lin_layout lin_layout_of(k_format format, uint32_t group, uint32_t cols);

/* Blocks of chunk c (the last one may be short). */
static inline uint32_t lin_chunk_blocks(const lin_layout *lo, size_t c)
{
    const size_t left = lo->n_blocks - c * lo->chunk_blocks;
    return left < lo->chunk_blocks ? (uint32_t)left : lo->chunk_blocks;
}

/* Blocks first .. first+n-1 of a chunk. */
typedef struct lin_piece {
    size_t chunk, first, n;
} lin_piece;

/* Piece p, p < n_pieces: about 512 columns, so that those of some rows of x stay in
 * L1 while weights pass over them.  Pieces lie in a chunk and ascend. */
static inline lin_piece lin_piece_of(const lin_layout *lo, size_t p)
{
    const size_t in_chunk = lo->chunk_blocks / lo->piece_blocks;
    lin_piece    k        = {.chunk = p / in_chunk, .first = p % in_chunk * lo->piece_blocks};
    const size_t left     = lin_chunk_blocks(lo, k.chunk) - k.first;
    k.n                   = left < lo->piece_blocks ? left : lo->piece_blocks;
    return k;
}

/* Floats of one prepared row / one panel; the last chunk takes only what it has. */
static inline size_t lin_x_floats(const lin_layout *lo)
{
    const size_t left = (size_t)lo->chunk_blocks - lin_chunk_blocks(lo, lo->n_chunks - 1u);
    return (size_t)lo->n_chunks * lo->x_chunk - left * lo->nv * 16;
}
static inline size_t lin_panel_floats(const lin_layout *lo)
{
    const size_t left = (size_t)lo->chunk_blocks - lin_chunk_blocks(lo, lo->n_chunks - 1u);
    return (size_t)lo->n_chunks * lo->panel_chunk - left * (lo->nv + (lo->affine ? 1u : 0u)) * PANEL_ROWS * 16;
}
/* Floats from one prepared row to the next: 512 bytes more than a multiple of 1024, so
 * that pieces of up to eight rows lie in different sets of the L1 cache. */
static inline size_t lin_x_stride(const lin_layout *lo)
{
    return (lin_x_floats(lo) + 127) / 256 * 256 + 128;
}
/* No layout of `cols` columns takes more floats: affine groups of 32 add one
 * sum to 32 columns, and blocks, chunks and the stride round up. */
static inline size_t lin_x_stride_max(size_t cols)
{
    const size_t padded = (cols + 127) / 128 * 128;
    return padded + padded / 32 + 32 + 256;
}
static inline size_t lin_panel_floats_max(size_t cols)
{
    const size_t padded = (cols + 127) / 128 * 128;
    return PANEL_ROWS *
           (padded + padded / 2 + padded / 32 + 32); /* 8 bits, groups of 32: a scale vector to two of codes */
}

/* Writes the prepared row of x [cols] to xp [lin_x_floats]. */
void lin_prepare(const lin_layout *lo, k_format format, uint32_t group, uint32_t cols, float *xp, const float *x);

#endif
