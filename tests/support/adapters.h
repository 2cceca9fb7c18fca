/* tests/support/adapters.h - small random LoRA adapters for a model, as folders. */
#ifndef SUPPORT_ADAPTERS_H
#define SUPPORT_ADAPTERS_H

#include "weir/adapter.h"

#include <stdbool.h>

typedef struct adapter_recipe {
    bool        mlx;  /* else PEFT; the numbers are the same */
    bool        bf16; /* else F32 */
    uint64_t    seed;
    uint32_t    rank;
    double      scale; /* what B (A x) is multiplied with */
    const char *only;  /* modules whose name has this; NULL: all projections */
} adapter_recipe;

/* Writes the adapter into the folder `dir`.  Its modules are the matrices "*_proj*" that the
 * checkpoint has outside of MTP, the vision tower and the experts, in its shapes; at least one. */
void adapter_make(const char *dir, const weir_model *m, const adapter_recipe *r);

/* Makes it in a temporary folder, opens it, and removes the folder. */
weir_adapter *adapter_made(const weir_model *m, const adapter_recipe *r);

/* A copy of the checkpoint in folder `dir` with all weights as F32. */
void checkpoint_widen(const char *dir, const weir_model *m);

#endif
