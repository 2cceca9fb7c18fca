/* tests/fuzz/fuzz_config.c - any bytes as config.json, and again as generation_config.json.
 *
 * What is accepted must keep the promises that later code multiplies by. */
#include "checkpoint/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sound[] =
    "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":96,\"num_hidden_layers\":4,\"intermediate_size\":160,"
    "\"num_attention_heads\":6,\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":300,\"linear_num_key_heads\":3,"
    "\"linear_num_value_heads\":3,\"linear_key_head_dim\":64,\"linear_value_head_dim\":64,"
    "\"rope_parameters\":{\"rope_theta\":10000.0}}";

static void check(const config *c)
{
    const uint64_t most = CONFIG_MAX_INNER;
    if (c->hidden_size == 0 || c->n_layers == 0 || c->n_layers > CONFIG_MAX_LAYERS || c->vocab_size == 0) abort();
    if (c->n_kv_heads == 0 || c->n_heads % c->n_kv_heads != 0) abort();
    if (c->linear_n_key_heads == 0 || c->linear_n_value_heads % c->linear_n_key_heads != 0) abort();
    if ((uint64_t)c->n_heads * c->head_dim > most || config_conv_channels(c) > 3 * most) abort();
    if (c->rope.rotary_dim % 2 != 0 || c->rope.rotary_dim > c->head_dim || !(c->rope.theta > 1.0)) abort();
    if (c->conv_kernel < 2 || c->conv_kernel > CONFIG_MAX_CONV) abort();
    if (c->n_eos > CONFIG_MAX_EOS || c->n_experts_per_token > c->n_experts) abort();
}

static void run(const config_text *main, const config_text *generation)
{
    config            c;
    config_quant_form form;
    weir_error        err;
    err.text[0] = '\0';
    if (config_parse(&c, main, generation, &err) == WEIR_OK) {
        check(&c);
        (void)config_quant_for(&c, "model.layers.0.mlp.up_proj", &form, &err);
    } else if (err.text[0] == '\0') {
        abort(); /* every failure says why */
    }
    config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const config_text input = {"config.json", (const char *)data, size};
    const config_text base  = {"config.json", sound, sizeof sound - 1};
    const config_text again = {"generation_config.json", (const char *)data, size};
    run(&input, NULL);
    run(&base, &again);
    return 0;
}
