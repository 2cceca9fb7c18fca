/* kernels/cpu/weights.c - matrices used in place, and rows of them as floats. */
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "quant/affine.h"
#include "quant/blocks.h"
#include "quant/dense.h"

#include <string.h>

lin_weight weight_mat(const k_weight *w, uint32_t i)
{
    lin_weight m = w->form;
    m.data       = w->mat[i].data;
    m.scales     = w->mat[i].scales;
    m.biases     = w->mat[i].biases;
    return m;
}

/* The caller (load) has checked shapes and sizes against the checkpoint. */
weir_status cpu_weight_new(kernels *k, const k_weight_desc *d, k_weight **out, weir_error *err)
{
    (void)k;
    *out        = NULL;
    k_weight *w = mem_zalloc(1, sizeof *w + d->mats * sizeof(k_matrix));
    if (w == NULL) return status_fail(err, WEIR_NO_MEMORY, "weight: out of memory");
    w->mats = d->mats;
    memcpy(w->mat, d->mat, d->mats * sizeof *d->mat);
    lin_weight *m = &w->form;
    *m            = (lin_weight){.format = d->format, .rows = d->rows, .cols = d->cols};
    switch (d->format) {
    case K_F32: m->row_bytes = 4 * (size_t)d->cols; break;
    case K_F16:
    case K_BF16: m->row_bytes = 2 * (size_t)d->cols; break;
    case K_AFFINE4: m->row_bytes = d->cols / 2; break;
    case K_AFFINE8: m->row_bytes = d->cols; break;
    default: m->row_bytes = blocks_bytes(k_block_type(d->format), d->cols); break;
    }
    if (d->format == K_AFFINE4 || d->format == K_AFFINE8) {
        m->group           = d->group;
        m->scale_type      = d->scale_type;
        m->scale_row_bytes = d->cols / d->group * dtype_table[d->scale_type].bytes;
    }
    *m   = weight_mat(w, 0);
    *out = w;
    return WEIR_OK;
}

void cpu_weight_free(kernels *k, k_weight *w)
{
    (void)k;
    mem_free(w);
}

/* Decodes with the readable routines of quant/: a row a token is too little
 * work for kernels of its own. */
static void decode_row(const lin_weight *w, size_t row, float *y)
{
    const uint8_t *data = w->data + row * w->row_bytes;
    switch (w->format) {
    case K_F32: dense_decode(y, data, DTYPE_F32, w->cols); return;
    case K_F16: dense_decode(y, data, DTYPE_F16, w->cols); return;
    case K_BF16: dense_decode(y, data, DTYPE_BF16, w->cols); return;
    case K_AFFINE4:
    case K_AFFINE8: break;
    default: blocks_decode(y, data, k_block_type(w->format), w->cols); return;
    }
    const affine_row a = {.bits       = w->format == K_AFFINE4 ? 4 : 8,
                          .group      = w->group,
                          .codes      = data,
                          .scales     = w->scales + row * w->scale_row_bytes,
                          .biases     = w->biases + row * w->scale_row_bytes,
                          .scale_type = w->scale_type};
    affine_decode(y, &a, w->cols);
}

typedef struct embed_job {
    const lin_weight *w;
    const uint32_t   *ids;
    float            *x;
} embed_job;

static void embed_row(void *arg, size_t row)
{
    const embed_job *j = arg;
    decode_row(j->w, j->ids[row], j->x + row * j->w->cols);
}

void cpu_embed(kernels *k, k_buf *x, const k_weight *table)
{
    cpu_backend *b   = cpu_of(k);
    embed_job    job = {.w = &table->form, .ids = b->step->ids, .x = buf_f32(x)};
    for_rows(b, embed_row, &job, b->step->n_rows, 4 * (size_t)table->form.cols);
}
