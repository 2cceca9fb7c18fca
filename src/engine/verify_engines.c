/* engine/verify_engines.c - the engines that schedules run on.
 *
 * An engine has the most of everything that a schedule may want; a schedule
 * then uses less of it. */
#include "engine/verify_parts.h"

/* Engines that are not in use are closed when all together take more. */
static const uint64_t engine_bytes_most = 2ull << 30;

/* The adapters that all engines have. */
static void list_adapters(weir_engine_options *o, const verifier *v)
{
    o->adapters   = (const weir_adapter *const *)v->adapters;
    o->n_adapters = VERIFY_ADAPTERS;
}

static weir_engine_options options_of(const verifier *v, draft_source draft)
{
    static const char *const sources[] = {
        [DRAFT_OFF] = "off", [DRAFT_MTP] = "mtp", [DRAFT_NGRAM] = "ngram", [DRAFT_MODEL] = "model"};
    weir_engine_options o = WEIR_ENGINE_OPTIONS_INIT;
    o.kv                  = v->opt.kv;
    o.kv_config           = v->opt.kv_config;
    o.kv_start            = v->opt.kv_start;
    o.max_context         = v->opt.max_length + VERIFY_DETOUR;
    o.max_sequences       = v->sequences;
    o.chunk               = VERIFY_CHUNK;
    o.cache_memory        = v->cache_memory;
    o.draft               = sources[draft];
    o.draft_model         = draft == DRAFT_MODEL ? v->m : NULL;
    o.max_drafts          = draft == DRAFT_OFF ? 0 : VERIFY_DRAFTS;
    list_adapters(&o, v);
    return o;
}

weir_status verify_engines_plan(verifier *v, weir_error *err)
{
    weir_fit fit;
    v->sequences = VERIFY_SEQUENCES;
    for (;;) {
        const weir_engine_options o = options_of(v, DRAFT_MODEL);
        TRY(weir_engine_fit(v->m, &o, &fit, err));
        v->may_draft_itself = fit.fits;
        if (fit.fits || v->sequences == 1) break;
        v->sequences--;
    }
    /* What budget.c wants for a snapshot and its pages. */
    v->cache_memory          = VERIFY_SNAPSHOTS * (fit.snapshot_bytes + 1024 * fit.kv_bytes_per_token);
    weir_engine_options dull = WEIR_ENGINE_OPTIONS_INIT;
    dull.isa                 = v->isas[0];
    dull.threads             = 1;
    dull.kv                  = v->opt.kv;
    dull.kv_config           = v->opt.kv_config;
    dull.kv_start            = v->opt.kv_start;
    dull.max_context         = v->opt.max_length + VERIFY_DETOUR;
    list_adapters(&dull, v);
    return weir_engine_open(&v->dull, v->m, &dull, err);
}

static void close_one(verifier *v, verify_engine *x)
{
    weir_engine_close(x->e);
    v->engine_bytes -= x->bytes;
    *x = (verify_engine){0};
}

/* The open engine that was not used for longest, other than `keep`; NULL: none is open. */
static verify_engine *oldest(verifier *v, const verify_engine *keep)
{
    verify_engine *best = NULL, *all = &v->engines[0][0][0];
    for (size_t i = 0; i < sizeof v->engines / sizeof *all; i++)
        if (all[i].e != NULL && &all[i] != keep && (best == NULL || all[i].used < best->used)) best = &all[i];
    return best;
}

static verify_engine *place_of(verifier *v, const verify_schedule *c)
{
    return &v->engines[c->draft][c->isa][c->threads - 1];
}

/* Others may be closed for it, but not `keep`: when that is in the way none is opened. */
static weir_status open_one(verifier *v, verify_engine *x, const verify_schedule *c, const verify_engine *keep,
                            weir_error *err)
{
    weir_fit            fit;
    weir_engine_options o = options_of(v, c->draft);
    o.isa                 = v->isas[c->isa];
    o.threads             = c->threads;
    TRY(weir_engine_fit(v->m, &o, &fit, err));
    /* Weights are mapped, and shared by all. */
    const uint64_t bytes = fit.total_bytes > fit.weights_bytes ? fit.total_bytes - fit.weights_bytes : 0;
    for (verify_engine *old; v->engine_bytes + bytes > engine_bytes_most && (old = oldest(v, keep)) != NULL;)
        close_one(v, old);
    if (keep != NULL && v->engine_bytes + bytes > engine_bytes_most) return WEIR_OK;
    TRY(weir_engine_open(&x->e, v->m, &o, err));
    x->bytes = bytes;
    v->engine_bytes += bytes;
    return WEIR_OK;
}

/* The engine at x as the schedule wants it. */
static weir_engine *set_up(verifier *v, verify_engine *x, const verify_schedule *c)
{
    weir_engine *e     = x->e;
    x->used            = ++v->engine_uses;
    e->info.chunk      = c->chunk;
    e->info.max_drafts = c->max_drafts;
    e->fixed_drafts    = c->fixed_drafts;
    e->m.mtp_pre_norm  = c->pre_norm;
    return e;
}

static weir_status new_cache(verifier *v, weir_engine *e, const verify_schedule *c, weir_error *err)
{
    prefix_tree_free(e->cache);
    TRY(prefix_tree_new(&e->cache, e->st, c->snapshots, err));
    if (!c->disk || v->files.denied) return WEIR_OK;
    return prefix_tree_open_disk(e->cache, v->files.cache, e->identity, v->cache_memory, err);
}

weir_status verify_engine_for(verifier *v, const verify_schedule *c, weir_engine **out, weir_error *err)
{
    verify_engine *x = place_of(v, c);
    if (x->e == NULL) TRY(open_one(v, x, c, NULL, err));
    *out = set_up(v, x, c);
    if (c->disk) (void)verify_files_ready(v);
    /* Every schedule finds the cache empty, so that it can be repeated. */
    weir_error        own;
    const weir_status st = new_cache(v, x->e, c, &own);
    if (st == WEIR_IO) {
        verify_files_deny(v, own.text);
        return new_cache(v, x->e, c, err);
    }
    return st == WEIR_OK ? st : status_fail(err, st, "%s", own.text);
}

weir_status verify_engine_restart(verifier *v, weir_engine *e, const verify_schedule *c, weir_error *err)
{
    if (!c->disk || v->files.denied) return WEIR_OK;
    (void)prefix_tree_flush(e->cache); /* what a full disk does not take is no hit later */
    return new_cache(v, e, c, err);
}

weir_status verify_engine_beside(verifier *v, const verify_schedule *c, const verify_op *op, weir_engine **out,
                                 weir_error *err)
{
    verify_schedule other = *c;
    other.isa             = op->isa;
    other.threads         = op->threads;
    other.chunk           = (op->n + 1) / 2;
    verify_engine *here = place_of(v, c), *x = place_of(v, &other);
    *out = NULL;
    if (x == here) return WEIR_OK;
    if (x->e == NULL) TRY(open_one(v, x, &other, here, err));
    if (x->e != NULL) *out = set_up(v, x, &other);
    return WEIR_OK;
}

void verify_engine_leave(weir_engine *e, const verify_schedule *c)
{
    if (!c->disk) return;
    prefix_tree_free(e->cache);
    e->cache = NULL;
}

void verify_engine_drop(verifier *v, const verify_schedule *c)
{
    verify_engine *x = place_of(v, c);
    if (x->e != NULL) close_one(v, x);
}

void verify_engines_close(verifier *v)
{
    for (verify_engine *x; (x = oldest(v, NULL)) != NULL;) close_one(v, x);
    weir_engine_close(v->dull);
}
