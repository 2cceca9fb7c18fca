/* cli/calibration.c - see calibration.h. */
#include "cli/calibration.h"

#include "base/mem.h"
#include "base/status.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "weir/experimental.h"

/* A pass over the text for the model as it is, then one a module. */
typedef struct measuring {
    weir_sensitivity *s;
    progress          bar;
    uint32_t          done, total; /* modules; total 0: not known yet */
} measuring;

static bool on_tokens(void *user, uint32_t done, uint32_t total)
{
    measuring *m = user;
    if (m->total > 0) progress_show(&m->bar, (double)m->done + (double)done / (double)total, (double)m->total);
    return !terminal_interrupted();
}

static bool on_module(void *user, uint32_t done, uint32_t total)
{
    measuring *m = user;
    m->done      = done;
    m->total     = total;
    progress_show(&m->bar, (double)done, (double)total);
    return !terminal_interrupted();
}

static weir_status damage(void *user, const weir_quantized_module *q, double *out, weir_error *err)
{
    measuring *m = user;
    return weir_sensitivity_of(m->s, q, out, err);
}

static weir_status allocate(const options *o, const char *source, const char *recipe_file, const uint32_t *ids,
                            const weir_model *model, calibration *out, weir_error *err)
{
    measuring           m   = {0};
    weir_engine_options e   = WEIR_ENGINE_OPTIONS_INIT;
    e.device                = o->device;
    e.isa                   = o->isa;
    e.threads               = o->threads;
    e.memory_limit          = (uint64_t)(o->memory * 1e9);
    weir_allocate_options a = WEIR_ALLOCATE_OPTIONS_INIT;
    a.bits_per_weight       = o->bpw;
    a.group                 = o->group;
    a.recipe                = o->recipe;
    a.threads               = o->threads;
    a.damage                = damage;
    a.on_progress           = on_module;
    a.user                  = &m;
    progress_start(&m.bar, "measuring");
    weir_status st = weir_sensitivity_open(&m.s, model, ids, out->tokens, &e, on_tokens, &m, err);
    if (st == WEIR_OK) st = weir_quantize_allocate(source, recipe_file, &a, &out->result, err);
    progress_end(&m.bar);
    weir_sensitivity_close(m.s);
    return st;
}

weir_status calibration_run(const options *o, const char *source, const char *recipe_file, calibration *out,
                            weir_error *err)
{
    weir_model *model;
    uint32_t   *ids = NULL;
    size_t      n   = 0;
    *out            = (calibration){0};
    TRY(weir_model_open(&model, source, err));
    weir_status st =
        o->ids != NULL ? input_ids(model, o->ids, &ids, &n, err) : input_text(model, o->calibration, &ids, &n, err);
    out->tokens = n < CALIBRATION_TOKENS ? (uint32_t)n : CALIBRATION_TOKENS;
    if (st == WEIR_OK) st = allocate(o, source, recipe_file, ids, model, out, err);
    mem_free(ids);
    weir_model_close(model);
    return st;
}
