/* engine/adapters.h - the adapters of an engine, and which of them the rows of a step have.
 *
 * A sequence has a list of them.  In a step, the rows whose lists have the same adapter at the
 * same place make one run (model/lora.h); runs go by place, so that each row gets its
 * adapters in its own order, whatever the others have. */
#ifndef ENGINE_ADAPTERS_H
#define ENGINE_ADAPTERS_H

#include "load/adapter.h"
#include "state/store_format.h"
#include "weir/engine.h"

struct weir_adapter {
    const weir_model *m;
    adapter          *a;
    uint8_t           hash[STORE_KEY_BYTES];
};

/* A public adapter around a, which it owns from now on, also when this fails. */
weir_status adapter_wrap(weir_adapter **out, const weir_model *m, adapter *a, weir_error *err);

/* A checked choice; those of scale 0 are left out. */
typedef struct adapter_set {
    uint32_t n;
    uint32_t index[WEIR_MAX_ADAPTERS]; /* in the engine's list */
    float    scale[WEIR_MAX_ADAPTERS];
    uint8_t
        origin[STORE_KEY_BYTES]; /* hash of contents, scales and order; all zero without any (state/prefix_tree.h) */
} adapter_set;

/* What an engine has for adapters, as its options say. */
typedef struct adapter_room {
    const weir_adapter *const *list; /* those there from the start; borrowed from the options */
    uint32_t                   n, slots;
    uint64_t                   bytes;  /* of the matrices of all that are there at once */
    lora_limits                limits; /* all zero without slots */
} adapter_room;

/* Those of an engine, on its backend, and the lists of a step. */
typedef struct adapter_bank {
    adapter_room         room;
    uint32_t             n;      /* slots */
    const weir_adapter **of;     /* [n]; NULL: a free slot */
    uint32_t            *users;  /* [n] sequences and requests that chose it */
    lora                *loras;  /* [n] */
    lora_run            *runs;   /* [WEIR_MAX_ADAPTERS * n] */
    uint32_t            *rows;   /* [WEIR_MAX_ADAPTERS * max_rows], and room for the lists of lora_step */
    float               *scales; /* the same */
    lora_step            step;
} adapter_bank;

/* WEIR_INVALID when one of the n is not of m. */
weir_status adapters_check(const weir_adapter *const *list, size_t n, const weir_model *m, weir_error *err);
/* Checks the options about adapters, for steps of max_rows rows. */
weir_status adapters_plan(adapter_room *out, const weir_engine_options *o, const weir_model *m, uint32_t max_rows,
                          weir_error *err);
/* Bytes of the adapters and of a bank with lora_work, for a model of so many layers. */
uint64_t adapters_bytes(const adapter_room *r, uint32_t n_layers);

weir_status adapters_open(adapter_bank *b, kernels *k, const adapter_room *r, weir_error *err);
void        adapters_close(adapter_bank *b, kernels *k); /* all zero is allowed */

/* Checks a choice among those of the bank (NULL allowed with n 0). */
weir_status adapters_choose(adapter_set *out, const adapter_bank *b, const weir_adapter_choice *choices, size_t n,
                            weir_error *err);
/* A sequence or a request begins with the adapters of a set, and has done with them; then the set is empty. */
void adapters_hold(adapter_bank *b, const adapter_set *s);
void adapters_let_go(adapter_bank *b, adapter_set *s);

#endif
