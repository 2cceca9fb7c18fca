/* model/mlp.c - the dense SwiGLU block: down(silu(gate x) * up x). */
#include "model/model.h"

void model_mlp(const model *m, const layer *l, kernels *k, const k_step *s, work *w)
{
    const k_linear_job inputs[]  = {{l->mlp.gate, w->gate}, {l->mlp.up, w->up}};
    const lora_target  targets[] = {LORA_GATE, LORA_UP}, down[] = {LORA_DOWN};
    model_linear(l, k, w, w->h, s->n_rows, inputs, targets, 2);
    k->swiglu(k, w->gate, w->gate, w->up, m->config.intermediate_size, s->n_rows);
    model_linear(l, k, w, w->gate, s->n_rows, &(k_linear_job){l->mlp.down, w->o}, down, 1);
}
