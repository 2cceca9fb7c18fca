/* checkpoint/gguf_names.c - GGUF's tensor names as ours. */
#include "checkpoint/gguf_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct name_pair {
    const char *raw, *canonical;
} name_pair;

/* Behind "blk.N." */
static const name_pair block_names[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_dt", "linear_attn.dt_bias"}, /* ollama's */
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"ssm_out.weight", "linear_attn.out_proj.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.switch_mlp.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.switch_mlp.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.switch_mlp.down_proj.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
};

/* Behind "blk.N." of the MTP head's block, beside the names above. */
static const name_pair mtp_names[] = {
    {"nextn.eh_proj.weight", "fc.weight"},
    {"nextn.enorm.weight", "pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "norm.weight"},
};

static const char *look_up(const name_pair *table, size_t n, const char *raw)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].raw, raw) == 0) return table[i].canonical;
    return NULL;
}
#define LOOK_UP(table, raw) look_up(table, sizeof(table) / sizeof((table)[0]), raw)

/* "blk.N.rest": N and rest; NULL for another form. */
static const char *block_of(const char *raw, uint32_t *n)
{
    if (strncmp(raw, "blk.", 4) != 0 || raw[4] < '0' || raw[4] > '9') return NULL;
    char               *end;
    const unsigned long v = strtoul(raw + 4, &end, 10);
    if (*end != '.' || v >= 2 * CONFIG_MAX_LAYERS) return NULL;
    *n = (uint32_t)v;
    return end + 1;
}

static checkpoint_part keep(char name[GGUF_MAX_CANONICAL], checkpoint_part part, const char *text)
{
    (void)snprintf(name, GGUF_MAX_CANONICAL, "%s", text);
    return part;
}

checkpoint_part gguf_canonical(const char *raw, uint32_t n_layers, char name[GGUF_MAX_CANONICAL])
{
    uint32_t    n;
    const char *rest = block_of(raw, &n);
    if (rest != NULL) {
        const bool  mtp  = n >= n_layers;
        const char *head = mtp ? LOOK_UP(mtp_names, rest) : NULL, *found = LOOK_UP(block_names, rest);
        if (head != NULL) return keep(name, CHECKPOINT_MTP, head);
        if (found == NULL) return keep(name, mtp ? CHECKPOINT_MTP : CHECKPOINT_TRUNK, raw);
        (void)snprintf(name, GGUF_MAX_CANONICAL, "layers.%u.%s", mtp ? n - n_layers : n, found);
        return mtp ? CHECKPOINT_MTP : CHECKPOINT_TRUNK;
    }
    if (strcmp(raw, "token_embd.weight") == 0) return keep(name, CHECKPOINT_TRUNK, "embed_tokens.weight");
    if (strcmp(raw, "output_norm.weight") == 0) return keep(name, CHECKPOINT_TRUNK, "norm.weight");
    if (strcmp(raw, "output.weight") == 0) return keep(name, CHECKPOINT_HEAD, "lm_head.weight");
    /* ollama keeps the vision tower in the same file, and MTP tensors under their first names. */
    if (strncmp(raw, "v.", 2) == 0 || strncmp(raw, "mm.", 3) == 0) return keep(name, CHECKPOINT_VISION, raw);
    if (strncmp(raw, "mtp.", 4) == 0) return keep(name, CHECKPOINT_MTP, raw);
    return keep(name, CHECKPOINT_TRUNK, raw);
}

static const char *look_back(const name_pair *table, size_t n, const char *canonical)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].canonical, canonical) == 0) return table[i].raw;
    return NULL;
}
#define LOOK_BACK(table, name) look_back(table, sizeof(table) / sizeof((table)[0]), name)

/* "layers.N.rest": N and rest; NULL for another form. */
static const char *layer_of(const char *name, uint32_t *n)
{
    static const char prefix[] = "layers.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return NULL;
    char               *end;
    const unsigned long v = strtoul(name + sizeof prefix - 1, &end, 10);
    if (end == name + sizeof prefix - 1 || *end != '.' || v >= CONFIG_MAX_LAYERS) return NULL;
    *n = (uint32_t)v;
    return end + 1;
}

bool gguf_raw(checkpoint_part part, const char *name, uint32_t n_layers, char raw[GGUF_MAX_CANONICAL])
{
    static const name_pair trunk_names[] = {{"token_embd.weight", "embed_tokens.weight"},
                                            {"output_norm.weight", "norm.weight"}};
    static const name_pair head_names[]  = {{"output.weight", "lm_head.weight"}};
    const bool             mtp           = part == CHECKPOINT_MTP;
    uint32_t               n             = 0;
    const char            *rest = layer_of(name, &n), *found = rest != NULL ? LOOK_BACK(block_names, rest) : NULL;
    if (rest == NULL && mtp) found = LOOK_BACK(mtp_names, name);
    if (found != NULL) {
        (void)snprintf(raw, GGUF_MAX_CANONICAL, "blk.%u.%s", mtp ? n_layers + n : n, found);
        return true;
    }
    if (part == CHECKPOINT_TRUNK) found = LOOK_BACK(trunk_names, name);
    if (part == CHECKPOINT_HEAD) found = LOOK_BACK(head_names, name);
    if (found != NULL) (void)snprintf(raw, GGUF_MAX_CANONICAL, "%s", found);
    return found != NULL;
}

static bool ends_in(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

void gguf_canonical_shape(checkpoint_tensor *t)
{
    if (t->rank == 2 && ends_in(t->name, ".linear_attn.conv1d.weight")) {
        t->rank     = 3;
        t->shape[2] = t->shape[1];
        t->shape[1] = 1;
    } else if (t->rank == 1 && ends_in(t->name, ".mlp.shared_expert_gate.weight")) {
        t->rank     = 2;
        t->shape[1] = t->shape[0];
        t->shape[0] = 1;
    }
}
