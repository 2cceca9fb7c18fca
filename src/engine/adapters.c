/* engine/adapters.c - see adapters.h; and weir/adapter.h but for merging. */
#include "engine/adapters.h"

#include "base/mem.h"
#include "engine/engine_parts.h"

#include <math.h>
#include <string.h>

/* ---- one adapter ---- */

static void add_u32(store_sum *s, uint32_t x)
{
    store_sum_add(s, &x, sizeof x);
}

/* All that the numbers follow from, whatever file it came from. */
static weir_status hash_of(uint8_t out[STORE_KEY_BYTES], const adapter *a, weir_error *err)
{
    store_sum s;
    store_sum_begin(&s);
    for (size_t i = 0; i < a->n; i++) {
        const adapter_pair *p     = &a->pairs[i];
        const float         scale = (float)p->scale;
        add_u32(&s, p->layer);
        add_u32(&s, p->target);
        add_u32(&s, p->rank);
        add_u32(&s, p->a_type);
        add_u32(&s, p->b_type);
        store_sum_add(&s, &scale, sizeof scale);
        store_sum_add(&s, p->a, (size_t)p->rank * p->in * dtype_table[p->a_type].bytes);
        store_sum_add(&s, p->b, (size_t)p->out * p->rank * dtype_table[p->b_type].bytes);
    }
    return store_sum_end(&s, out, err);
}

weir_status weir_adapter_open(weir_adapter **out, const weir_model *m, const char *dir, weir_error *err)
{
    *out            = NULL;
    weir_adapter *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    w->m           = m;
    weir_status st = adapter_open(&w->a, dir, checkpoint_config(m->c), err);
    if (st == WEIR_OK) st = hash_of(w->hash, w->a, err);
    if (st != WEIR_OK)
        weir_adapter_close(w);
    else
        *out = w;
    return st;
}

void weir_adapter_close(weir_adapter *a)
{
    if (a == NULL) return;
    adapter_close(a->a);
    mem_free(a);
}

void weir_adapter_get_info(const weir_adapter *a, weir_adapter_info *out)
{
    *out = (weir_adapter_info){.path      = a->a->path,
                               .form      = a->a->form == ADAPTER_PEFT ? "peft" : "mlx",
                               .n_modules = (uint32_t)a->a->n,
                               .max_rank  = a->a->max_rank,
                               .bytes     = a->a->bytes};
    _Static_assert(sizeof out->hash == STORE_KEY_BYTES, "a SHA-256");
    memcpy(out->hash, a->hash, sizeof out->hash);
}

/* ---- the engine's ---- */

enum { MOST = 1024 }; /* of an engine */

weir_status adapters_check(const weir_adapter *const *list, size_t n, const weir_model *m, weir_error *err)
{
    if (n > MOST) return status_fail(err, WEIR_INVALID, "adapters: expected at most %d, found %zu", MOST, n);
    for (size_t i = 0; i < n; i++)
        if (list[i]->m != m)
            return status_fail(err, WEIR_INVALID, "adapters: %s: expected one of this model, found one of another",
                               list[i]->a->path);
    return WEIR_OK;
}

lora_limits adapters_limits(const weir_adapter *const *list, size_t n, uint32_t max_rows)
{
    lora_limits l = {.max_rows = n > 0 ? max_rows : 0};
    for (size_t i = 0; i < n; i++) {
        const adapter *a = list[i]->a;
        l.max_in         = a->max_in > l.max_in ? a->max_in : l.max_in;
        l.max_out        = a->max_out > l.max_out ? a->max_out : l.max_out;
        l.max_rank       = a->max_rank > l.max_rank ? a->max_rank : l.max_rank;
    }
    return l;
}

uint64_t adapters_bytes(const weir_adapter *const *list, size_t n, uint32_t max_rows)
{
    if (n == 0) return 0;
    const lora_limits l    = adapters_limits(list, n, max_rows);
    const uint64_t    rows = (uint64_t)WEIR_MAX_ADAPTERS * max_rows;
    uint64_t bytes = lora_work_bytes(&l) + rows * (sizeof(uint32_t) + sizeof(float)) + max_rows * sizeof(float) +
                     n * (sizeof(lora) + sizeof(weir_adapter *) + WEIR_MAX_ADAPTERS * sizeof(lora_run));
    for (size_t i = 0; i < n; i++) bytes += list[i]->a->bytes + list[i]->a->n_layers * sizeof(lora_pair[LORA_TARGETS]);
    return bytes;
}

weir_status adapters_open(adapter_bank *b, kernels *k, const weir_adapter *const *list, size_t n, uint32_t max_rows,
                          weir_error *err)
{
    const size_t rows = (size_t)WEIR_MAX_ADAPTERS * max_rows;
    *b                = (adapter_bank){0};
    if (n == 0) return WEIR_OK;
    b->of     = mem_alloc(n, sizeof *b->of);
    b->loras  = mem_zalloc(n, sizeof *b->loras);
    b->runs   = mem_alloc(WEIR_MAX_ADAPTERS * n, sizeof *b->runs);
    b->rows   = mem_alloc(rows, sizeof *b->rows);
    b->scales = mem_alloc(rows + max_rows, sizeof *b->scales);
    if (b->of == NULL || b->loras == NULL || b->runs == NULL || b->rows == NULL || b->scales == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "adapters: out of memory");
    b->step = (lora_step){.runs = b->runs, .scales = b->scales + rows};
    for (size_t i = 0; i < n; i++, b->n++) {
        b->of[i] = list[i];
        TRY(load_lora(&b->loras[i], k, list[i]->a, err));
    }
    return WEIR_OK;
}

void adapters_close(adapter_bank *b, kernels *k)
{
    for (uint32_t i = 0; i < b->n; i++) load_lora_free(&b->loras[i], k);
    mem_free(b->of);
    mem_free(b->loras);
    mem_free(b->runs);
    mem_free(b->rows);
    mem_free(b->scales);
    *b = (adapter_bank){0};
}

/* ---- a choice ---- */

static weir_status add_choice(adapter_set *out, const adapter_bank *b, const weir_adapter_choice *c, weir_error *err)
{
    if (!(fabsf(c->scale) <= 100.0f))
        return status_fail(err, WEIR_INVALID, "adapters: scale: expected -100 to 100, found %g", (double)c->scale);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->of[i] != c->adapter) continue;
        if (c->scale == 0.0f) return WEIR_OK;
        out->index[out->n]   = i;
        out->scale[out->n++] = c->scale;
        return WEIR_OK;
    }
    return status_fail(err, WEIR_INVALID, "adapters: expected one of those in the engine's options, found another");
}

weir_status adapters_choose(adapter_set *out, const adapter_bank *b, const weir_adapter_choice *choices, size_t n,
                            weir_error *err)
{
    memset(out, 0, sizeof *out);
    if (n > WEIR_MAX_ADAPTERS)
        return status_fail(err, WEIR_INVALID, "adapters: expected at most %d (WEIR_MAX_ADAPTERS), found %zu",
                           WEIR_MAX_ADAPTERS, n);
    for (size_t i = 0; i < n; i++) TRY(add_choice(out, b, &choices[i], err));
    if (out->n == 0) return WEIR_OK;
    store_sum s;
    store_sum_begin(&s);
    for (uint32_t i = 0; i < out->n; i++) {
        store_sum_add(&s, b->of[out->index[i]]->hash, STORE_KEY_BYTES);
        store_sum_add(&s, &out->scale[i], sizeof out->scale[i]);
    }
    return store_sum_end(&s, out->origin, err);
}
