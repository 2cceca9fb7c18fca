/* engine/adapters.h - the adapters of an engine, and which of them the rows of a step have.
 *
 * A sequence has a list of them.  In a step, the rows whose lists have the same adapter at the
 * same place make one run (model/lora.h); runs go by place, so that each row gets its
 * adapters in its own order, whatever the others have. */
#ifndef ENGINE_ADAPTERS_H
#define ENGINE_ADAPTERS_H

#include "load/adapter.h"
#include "state/store_format.h"
#include "weir/adapter.h"

struct weir_adapter {
    const weir_model *m;
    adapter          *a;
    uint8_t           hash[STORE_KEY_BYTES];
};

/* A checked choice; those of scale 0 are left out. */
typedef struct adapter_set {
    uint32_t n;
    uint32_t index[WEIR_MAX_ADAPTERS]; /* in the engine's list */
    float    scale[WEIR_MAX_ADAPTERS];
    uint8_t
        origin[STORE_KEY_BYTES]; /* hash of contents, scales and order; all zero without any (state/prefix_tree.h) */
} adapter_set;

/* Those of an engine, on its backend, and the lists of a step. */
typedef struct adapter_bank {
    uint32_t             n;
    const weir_adapter **of;     /* [n] */
    lora                *loras;  /* [n] */
    lora_run            *runs;   /* [WEIR_MAX_ADAPTERS * n] */
    uint32_t            *rows;   /* [WEIR_MAX_ADAPTERS * max_rows] */
    float               *scales; /* the same, and max_rows more for lora_step */
    lora_step            step;
} adapter_bank;

/* WEIR_INVALID when one of the n is not of m. */
weir_status adapters_check(const weir_adapter *const *list, size_t n, const weir_model *m, weir_error *err);
/* What n adapters need of a step of max_rows rows; all zero without any. */
lora_limits adapters_limits(const weir_adapter *const *list, size_t n, uint32_t max_rows);
/* Bytes of the adapters and of a bank with lora_work. */
uint64_t adapters_bytes(const weir_adapter *const *list, size_t n, uint32_t max_rows);

weir_status adapters_open(adapter_bank *b, kernels *k, const weir_adapter *const *list, size_t n, uint32_t max_rows,
                          weir_error *err);
void        adapters_close(adapter_bank *b, kernels *k); /* all zero is allowed */

/* Checks a choice among those of the bank (NULL allowed with n 0). */
weir_status adapters_choose(adapter_set *out, const adapter_bank *b, const weir_adapter_choice *choices, size_t n,
                            weir_error *err);

#endif
