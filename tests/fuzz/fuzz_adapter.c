/* tests/fuzz/fuzz_adapter.c - any bytes as adapter_config.json, and what stands behind a line
 * of it as the adapter's tensors.
 *
 * What is accepted must fit the model and have finite scales. */
#include "load/adapter.h"
#include "support/adapter_config_small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const adapter *a, const config *c)
{
    if (a->n == 0 || a->max_rank == 0 || a->max_rank > ADAPTER_MAX_RANK) abort();
    for (size_t i = 0; i < a->n; i++) {
        const adapter_pair *p = &a->pairs[i];
        uint32_t            in, out;
        adapter_target_size(c, p->target, &in, &out);
        if (p->layer >= c->n_layers || p->in != in || p->out != out || !isfinite(p->scale)) abort();
        if (p->mats != adapter_target_mats(c, p->target)) abort();
    }
}

static void read_tensors(const adapter_config *ac, const config *c, const uint8_t *data, size_t size)
{
    safetensors file;
    adapter    *a;
    weir_error  err;
    err.text[0] = '\0';
    if (safetensors_open_memory(&file, "adapter_model.safetensors", data, size, &err) != WEIR_OK) return;
    if (adapter_read(&a, "adapter", ac, &file, c, &err) == WEIR_OK)
        check(a, c);
    else if (a != NULL || err.text[0] == '\0')
        abort(); /* every failure says why */
    else
        a = NULL;
    adapter_close(a);
    safetensors_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    const size_t   n   = end != NULL ? (size_t)(end - data) : size;
    adapter_config c;
    weir_error     err;
    err.text[0] = '\0';
    if (adapter_config_parse(&c, "adapter_config.json", (const char *)data, n, &err) == WEIR_OK) {
        if (!isfinite(adapter_config_scale(&c, "model.layers.0.mlp.up_proj", 1))) abort();
        const config small = adapter_config_small(), moe = adapter_config_moe();
        if (n < size) read_tensors(&c, &small, data + n + 1, size - n - 1);
        if (n < size) read_tensors(&c, &moe, data + n + 1, size - n - 1);
    } else if (err.text[0] == '\0') {
        abort();
    }
    adapter_config_free(&c);
    return 0;
}
