/* kernels/cpu/lanes/delta.h - scalar/delta.c with 16 columns of the state in the
 * lanes: no horizontal sums, and the four chains over key_dim hide latency. */
#ifndef KERNELS_CPU_LANES_DELTA_H
#define KERNELS_CPU_LANES_DELTA_H

enum { DELTA_CHAINS = 4 };

/* Columns 0 .. 16*nv-1; `lanes` < 16 masks a single vector. */
INLINE void delta_columns(float *y, float *state, size_t stride, const float *q, const float *k, const float *v,
                          float decay, float beta, size_t key_dim, const int nv, const size_t lanes)
{
#define STATE_LOAD(p) (lanes == LANES ? vf_load(p) : vf_load_n(p, lanes))
#define STATE_STORE(p, x) (lanes == LANES ? vf_store(p, x) : vf_store_n(p, x, lanes))
    vf acc[DELTA_CHAINS][DELTA_TILE], delta[DELTA_TILE];
    UNROLL for (int c = 0; c < DELTA_CHAINS; c++) UNROLL for (int j = 0; j < nv; j++) acc[c][j] = vf_zero();
    size_t i                                                                                    = 0;
    for (; i + DELTA_CHAINS <= key_dim; i += DELTA_CHAINS) {
        UNROLL for (size_t c = 0; c < DELTA_CHAINS; c++)
        {
            const vf     ki                               = vf_set1(k[i + c]);
            const float *row                              = state + (i + c) * stride;
            UNROLL for (int j = 0; j < nv; j++) acc[c][j] = vf_fma(STATE_LOAD(row + j * LANES), ki, acc[c][j]);
        }
    }
    for (; i < key_dim; i++)
        for (int j = 0; j < nv; j++)
            acc[i % DELTA_CHAINS][j] =
                vf_fma(STATE_LOAD(state + i * stride + j * LANES), vf_set1(k[i]), acc[i % DELTA_CHAINS][j]);

    const vf g = vf_set1(decay), b = vf_set1(beta);
    UNROLL for (int j = 0; j < nv; j++)
    {
        const vf old = vf_mul(g, vf_add(vf_add(acc[0][j], acc[1][j]), vf_add(acc[2][j], acc[3][j])));
        delta[j]     = vf_mul(b, vf_sub(STATE_LOAD(v + j * LANES), old));
        UNROLL for (int c = 0; c < DELTA_CHAINS; c++) acc[c][j] = vf_zero();
    }
    for (i = 0; i + DELTA_CHAINS <= key_dim; i += DELTA_CHAINS) {
        UNROLL for (size_t c = 0; c < DELTA_CHAINS; c++)
        {
            const vf ki = vf_set1(k[i + c]), qi = vf_set1(q[i + c]);
            float   *row = state + (i + c) * stride;
            UNROLL for (int j = 0; j < nv; j++)
            {
                const vf m = vf_fma(ki, delta[j], vf_mul(g, STATE_LOAD(row + j * LANES)));
                STATE_STORE(row + j * LANES, m);
                acc[c][j] = vf_fma(m, qi, acc[c][j]);
            }
        }
    }
    for (; i < key_dim; i++)
        for (int j = 0; j < nv; j++) {
            float   *at = state + i * stride + j * LANES;
            const vf m  = vf_fma(vf_set1(k[i]), delta[j], vf_mul(g, STATE_LOAD(at)));
            STATE_STORE(at, m);
            acc[i % DELTA_CHAINS][j] = vf_fma(m, vf_set1(q[i]), acc[i % DELTA_CHAINS][j]);
        }
    UNROLL for (int j = 0; j < nv; j++)
        STATE_STORE(y + j * LANES, vf_add(vf_add(acc[0][j], acc[1][j]), vf_add(acc[2][j], acc[3][j])));
#undef STATE_LOAD
#undef STATE_STORE
}

static void delta_token(float *y, float *state, size_t stride, const float *q, const float *k, const float *v,
                        float decay, float beta, size_t key_dim, size_t n)
{
    size_t c = 0;
    for (; c + DELTA_TILE * LANES <= n; c += DELTA_TILE * LANES)
        delta_columns(y + c, state + c, stride, q, k, v + c, decay, beta, key_dim, DELTA_TILE, LANES);
    for (; c + LANES <= n; c += LANES)
        delta_columns(y + c, state + c, stride, q, k, v + c, decay, beta, key_dim, 1, LANES);
    if (c < n) delta_columns(y + c, state + c, stride, q, k, v + c, decay, beta, key_dim, 1, n - c);
}

INLINE void lanes_delta(cpu_isa *t)
{
    t->delta_token = delta_token;
}

#endif
