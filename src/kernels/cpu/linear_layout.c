/* kernels/cpu/linear_layout.c - prepared rows.  Plain C for every instruction
 * set: rounding happens only in the group sums, lane by lane. */
#include "kernels/cpu/linear_layout.h"

#include <string.h>

enum { LANES = 16, DENSE_CHUNK = 64, NIBBLES = 8, PIECE_COLS = 512 };

lin_layout lin_layout_of(k_format format, uint32_t group, uint32_t cols)
{
    lin_layout lo = {.affine = format == K_AFFINE4 || format == K_AFFINE8};
    if (!lo.affine) {
        lo.nv           = 1;
        lo.n_blocks     = (cols + LANES - 1) / LANES;
        lo.chunk_blocks = DENSE_CHUNK;
        lo.x_chunk      = DENSE_CHUNK * LANES;
        lo.panel_chunk  = DENSE_CHUNK * LANES * PANEL_ROWS;
    } else {
        const uint32_t block = format == K_AFFINE4 ? LANES * NIBBLES : group;
        lo.nv                = block / LANES;
        lo.group_shift       = (uint32_t)__builtin_ctz(group);
        lo.n_blocks          = (cols + block - 1) / block;
        lo.chunk_blocks      = LANES * group / block;
        lo.x_chunk           = LANES + lo.chunk_blocks * lo.nv * LANES;
        lo.panel_chunk       = PANEL_ROWS * (LANES + lo.chunk_blocks * (lo.nv + 1) * LANES);
    }
    lo.n_chunks     = (lo.n_blocks + lo.chunk_blocks - 1) / lo.chunk_blocks;
    lo.piece_blocks = PIECE_COLS / (lo.nv * LANES);
    lo.n_pieces     = (lo.n_blocks + lo.piece_blocks - 1) / lo.piece_blocks;
    return lo;
}

/* The 16-lane tree sum of x[0..n-1], n a multiple of 16. */
static float lane_sum(const float *x, size_t n)
{
    float a[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t l = 0; l < LANES; l++) a[l] += x[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) a[l] += a[l + half];
    return a[0];
}

/* One block of 128 columns, n of them real: word l holds columns 8l .. 8l+7. */
static void transpose_block(float *to, const float *x, size_t n)
{
    static const float part[NIBBLES] = {1, 0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f, 0x1p-20f, 0x1p-24f, 1};
    if (n == LANES * NIBBLES) {
        for (size_t s = 0; s < NIBBLES; s++)
            for (size_t l = 0; l < LANES; l++) to[s * LANES + l] = x[l * NIBBLES + s] * part[s];
        return;
    }
    memset(to, 0, LANES * NIBBLES * sizeof *to);
    for (size_t i = 0; i < n; i++) to[i % NIBBLES * LANES + i / NIBBLES] = x[i] * part[i % NIBBLES];
}

void lin_prepare(const lin_layout *lo, k_format format, uint32_t group, uint32_t cols, float *xp, const float *x)
{
    if (!lo->affine) {
        memcpy(xp, x, cols * sizeof *x);
        memset(xp + cols, 0, (lin_x_floats(lo) - cols) * sizeof *x);
        return;
    }
    const size_t block = (size_t)lo->nv * LANES, n_groups = cols / group;
    for (size_t c = 0; c < lo->n_chunks; c++) {
        float *to = xp + c * lo->x_chunk;
        for (size_t l = 0; l < LANES; l++) {
            const size_t g = c * LANES + l;
            to[l]          = g < n_groups ? lane_sum(x + g * group, group) : 0.0f;
        }
        to += LANES;
        for (size_t b = c * lo->chunk_blocks; b < c * lo->chunk_blocks + lin_chunk_blocks(lo, c); b++) {
            const size_t at = b * block, n = cols - at < block ? cols - at : block;
            if (format == K_AFFINE4)
                transpose_block(to, x + at, n);
            else
                memcpy(to, x + at, block * sizeof *x);
            to += block;
        }
    }
}
