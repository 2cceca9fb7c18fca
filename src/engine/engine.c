/* engine/engine.c - weir/engine.h: a model made ready on one device. */
#include "base/log.h"
#include "base/mem.h"
#include "engine/batch.h"
#include "engine/budget.h"
#include "engine/draft.h"
#include "engine/identity.h"
#include "engine/schedule.h"
#include "engine/sequence_parts.h"
#include "kernels/open.h"
#include "weir/experimental.h"

enum { MAX_ROTARY = 1024 };

static weir_status check_fit(const plan *p, const weir_fit *fit, weir_error *err)
{
    if (fit->fits) return WEIR_OK;
    if (fit->max_context == 0)
        return status_fail(err, WEIR_NO_MEMORY,
                           "%llu bytes are needed, of them %llu for weights; %llu are allowed, which is too little for "
                           "any context",
                           (unsigned long long)fit->total_bytes, (unsigned long long)fit->weights_bytes,
                           (unsigned long long)p->budget);
    return status_fail(err, WEIR_NO_MEMORY,
                       "max_context %u: %llu bytes are needed, %llu are allowed; the longest context that fits is %u",
                       p->opt.max_context, (unsigned long long)fit->total_bytes, (unsigned long long)p->budget,
                       fit->max_context);
}

static weir_status build_backend(weir_engine *e, const plan *p, weir_error *err)
{
    const checkpoint *c = e->source->c;
    double            inv_freq[MAX_ROTARY / 2];
    float             rope_scale;
    TRY(load_rope(checkpoint_config(c), inv_freq, &rope_scale, err));
    const k_limits    limits = plan_kernel_limits(p, p->opt.max_context, inv_freq, rope_scale);
    const work_limits rows   = plan_work_limits(p);
    TRY(e->k->reserve(e->k, &limits, err));
    TRY(state_new(&e->st, e->k, &p->state, err));
    TRY(load_model(&e->m, e->k, c, p->config.mtp, err));
    e->m.mtp_pre_norm = p->opt.mtp_pre_norm;
    TRY(work_new(&e->w, e->k, &p->config, &rows, err));
    TRY(lora_work_new(&e->w.adapted, e->k, &p->adapters.limits, err));
    return adapters_open(&e->adapters, e->k, &p->adapters, err);
}

static weir_status open_cache(weir_engine *e, const plan *p, weir_error *err)
{
    e->page_bytes       = state_page_bytes(&p->state);
    e->early_page_bytes = state_page_bytes_at(&p->state, 0);
    e->early_pages      = p->state.early;
    TRY(identity_of(e->identity, p, e->source, e->k->name, err));
    if (p->snapshots == 0 && p->opt.cache_dir != NULL)
        log_line(WEIR_LOG_WARN, "cache_dir: there is no memory for a prefix cache, so nothing is kept on disk");
    if (p->snapshots == 0) return WEIR_OK;
    TRY(prefix_tree_new(&e->cache, e->st, p->snapshots, err));
    if (p->opt.cache_dir == NULL) return WEIR_OK;
    return prefix_tree_open_disk(e->cache, p->opt.cache_dir, e->identity, p->opt.cache_disk, err);
}

static weir_status build_host(weir_engine *e, const plan *p, weir_error *err)
{
    const uint32_t vocab = p->config.vocab_size, n_rows = plan_work_limits(p).max_rows;
    TRY(batch_new(&e->batch, p->opt.max_sequences, p->max_rows, err));
    e->chain         = mem_alloc(p->opt.max_sequences, sizeof *e->chain);
    e->rows          = mem_alloc(n_rows, sizeof *e->rows);
    e->sample_memory = mem_aligned(sample_workspace_bytes(vocab), 1);
    if (e->chain == NULL || e->rows == NULL || e->sample_memory == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "engine: out of memory");
    for (uint32_t i = 0; i < n_rows; i++) e->rows[i] = i;
    sample_workspace_init(&e->sampler, e->sample_memory, vocab);
    TRY(open_cache(e, p, err));
    const tokenizer *tok = e->source->tok;
    if (tok == NULL || !tokenizer_id(tok, "<|im_start|>", &e->message_start)) e->message_start = UINT32_MAX;
    return WEIR_OK;
}

static weir_status build(weir_engine *e, plan *p, weir_error *err)
{
    weir_fit fit;
    TRY(kernels_open(&e->k, p->opt.device, p->opt.threads, p->opt.isa, err));
    TRY(plan_fit(p, e->source, e->k, &fit, err));
    TRY(check_fit(p, &fit, err));
    TRY(build_backend(e, p, err));
    TRY(build_host(e, p, err));
    kv_forms_name(e->kv_name, &p->kv);
    e->cache_limit  = fit.cache_bytes;
    e->draft        = p->draft;
    e->fixed_drafts = p->opt.fixed_drafts;
    e->decode_rows  = p->decode_rows;
    e->info         = (weir_engine_info){.device        = e->k->name,
                                         .isa           = e->k->isa,
                                         .kv            = e->kv_name,
                                         .threads       = e->k->threads(e->k),
                                         .max_context   = p->opt.max_context,
                                         .max_sequences = p->opt.max_sequences,
                                         .chunk         = p->opt.chunk,
                                         .pool_context  = (uint64_t)p->state.pages * K_PAGE,
                                         .draft         = draft_source_name(p->draft),
                                         .max_drafts    = p->opt.max_drafts};
    return draft_open(e, p, err);
}

weir_status engine_open(weir_engine **out, const weir_model *m, plan *p, weir_error *err)
{
    weir_engine *e = mem_zalloc(1, sizeof *e);
    if (e == NULL) return status_fail(err, WEIR_NO_MEMORY, "engine: out of memory");
    e->source            = m;
    const weir_status st = build(e, p, err);
    if (st != WEIR_OK)
        weir_engine_close(e);
    else
        *out = e;
    return st;
}

weir_status weir_engine_open(weir_engine **out, const weir_model *m, const weir_engine_options *opt, weir_error *err)
{
    *out = NULL;
    plan p;
    TRY(plan_make(&p, m, opt, err));
    return engine_open(out, m, &p, err);
}

void weir_engine_close(weir_engine *e)
{
    if (e == NULL) return;
    draft_close(e);
    if (e->cache != NULL) (void)prefix_tree_flush(e->cache);
    if (e->k != NULL) {
        prefix_tree_free(e->cache);
        adapters_close(&e->adapters, e->k);
        lora_work_free(&e->w.adapted, e->k);
        work_free(&e->w, e->k);
        load_free(&e->m, e->k);
        state_free(e->st);
        e->k->close(e->k);
    }
    batch_free(&e->batch);
    mem_free(e->chain);
    mem_free(e->rows);
    mem_free(e->sample_memory);
    mem_free(e);
}

weir_status weir_engine_flush(weir_engine *e, weir_error *err)
{
    TRY(engine_idle(e, "flush", err));
    if (e->cache == NULL || prefix_tree_flush(e->cache)) return WEIR_OK;
    return status_fail(err, WEIR_IO, "cache_dir: not everything could be written; the log says why");
}

void weir_engine_get_info(const weir_engine *e, weir_engine_info *out)
{
    *out = e->info;
}

weir_status weir_measure_floor(uint32_t threads, const char *isa, double *read_gbps, double *fma_gflops,
                               weir_error *err)
{
    return kernels_floor(threads, isa, read_gbps, fma_gflops, err);
}
