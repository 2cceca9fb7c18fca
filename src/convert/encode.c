/* convert/encode.c - rows out of the mapped source, quantised by all threads, into the file. */
#include "convert/encode.h"

#include "base/map.h"
#include "base/mem.h"
#include "quant/affine.h"

#include <stdatomic.h>

enum { CHUNK_ELEMENTS = 4 << 20, PIECE_BYTES = 16 << 20 };

static uint64_t chunk_rows(const plan_item *i)
{
    const uint64_t n = i->cols < CHUNK_ELEMENTS ? CHUNK_ELEMENTS / i->cols : 1, all = i->mats * i->rows;
    return n < all ? n : all;
}

static uint64_t code_row(const plan_item *i)
{
    return i->cols / 8 * i->bits;
}

static uint64_t scale_row(const plan_item *i)
{
    return i->cols / i->group * dtype_table[i->scale_type].bytes;
}

weir_status encoder_new(encoder *e, const plan *p, pool *threads, weir_error *err)
{
    uint64_t codes = 0, scales = 0, cols = 0;
    for (size_t k = 0; k < p->n; k++) {
        const plan_item *i = &p->items[k];
        if (i->kind == PLAN_COPY || i->kind == PLAN_TRELLIS) continue;
        if (i->cols > cols) cols = i->cols;
        if (i->kind != PLAN_AFFINE) continue;
        const uint64_t rows = chunk_rows(i);
        if (rows * code_row(i) > codes) codes = rows * code_row(i);
        if (rows * scale_row(i) > scales) scales = rows * scale_row(i);
    }
    *e             = (encoder){.pool = threads, .row_floats = cols};
    e->row         = mem_alloc(pool_threads(threads), cols * sizeof *e->row);
    e->codes       = mem_alloc(codes, 1);
    e->scales      = mem_alloc(scales, 1);
    e->biases      = mem_alloc(scales, 1);
    weir_status st = trellis_coder_new(&e->trellis, p, pool_threads(threads), err);
    if (e->row == NULL || e->codes == NULL || e->scales == NULL || e->biases == NULL)
        st = status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    if (st != WEIR_OK) encoder_free(e);
    return st;
}

void encoder_free(encoder *e)
{
    mem_free(e->row);
    mem_free(e->codes);
    mem_free(e->scales);
    mem_free(e->biases);
    trellis_coder_free(&e->trellis);
    *e = (encoder){0};
}

static weir_status tell_bytes(const encoder *e, uint64_t n, weir_error *err)
{
    if (e->progress == NULL || e->progress(e->user, n)) return WEIR_OK;
    return status_fail(err, WEIR_CANCELLED, "quantize: stopped");
}

static weir_status tell(const encoder *e, const uint8_t *done, size_t n, weir_error *err)
{
    file_map_rest(done, n);
    return tell_bytes(e, n, err);
}

static weir_status put_copy(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                            weir_error *err)
{
    const uint64_t one = i->rows * i->cols * dtype_table[i->type].bytes;
    for (uint64_t m = 0; m < i->mats; m++)
        for (uint64_t at = 0; at < one; at += PIECE_BYTES) {
            const size_t n = one - at < PIECE_BYTES ? one - at : PIECE_BYTES;
            TRY(safetensors_put(w, spec->begin + m * one + at, i->mat[m] + at, n, err));
            TRY(tell(e, i->mat[m] + at, n, err));
        }
    return WEIR_OK;
}

static weir_status put_gain(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                            weir_error *err)
{
    dense_decode(e->row, i->mat[0], i->type, i->cols);
    for (uint64_t k = 0; k < i->cols; k++) e->row[k] += 1.0f;
    TRY(safetensors_put(w, spec->begin, e->row, i->cols * sizeof *e->row, err));
    return tell(e, i->mat[0], i->cols * dtype_table[i->type].bytes, err);
}

/* Rows first .. first + n - 1, counted through all matrices of the item. */
typedef struct chunk {
    const encoder   *e;
    const plan_item *i;
    uint64_t         first, n;
    atomic_bool      odd; /* some number is not finite */
} chunk;

static void encode_rows(void *arg, uint32_t thread, uint32_t n_threads)
{
    chunk           *c = arg;
    const plan_item *i = c->i;
    float           *x = c->e->row + thread * c->e->row_floats;
    size_t           begin, end;
    pool_cut(c->n, 1, thread, n_threads, &begin, &end);
    for (size_t k = begin; k < end; k++) {
        const uint64_t row = c->first + k;
        dense_decode(x, i->mat[row / i->rows] + row % i->rows * i->cols * dtype_table[i->type].bytes, i->type, i->cols);
        if (i->scale_type != i->type)
            for (uint64_t j = 0; j < i->cols; j++) x[j] = dense_round(i->scale_type, x[j]);
        const affine_target t = {.bits       = i->bits,
                                 .group      = i->group,
                                 .codes      = c->e->codes + k * code_row(i),
                                 .scales     = c->e->scales + k * scale_row(i),
                                 .biases     = c->e->biases + k * scale_row(i),
                                 .scale_type = i->scale_type};
        if (!affine_encode(&t, x, i->cols)) atomic_store(&c->odd, true);
    }
}

static weir_status odd_numbers(const plan_item *i, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: expected finite numbers of a moderate size, found others", i->source);
}

static weir_status put_affine(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                              weir_error *err)
{
    const uint64_t all = i->mats * i->rows, most = chunk_rows(i);
    uint64_t       n;
    for (uint64_t first = 0; first < all; first += n) {
        /* A chunk stays within one matrix, whose bytes are given back behind it. */
        const uint64_t left = i->rows - first % i->rows;
        n                   = left < most ? left : most;
        chunk c             = {.e = e, .i = i, .first = first, .n = n};
        pool_run(e->pool, encode_rows, &c);
        if (atomic_load(&c.odd)) return odd_numbers(i, err);
        TRY(safetensors_put(w, spec[0].begin + first * code_row(i), e->codes, n * code_row(i), err));
        TRY(safetensors_put(w, spec[1].begin + first * scale_row(i), e->scales, n * scale_row(i), err));
        TRY(safetensors_put(w, spec[2].begin + first * scale_row(i), e->biases, n * scale_row(i), err));
        const uint64_t row = i->cols * dtype_table[i->type].bytes;
        TRY(tell(e, i->mat[first / i->rows] + first % i->rows * row, n * row, err));
    }
    return WEIR_OK;
}

static weir_status put_trellis(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                               weir_error *err)
{
    const uint64_t all = plan_coded_rows(i), cols = plan_coded_cols(i), bytes = dtype_table[i->type].bytes;
    const uint64_t row = cols / 8 * i->bits, most = trellis_coder_most(i, pool_threads(e->pool));
    uint64_t       n;
    for (uint64_t first = 0; first < all; first += n) {
        n = all - first < most ? all - first : most;
        if (!trellis_coder_rows(&e->trellis, i, first, n, e->pool)) return odd_numbers(i, err);
        TRY(safetensors_put(w, spec[0].begin + first * row, e->trellis.blocks, n * row, err));
        TRY(safetensors_put(w, spec[1].begin + first * sizeof(uint16_t), e->trellis.scales, n * sizeof(uint16_t), err));
        if (i->axis == 1) file_map_rest(i->mat[0] + first * cols * bytes, n * cols * bytes);
        TRY(tell_bytes(e, n * cols * bytes, err));
    }
    if (i->axis == 0) file_map_rest(i->mat[0], all * cols * bytes); /* all of it was read each time */
    return WEIR_OK;
}

weir_status encoder_put(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                        weir_error *err)
{
    switch (i->kind) {
    case PLAN_COPY: return put_copy(e, i, spec, w, err);
    case PLAN_GAIN: return put_gain(e, i, spec, w, err);
    case PLAN_AFFINE: return put_affine(e, i, spec, w, err);
    case PLAN_TRELLIS: return put_trellis(e, i, spec, w, err);
    }
    return status_fail(err, WEIR_INVALID, "%s: no kind of tensor", i->name);
}
