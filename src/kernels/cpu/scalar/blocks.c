/* kernels/cpu/scalar/blocks.c - dot products over GGML's block types, in plain C:
 * the dense order of linear_layout.h over decoded blocks. */
#include "quant/blocks.h"
#include "kernels/cpu/scalar/scalar.h"

#include <math.h>
#include <string.h>

enum { MOST = 256 }; /* elements of a block */

static void dot_row(const lin_weight *w, size_t row, const float *x, float *y)
{
    const dtype    type       = k_block_type(w->format);
    const size_t   block      = dtype_table[type].elements;
    const uint8_t *p          = w->data + row * w->row_bytes;
    float          acc[LANES] = {0}, q[MOST];
    for (size_t at = 0; at < w->cols; at += block, p += dtype_table[type].bytes) {
        blocks_decode(q, p, type, block);
        for (size_t i = 0; i < block; i++) acc[i % LANES] = fmaf(q[i], x[at + i], acc[i % LANES]);
    }
    *y = lanes_sum(acc);
}

static void dot(const lin_weight *w, size_t row0, size_t n_rows, const float *const *x, unsigned m, float *const *y)
{
    for (unsigned j = 0; j < m; j++)
        for (size_t r = 0; r < n_rows; r++) dot_row(w, row0 + r, x[j], &y[j][r]);
}

static void expand(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    const lin_layout lo    = lin_layout_of(w->format, w->group, w->cols);
    const dtype      type  = k_block_type(w->format);
    const size_t     block = dtype_table[type].elements;
    memset(panel, 0, lin_panel_floats(&lo) * sizeof *panel);
    for (size_t r = 0; r < n; r++) {
        const uint8_t *p = w->data + (row0 + r) * w->row_bytes;
        float          q[MOST];
        for (size_t at = 0; at < w->cols; at += block, p += dtype_table[type].bytes) {
            blocks_decode(q, p, type, block);
            for (size_t i = 0; i < block; i++) panel[((at + i) / LANES * PANEL_ROWS + r) * LANES + i % LANES] = q[i];
        }
    }
}

void cpu_scalar_blocks(cpu_isa *t)
{
    t->block_dot    = dot;
    t->block_expand = expand;
}
