/* model/work.c - the buffers of a step. */
#include "model/model.h"

#include <string.h>

enum { X, H, O, LOGITS, HIDDEN, DRAFTED, WIDE0, WIDE1, WIDE2, WIDE3, SMALL0, SMALL1, BUFFERS };

static uint64_t max2(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Floats of every buffer; 0: there is none. */
static void sizes_of(uint64_t size[BUFFERS], const model_config *c, const work_limits *l)
{
    const uint64_t           rows = l->max_rows, mtp = c->mtp ? c->hidden_size : 0;
    const k_delta_shape     *d = &c->delta;
    const k_attention_shape *a = &c->attention;
    const uint64_t           V = (uint64_t)d->value_heads * d->value_dim, C = k_delta_channels(d);
    const uint64_t           q = (uint64_t)a->heads * a->head_dim, kv = (uint64_t)a->kv_heads * a->head_dim;
    const uint64_t           k = c->experts_per_token,
                   inner       = max2(max2(c->intermediate_size, c->shared_size), k * c->expert_size);
    size[X] = size[H] = size[O] = rows * c->hidden_size;
    size[LOGITS]                = (uint64_t)l->max_wanted * c->vocab_size;
    size[HIDDEN]                = rows * mtp;
    size[DRAFTED]               = rows * mtp;
    size[WIDE0]                 = rows * max2(max2(C, 2 * q), max2(inner, 2 * mtp));
    size[WIDE1]                 = rows * max2(max2(C, kv), inner);
    size[WIDE2]                 = rows * max2(max2(V, kv), k * c->hidden_size);
    size[WIDE3]                 = rows * max2(max2(V, q), k > 0 ? c->hidden_size : 0);
    size[SMALL0]                = rows * max2(d->value_heads, c->n_experts);
    size[SMALL1]                = rows * d->value_heads;
}

uint64_t work_bytes(const model_config *c, const work_limits *l)
{
    uint64_t size[BUFFERS], sum = 0;
    sizes_of(size, c, l);
    for (int i = 0; i < BUFFERS; i++) sum += size[i] * sizeof(float);
    return sum;
}

weir_status work_new(work *w, kernels *k, const model_config *c, const work_limits *l, weir_error *err)
{
    uint64_t size[BUFFERS];
    memset(w, 0, sizeof *w);
    sizes_of(size, c, l);
    _Static_assert(BUFFERS == sizeof w->owned / sizeof *w->owned, "one owner for every buffer");
    for (int i = 0; i < BUFFERS; i++) {
        if (size[i] == 0) continue;
        const weir_status st = k->buf_new(k, size[i] * sizeof(float), &w->owned[i], err);
        if (st != WEIR_OK) {
            work_free(w, k);
            return st;
        }
    }
    w->x       = w->owned[X];
    w->h       = w->owned[H];
    w->o       = w->owned[O];
    w->logits  = w->owned[LOGITS];
    w->hidden  = w->owned[HIDDEN];
    w->drafted = w->owned[DRAFTED];
    w->qkv = w->qg = w->gate = w->slot_gate = w->pair = w->owned[WIDE0];
    w->conv = w->keys = w->up = w->slot_up = w->owned[WIDE1];
    w->z = w->values = w->slot_out = w->owned[WIDE2];
    w->y = w->attended = w->shared = w->owned[WIDE3];
    w->a = w->router = w->owned[SMALL0];
    w->b = w->shared_gate = w->owned[SMALL1];
    return WEIR_OK;
}

void work_free(work *w, kernels *k)
{
    for (int i = 0; i < BUFFERS; i++) k->buf_free(k, w->owned[i]);
    memset(w, 0, sizeof *w);
}
