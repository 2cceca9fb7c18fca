/* quant/blocks.c - GGML's block types, decoding, for any machine. */
#include "quant/blocks_decode.h"

void blocks_decode(float *y, const uint8_t *p, dtype t, size_t n)
{
    block_run(y, p, t, n);
}
