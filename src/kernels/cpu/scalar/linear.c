/* kernels/cpu/scalar/linear.c - dot products over every storage format, in
 * plain C and in the order that linear_layout.h states. */
#include "base/bytes.h"
#include "kernels/cpu/scalar/scalar.h"
#include "quant/dense.h"

#include <math.h>
#include <string.h>

enum { NIBBLES = 8 };

/* Element i of a row of floats; 0 beyond n. */
static float float_at(const uint8_t *p, dtype type, size_t i, size_t n)
{
    return i < n ? dense_at(p, type, i) : 0.0f;
}

static dtype dense_type(k_format f)
{
    return f == K_F32 ? DTYPE_F32 : f == K_F16 ? DTYPE_F16 : DTYPE_BF16;
}

/* The code that lane l of vector v of block b holds; 0 beyond the row. */
static float code_at(const lin_weight *w, const uint8_t *row, size_t b, size_t v, size_t l)
{
    if (w->format == K_AFFINE8) return (float)row[b * w->group + v * LANES + l];
    const size_t word = b * LANES + l;
    if (word >= w->cols / NIBBLES) return 0.0f;
    const uint32_t bits = load_u32(row + 4 * word);
    return (float)(v < NIBBLES - 1 ? bits & 15u << (4 * v) : bits >> (4 * v));
}

/* The group whose scale lane l of block b has. */
static size_t group_at(const lin_weight *w, size_t b, size_t l)
{
    return w->format == K_AFFINE8 ? b : (b * LANES + l) * NIBBLES / w->group;
}

static void expand(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    const lin_layout lo       = lin_layout_of(w->format, w->group, w->cols);
    const size_t     n_groups = lo.affine ? w->cols / w->group : 0;
    memset(panel, 0, lin_panel_floats(&lo) * sizeof *panel);
    for (size_t r = 0; r < n; r++) {
        const uint8_t *row = w->data + (row0 + r) * w->row_bytes;
        if (!lo.affine) {
            for (size_t i = 0; i < w->cols; i++)
                panel[(i / LANES * PANEL_ROWS + r) * LANES + i % LANES] =
                    float_at(row, dense_type(w->format), i, w->cols);
            continue;
        }
        const uint8_t *scales = w->scales + (row0 + r) * w->scale_row_bytes;
        const uint8_t *biases = w->biases + (row0 + r) * w->scale_row_bytes;
        for (size_t c = 0; c < lo.n_chunks; c++) {
            float *to = panel + c * lo.panel_chunk + r * LANES;
            for (size_t l = 0; l < LANES; l++) to[l] = float_at(biases, w->scale_type, c * LANES + l, n_groups);
            to += PANEL_ROWS * LANES;
            for (size_t i = 0; i < lin_chunk_blocks(&lo, c); i++) {
                const size_t b = c * lo.chunk_blocks + i;
                for (size_t l = 0; l < LANES; l++) to[l] = float_at(scales, w->scale_type, group_at(w, b, l), n_groups);
                to += PANEL_ROWS * LANES;
                for (size_t v = 0; v < lo.nv; v++) {
                    for (size_t l = 0; l < LANES; l++) to[l] = code_at(w, row, b, v, l);
                    to += PANEL_ROWS * LANES;
                }
            }
        }
    }
}

/* One piece of one panel row times one prepared row into acc [16]. */
static void piece_dot(const lin_layout *lo, lin_piece k, float *acc, const float *x, const float *panel)
{
    enum { STRIDE = PANEL_ROWS * LANES };
    x += k.chunk * lo->x_chunk;
    panel += k.chunk * lo->panel_chunk;
    if (lo->affine) {
        for (size_t l = 0; k.first == 0 && l < LANES; l++) acc[l] = fmaf(panel[l], x[l], acc[l]);
        panel += STRIDE;
        x += LANES;
    }
    x += k.first * lo->nv * LANES;
    panel += k.first * (lo->nv + (lo->affine ? 1u : 0u)) * STRIDE;
    for (size_t b = 0; b < k.n; b++) {
        if (!lo->affine) {
            for (size_t l = 0; l < LANES; l++) acc[l] = fmaf(panel[l], x[l], acc[l]);
            panel += STRIDE;
            x += LANES;
            continue;
        }
        const float *scale      = panel;
        float        tmp[LANES] = {0};
        panel += STRIDE;
        for (size_t v = 0; v < lo->nv; v++, panel += STRIDE, x += LANES)
            for (size_t l = 0; l < LANES; l++) tmp[l] = fmaf(panel[l], x[l], tmp[l]);
        for (size_t l = 0; l < LANES; l++) acc[l] = fmaf(tmp[l], scale[l], acc[l]);
    }
}

static void tile(const lin_layout *lo, float *acc, const float *const *x, unsigned m, const float *panel, size_t piece)
{
    if (piece == 0) memset(acc, 0, (size_t)m * PANEL_ROWS * LANES * sizeof *acc);
    for (unsigned j = 0; j < m; j++)
        for (size_t r = 0; r < PANEL_ROWS; r++)
            piece_dot(lo, lin_piece_of(lo, piece), acc + (j * PANEL_ROWS + r) * LANES, x[j], panel + r * LANES);
}

static void reduce(float *sums, const float *acc, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float a[LANES];
        memcpy(a, acc + i * LANES, sizeof a);
        sums[i] = lanes_sum(a);
    }
}

/* The code (or dense element) stream of one row, without a panel. */
static void dot_row(const lin_weight *w, const lin_layout *lo, size_t r, const float *x, float *y)
{
    const uint8_t *row        = w->data + r * w->row_bytes;
    float          acc[LANES] = {0};
    if (!lo->affine) {
        for (size_t i = 0; i < (size_t)lo->n_blocks * LANES; i++)
            acc[i % LANES] = fmaf(float_at(row, dense_type(w->format), i, w->cols), x[i], acc[i % LANES]);
        *y = lanes_sum(acc);
        return;
    }
    const size_t   n_groups = w->cols / w->group;
    const uint8_t *scales = w->scales + r * w->scale_row_bytes, *biases = w->biases + r * w->scale_row_bytes;
    for (size_t c = 0; c < lo->n_chunks; c++) {
        const float *xc = x + c * lo->x_chunk;
        for (size_t l = 0; l < LANES; l++)
            acc[l] = fmaf(float_at(biases, w->scale_type, c * LANES + l, n_groups), xc[l], acc[l]);
        xc += LANES;
        for (size_t i = 0; i < lin_chunk_blocks(lo, c); i++) {
            const size_t b          = c * lo->chunk_blocks + i;
            float        tmp[LANES] = {0};
            for (size_t v = 0; v < lo->nv; v++, xc += LANES)
                for (size_t l = 0; l < LANES; l++) tmp[l] = fmaf(code_at(w, row, b, v, l), xc[l], tmp[l]);
            for (size_t l = 0; l < LANES; l++)
                acc[l] = fmaf(tmp[l], float_at(scales, w->scale_type, group_at(w, b, l), n_groups), acc[l]);
        }
    }
    *y = lanes_sum(acc);
}

static void dot(const lin_weight *w, size_t row0, size_t n_rows, const float *const *x, unsigned m, float *const *y)
{
    const lin_layout lo = lin_layout_of(w->format, w->group, w->cols);
    for (unsigned j = 0; j < m; j++)
        for (size_t r = 0; r < n_rows; r++) dot_row(w, &lo, row0 + r, x[j], &y[j][r]);
}

void cpu_scalar_linear(cpu_isa *t)
{
    t->lin_dot    = dot;
    t->lin_expand = expand;
    t->lin_tile   = tile;
    t->lin_reduce = reduce;
}
