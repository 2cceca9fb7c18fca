/* load/config.c - the checkpoint's config in the model's words. */
#include "load/load.h"

model_config load_config(const config *c, bool with_mtp)
{
    model_config m = {
        .hidden_size       = c->hidden_size,
        .n_layers          = c->n_layers,
        .vocab_size        = c->vocab_size,
        .intermediate_size = c->intermediate_size,
        .eps               = (float)c->rms_norm_eps,
        .attention         = {.heads      = c->n_heads,
                              .kv_heads   = c->n_kv_heads,
                              .head_dim   = c->head_dim,
                              .rotary_dim = c->rope.rotary_dim,
                              .eps        = (float)c->rms_norm_eps},
        .delta             = {.key_heads   = c->linear_n_key_heads,
                              .value_heads = c->linear_n_value_heads,
                              .key_dim     = c->linear_key_dim,
                              .value_dim   = c->linear_value_dim,
                              .conv_kernel = c->conv_kernel,
                              .heads_tiled = c->linear_heads_tiled},
        .n_experts         = c->n_experts,
        .experts_per_token = c->n_experts_per_token,
        .expert_size       = c->moe_intermediate_size,
        .shared_size       = c->shared_intermediate_size,
        .mtp               = with_mtp,
    };
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (c->layers[i] == CONFIG_FULL)
            m.n_attention_layers++;
        else
            m.n_delta_layers++;
    }
    return m;
}

weir_status load_rope(const config *c, double *inv_freq, float *rope_scale, weir_error *err)
{
    const config_rope *r = &c->rope;
    rope_frequencies(inv_freq, r->rotary_dim, r->theta);
    *rope_scale = 1.0f;
    switch (r->type) {
    case CONFIG_ROPE_DEFAULT: return WEIR_OK;
    case CONFIG_ROPE_LINEAR:
        for (uint32_t i = 0; i < r->rotary_dim / 2; i++) inv_freq[i] /= r->factor;
        return WEIR_OK;
    case CONFIG_ROPE_YARN:
        rope_apply_yarn(inv_freq, r->rotary_dim,
                        &(rope_yarn){r->theta, r->factor, r->original_max_position, r->beta_fast, r->beta_slow});
        *rope_scale = (float)r->attention_factor;
        return WEIR_OK;
    }
    return status_fail(err, WEIR_UNSUPPORTED, "config.json: rope_parameters.rope_type: not implemented");
}

uint64_t load_converted_bytes(const model_config *c)
{
    const k_delta_shape *d = &c->delta;
    const uint64_t delta = (uint64_t)k_delta_channels(d) * d->conv_kernel + 2 * (uint64_t)d->value_heads + d->value_dim;
    const uint64_t layer_norms = 2, mtp_norms = c->mtp ? layer_norms + 3 : 0; /* of hidden_size */
    return sizeof(float) * (delta * c->n_delta_layers + 2 * (uint64_t)c->attention.head_dim * model_cached_layers(c) +
                            (layer_norms * c->n_layers + 1 + mtp_norms) * c->hidden_size);
}
