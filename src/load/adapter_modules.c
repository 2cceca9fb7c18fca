/* load/adapter_modules.c - the modules that an adapter may add to, and those of fused
 * layouts, whose rows are parts of ours. */
#include "load/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void adapter_target_size(const config *c, lora_target target, uint32_t *in, uint32_t *out)
{
    const uint32_t H = c->hidden_size, q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    const uint32_t V = config_linear_value(c), I = c->is_moe ? c->shared_intermediate_size : c->intermediate_size;
    const uint32_t heads = c->linear_n_value_heads;
    const struct {
        uint32_t in, out;
    } size[LORA_TARGETS] = {
        [LORA_IN_QKV]      = {H, config_conv_channels(c)},
        [LORA_IN_Z]        = {H, V},
        [LORA_IN_A]        = {H, heads},
        [LORA_IN_B]        = {H, heads},
        [LORA_OUT]         = {V, H},
        [LORA_Q]           = {H, 2 * q},
        [LORA_K]           = {H, kv},
        [LORA_V]           = {H, kv},
        [LORA_O]           = {q, H},
        [LORA_GATE]        = {H, I},
        [LORA_UP]          = {H, I},
        [LORA_DOWN]        = {I, H},
        [LORA_EXPERT_GATE] = {H, c->moe_intermediate_size},
        [LORA_EXPERT_UP]   = {H, c->moe_intermediate_size},
        [LORA_EXPERT_DOWN] = {c->moe_intermediate_size, H},
    };
    *in  = size[target].in;
    *out = size[target].out;
}

uint32_t adapter_target_mats(const config *c, lora_target target)
{
    return target >= LORA_EXPERT_GATE ? c->n_experts : 1;
}

typedef enum module_place { IN_DELTA, IN_ATTENTION, IN_DENSE, IN_MOE } module_place;

/* A module that is one matrix, or several one below the other. */
typedef struct module_rule {
    const char  *name;
    module_place place;
    uint32_t     n;
    lora_target  targets[3];
} module_rule;

static const module_rule module_rules[] = {
    {"linear_attn.in_proj_qkv", IN_DELTA, 1, {LORA_IN_QKV}},
    {"linear_attn.in_proj_z", IN_DELTA, 1, {LORA_IN_Z}},
    {"linear_attn.in_proj_a", IN_DELTA, 1, {LORA_IN_A}},
    {"linear_attn.in_proj_b", IN_DELTA, 1, {LORA_IN_B}},
    {"linear_attn.in_proj_qkvz", IN_DELTA, 0, {LORA_IN_QKV}}, /* by heads: below */
    {"linear_attn.in_proj_ba", IN_DELTA, 0, {LORA_IN_B}},
    {"linear_attn.out_proj", IN_DELTA, 1, {LORA_OUT}},
    {"self_attn.q_proj", IN_ATTENTION, 1, {LORA_Q}},
    {"self_attn.k_proj", IN_ATTENTION, 1, {LORA_K}},
    {"self_attn.v_proj", IN_ATTENTION, 1, {LORA_V}},
    {"self_attn.o_proj", IN_ATTENTION, 1, {LORA_O}},
    {"self_attn.qkv_proj", IN_ATTENTION, 3, {LORA_Q, LORA_K, LORA_V}},
    {"mlp.gate_proj", IN_DENSE, 1, {LORA_GATE}},
    {"mlp.up_proj", IN_DENSE, 1, {LORA_UP}},
    {"mlp.gate_up_proj", IN_DENSE, 2, {LORA_GATE, LORA_UP}},
    {"mlp.down_proj", IN_DENSE, 1, {LORA_DOWN}},
    {"mlp.shared_expert.gate_proj", IN_MOE, 1, {LORA_GATE}},
    {"mlp.shared_expert.up_proj", IN_MOE, 1, {LORA_UP}},
    {"mlp.shared_expert.gate_up_proj", IN_MOE, 2, {LORA_GATE, LORA_UP}},
    {"mlp.shared_expert.down_proj", IN_MOE, 1, {LORA_DOWN}},
    {"mlp.switch_mlp.gate_proj", IN_MOE, 1, {LORA_EXPERT_GATE}},
    {"mlp.switch_mlp.up_proj", IN_MOE, 1, {LORA_EXPERT_UP}},
    {"mlp.switch_mlp.down_proj", IN_MOE, 1, {LORA_EXPERT_DOWN}},
};

static void add_part(adapter_module *m, const adapter_part *p)
{
    m->parts[m->n_parts++] = *p;
    m->out += p->n;
}

/* Per key head: its query, its key, the values of its value heads, and their gates z. */
static void split_qkvz(adapter_module *m, const config *c)
{
    const uint32_t K = c->linear_key_dim, heads = c->linear_n_key_heads;
    const uint32_t V = config_linear_value(c) / heads, stride = 2 * K + 2 * V;
    add_part(m, &(adapter_part){LORA_IN_QKV, 0, heads * K, K, stride, 0});
    add_part(m, &(adapter_part){LORA_IN_QKV, heads * K, heads * K, K, stride, K});
    add_part(m, &(adapter_part){LORA_IN_QKV, 2 * heads * K, heads * V, V, stride, 2 * K});
    add_part(m, &(adapter_part){LORA_IN_Z, 0, heads * V, V, stride, 2 * K + V});
}

/* Per key head: b, then a of its value heads. */
static void split_ba(adapter_module *m, const config *c)
{
    const uint32_t heads = c->linear_n_value_heads, r = heads / c->linear_n_key_heads;
    add_part(m, &(adapter_part){LORA_IN_B, 0, heads, r, 2 * r, 0});
    add_part(m, &(adapter_part){LORA_IN_A, 0, heads, r, 2 * r, r});
}

static void split(adapter_module *m, const config *c, const module_rule *rule)
{
    uint32_t out;
    adapter_target_size(c, rule->targets[0], &m->in, &out);
    if (rule->n == 0 && rule->targets[0] == LORA_IN_QKV) split_qkvz(m, c);
    if (rule->n == 0 && rule->targets[0] == LORA_IN_B) split_ba(m, c);
    for (uint32_t i = 0; i < rule->n; i++) {
        uint32_t in;
        adapter_target_size(c, rule->targets[i], &in, &out);
        add_part(m, &(adapter_part){rule->targets[i], 0, out, out, out, m->out});
    }
}

static bool layer_has(const config *c, uint32_t number, module_place place)
{
    switch (place) {
    case IN_DELTA: return c->layers[number] == CONFIG_LINEAR;
    case IN_ATTENTION: return c->layers[number] == CONFIG_FULL;
    case IN_DENSE: return !c->is_moe;
    case IN_MOE: return c->is_moe;
    }
    return false;
}

bool adapter_layer_has(const config *c, uint32_t number, lora_target target)
{
    for (size_t i = 0; i < sizeof module_rules / sizeof *module_rules; i++) {
        const module_rule *r = &module_rules[i];
        if (r->n == 1 && r->targets[0] == target && layer_has(c, number, r->place)) return true;
    }
    return false;
}

/* "layers.<i>.": the number, and what follows. */
static bool read_layer(const char *name, uint32_t n_layers, uint32_t *number, const char **rest)
{
    static const char prefix[] = "layers.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const char  *digits = name + sizeof prefix - 1;
    const size_t n      = strspn(digits, "0123456789");
    if (n == 0 || n > 6 || digits[n] != '.' || (n > 1 && digits[0] == '0')) return false;
    *number = (uint32_t)strtoul(digits, NULL, 10);
    *rest   = digits + n + 1;
    return *number < n_layers;
}

/* "mlp.experts.7.up_proj": the same in a stack, and which. */
static const char *read_expert(const config *c, const char *rest, int32_t *expert)
{
    static const char        prefix[] = "mlp.experts.";
    static const char *const stacks[] = {"mlp.switch_mlp.gate_proj", "mlp.switch_mlp.up_proj",
                                         "mlp.switch_mlp.down_proj"};
    const char              *digits   = rest + sizeof prefix - 1;
    if (strncmp(rest, prefix, sizeof prefix - 1) != 0) return rest;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 6 || digits[n] != '.' || (n > 1 && digits[0] == '0')) return rest;
    const unsigned long which = strtoul(digits, NULL, 10);
    if (which >= c->n_experts) return rest;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(strrchr(stacks[i], '.') + 1, digits + n + 1) == 0) {
            *expert = (int32_t)which;
            return stacks[i];
        }
    return rest;
}

static const char *name_of(const config *c, lora_target t)
{
    for (size_t i = 0; i < sizeof module_rules / sizeof *module_rules; i++) {
        const module_rule *r = &module_rules[i];
        if (r->n == 1 && r->targets[0] == t && r->place != (c->is_moe ? IN_DENSE : IN_MOE)) return r->name;
    }
    return "";
}

/* Trellis codes are made with the layer's inputs in view and often in a turned basis: an adapter of the
 * model that they were made from does not fit them. */
static weir_status check_codes(const adapter_module *m, const config *c, weir_error *err)
{
    for (uint32_t i = 0; i < m->n_parts && c->quant.present; i++) {
        config_quant_form form;
        weir_error        none;
        char              name[128];
        (void)snprintf(name, sizeof name, "layers.%u.%s", m->layer, name_of(c, m->parts[i].target));
        if (config_quant_for(c, name, &form, &none) != WEIR_OK || form.mode != CONFIG_QUANT_TRELLIS) continue;
        return status_fail(err, WEIR_UNSUPPORTED,
                           "%s: expected a module that adapters may add to, found one in mode trellis", name);
    }
    return WEIR_OK;
}

weir_status adapter_find_module(adapter_module *out, const config *c, const char *name, weir_error *err)
{
    const char *rest = NULL;
    memset(out, 0, sizeof *out);
    if (!read_layer(name, c->n_layers, &out->layer, &rest))
        return status_fail(err, WEIR_UNSUPPORTED, "expected a module of layers.0 to layers.%u, found \"%.200s\"",
                           c->n_layers - 1, name);
    int32_t     expert  = ADAPTER_NONE;
    const char *name_of = read_expert(c, rest, &expert);
    for (size_t i = 0; i < sizeof module_rules / sizeof *module_rules; i++) {
        const module_rule *r = &module_rules[i];
        if (strcmp(name_of, r->name) != 0) continue;
        if (!layer_has(c, out->layer, r->place))
            return status_fail(err, WEIR_FORMAT, "expected a module that layer %u of the model has, found \"%s\"",
                               out->layer, rest);
        out->expert = expert == ADAPTER_NONE && r->targets[0] >= LORA_EXPERT_GATE ? ADAPTER_ALL : expert;
        split(out, c, r);
        return check_codes(out, c, err);
    }
    return status_fail(
        err, WEIR_UNSUPPORTED,
        "expected a projection of self_attn, linear_attn, mlp, mlp.shared_expert or an expert, found \"%.200s\"", rest);
}

uint32_t adapter_place(const config *c, lora_target target, uint32_t row)
{
    const uint32_t K = c->linear_n_key_heads, r = c->linear_n_value_heads / K;
    const uint32_t unit = target == LORA_IN_A || target == LORA_IN_B ? 1 : c->linear_value_dim;
    const uint32_t from = target == LORA_IN_QKV ? 2 * config_linear_key(c) : 0;
    if (!c->linear_heads_tiled || target > LORA_OUT || row < from) return row;
    const uint32_t h = (row - from) / unit;
    return from + (h % r * K + h / r) * unit + (row - from) % unit;
}
