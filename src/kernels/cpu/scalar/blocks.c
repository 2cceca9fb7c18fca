/* kernels/cpu/scalar/blocks.c - dot products over formats that are decoded to floats,
 * GGML's block types, MLX's groups and trellis codes, in plain C: the dense order of
 * linear_layout.h over decoded weights. */
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar/scalar.h"

#include <math.h>
#include <string.h>

static size_t piece_of(const lin_weight *w, size_t at)
{
    return w->cols - at < DECODE_PIECE ? w->cols - at : DECODE_PIECE;
}

static void dot_row(const lin_weight *w, size_t row, const float *x, float *y)
{
    float acc[LANES] = {0}, q[DECODE_PIECE];
    for (size_t at = 0; at < w->cols; at += DECODE_PIECE) {
        const size_t n = piece_of(w, at);
        weight_decode(w, row, at, n, q);
        for (size_t i = 0; i < n; i++) acc[i % LANES] = fmaf(q[i], x[at + i], acc[i % LANES]);
    }
    *y = lanes_sum(acc);
}

static void dot(const lin_weight *w, size_t row0, size_t n_rows, const float *const *x, unsigned m, float *const *y)
{
    for (unsigned j = 0; j < m; j++)
        for (size_t r = 0; r < n_rows; r++) dot_row(w, row0 + r, x[j], &y[j][r]);
}

static void expand(const lin_weight *w, size_t row0, size_t n, float *panels)
{
    const lin_layout lo   = lin_layout_of(w->format, w->group, w->cols);
    const size_t     size = lin_panel_floats(&lo);
    memset(panels, 0, (n + PANEL_ROWS - 1) / PANEL_ROWS * size * sizeof *panels);
    for (size_t r = 0; r < n; r++)
        for (size_t at = 0; at < w->cols; at += DECODE_PIECE) {
            float        q[DECODE_PIECE];
            const size_t piece = piece_of(w, at);
            weight_decode(w, row0 + r, at, piece, q);
            float *panel = panels + r / PANEL_ROWS * size + r % PANEL_ROWS * LANES;
            for (size_t i = 0; i < piece; i++) panel[(at + i) / LANES * PANEL_ROWS * LANES + i % LANES] = q[i];
        }
}

void cpu_scalar_blocks(cpu_isa *t)
{
    t->block_dot    = dot;
    t->block_expand = expand;
}
