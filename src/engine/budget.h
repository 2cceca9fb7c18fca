/* engine/budget.h - what an engine's options come to: sizes, and bytes.
 *
 * One formula for weir_engine_fit and for admission in weir_engine_open. */
#ifndef ENGINE_BUDGET_H
#define ENGINE_BUDGET_H

#include "engine/engine_parts.h"
#include "engine/kv_forms.h"

/* The options with every default filled in, and the sizes they lead to. */
typedef struct plan {
    weir_engine_options opt;
    draft_source        draft;
    kv_forms            kv; /* state.kv points into it: a plan is not copied */
    model_config        config;
    adapter_room        adapters;
    state_limits        state;
    uint32_t            decode_rows; /* of a step: last tokens of replies and drafts */
    uint32_t            max_rows;    /* decode_rows + chunk */
    uint32_t            snapshots;   /* of the prefix cache */
    uint64_t            budget;      /* bytes; what memory_limit or the machine allows */
} plan;

/* Checks the options.  Fails with the one that is wrong and what it may be. */
weir_status plan_make(plan *p, const weir_model *m, const weir_engine_options *opt, weir_error *err);
/* An engine by a plan that plan_make made. */
weir_status engine_open(weir_engine **out, const weir_model *m, plan *p, weir_error *err);
/* Fills in what depends on memory (max_context, pages, cache) and says what it costs. */
weir_status plan_fit(plan *p, const weir_model *m, const kernels *k, weir_fit *out, weir_error *err);

k_limits    plan_kernel_limits(const plan *p, uint32_t max_positions, const double *inv_freq, float rope_scale);
work_limits plan_work_limits(const plan *p);
/* The plan of the engine that runs the draft model. */
weir_status plan_drafter(plan *out, const plan *p, weir_error *err);

#endif
