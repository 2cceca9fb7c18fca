/* kernels/cpu/scalar/delta.c - the gated delta rule in plain C
 * (Yang et al., "Gated Delta Networks", 2024), one token at a time. */
#include "kernels/cpu/scalar/scalar.h"

#include <math.h>

enum { CHAINS = 4 };

static void delta_token(float *y, float *state, size_t stride, const float *q, const float *k, const float *v,
                        float decay, float beta, size_t key_dim, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        float read[CHAINS] = {0}, out[CHAINS] = {0};
        for (size_t i = 0; i < key_dim; i++) read[i % CHAINS] = fmaf(state[i * stride + c], k[i], read[i % CHAINS]);
        const float old   = decay * ((read[0] + read[1]) + (read[2] + read[3]));
        const float delta = beta * (v[c] - old);
        for (size_t i = 0; i < key_dim; i++) {
            const float m         = fmaf(k[i], delta, decay * state[i * stride + c]);
            state[i * stride + c] = m;
            out[i % CHAINS]       = fmaf(m, q[i], out[i % CHAINS]);
        }
        y[c] = (out[0] + out[1]) + (out[2] + out[3]);
    }
}

void cpu_scalar_delta(cpu_isa *t)
{
    t->delta_token = delta_token;
}
