/* state/state_parts.h - the structs behind state.h, for this room. */
#ifndef STATE_STATE_PARTS_H
#define STATE_STATE_PARTS_H

#include "state/state.h"

struct state {
    kernels     *k;
    state_limits limits;
    uint32_t     pages_per_sequence, n_pages;
    k_buf      **tails, **recurrent; /* [delta_layers] */
    k_buf      **keys, **values;     /* [attention_layers] */
    uint32_t    *free_pages;         /* stack */
    uint32_t     n_free_pages;
    uint32_t    *free_slots; /* stack */
    uint32_t     n_free_slots;
};

struct sequence {
    state    *s;
    uint32_t  slot, length, n_pages;
    uint32_t *pages;  /* [pages_per_sequence] */
    uint32_t *tokens; /* [max_positions] */
};

#endif
