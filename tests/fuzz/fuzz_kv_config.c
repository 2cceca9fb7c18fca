/* tests/fuzz/fuzz_kv_config.c - any bytes as kv_config.json.
 *
 * What is accepted must be a form that heads of this size can have. */
#include "engine/kv_config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(k_kv_form f, uint32_t head_dim)
{
    if (f.kind != K_KV_BF16 && f.kind != K_KV_AFFINE8 && f.kind != K_KV_AFFINE4) abort();
    if (f.kind == K_KV_BF16 ? f.group != 0 : f.group < 32 || f.group > 128 || head_dim % f.group != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const config c = {.n_layers = 8, .head_dim = 64, .layers = {[3] = CONFIG_FULL, [7] = CONFIG_FULL}};
    static kv_forms     forms;
    weir_error          err;
    err.text[0] = '\0';
    if (kv_config_parse(&forms, (const char *)data, size, "kv_config.json", &c, true, &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
        return 0;
    }
    if (forms.n != 3) abort();
    for (uint32_t i = 0; i < forms.n; i++) {
        check(forms.layer[i].keys, c.head_dim);
        check(forms.layer[i].values, c.head_dim);
    }
    return 0;
}
