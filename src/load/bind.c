/* load/bind.c - every parameter of the model bound to its tensor, once. */
#include "base/mem.h"
#include "base/pmath.h"
#include "load/tensors.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 256 };

/* "layers.<i>.<rest>" in a buffer of the caller. */
static const char *in_layer(char *buf, uint32_t i, const char *rest)
{
    (void)snprintf(buf, NAME_MAX_LEN, "layers.%u.%s", i, rest);
    return buf;
}

/* A_log -> -exp(A_log), what the decay is multiplied with. */
static void decay_rate(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = (float)-pmath_exp((double)x[i]);
}

static void bind_delta(binder *b, const model_config *c, layer *l, uint32_t i)
{
    char                 n[NAME_MAX_LEN];
    const k_delta_shape *s = &c->delta;
    const uint32_t       H = c->hidden_size, V = s->value_heads * s->value_dim, C = k_delta_channels(s);
    delta_weights       *d = &l->delta;
    d->in_qkv              = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.in_proj_qkv"), C, H);
    d->in_z                = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.in_proj_z"), V, H);
    d->in_a       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.in_proj_a"), s->value_heads, H);
    d->in_b       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.in_proj_b"), s->value_heads, H);
    d->out        = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.out_proj"), H, V);
    d->taps       = bind_taps(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.conv1d.weight"), C, s->conv_kernel);
    d->decay_rate = bind_mapped(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.A_log"), s->value_heads, decay_rate);
    d->dt_bias    = bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.dt_bias"), s->value_heads, 0.0f);
    /* The one gain that is never stored as gamma - 1. */
    d->norm = bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "linear_attn.norm.weight"), s->value_dim, 0.0f);
}

static void bind_attention(binder *b, const model_config *c, layer *l, uint32_t i, float shift)
{
    char                     n[NAME_MAX_LEN];
    const k_attention_shape *s = &c->attention;
    const uint32_t           H = c->hidden_size, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    attention_weights       *a = &l->attention;
    a->q                       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.q_proj"), 2 * q, H);
    a->k                       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.k_proj"), kv, H);
    a->v                       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.v_proj"), kv, H);
    a->o                       = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.o_proj"), H, q);
    a->q_norm = bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.q_norm.weight"), s->head_dim, shift);
    a->k_norm = bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "self_attn.k_norm.weight"), s->head_dim, shift);
}

static void bind_mlp(binder *b, mlp_weights *m, uint32_t i, const char *block, uint32_t inner, uint32_t hidden)
{
    char n[NAME_MAX_LEN], rest[64];
    (void)snprintf(rest, sizeof rest, "%s.gate_proj", block);
    m->gate = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, rest), inner, hidden);
    (void)snprintf(rest, sizeof rest, "%s.up_proj", block);
    m->up = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, rest), inner, hidden);
    (void)snprintf(rest, sizeof rest, "%s.down_proj", block);
    m->down = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, rest), hidden, inner);
}

/* Three packings are in use: gate and up fused in one stack, three stacks, and
 * a matrix per expert. */
static void bind_experts(binder *b, const model_config *c, mlp_weights *m, uint32_t i)
{
    char              n[NAME_MAX_LEN];
    const uint32_t    E = c->n_experts, H = c->hidden_size, I = c->expert_size;
    const stack_shape inner = {E, I, 0, I, H}, down = {E, H, 0, H, I};
    if (bind_exists(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.experts.gate_up_proj"))) {
        m->gate = bind_stack(b, CHECKPOINT_TRUNK, n, &(stack_shape){E, 2 * I, 0, I, H});
        m->up   = bind_stack(b, CHECKPOINT_TRUNK, n, &(stack_shape){E, 2 * I, I, I, H});
        m->down = bind_stack(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.experts.down_proj"), &down);
    } else if (bind_exists(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.experts.0.gate_proj"))) {
        (void)in_layer(n, i, "mlp.experts");
        m->gate = bind_each(b, CHECKPOINT_TRUNK, n, "gate_proj", E, I, H);
        m->up   = bind_each(b, CHECKPOINT_TRUNK, n, "up_proj", E, I, H);
        m->down = bind_each(b, CHECKPOINT_TRUNK, n, "down_proj", E, H, I);
    } else {
        m->gate = bind_stack(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.switch_mlp.gate_proj"), &inner);
        m->up   = bind_stack(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.switch_mlp.up_proj"), &inner);
        m->down = bind_stack(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.switch_mlp.down_proj"), &down);
    }
}

static void bind_moe(binder *b, const model_config *c, moe_weights *m, uint32_t i)
{
    char n[NAME_MAX_LEN];
    m->router = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.gate"), c->n_experts, c->hidden_size);
    bind_experts(b, c, &m->experts, i);
    bind_mlp(b, &m->shared, i, "mlp.shared_expert", c->shared_size, c->hidden_size);
    m->shared_gate = bind_matrix(b, CHECKPOINT_TRUNK, in_layer(n, i, "mlp.shared_expert_gate"), 1, c->hidden_size);
}

static void bind_layer(binder *b, const config *file, const model_config *c, layer *l, uint32_t i, float shift)
{
    char n[NAME_MAX_LEN];
    l->kind       = file->layers[i] == CONFIG_FULL ? LAYER_ATTENTION : LAYER_DELTA;
    l->input_norm = bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "input_layernorm.weight"), c->hidden_size, shift);
    l->post_norm =
        bind_vector(b, CHECKPOINT_TRUNK, in_layer(n, i, "post_attention_layernorm.weight"), c->hidden_size, shift);
    if (l->kind == LAYER_DELTA)
        bind_delta(b, c, l, i);
    else
        bind_attention(b, c, l, i, shift);
    if (c->n_experts > 0)
        bind_moe(b, c, &l->moe, i);
    else
        bind_mlp(b, &l->mlp, i, "mlp", c->intermediate_size, c->hidden_size);
}

static void bind_all(binder *b, model *m, const config *file)
{
    const model_config *c       = &m->config;
    const float         shift   = checkpoint_conventions(b->c)->gain_minus_one ? 1.0f : 0.0f;
    uint32_t            n_delta = 0, n_attention = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        bind_layer(b, file, c, &m->layers[i], i, shift);
        m->layers[i].index = m->layers[i].kind == LAYER_DELTA ? n_delta++ : n_attention++;
    }
    m->embed      = bind_matrix(b, CHECKPOINT_TRUNK, "embed_tokens", c->vocab_size, c->hidden_size);
    m->final_norm = bind_vector(b, CHECKPOINT_TRUNK, "norm.weight", c->hidden_size, shift);
    m->head       = file->tie_word_embeddings ? m->embed
                                              : bind_matrix(b, CHECKPOINT_HEAD, "lm_head", c->vocab_size, c->hidden_size);
}

weir_status load_model(model *out, kernels *k, const checkpoint *ck, weir_error *err)
{
    const config *file = checkpoint_config(ck);
    memset(out, 0, sizeof *out);
    binder b    = {.c = ck, .k = k, .err = err};
    out->config = load_config(file);
    out->layers = mem_zalloc(out->config.n_layers, sizeof *out->layers);
    b.taken     = mem_zalloc(checkpoint_count(ck), sizeof *b.taken);
    if (out->layers == NULL || b.taken == NULL)
        b.st = status_fail(err, WEIR_NO_MEMORY, "model: out of memory");
    else
        bind_all(&b, out, file);
    const weir_status st = bind_finish(&b);
    mem_free(b.taken);
    if (st != WEIR_OK) load_free(out, k);
    return st;
}

static void free_mlp(mlp_weights *m, kernels *k)
{
    k->weight_free(k, m->gate);
    k->weight_free(k, m->up);
    k->weight_free(k, m->down);
}

static void free_delta(delta_weights *d, kernels *k)
{
    k->weight_free(k, d->in_qkv);
    k->weight_free(k, d->in_z);
    k->weight_free(k, d->in_a);
    k->weight_free(k, d->in_b);
    k->weight_free(k, d->out);
    k->buf_free(k, d->taps);
    k->buf_free(k, d->decay_rate);
    k->buf_free(k, d->dt_bias);
    k->buf_free(k, d->norm);
}

static void free_attention(attention_weights *a, kernels *k)
{
    k->weight_free(k, a->q);
    k->weight_free(k, a->k);
    k->weight_free(k, a->v);
    k->weight_free(k, a->o);
    k->buf_free(k, a->q_norm);
    k->buf_free(k, a->k_norm);
}

void load_free(model *m, kernels *k)
{
    for (uint32_t i = 0; m->layers != NULL && i < m->config.n_layers; i++) {
        layer *l = &m->layers[i];
        k->buf_free(k, l->input_norm);
        k->buf_free(k, l->post_norm);
        if (l->kind == LAYER_DELTA)
            free_delta(&l->delta, k);
        else
            free_attention(&l->attention, k);
        if (m->config.n_experts > 0) {
            k->weight_free(k, l->moe.router);
            k->weight_free(k, l->moe.shared_gate);
            free_mlp(&l->moe.experts, k);
            free_mlp(&l->moe.shared, k);
        } else {
            free_mlp(&l->mlp, k);
        }
    }
    if (m->head != m->embed) k->weight_free(k, m->head);
    k->weight_free(k, m->embed);
    k->buf_free(k, m->final_norm);
    mem_free(m->layers);
    memset(m, 0, sizeof *m);
}
