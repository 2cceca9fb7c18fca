/* quant/microscale.h - MLX's floating-point modes, as a readable reference.
 *
 * A row's elements are small floats, those of 4 bits two to a byte, the low nibble
 * first; a group of them shares a scale of one byte, and w = scale * element.
 *
 *   mxfp4  E2M1 elements, groups of 32, E8M0 scales
 *   mxfp8  E4M3 elements, groups of 32, E8M0 scales
 *   nvfp4  E2M1 elements, groups of 16, E4M3 scales
 *
 * E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and bit 3 the sign (of zero: none).  E4M3: an IEEE
 * half of bits b << 7, times 256, and bit 7 the sign, so that 0x7F is 480.  E8M0:
 * 2^(e - 127); e = 255 is no scale.  The product is exact unless it leaves the
 * range of float. */
#ifndef QUANT_MICROSCALE_H
#define QUANT_MICROSCALE_H

#include <stddef.h>
#include <stdint.h>

typedef enum microscale_mode { MICROSCALE_MXFP4, MICROSCALE_MXFP8, MICROSCALE_NVFP4 } microscale_mode;

enum { E8M0_NONE = 255 };

float e4m3_value(uint8_t b);

/* y[i] = element i of a row, i < n, n a multiple of the mode's group. */
void microscale_decode(float *y, microscale_mode mode, const uint8_t *codes, const uint8_t *scales, size_t n);

#endif
