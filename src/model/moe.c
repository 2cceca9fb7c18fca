/* model/moe.c - mixture of experts: the best few of many SwiGLU blocks, weighted,
 * plus one shared block behind a sigmoid gate. */
#include "model/model.h"

void model_moe(const model *m, const layer *l, kernels *k, const k_step *s, work *w)
{
    const model_config *c         = &m->config;
    const moe_weights  *e         = &l->moe;
    const k_linear_job  gates[]   = {{e->router, w->router}, {e->shared_gate, w->shared_gate}};
    const k_linear_job  experts[] = {{e->experts.gate, w->slot_gate}, {e->experts.up, w->slot_up}};
    const k_linear_job  shared[]  = {{e->shared.gate, w->gate}, {e->shared.up, w->up}};
    const lora_target   targets[] = {LORA_GATE, LORA_UP}, down[] = {LORA_DOWN};
    const lora_target   inner[] = {LORA_EXPERT_GATE, LORA_EXPERT_UP}, outer[] = {LORA_EXPERT_DOWN};
    const k_linear_job  back[] = {{e->experts.down, w->slot_out}};
    k->linear(k, w->h, s->n_rows, gates, 2);

    /* The shared block first: its inner rows share memory with the slots'. */
    model_linear(l, k, w, w->h, s->n_rows, shared, targets, 2);
    k->swiglu(k, w->gate, w->gate, w->up, c->shared_size, s->n_rows);
    model_linear(l, k, w, w->gate, s->n_rows, &(k_linear_job){e->shared.down, w->shared}, down, 1); /* shared [T,H] */

    k->route(k, w->router);
    k->expert_linear(k, w->h, false, experts, 2); /* slot_gate, slot_up [T*k, expert_size] */
    lora_add_experts(w->adapters, &w->adapted, k, l->number, w->h, false, experts, inner, 2);
    k->swiglu(k, w->slot_gate, w->slot_gate, w->slot_up, c->expert_size, s->n_rows * c->experts_per_token);
    k->expert_linear(k, w->slot_gate, true, back, 1); /* slot_out [T*k, H] */
    lora_add_experts(w->adapters, &w->adapted, k, l->number, w->slot_gate, true, back, outer, 1);
    k->combine(k, w->o, w->slot_out, w->shared, w->shared_gate, c->hidden_size);
}
