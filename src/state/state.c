/* state/state.c - the memory of all sequences on one backend. */
#include "base/mem.h"
#include "state/state_parts.h"

uint64_t state_kv_bytes_per_position(const state_limits *l)
{
    return 2 * l->page_bytes / K_PAGE * l->attention_layers;
}

uint64_t state_bytes_per_sequence(const state_limits *l)
{
    return (l->tail_bytes + l->recurrent_bytes) * l->delta_layers;
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

/* A stack of 0 .. n-1 with the lowest on top. */
static uint32_t *stack_new(uint32_t n)
{
    uint32_t *stack = mem_alloc(n, sizeof *stack);
    for (uint32_t i = 0; stack != NULL && i < n; i++) stack[i] = n - 1 - i;
    return stack;
}

static weir_status fill(state *s, weir_error *err)
{
    const state_limits *l = &s->limits;
    TRY(buffers_new(&s->tails, s->k, l->delta_layers, l->tail_bytes * l->max_sequences, err));
    TRY(buffers_new(&s->recurrent, s->k, l->delta_layers, l->recurrent_bytes * l->max_sequences, err));
    TRY(buffers_new(&s->keys, s->k, l->attention_layers, l->page_bytes * s->n_pages, err));
    TRY(buffers_new(&s->values, s->k, l->attention_layers, l->page_bytes * s->n_pages, err));
    s->free_pages = stack_new(s->n_pages);
    s->free_slots = stack_new(l->max_sequences);
    if (s->free_pages == NULL || s->free_slots == NULL) return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    s->n_free_pages = s->n_pages;
    s->n_free_slots = l->max_sequences;
    return WEIR_OK;
}

weir_status state_new(state **out, kernels *k, const state_limits *limits, weir_error *err)
{
    *out     = NULL;
    state *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "state: out of memory");
    s->k                  = k;
    s->limits             = *limits;
    s->pages_per_sequence = (limits->max_positions + K_PAGE - 1) / K_PAGE;
    const uint64_t pages  = (uint64_t)s->pages_per_sequence * limits->max_sequences;
    weir_status    st     = WEIR_OK;
    if (pages > UINT32_MAX)
        st = status_fail(err, WEIR_INVALID, "max_context * max_sequences: expected less than 2^38 positions");
    s->n_pages = (uint32_t)pages;
    if (st == WEIR_OK) st = fill(s, err);
    if (st != WEIR_OK) {
        state_free(s);
        return st;
    }
    *out = s;
    return WEIR_OK;
}

void state_free(state *s)
{
    if (s == NULL) return;
    buffers_free(s->tails, s->k, s->limits.delta_layers);
    buffers_free(s->recurrent, s->k, s->limits.delta_layers);
    buffers_free(s->keys, s->k, s->limits.attention_layers);
    buffers_free(s->values, s->k, s->limits.attention_layers);
    mem_free(s->free_pages);
    mem_free(s->free_slots);
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

k_buf *state_keys(const state *s, uint32_t i)
{
    return s->keys[i];
}

k_buf *state_values(const state *s, uint32_t i)
{
    return s->values[i];
}
