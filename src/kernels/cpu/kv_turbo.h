/* kernels/cpu/kv_turbo.h - the pair of forms called "turbo": keys in 8 bits with an integer
 * zero point, values in 3 bits of a rotated vector (after TurboQuant, Zandieh et al., 2025).
 *
 * A rotation spreads what stands out over all numbers, which are then nearly normal, and one
 * table of eight numbers serves them all.  Attention is linear in the values: it sums rotated
 * ones, and the result is rotated back once a query. */
#ifndef KERNELS_CPU_KV_TURBO_H
#define KERNELS_CPU_KV_TURBO_H

#include "kernels/kernels.h"

#include <stddef.h>

/* What the codes of values mean, in units of their group's scale. */
static const float kv_turbo_levels[8] = {-2.15195f, -1.34391f, -0.75601f, -0.24509f,
                                         0.24509f,  0.75601f,  1.34391f,  2.15195f};

/* A sign for each number, then the Walsh-Hadamard transform, which is its own inverse; and back:
 * the transform, then the signs.  n is 64, 128, 256 or 512. */
void kv_rotate(float *x, size_t n);
void kv_rotate_back(float *x, size_t n);

/* n numbers as a row of K_KV_TURBO8, and n rotated ones as a row of K_KV_TURBO3. */
void kv_turbo_keys(uint8_t *row, const float *x, size_t n);
void kv_turbo_values(uint8_t *row, const float *rotated, size_t n);

#endif
