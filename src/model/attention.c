/* model/attention.c - the gated softmax attention block. */
#include "model/model.h"

void model_attention(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w)
{
    (void)m;
    const attention_weights *a         = &l->attention;
    const k_linear_job       inputs[]  = {{a->q, w->qg}, {a->k, w->keys}, {a->v, w->values}};
    const lora_target        targets[] = {LORA_Q, LORA_K, LORA_V}, out[] = {LORA_O};
    model_linear(l, k, w, w->h, s->n_rows, inputs, targets, 3);
    k->attention(k, w->attended, w->qg, w->keys, w->values, a->q_norm, a->k_norm,
                 state_cache(st, l->index)); /* attended [T, heads*head_dim], gated */
    model_linear(l, k, w, w->attended, s->n_rows, &(k_linear_job){a->o, w->o}, out, 1);
}
