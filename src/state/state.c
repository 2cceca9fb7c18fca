/* state/state.c - the memory of all sequences on one backend. */
#include "base/mem.h"
#include "state/state_parts.h"

uint64_t state_kv_bytes_per_position(const state_limits *l)
{
    return state_page_bytes(l) / K_PAGE;
}

static uint64_t slots_of(const state_limits *l)
{
    return (uint64_t)l->max_sequences + l->windows;
}

uint64_t state_recorded_bytes(const state_limits *l)
{
    return (l->channel_bytes + 2 * l->gate_bytes) * l->recorded_rows * l->delta_layers;
}

/* n buffers of `bytes` each. */
static weir_status buffers_new(k_buf ***out, kernels *k, uint32_t n, uint64_t bytes, weir_error *err)
{
    k_buf **list = mem_zalloc(n, sizeof *list);
    if (list == NULL) return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    *out = list;
    for (uint32_t i = 0; i < n; i++) TRY(k->buf_new(k, bytes, &list[i], err));
    return WEIR_OK;
}

static void buffers_free(k_buf **list, kernels *k, uint32_t n)
{
    for (uint32_t i = 0; list != NULL && i < n; i++) k->buf_free(k, list[i]);
    mem_free(list);
}

static weir_status caches_new(state *s, weir_error *err)
{
    const state_limits *l = &s->limits;
    s->caches             = mem_zalloc(l->attention_layers, sizeof *s->caches);
    s->kv                 = mem_alloc(l->attention_layers, sizeof *s->kv);
    if (s->caches == NULL || s->kv == NULL) return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    for (uint32_t i = 0; i < l->attention_layers; i++) {
        k_cache *c = &s->caches[i];
        s->kv[i] = c->form = l->kv[i];
        c->early           = l->early_pages;
        TRY(s->k->buf_new(s->k, plane_bytes(l, c->form.keys), &c->keys, err));
        TRY(s->k->buf_new(s->k, plane_bytes(l, c->form.values), &c->values, err));
    }
    s->limits.kv = s->kv;
    return WEIR_OK;
}

static void caches_free(state *s)
{
    for (uint32_t i = 0; s->caches != NULL && i < s->limits.attention_layers; i++) {
        s->k->buf_free(s->k, s->caches[i].keys);
        s->k->buf_free(s->k, s->caches[i].values);
    }
    mem_free(s->caches);
    mem_free(s->kv);
}

/* A stack of first .. first+n-1 with the lowest on top. */
static uint32_t *stack_new(uint32_t first, uint32_t n)
{
    uint32_t *stack = mem_alloc(n, sizeof *stack);
    for (uint32_t i = 0; stack != NULL && i < n; i++) stack[i] = first + n - 1 - i;
    return stack;
}

static weir_status fill(state *s, weir_error *err)
{
    const state_limits *l = &s->limits;
    const uint32_t      D = l->delta_layers;
    TRY(buffers_new(&s->tails, s->k, D, l->tail_bytes * s->n_slots, err));
    TRY(buffers_new(&s->recurrent, s->k, D, l->recurrent_bytes * s->n_slots, err));
    TRY(caches_new(s, err));
    if (l->carry_bytes > 0) TRY(s->k->buf_new(s->k, l->carry_bytes * s->n_slots, &s->carry, err));
    if (l->recorded_rows > 0) {
        TRY(buffers_new(&s->recorded_qkv, s->k, D, l->channel_bytes * l->recorded_rows, err));
        TRY(buffers_new(&s->recorded_a, s->k, D, l->gate_bytes * l->recorded_rows, err));
        TRY(buffers_new(&s->recorded_b, s->k, D, l->gate_bytes * l->recorded_rows, err));
    }
    s->free_pages = stack_new(l->early_pages, l->pages - l->early_pages);
    s->free_early = stack_new(0, l->early_pages);
    s->page_refs  = mem_zalloc(l->pages, sizeof *s->page_refs);
    s->free_slots = stack_new(0, s->n_slots);
    s->recorded   = mem_alloc(l->recorded_rows, sizeof *s->recorded);
    if (s->free_pages == NULL || s->free_early == NULL || s->page_refs == NULL || s->free_slots == NULL ||
        s->recorded == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    s->n_free_pages = l->pages - l->early_pages;
    s->n_free_early = l->early_pages;
    s->n_free_slots = s->n_slots;
    return WEIR_OK;
}

/* Positions and slots are counted in 32 bits. */
static weir_status check_limits(const state_limits *l, weir_error *err)
{
    if (l->pages > UINT32_MAX / K_PAGE || l->max_positions > UINT32_MAX - K_PAGE)
        return status_fail(err, WEIR_INVALID,
                           "state: expected fewer than 2^32 positions, found %u pages and %u positions", l->pages,
                           l->max_positions);
    if (slots_of(l) > UINT32_MAX)
        return status_fail(err, WEIR_INVALID,
                           "state: expected fewer than 2^32 slots, found %u sequences and %u windows", l->max_sequences,
                           l->windows);
    return WEIR_OK;
}

weir_status state_new(state **out, kernels *k, const state_limits *limits, weir_error *err)
{
    *out = NULL;
    TRY(check_limits(limits, err));
    state *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    s->k                 = k;
    s->limits            = *limits;
    s->n_slots           = limits->max_sequences + limits->windows;
    const weir_status st = fill(s, err);
    if (st != WEIR_OK)
        state_free(s);
    else
        *out = s;
    return st;
}

void state_free(state *s)
{
    if (s == NULL) return;
    const uint32_t D = s->limits.delta_layers;
    buffers_free(s->tails, s->k, D);
    buffers_free(s->recurrent, s->k, D);
    caches_free(s);
    buffers_free(s->recorded_qkv, s->k, D);
    buffers_free(s->recorded_a, s->k, D);
    buffers_free(s->recorded_b, s->k, D);
    s->k->buf_free(s->k, s->carry);
    mem_free(s->free_pages);
    mem_free(s->free_early);
    mem_free(s->page_refs);
    mem_free(s->free_slots);
    mem_free(s->recorded);
    mem_free(s);
}

uint64_t state_size(const state *s)
{
    return state_bytes_per_sequence(&s->limits);
}

k_buf *state_tail(const state *s, uint32_t i)
{
    return s->tails[i];
}

k_buf *state_recurrent(const state *s, uint32_t i)
{
    return s->recurrent[i];
}

const k_cache *state_cache(const state *s, uint32_t i)
{
    return &s->caches[i];
}

k_buf *state_carry(const state *s)
{
    return s->carry;
}
