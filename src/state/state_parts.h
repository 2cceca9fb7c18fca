/* state/state_parts.h - the structs behind state.h, for this room. */
#ifndef STATE_STATE_PARTS_H
#define STATE_STATE_PARTS_H

#include "state/state.h"

struct state {
    kernels     *k;
    state_limits limits;
    uint32_t     n_slots;
    k_buf      **tails, **recurrent; /* [delta_layers] */
    k_cache     *caches;             /* [attention_layers] */
    k_kv_layer  *kv;                 /* the copy that limits.kv points to */
    k_buf       *carry;

    uint32_t         *page_refs;               /* [limits.pages] holders of each */
    uint32_t         *free_pages, *free_early; /* stacks; early pages are 0 .. limits.early_pages-1 */
    uint32_t          n_free_pages, n_free_early;
    uint32_t          n_promised; /* pages that are not early; of these there are always enough */
    state_reclaim_fn *reclaim;
    void             *reclaim_user;

    uint32_t *free_slots; /* stack */
    uint32_t  n_free_slots, n_sequences;

    k_buf   **recorded_qkv, **recorded_a, **recorded_b; /* [delta_layers] */
    uint32_t *recorded;                                 /* [recorded_rows] rows of the step */
    uint32_t  n_recorded;
};

struct sequence {
    state    *s;
    uint32_t  slot, length, n_pages, promised; /* promised: pages */
    uint32_t  limit;                           /* of length: what the promise and max_positions allow */
    uint32_t  record_row;                      /* of the window in flight, in the recorded inputs */
    uint32_t  home_slot, home_length;          /* before a detour */
    bool      aside;                           /* on one */
    uint32_t *pages;                           /* [promised] */
    uint32_t *tokens;                          /* [limit] */
};

/* Bytes of all keys (or values) in a layer of that form. */
uint64_t plane_bytes(const state_limits *l, k_kv_form form);

/* Pages of `positions` that are promised one by one: those behind the early ones. */
uint32_t late_pages(const state_limits *l, uint32_t positions);

/* Makes *page one that the caller alone holds, by copying it if need be. */
void page_own(state *s, uint32_t *page);

/* A slot's tails, recurrent states and carry: zeroed, copied, and as bytes. */
void slot_zero(state *s, uint32_t slot);
void slot_copy(state *s, uint32_t to, uint32_t from);
void slot_read(const state *s, uint32_t slot, void *to);
void slot_write(state *s, uint32_t slot, const void *from);

#endif
