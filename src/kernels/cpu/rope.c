/* kernels/cpu/rope.c - sines and cosines of a step's positions, once for all layers.
 *
 * Angles are formed in double: position * frequency reaches 1e5 radians and
 * more, where a float angle would be wrong in the second decimal. */
#include "base/pmath.h"
#include "kernels/cpu/cpu.h"

static void rope_row(void *arg, size_t row)
{
    cpu_backend *b    = arg;
    const size_t half = b->limits.attention.rotary_dim / 2;
    float       *cs   = b->rope + row * 2 * half;
    for (size_t i = 0; i < half; i++) {
        double s, c;
        pmath_sincos((double)b->positions[row] * b->inv_freq[i], &s, &c);
        cs[i]        = (float)c * b->limits.rope_scale;
        cs[half + i] = (float)s * b->limits.rope_scale;
    }
}

void rope_fill(cpu_backend *b)
{
    for_rows(b, rope_row, b, b->step->n_rows, 64 * (size_t)b->limits.attention.rotary_dim);
}
