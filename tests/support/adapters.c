/* tests/support/adapters.c - see adapters.h. */
#include "support/adapters.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "quant/dense.h"
#include "support/engines.h"
#include "support/rng.h"
#include "unit/checkpoint/made_files.h"

#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A matrix [rows, cols] under a name, turned over for mlx-lm. */
static void put_matrix(made_tensors *t, const adapter_recipe *r, const char *name, uint64_t rows, uint64_t cols,
                       const float *x)
{
    const size_t n = rows * cols, size = r->bf16 ? 2 : 4;
    uint8_t     *bytes = malloc(n * size);
    char         shape[64];
    assert_non_null(bytes);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < cols; j++) {
            const size_t   at = r->mlx ? j * rows + i : i * cols + j;
            const float    v  = x[i * cols + j];
            const uint16_t h  = bf16_from_f32(v);
            memcpy(bytes + at * size, r->bf16 ? (const void *)&h : (const void *)&v, size);
        }
    (void)snprintf(shape, sizeof shape, "[%llu, %llu]", (unsigned long long)(r->mlx ? cols : rows),
                   (unsigned long long)(r->mlx ? rows : cols));
    made_raw(t, name, r->bf16 ? "BF16" : "F32", shape, bytes, n * size);
    free(bytes);
}

/* A and B of one module, in the form's spelling. */
static void put_module(made_tensors *t, const adapter_recipe *r, const char *module, const uint64_t *shape,
                       uint64_t seed)
{
    char         name[400];
    const size_t n_a = r->rank * shape[1], n_b = shape[0] * r->rank;
    float       *a = malloc(n_a * sizeof *a), *b = malloc(n_b * sizeof *b);
    assert_true(a != NULL && b != NULL);
    rng_fill(&seed, a, n_a, -0.1f, 0.1f);
    rng_fill(&seed, b, n_b, -0.1f, 0.1f);
    const char *prefix = r->mlx ? "language_model.model." : "base_model.model.model.language_model.";
    (void)snprintf(name, sizeof name, "%s%s%s", prefix, module, r->mlx ? ".lora_a" : ".lora_A.weight");
    put_matrix(t, r, name, r->rank, shape[1], a);
    (void)snprintf(name, sizeof name, "%s%s%s", prefix, module, r->mlx ? ".lora_b" : ".lora_B.weight");
    put_matrix(t, r, name, shape[0], r->rank, b);
    free(a);
    free(b);
}

/* [out, in] of a module: of a plain tensor, its own shape. */
static void shape_of(uint64_t shape[2], const weir_model *m, const checkpoint_tensor *t, const char *module)
{
    adapter_module found;
    weir_error     err;
    memcpy(shape, t->shape, 2 * sizeof *shape);
    if (dense_is(t->type)) return;
    must(adapter_find_module(&found, checkpoint_config(m->c), module, &err), &err);
    shape[0] = found.out;
    shape[1] = found.in;
}

static void put_config(const char *dir, const adapter_recipe *r)
{
    char text[400];
    if (r->mlx)
        (void)snprintf(
            text, sizeof text,
            "{\"fine_tune_type\": \"lora\", \"num_layers\": -1, \"lora_parameters\": {\"rank\": %u, \"scale\": "
            "%.17g, \"dropout\": 0.0}}",
            r->rank, r->scale);
    else
        (void)snprintf(
            text, sizeof text,
            "{\"peft_type\": \"LORA\", \"r\": %u, \"lora_alpha\": %.17g, \"bias\": \"none\", \"use_dora\": false, "
            "\"modules_to_save\": null, \"target_modules\": [\"all\"]}",
            r->rank, r->scale * r->rank);
    made_text(dir, "adapter_config.json", text);
}

void adapter_make(const char *dir, const weir_model *m, const adapter_recipe *r)
{
    made_tensors t;
    size_t       n = 0;
    made_begin(&t);
    for (size_t i = 0; i < checkpoint_count(m->c); i++) {
        const checkpoint_tensor *x   = checkpoint_at(m->c, i);
        const size_t             len = strlen(x->name), tail = strlen(".weight");
        char                     module[256];
        if (x->part != CHECKPOINT_TRUNK || x->rank != 2 || len <= tail || strcmp(x->name + len - tail, ".weight") != 0)
            continue;
        (void)snprintf(module, sizeof module, "%.*s", (int)(len - tail), x->name);
        if (strstr(module, "_proj") == NULL || strstr(module, "experts") != NULL) continue;
        if (r->only != NULL && strstr(module, r->only) == NULL) continue;
        uint64_t shape[2];
        shape_of(shape, m, x, module);
        put_module(&t, r, module, shape, r->seed * 1000 + i);
        n++;
    }
    assert_true(n > 0);
    made_write(&t, dir, r->mlx ? "adapters.safetensors" : "adapter_model.safetensors");
    put_config(dir, r);
}

weir_adapter *adapter_made(const weir_model *m, const adapter_recipe *r)
{
    weir_error    err;
    weir_adapter *a;
    char         *dir = made_dir();
    assert_non_null(dir);
    adapter_make(dir, m, r);
    must(weir_adapter_open(&a, m, dir, &err), &err);
    made_remove(dir);
    return a;
}

void checkpoint_widen(const char *dir, const weir_model *m)
{
    made_tensors t;
    weir_error   err;
    char        *text, *path = path_join(checkpoint_path(m->c), "config.json");
    size_t       len;
    made_begin(&t);
    for (size_t i = 0; i < checkpoint_count(m->c); i++) {
        const checkpoint_tensor *x          = checkpoint_at(m->c, i);
        char                     shape[128] = "[";
        size_t                   n          = 1;
        assert_true(dense_is(x->type));
        for (uint32_t j = 0; j < x->rank; j++) {
            const size_t at = strlen(shape);
            n *= x->shape[j];
            (void)snprintf(shape + at, sizeof shape - at, "%s%llu", j > 0 ? ", " : "", (unsigned long long)x->shape[j]);
        }
        (void)strcat(shape, "]");
        float *y = malloc(n * sizeof *y);
        assert_non_null(y);
        dense_decode(y, x->data, x->type, n);
        made_raw(&t, x->raw_name, "F32", shape, y, n * sizeof *y);
        free(y);
    }
    made_write(&t, dir, "model.safetensors");
    must(file_read(&text, &len, path, 1 << 20, &err), &err);
    made_file(dir, "config.json", text, len);
    mem_free(text);
    mem_free(path);
}
