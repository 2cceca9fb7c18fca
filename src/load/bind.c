/* load/bind.c - every parameter of the model bound to its tensor, once. */
#include "base/mem.h"
#include "base/pmath.h"
#include "load/tensors.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 256 };

/* A layer that is being bound, and where its tensors are: "layers.<i>." of a part. */
typedef struct place {
    binder             *b;
    const model_config *c;
    checkpoint_part     part;
    uint32_t            i;
    float               shift; /* what the part's gains lack */
} place;

/* "layers.<i>.<rest>" in a buffer of the caller. */
static const char *in_layer(char *buf, const place *at, const char *rest)
{
    (void)snprintf(buf, NAME_MAX_LEN, "layers.%u.%s", at->i, rest);
    return buf;
}

static k_weight *matrix(const place *at, const char *rest, uint32_t rows, uint32_t cols)
{
    char n[NAME_MAX_LEN];
    return bind_matrix(at->b, at->part, in_layer(n, at, rest), rows, cols);
}

static k_weight *stack(const place *at, const char *rest, const stack_shape *s)
{
    char n[NAME_MAX_LEN];
    return bind_stack(at->b, at->part, in_layer(n, at, rest), s);
}

static k_buf *vector(const place *at, const char *rest, uint32_t n, float shift)
{
    char name[NAME_MAX_LEN];
    return bind_vector(at->b, at->part, in_layer(name, at, rest), n, shift);
}

/* A_log -> -exp(A_log), what the decay is multiplied with. */
static void decay_rate(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = (float)-pmath_exp((double)x[i]);
}

static void bind_delta(const place *at, delta_weights *d)
{
    char                 n[NAME_MAX_LEN];
    const k_delta_shape *s = &at->c->delta;
    const uint32_t       H = at->c->hidden_size, V = s->value_heads * s->value_dim, C = k_delta_channels(s);
    d->in_qkv = matrix(at, "linear_attn.in_proj_qkv", C, H);
    d->in_z   = matrix(at, "linear_attn.in_proj_z", V, H);
    d->in_a   = matrix(at, "linear_attn.in_proj_a", s->value_heads, H);
    d->in_b   = matrix(at, "linear_attn.in_proj_b", s->value_heads, H);
    d->out    = matrix(at, "linear_attn.out_proj", H, V);
    d->taps   = bind_taps(at->b, at->part, in_layer(n, at, "linear_attn.conv1d.weight"), C, s->conv_kernel);
    d->decay_rate =
        checkpoint_conventions(at->b->c)->decay_is_rate
            ? vector(at, "linear_attn.A_log", s->value_heads, 0.0f)
            : bind_mapped(at->b, at->part, in_layer(n, at, "linear_attn.A_log"), s->value_heads, decay_rate);
    d->dt_bias = vector(at, "linear_attn.dt_bias", s->value_heads, 0.0f);
    /* The one gain that is never stored as gamma - 1. */
    d->norm = vector(at, "linear_attn.norm.weight", s->value_dim, 0.0f);
}

static void bind_attention(const place *at, attention_weights *a)
{
    const k_attention_shape *s = &at->c->attention;
    const uint32_t           H = at->c->hidden_size, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    a->q      = matrix(at, "self_attn.q_proj", 2 * q, H);
    a->k      = matrix(at, "self_attn.k_proj", kv, H);
    a->v      = matrix(at, "self_attn.v_proj", kv, H);
    a->o      = matrix(at, "self_attn.o_proj", H, q);
    a->q_norm = vector(at, "self_attn.q_norm.weight", s->head_dim, at->shift);
    a->k_norm = vector(at, "self_attn.k_norm.weight", s->head_dim, at->shift);
}

static void bind_mlp(const place *at, mlp_weights *m, const char *block, uint32_t inner)
{
    char           rest[64];
    const uint32_t H = at->c->hidden_size;
    (void)snprintf(rest, sizeof rest, "%s.gate_proj", block);
    m->gate = matrix(at, rest, inner, H);
    (void)snprintf(rest, sizeof rest, "%s.up_proj", block);
    m->up = matrix(at, rest, inner, H);
    (void)snprintf(rest, sizeof rest, "%s.down_proj", block);
    m->down = matrix(at, rest, H, inner);
}

/* Three packings are in use: gate and up fused in one stack, three stacks, and
 * a matrix per expert. */
static void bind_experts(const place *at, mlp_weights *m)
{
    char              n[NAME_MAX_LEN];
    const uint32_t    E = at->c->n_experts, H = at->c->hidden_size, I = at->c->expert_size;
    const stack_shape inner = {E, I, 0, I, H}, down = {E, H, 0, H, I};
    if (bind_exists(at->b, at->part, in_layer(n, at, "mlp.experts.gate_up_proj"))) {
        m->gate = stack(at, "mlp.experts.gate_up_proj", &(stack_shape){E, 2 * I, 0, I, H});
        m->up   = stack(at, "mlp.experts.gate_up_proj", &(stack_shape){E, 2 * I, I, I, H});
        m->down = stack(at, "mlp.experts.down_proj", &down);
    } else if (bind_exists(at->b, at->part, in_layer(n, at, "mlp.experts.0.gate_proj"))) {
        (void)in_layer(n, at, "mlp.experts");
        m->gate = bind_each(at->b, at->part, n, "gate_proj", E, I, H);
        m->up   = bind_each(at->b, at->part, n, "up_proj", E, I, H);
        m->down = bind_each(at->b, at->part, n, "down_proj", E, H, I);
    } else {
        m->gate = stack(at, "mlp.switch_mlp.gate_proj", &inner);
        m->up   = stack(at, "mlp.switch_mlp.up_proj", &inner);
        m->down = stack(at, "mlp.switch_mlp.down_proj", &down);
    }
}

static void bind_moe(const place *at, moe_weights *m)
{
    const model_config *c = at->c;
    m->router             = matrix(at, "mlp.gate", c->n_experts, c->hidden_size);
    bind_experts(at, &m->experts);
    bind_mlp(at, &m->shared, "mlp.shared_expert", c->shared_size);
    m->shared_gate = matrix(at, "mlp.shared_expert_gate", 1, c->hidden_size);
}

static void bind_layer(const place *at, layer *l, layer_kind kind, uint32_t index)
{
    const model_config *c = at->c;
    l->kind               = kind;
    l->index              = index;
    l->number             = at->i;
    l->input_norm         = vector(at, "input_layernorm.weight", c->hidden_size, at->shift);
    l->post_norm          = vector(at, "post_attention_layernorm.weight", c->hidden_size, at->shift);
    if (l->kind == LAYER_DELTA)
        bind_delta(at, &l->delta);
    else
        bind_attention(at, &l->attention);
    if (c->n_experts > 0)
        bind_moe(at, &l->moe);
    else
        bind_mlp(at, &l->mlp, "mlp", c->intermediate_size);
}

static void bind_trunk(binder *b, model *m, const config *file)
{
    const model_config *c       = &m->config;
    place               at      = {.b = b, .c = c, .part = CHECKPOINT_TRUNK};
    uint32_t            n_delta = 0, n_attention = 0;
    at.shift = checkpoint_conventions(b->c)->gain_minus_one ? 1.0f : 0.0f;
    for (; at.i < c->n_layers; at.i++) {
        const bool full = file->layers[at.i] == CONFIG_FULL;
        bind_layer(&at, &m->layers[at.i], full ? LAYER_ATTENTION : LAYER_DELTA, full ? n_attention++ : n_delta++);
    }
    m->embed      = bind_matrix(b, CHECKPOINT_TRUNK, "embed_tokens", c->vocab_size, c->hidden_size);
    m->final_norm = bind_vector(b, CHECKPOINT_TRUNK, "norm.weight", c->hidden_size, at.shift);
    m->head       = file->tie_word_embeddings ? m->embed
                                              : bind_matrix(b, CHECKPOINT_HEAD, "lm_head", c->vocab_size, c->hidden_size);
}

static void bind_mtp(binder *b, mtp_weights *m, const model_config *c)
{
    const uint32_t H  = c->hidden_size;
    place          at = {.b = b, .c = c, .part = CHECKPOINT_MTP};
    at.shift          = checkpoint_conventions(b->c)->mtp_gain_minus_one ? 1.0f : 0.0f;
    m->fc             = bind_matrix(b, CHECKPOINT_MTP, "fc", H, 2 * H);
    m->norm_embedding = bind_vector(b, CHECKPOINT_MTP, "pre_fc_norm_embedding.weight", H, at.shift);
    m->norm_hidden    = bind_vector(b, CHECKPOINT_MTP, "pre_fc_norm_hidden.weight", H, at.shift);
    m->norm           = bind_vector(b, CHECKPOINT_MTP, "norm.weight", H, at.shift);
    bind_layer(&at, &m->block, LAYER_ATTENTION, c->n_attention_layers);
}

static weir_status check_mtp(const checkpoint *ck, weir_error *err)
{
    const uint32_t n = checkpoint_config(ck)->mtp_layers;
    if (!load_has_mtp(ck))
        return status_fail(err, WEIR_INVALID, "%s: expected a multi-token-prediction head (mtp.*), found none",
                           checkpoint_path(ck));
    if (n == 1) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED, "%s: config.json: mtp_num_hidden_layers: expected 1, found %u",
                       checkpoint_path(ck), n);
}

bool load_has_mtp(const checkpoint *ck)
{
    return checkpoint_conventions(ck)->has_mtp;
}

weir_status load_model(model *out, kernels *k, const checkpoint *ck, bool with_mtp, weir_error *err)
{
    const config *file = checkpoint_config(ck);
    memset(out, 0, sizeof *out);
    if (with_mtp) TRY(check_mtp(ck, err));
    binder b    = {.c = ck, .k = k, .err = err};
    out->config = load_config(file, with_mtp);
    out->layers = mem_zalloc(out->config.n_layers, sizeof *out->layers);
    b.taken     = mem_zalloc(checkpoint_count(ck), sizeof *b.taken);
    if (out->layers == NULL || b.taken == NULL) {
        b.st = status_fail(err, WEIR_NO_MEMORY, "model: out of memory");
    } else {
        bind_trunk(&b, out, file);
        if (with_mtp)
            bind_mtp(&b, &out->mtp, &out->config);
        else
            b.skipped[CHECKPOINT_MTP] = true;
    }
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

static void free_layer(layer *l, kernels *k, const model_config *c)
{
    k->buf_free(k, l->input_norm);
    k->buf_free(k, l->post_norm);
    if (l->kind == LAYER_DELTA)
        free_delta(&l->delta, k);
    else
        free_attention(&l->attention, k);
    if (c->n_experts > 0) {
        k->weight_free(k, l->moe.router);
        k->weight_free(k, l->moe.shared_gate);
        free_mlp(&l->moe.experts, k);
        free_mlp(&l->moe.shared, k);
    } else {
        free_mlp(&l->mlp, k);
    }
}

void load_free(model *m, kernels *k)
{
    for (uint32_t i = 0; m->layers != NULL && i < m->config.n_layers; i++) free_layer(&m->layers[i], k, &m->config);
    if (m->head != m->embed) k->weight_free(k, m->head);
    k->weight_free(k, m->embed);
    k->buf_free(k, m->final_norm);
    free_layer(&m->mtp.block, k, &m->config);
    k->weight_free(k, m->mtp.fc);
    k->buf_free(k, m->mtp.norm_embedding);
    k->buf_free(k, m->mtp.norm_hidden);
    k->buf_free(k, m->mtp.norm);
    mem_free(m->layers);
    memset(m, 0, sizeof *m);
}
