/* kernels/cpu/scalar/scalar.h - the lane scheme in plain C, for the scalar files. */
#ifndef KERNELS_CPU_SCALAR_SCALAR_H
#define KERNELS_CPU_SCALAR_SCALAR_H

#include "kernels/cpu/isa.h"

/* The tree that adds 16 lanes; destroys a. */
static inline float lanes_sum(float a[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) a[l] += a[l + half];
    return a[0];
}

void cpu_scalar_rows(cpu_isa *t);      /* rows.c: norms, activations, convolution */
void cpu_scalar_delta(cpu_isa *t);     /* delta.c */
void cpu_scalar_linear(cpu_isa *t);    /* linear.c */
void cpu_scalar_blocks(cpu_isa *t);    /* blocks.c */
void cpu_scalar_attention(cpu_isa *t); /* attention.c */

#endif
