/* engine/adapters.c - see adapters.h; and weir/adapter.h but for merging. */
#include "engine/adapters.h"

#include "base/mem.h"
#include "engine/sequence_parts.h"

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
        store_sum_add(&s, p->a, (size_t)p->mats * p->rank * p->in * dtype_table[p->a_type].bytes);
        store_sum_add(&s, p->b, (size_t)p->mats * p->out * p->rank * dtype_table[p->b_type].bytes);
    }
    return store_sum_end(&s, out, err);
}

weir_status adapter_wrap(weir_adapter **out, const weir_model *m, adapter *a, weir_error *err)
{
    weir_adapter *w = mem_zalloc(1, sizeof *w);
    *out            = NULL;
    if (w == NULL) {
        adapter_close(a);
        return status_fail(err, WEIR_NO_MEMORY, "adapter: out of memory");
    }
    *w                   = (weir_adapter){.m = m, .a = a};
    const weir_status st = hash_of(w->hash, a, err);
    if (st != WEIR_OK)
        weir_adapter_close(w);
    else
        *out = w;
    return st;
}

weir_status weir_adapter_open(weir_adapter **out, const weir_model *m, const char *dir, weir_error *err)
{
    adapter *a;
    *out = NULL;
    TRY(adapter_open(&a, dir, checkpoint_config(m->c), err));
    return adapter_wrap(out, m, a, err);
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

enum { MOST = 1024 /* of an engine */, USUAL_RANK = 64 };

weir_status adapters_check(const weir_adapter *const *list, size_t n, const weir_model *m, weir_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (list[i]->m != m)
            return status_fail(err, WEIR_INVALID, "adapters: %s: expected one of this model, found one of another",
                               list[i]->a->path);
    return WEIR_OK;
}

/* Of one with this rank on every matrix of the model but for the experts', in 16 bits. */
static uint64_t full_bytes(const config *c, uint32_t rank)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_layers; i++)
        for (int t = 0; t < LORA_TARGETS; t++) {
            uint32_t in, out;
            if (t >= LORA_EXPERT_GATE || !adapter_layer_has(c, i, (lora_target)t)) continue;
            adapter_target_size(c, (lora_target)t, &in, &out);
            sum += ((uint64_t)in + out) * rank * sizeof(uint16_t);
        }
    return sum;
}

static lora_limits limits_of(const config *c, uint32_t max_rank, uint32_t max_rows)
{
    lora_limits l = {.max_rows = max_rows, .max_rank = max_rank};
    if (c->is_moe) {
        l.per_token = c->n_experts_per_token;
        l.slot_out  = c->hidden_size > c->moe_intermediate_size ? c->hidden_size : c->moe_intermediate_size;
    }
    for (int t = 0; t < LORA_TARGETS; t++) {
        uint32_t in, out;
        adapter_target_size(c, (lora_target)t, &in, &out);
        l.max_in  = in > l.max_in ? in : l.max_in;
        l.max_out = out > l.max_out ? out : l.max_out;
    }
    return l;
}

static weir_status check_options(const weir_engine_options *o, weir_error *err)
{
    if (o->n_adapters > MOST || o->max_adapters > MOST)
        return status_fail(err, WEIR_INVALID, "%s: expected at most %d, found %zu",
                           o->n_adapters > MOST ? "adapters" : "max_adapters", MOST,
                           o->n_adapters > MOST ? o->n_adapters : o->max_adapters);
    if (o->max_adapters != 0 && o->max_adapters < o->n_adapters)
        return status_fail(err, WEIR_INVALID, "max_adapters: expected at least the %zu listed, found %u", o->n_adapters,
                           o->max_adapters);
    if (o->max_adapter_rank > ADAPTER_MAX_RANK)
        return status_fail(err, WEIR_INVALID, "max_adapter_rank: expected at most %d, found %u", ADAPTER_MAX_RANK,
                           o->max_adapter_rank);
    if (o->max_adapters <= o->n_adapters && (o->max_adapter_rank != 0 || o->adapter_memory != 0))
        return status_fail(err, WEIR_INVALID, "%s: needs a max_adapters of more than the %zu listed",
                           o->max_adapter_rank != 0 ? "max_adapter_rank" : "adapter_memory", o->n_adapters);
    return WEIR_OK;
}

weir_status adapters_plan(adapter_room *out, const weir_engine_options *o, const weir_model *m, uint32_t max_rows,
                          weir_error *err)
{
    const config *c     = checkpoint_config(m->c);
    uint32_t      rank  = 0;
    uint64_t      bytes = 0;
    *out                = (adapter_room){.list = o->adapters};
    TRY(check_options(o, err));
    TRY(adapters_check(o->adapters, o->n_adapters, m, err));
    for (size_t i = 0; i < o->n_adapters; i++) {
        const adapter *a = o->adapters[i]->a;
        bytes += a->bytes;
        rank = a->max_rank > rank ? a->max_rank : rank;
    }
    out->n     = (uint32_t)o->n_adapters;
    out->slots = o->max_adapters > out->n ? o->max_adapters : out->n;
    if (out->slots > out->n) {
        const uint32_t most = o->max_adapter_rank != 0 ? o->max_adapter_rank : USUAL_RANK;
        bytes += o->adapter_memory != 0 ? o->adapter_memory : (out->slots - out->n) * full_bytes(c, most);
        rank = most > rank ? most : rank;
    }
    out->bytes = bytes;
    if (out->slots > 0) out->limits = limits_of(c, rank, max_rows);
    return WEIR_OK;
}

/* Rows of one run at most, or slots of the experts. */
static uint32_t most_scaled(const lora_limits *l)
{
    return l->max_rows * (l->per_token > 1 ? l->per_token : 1);
}

uint64_t adapters_bytes(const adapter_room *r, uint32_t n_layers)
{
    if (r->slots == 0) return 0;
    const uint64_t rows = (uint64_t)WEIR_MAX_ADAPTERS * r->limits.max_rows, scaled = most_scaled(&r->limits);
    const uint64_t slot = sizeof(weir_adapter *) + sizeof(uint32_t) + sizeof(lora) +
                          WEIR_MAX_ADAPTERS * sizeof(lora_run) + n_layers * sizeof(lora_pair[LORA_TARGETS]);
    return r->bytes + lora_work_bytes(&r->limits) + rows * (sizeof(uint32_t) + sizeof(float)) +
           scaled * (sizeof(float) + sizeof(uint32_t)) + r->slots * slot;
}

static weir_status add(adapter_bank *b, kernels *k, uint32_t slot, const weir_adapter *a, weir_error *err)
{
    TRY(load_lora(&b->loras[slot], k, a->a, err));
    b->of[slot] = a;
    return WEIR_OK;
}

weir_status adapters_open(adapter_bank *b, kernels *k, const adapter_room *r, weir_error *err)
{
    const size_t n = r->slots, rows = (size_t)WEIR_MAX_ADAPTERS * r->limits.max_rows;
    *b = (adapter_bank){.room = *r};
    if (n == 0) return WEIR_OK;
    b->of     = mem_zalloc(n, sizeof *b->of);
    b->users  = mem_zalloc(n, sizeof *b->users);
    b->loras  = mem_zalloc(n, sizeof *b->loras);
    b->runs   = mem_alloc(WEIR_MAX_ADAPTERS * n, sizeof *b->runs);
    b->rows   = mem_alloc(rows + most_scaled(&r->limits), sizeof *b->rows);
    b->scales = mem_alloc(rows + most_scaled(&r->limits), sizeof *b->scales);
    if (b->of == NULL || b->users == NULL || b->loras == NULL || b->runs == NULL || b->rows == NULL ||
        b->scales == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "adapters: out of memory");
    b->n    = r->slots;
    b->step = (lora_step){.runs = b->runs, .scales = b->scales + rows, .slots = b->rows + rows};
    for (uint32_t i = 0; i < r->n; i++) TRY(add(b, k, i, r->list[i], err));
    b->room.list = NULL; /* the caller's, who may be done with it */
    return WEIR_OK;
}

void adapters_close(adapter_bank *b, kernels *k)
{
    for (uint32_t i = 0; i < b->n; i++) load_lora_free(&b->loras[i], k);
    mem_free(b->of);
    mem_free(b->users);
    mem_free(b->loras);
    mem_free(b->runs);
    mem_free(b->rows);
    mem_free(b->scales);
    *b = (adapter_bank){0};
}

/* ---- that come and go ---- */

/* The slot of an adapter, or of NULL a free one; the number of slots: there is none. */
static uint32_t slot_of(const adapter_bank *b, const weir_adapter *a)
{
    uint32_t i = 0;
    while (i < b->n && b->of[i] != a) i++;
    return i;
}

static weir_status check_room(const adapter_bank *b, const weir_adapter *a, weir_error *err)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < b->n; i++) used += b->of[i] != NULL ? b->of[i]->a->bytes : 0;
    if (slot_of(b, NULL) == b->n)
        return status_fail(err, WEIR_NO_MEMORY,
                           "adapter: %s: expected at most %u at once (max_adapters), found one more", a->a->path, b->n);
    if (a->a->max_rank > b->room.limits.max_rank)
        return status_fail(err, WEIR_INVALID, "adapter: %s: expected a rank of at most %u (max_adapter_rank), found %u",
                           a->a->path, b->room.limits.max_rank, a->a->max_rank);
    if (a->a->bytes > b->room.bytes - used)
        return status_fail(err, WEIR_NO_MEMORY,
                           "adapter: %s: %llu bytes are needed, %llu of %llu are left (adapter_memory)", a->a->path,
                           (unsigned long long)a->a->bytes, (unsigned long long)(b->room.bytes - used),
                           (unsigned long long)b->room.bytes);
    return WEIR_OK;
}

weir_status weir_engine_add_adapter(weir_engine *e, const weir_adapter *a, weir_error *err)
{
    adapter_bank *b = &e->adapters;
    TRY(engine_idle(e, "adapter", err));
    TRY(adapters_check(&a, 1, e->source, err));
    if (slot_of(b, a) < b->n)
        return status_fail(err, WEIR_INVALID, "adapter: %s: expected another than those of the engine", a->a->path);
    TRY(check_room(b, a, err));
    return add(b, e->k, slot_of(b, NULL), a, err);
}

weir_status weir_engine_remove_adapter(weir_engine *e, const weir_adapter *a, weir_error *err)
{
    adapter_bank  *b    = &e->adapters;
    const uint32_t slot = a != NULL ? slot_of(b, a) : b->n;
    TRY(engine_idle(e, "adapter", err));
    if (slot == b->n) return status_fail(err, WEIR_INVALID, "adapter: expected one of the engine's, found another");
    if (b->users[slot] > 0)
        return status_fail(err, WEIR_INVALID, "adapter: %s: expected one that nothing uses, found one of %u %s",
                           a->a->path, b->users[slot], "sequences and requests");
    load_lora_free(&b->loras[slot], e->k);
    b->of[slot] = NULL;
    return WEIR_OK;
}

void adapters_hold(adapter_bank *b, const adapter_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) b->users[s->index[i]]++;
}

void adapters_let_go(adapter_bank *b, adapter_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) b->users[s->index[i]]--;
    s->n = 0;
}

/* ---- a choice ---- */

static weir_status add_choice(adapter_set *out, const adapter_bank *b, const weir_adapter_choice *c, weir_error *err)
{
    if (!(fabsf(c->scale) <= 100.0f))
        return status_fail(err, WEIR_INVALID, "adapters: scale: expected -100 to 100, found %g", (double)c->scale);
    const uint32_t slot = c->adapter != NULL ? slot_of(b, c->adapter) : b->n;
    if (slot == b->n) return status_fail(err, WEIR_INVALID, "adapters: expected one of the engine's, found another");
    if (c->scale == 0.0f) return WEIR_OK;
    out->index[out->n]   = slot;
    out->scale[out->n++] = c->scale;
    return WEIR_OK;
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
