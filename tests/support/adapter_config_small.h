/* tests/support/adapter_config_small.h - a model that adapters are read for. */
#ifndef SUPPORT_ADAPTER_CONFIG_SMALL_H
#define SUPPORT_ADAPTER_CONFIG_SMALL_H

#include "checkpoint/config.h"

/* Two layers, one of each kind, of hidden size 2; the key heads are 2 of 1, the value heads 4 of 1. */
static inline config adapter_config_small(void)
{
    config c    = {.hidden_size          = 2,
                   .n_layers             = 2,
                   .vocab_size           = 4,
                   .intermediate_size    = 3,
                   .n_heads              = 2,
                   .n_kv_heads           = 1,
                   .head_dim             = 2,
                   .linear_n_key_heads   = 2,
                   .linear_n_value_heads = 4,
                   .linear_key_dim       = 1,
                   .linear_value_dim     = 1,
                   .conv_kernel          = 4};
    c.layers[0] = CONFIG_LINEAR;
    c.layers[1] = CONFIG_FULL;
    return c;
}

/* The same with three experts of 3, two for a token. */
static inline config adapter_config_moe(void)
{
    config c                   = adapter_config_small();
    c.is_moe                   = true;
    c.n_experts                = 3;
    c.n_experts_per_token      = 2;
    c.moe_intermediate_size    = 3;
    c.shared_intermediate_size = 3;
    return c;
}

#endif
