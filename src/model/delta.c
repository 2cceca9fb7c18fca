/* model/delta.c - the gated DeltaNet block (Yang et al., "Gated Delta Networks", 2024). */
#include "model/model.h"

void model_delta(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w)
{
    const delta_weights *d        = &l->delta;
    const k_linear_job   inputs[] = {{d->in_qkv, w->qkv}, {d->in_z, w->z}, {d->in_a, w->a}, {d->in_b, w->b}};
    k->linear(k, w->h, s->n_rows, inputs, 4);
    k->conv(k, w->conv, w->qkv, d->taps, state_tail(st, l->index)); /* conv [T,C], silu'd */
    k->delta(k, w->y, w->conv, w->a, w->b, d->decay_rate, d->dt_bias, state_recurrent(st, l->index)); /* y [T,V] */
    k->gated_norm(k, w->y, w->y, w->z, d->norm, m->config.eps);
    k->linear(k, w->y, s->n_rows, &(k_linear_job){d->out, w->o}, 1);
}
