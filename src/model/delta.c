/* model/delta.c - the gated DeltaNet block (Yang et al., "Gated Delta Networks", 2024). */
#include "model/model.h"

/* What a window may have to be replayed from: the block's inputs to conv and rule. */
static void record(const model *m, const layer *l, kernels *k, const state *st, const work *w)
{
    const uint32_t  n = state_n_recorded(st), heads = m->config.delta.value_heads;
    const uint32_t *rows = state_recorded(st);
    if (n == 0) return;
    k->copy_rows(k, state_recorded_qkv(st, l->index), NULL, w->qkv, rows, k_delta_channels(&m->config.delta), n);
    k->copy_rows(k, state_recorded_a(st, l->index), NULL, w->a, rows, heads, n);
    k->copy_rows(k, state_recorded_b(st, l->index), NULL, w->b, rows, heads, n);
}

void model_replay(const model *m, kernels *k, const k_step *s, const state *st, work *w)
{
    k->begin(k, s);
    for (uint32_t i = 0; i < m->config.n_layers; i++) {
        const layer         *l = &m->layers[i];
        const delta_weights *d = &l->delta;
        if (l->kind != LAYER_DELTA) continue;
        k->conv(k, w->conv, state_recorded_qkv(st, l->index), d->taps, state_tail(st, l->index));
        k->delta(k, w->y, w->conv, state_recorded_a(st, l->index), state_recorded_b(st, l->index), d->decay_rate,
                 d->dt_bias, state_recurrent(st, l->index));
    }
}

void model_delta(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w)
{
    const delta_weights *d         = &l->delta;
    const k_linear_job   inputs[]  = {{d->in_qkv, w->qkv}, {d->in_z, w->z}, {d->in_a, w->a}, {d->in_b, w->b}};
    const lora_target    targets[] = {LORA_IN_QKV, LORA_IN_Z, LORA_IN_A, LORA_IN_B}, out[] = {LORA_OUT};
    model_linear(l, k, w, w->h, s->n_rows, inputs, targets, 4);
    record(m, l, k, st, w);
    k->conv(k, w->conv, w->qkv, d->taps, state_tail(st, l->index)); /* conv [T,C], silu'd */
    k->delta(k, w->y, w->conv, w->a, w->b, d->decay_rate, d->dt_bias, state_recurrent(st, l->index)); /* y [T,V] */
    k->gated_norm(k, w->y, w->y, w->z, d->norm, m->config.eps);
    model_linear(l, k, w, w->y, s->n_rows, &(k_linear_job){d->out, w->o}, out, 1);
}
