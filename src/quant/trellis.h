/* quant/trellis.h - packed trellis weights, as a readable reference (Tseng et al., "QTIP", 2024).
 *
 * A row is cut into blocks of 256 weights, each of which has a state of 12 bits: its own
 * symbol of `bits` bits, 1 to 8, below the last bits of the state before it.  So a block stores
 * symbols alone, 256 * bits of them, and its first states run on into its last symbols.  Time is
 * reversed: weight t's symbol is at bits (255 - t) * bits ..., read as little-endian bytes, and
 * its state is the 12 bits from there on, after the last bit those from bit 0.
 *
 * The number of a state ("1MAD") is computed and not stored:
 *   x      = state * 34038481 + 76625530 modulo 2^32
 *   code   = (the sum of x's four bytes - 510) / 147.800537109375, rounded to float
 *   weight = code * scale, rounded to float and then to bfloat16
 * with one IEEE half, the scale, for a stored row. */
#ifndef QUANT_TRELLIS_H
#define QUANT_TRELLIS_H

#include <stddef.h>
#include <stdint.h>

enum { TRELLIS_BLOCK = 256, TRELLIS_STATE_BITS = 12, TRELLIS_STATES = 1 << TRELLIS_STATE_BITS, TRELLIS_MAX_BITS = 8 };
enum { TRELLIS_MULTIPLIER = 34038481, TRELLIS_ADDEND = 76625530, TRELLIS_BYTES_MEAN = 510 };
#define TRELLIS_DIVISOR 147.800537109375f

/* Bytes of a block. */
static inline size_t trellis_block_bytes(uint32_t bits)
{
    return (size_t)TRELLIS_BLOCK * bits / 8;
}

/* The state of weight t of a block. */
uint32_t trellis_state(const uint8_t *block, uint32_t bits, uint32_t t);
/* What a state stands for: the bytes' sum less 510, from -448 to 454; and that divided. */
int32_t trellis_level(uint32_t state);
float   trellis_code(uint32_t state);

/* The weight of a state in a row of this scale. */
float trellis_weight(uint32_t state, float scale);

/* A short way to weights, for kernels: level * factor, rounded to float and then to the
 * nearest bfloat16 with ties away from zero, is trellis_weight for every finite scale
 * that is a half. */
float trellis_factor(float scale);

/* y[i] = weight at + i of a row of blocks, i < n. */
void trellis_decode(float *y, const uint8_t *row, uint32_t bits, uint16_t scale, size_t at, size_t n);

#endif
