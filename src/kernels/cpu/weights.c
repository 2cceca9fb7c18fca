/* kernels/cpu/weights.c - matrices used in place, and rows of them as floats. */
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/decode.h"
#include "quant/blocks.h"

#include <string.h>

lin_weight weight_mat(const k_weight *w, uint32_t i)
{
    lin_weight m = w->form;
    m.data       = w->mat[i].data;
    m.scales     = w->mat[i].scales;
    m.biases     = w->mat[i].biases;
    return m;
}

static void trellis_form(lin_weight *m, const k_weight_desc *d)
{
    const uint32_t coded = d->format == K_TRELLIS ? d->cols : d->rows;
    const size_t   block = trellis_block_bytes(d->bits);
    m->bits              = d->bits;
    m->run               = d->paired ? 2 : coded / TRELLIS_BLOCK;
    m->row_bytes         = m->run * block;
    m->run_bytes         = d->cols * m->row_bytes;
    m->scale_type        = DTYPE_F16;
    m->scale_row_bytes   = 2;
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
    default: m->row_bytes = k_is_block(d->format) ? blocks_bytes(k_block_type(d->format), d->cols) : 0; break;
    }
    if (k_is_grouped(d->format)) {
        m->row_bytes       = (size_t)d->cols * k_code_bits(d->format) / 8;
        m->group           = d->group;
        m->scale_type      = d->scale_type;
        m->scale_row_bytes = d->cols / d->group * dtype_table[d->scale_type].bytes;
    }
    if (k_is_trellis(d->format)) trellis_form(m, d);
    *m   = weight_mat(w, 0);
    *out = w;
    return WEIR_OK;
}

void cpu_weight_free(kernels *k, k_weight *w)
{
    (void)k;
    mem_free(w);
}

typedef struct embed_job {
    const lin_weight *w;
    const uint32_t   *ids;
    float            *x;
} embed_job;

/* Decodes with the readable routines: a row a token is too little work for
 * kernels of its own. */
static void embed_row(void *arg, size_t row)
{
    const embed_job *j = arg;
    weight_decode(j->w, j->ids[row], 0, j->w->cols, j->x + row * j->w->cols);
}

void cpu_embed(kernels *k, k_buf *x, const k_weight *table)
{
    cpu_backend *b   = cpu_of(k);
    embed_job    job = {.w = &table->form, .ids = b->step->ids, .x = buf_f32(x)};
    for_rows(b, embed_row, &job, b->step->n_rows, 4 * (size_t)table->form.cols);
}
