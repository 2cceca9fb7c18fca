/* model/attention.c - the gated softmax attention block. */
#include "model/model.h"

void model_attention(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w)
{
    (void)m;
    const attention_weights *a        = &l->attention;
    const k_linear_job       inputs[] = {{a->q, w->qg}, {a->k, w->keys}, {a->v, w->values}};
    k->linear(k, w->h, s->n_rows, inputs, 3);
    k->attention(k, w->attended, w->qg, w->keys, w->values, a->q_norm, a->k_norm,
                 state_cache(st, l->index)); /* attended [T, heads*head_dim], gated */
    k->linear(k, w->attended, s->n_rows, &(k_linear_job){a->o, w->o}, 1);
}
