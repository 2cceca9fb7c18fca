/* load/module.c - the weights of a model by the names that quantised checkpoints give their modules. */
#include "load/load.h"

#include <stdio.h>
#include <string.h>

/* A module of a layer: its name behind "layers.<i>.", and what it is. */
typedef struct layer_module {
    const char *name;
    load_slot   slot;
} layer_module;

static bool find(load_slot *out, const layer_module *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) != 0) continue;
        *out = list[i].slot;
        return true;
    }
    return false;
}

static bool delta_module(load_slot *out, const model_config *c, delta_weights *d, const char *name)
{
    const k_delta_shape *s = &c->delta;
    const uint32_t       H = c->hidden_size, V = s->value_heads * s->value_dim, C = k_delta_channels(s);
    const layer_module   list[] = {{"linear_attn.in_proj_qkv", {&d->in_qkv, 1, C, H}},
                                   {"linear_attn.in_proj_z", {&d->in_z, 1, V, H}},
                                   {"linear_attn.in_proj_a", {&d->in_a, 1, s->value_heads, H}},
                                   {"linear_attn.in_proj_b", {&d->in_b, 1, s->value_heads, H}},
                                   {"linear_attn.out_proj", {&d->out, 1, H, V}}};
    return find(out, list, sizeof list / sizeof *list, name);
}

static bool attention_module(load_slot *out, const model_config *c, attention_weights *a, const char *name)
{
    const k_attention_shape *s = &c->attention;
    const uint32_t           H = c->hidden_size, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const layer_module       list[] = {{"self_attn.q_proj", {&a->q, 1, 2 * q, H}},
                                       {"self_attn.k_proj", {&a->k, 1, kv, H}},
                                       {"self_attn.v_proj", {&a->v, 1, kv, H}},
                                       {"self_attn.o_proj", {&a->o, 1, H, q}}};
    return find(out, list, sizeof list / sizeof *list, name);
}

static bool dense_module(load_slot *out, const model_config *c, mlp_weights *m, const char *name)
{
    const uint32_t     H = c->hidden_size, I = c->intermediate_size;
    const layer_module list[] = {{"mlp.gate_proj", {&m->gate, 1, I, H}},
                                 {"mlp.up_proj", {&m->up, 1, I, H}},
                                 {"mlp.down_proj", {&m->down, 1, H, I}}};
    return find(out, list, sizeof list / sizeof *list, name);
}

static bool moe_module(load_slot *out, const model_config *c, moe_weights *m, const char *name)
{
    const uint32_t     H = c->hidden_size, E = c->n_experts, I = c->expert_size, S = c->shared_size;
    const layer_module list[] = {{"mlp.gate", {&m->router, 1, E, H}},
                                 {"mlp.shared_expert_gate", {&m->shared_gate, 1, 1, H}},
                                 {"mlp.switch_mlp.gate_proj", {&m->experts.gate, E, I, H}},
                                 {"mlp.switch_mlp.up_proj", {&m->experts.up, E, I, H}},
                                 {"mlp.switch_mlp.down_proj", {&m->experts.down, E, H, I}},
                                 {"mlp.shared_expert.gate_proj", {&m->shared.gate, 1, S, H}},
                                 {"mlp.shared_expert.up_proj", {&m->shared.up, 1, S, H}},
                                 {"mlp.shared_expert.down_proj", {&m->shared.down, 1, H, S}}};
    return find(out, list, sizeof list / sizeof *list, name);
}

bool load_module(load_slot *out, model *m, const char *name)
{
    const model_config *c = &m->config;
    unsigned            i;
    int                 used = 0;
    if (strcmp(name, "embed_tokens") == 0) {
        *out = (load_slot){&m->embed, 1, c->vocab_size, c->hidden_size};
        return true;
    }
    if (strcmp(name, "lm_head") == 0) {
        *out = (load_slot){&m->head, 1, c->vocab_size, c->hidden_size};
        return m->head != m->embed;
    }
    if (sscanf(name, "layers.%9u.%n", &i, &used) != 1 || used == 0 || i >= c->n_layers) return false;
    layer *l = &m->layers[i];
    name += used;
    if (l->kind == LAYER_DELTA ? delta_module(out, c, &l->delta, name) : attention_module(out, c, &l->attention, name))
        return true;
    return c->n_experts > 0 ? moe_module(out, c, &l->moe, name) : dense_module(out, c, &l->mlp, name);
}
