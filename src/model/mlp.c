/* model/mlp.c - the dense SwiGLU block: down(silu(gate x) * up x). */
#include "model/model.h"

void model_mlp(const model *m, const layer *l, kernels *k, const k_step *s, work *w)
{
    const k_linear_job inputs[] = {{l->mlp.gate, w->gate}, {l->mlp.up, w->up}};
    k->linear(k, w->h, s->n_rows, inputs, 2);
    k->swiglu(k, w->gate, w->gate, w->up, m->config.intermediate_size, s->n_rows);
    k->linear(k, w->gate, s->n_rows, &(k_linear_job){l->mlp.down, w->o}, 1);
}
