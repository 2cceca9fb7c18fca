/* kernels/cpu/decode.c - the readable routines of quant/ by k_format. */
#include "kernels/cpu/decode.h"

#include "base/bytes.h"
#include "quant/affine.h"
#include "quant/blocks.h"
#include "quant/dense.h"
#include "quant/microscale.h"

static void decode_grouped(const lin_weight *w, size_t row, size_t at, size_t n, float *y)
{
    const uint32_t bits  = k_code_bits(w->format);
    const size_t   first = row * w->scale_row_bytes + at / w->group * dtype_table[w->scale_type].bytes;
    const uint8_t *codes = w->data + row * w->row_bytes + at * bits / 8;
    if (k_is_affine(w->format)) {
        const affine_row a = {.bits       = bits,
                              .group      = w->group,
                              .codes      = codes,
                              .scales     = w->scales + first,
                              .biases     = w->biases + first,
                              .scale_type = w->scale_type};
        affine_decode(y, &a, n);
        return;
    }
    static const microscale_mode modes[K_FORMATS] = {
        [K_MLX_MXFP4] = MICROSCALE_MXFP4, [K_MLX_MXFP8] = MICROSCALE_MXFP8, [K_MLX_NVFP4] = MICROSCALE_NVFP4};
    microscale_decode(y, modes[w->format], codes, w->scales + first, n);
}

static uint16_t trellis_scale(const lin_weight *w, size_t i)
{
    return load_u16(w->scales + i * w->scale_row_bytes);
}

/* One weight of each of the columns' blocks. */
static void decode_across(const lin_weight *w, size_t row, size_t at, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        trellis_decode(y + i, lin_across_block(w, at + i, row / TRELLIS_BLOCK), w->bits, trellis_scale(w, at + i),
                       row % TRELLIS_BLOCK, 1);
}

void weight_decode(const lin_weight *w, size_t row, size_t at, size_t n, float *y)
{
    if (w->format == K_TRELLIS_ACROSS) {
        decode_across(w, row, at, n, y);
        return;
    }
    const uint8_t *data = w->data + row * w->row_bytes;
    switch (w->format) {
    case K_F32: dense_decode(y, data + 4 * at, DTYPE_F32, n); return;
    case K_F16: dense_decode(y, data + 2 * at, DTYPE_F16, n); return;
    case K_BF16: dense_decode(y, data + 2 * at, DTYPE_BF16, n); return;
    case K_TRELLIS: trellis_decode(y, data, w->bits, trellis_scale(w, row), at, n); return;
    default: break;
    }
    if (k_is_grouped(w->format)) {
        decode_grouped(w, row, at, n, y);
        return;
    }
    const dtype type = k_block_type(w->format);
    blocks_decode(y, data + blocks_bytes(type, at), type, n);
}
