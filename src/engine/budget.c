/* engine/budget.c - see budget.h. */
#include "engine/budget.h"

#include "engine/batch.h"
#include "engine/draft_length.h"
#include "engine/kv_config.h"
#include "engine/ngram.h"
#include "kernels/open.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_CHUNK = 256, MAX_CHUNK = 8192, MAX_CONTEXT = 1 << 23, MAX_SEQUENCES = 4096, MAX_DRAFTS = DRAFT_MAX };
/* Rows for replies in one step: beyond it there are no drafts. */
enum { MAX_DECODE_ROWS = DRAFT_MAX_ROWS };
/* The prefix cache gets pages for so many tokens per snapshot. */
enum { TOKENS_PER_SNAPSHOT = 1024 };
static const uint64_t auto_cache_most = 8ull << 30, default_cache_disk = 32ull << 30;

/* What the machine has, or the container's share of it. */
static uint64_t machine_memory(void)
{
    const long         pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t           bytes = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    FILE              *f     = fopen("/sys/fs/cgroup/memory.max", "re");
    unsigned long long limit;
    if (f != NULL && fscanf(f, "%llu", &limit) == 1 && limit < bytes) bytes = limit; /* "max" is no number */
    if (f != NULL) (void)fclose(f);
    return bytes;
}

/* Sums and products that stop at the top instead of wrapping. */
static uint64_t add64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
static uint64_t mul64(uint64_t a, uint64_t b)
{
    uint64_t p;
    return __builtin_mul_overflow(a, b, &p) ? UINT64_MAX : p;
}
static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t pages_of(uint64_t positions)
{
    return (positions + K_PAGE - 1) / K_PAGE;
}

/* ---- the options ---- */

static weir_status range(const char *name, uint64_t value, uint64_t max, weir_error *err)
{
    if (value <= max) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s: expected at most %llu, found %llu", name, (unsigned long long)max,
                       (unsigned long long)value);
}

/* What is said wins over the file of the model's directory. */
static weir_status read_kv(plan *p, const weir_model *m, weir_error *err)
{
    const char *name = p->opt.kv, *file = p->opt.kv_config;
    if (name != NULL && file != NULL)
        return status_fail(err, WEIR_INVALID, "kv: expected either a form or a kv_config, found both");
    if (name == NULL && file == NULL) file = m->kv_config;
    if (file != NULL) return kv_config_load(&p->kv, file, checkpoint_config(m->c), p->config.mtp, err);
    return kv_forms_named(&p->kv, name, model_cached_layers(&p->config), p->config.attention.head_dim, err);
}

static weir_status read_draft(plan *p, const weir_model *m, weir_error *err)
{
    static const uint32_t usual[] = {[DRAFT_OFF] = 0, [DRAFT_MTP] = 3, [DRAFT_NGRAM] = 8, [DRAFT_MODEL] = 4};
    const char           *draft   = p->opt.draft;
    const bool            has_mtp = load_has_mtp(m->c);
    if (draft == NULL || strcmp(draft, "off") == 0)
        p->draft = DRAFT_OFF;
    else if (strcmp(draft, "auto") == 0)
        p->draft = has_mtp ? DRAFT_MTP : DRAFT_OFF;
    else if (strcmp(draft, "mtp") == 0)
        p->draft = DRAFT_MTP;
    else if (strcmp(draft, "ngram") == 0)
        p->draft = DRAFT_NGRAM;
    else if (strcmp(draft, "model") == 0)
        p->draft = DRAFT_MODEL;
    else
        return status_fail(err, WEIR_INVALID, "draft: expected off, auto, mtp, ngram or model, found \"%s\"", draft);
    if (p->draft == DRAFT_MTP && !has_mtp)
        return status_fail(err, WEIR_UNSUPPORTED, "draft: the model has no multi-token-prediction head (mtp.*)");
    if (p->draft == DRAFT_MODEL) {
        if (p->opt.draft_model == NULL) return status_fail(err, WEIR_INVALID, "draft: \"model\" needs a draft_model");
        TRY(model_same_tokens(m, p->opt.draft_model, err));
    }
    if (p->opt.max_drafts == 0 || p->draft == DRAFT_OFF) p->opt.max_drafts = usual[p->draft];
    return WEIR_OK;
}

/* One row at least for every sequence. */
static uint32_t decode_rows_of(uint32_t sequences, uint32_t drafts)
{
    const uint64_t all = (uint64_t)sequences * (1 + drafts);
    if (all <= MAX_DECODE_ROWS) return (uint32_t)all;
    return sequences > MAX_DECODE_ROWS ? sequences : MAX_DECODE_ROWS;
}

/* Whole blocks of the prefix cache: its entries have pages of one kind. */
static uint32_t early_pages(const plan *p)
{
    enum { PAGES = PREFIX_BLOCK / K_PAGE };
    return (uint32_t)(pages_of(p->opt.kv_start) + PAGES - 1) / PAGES * PAGES;
}

static void size_state(plan *p)
{
    const model_config      *c = &p->config;
    const k_delta_shape     *d = &c->delta;
    const k_attention_shape *a = &c->attention;
    const uint64_t           V = (uint64_t)d->value_heads * d->value_dim, C = k_delta_channels(d);
    const bool               windows = p->draft != DRAFT_OFF;
    p->state                         = (state_limits){.delta_layers     = c->n_delta_layers,
                                                      .attention_layers = model_cached_layers(c),
                                                      .tail_bytes       = (d->conv_kernel - 1) * C * sizeof(float),
                                                      .recurrent_bytes  = V * d->key_dim * sizeof(float),
                                                      .kv_heads         = a->kv_heads,
                                                      .head_dim         = a->head_dim,
                                                      .kv               = p->kv.layer,
                                                      .early            = early_pages(p),
                                                      .carry_bytes      = c->mtp ? MTP_LAG * c->hidden_size * sizeof(float) : 0,
                                                      .channel_bytes    = C * sizeof(float),
                                                      .gate_bytes       = d->value_heads * sizeof(float),
                                                      .max_sequences    = p->opt.max_sequences,
                                                      .windows          = windows ? p->opt.max_sequences : 0,
                                                      .recorded_rows    = windows ? p->decode_rows : 0};
}

weir_status plan_make(plan *p, const weir_model *m, const weir_engine_options *opt, weir_error *err)
{
    const weir_engine_options none = WEIR_ENGINE_OPTIONS_INIT;
    if (opt == NULL) opt = &none;
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_engine_options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    *p = (plan){.opt = *opt};
    TRY(range("max_context", opt->max_context, MAX_CONTEXT, err));
    TRY(range("kv_start", opt->kv_start, MAX_CONTEXT, err));
    TRY(range("max_sequences", opt->max_sequences, MAX_SEQUENCES, err));
    TRY(range("chunk", opt->chunk, MAX_CHUNK, err));
    TRY(range("max_drafts", opt->max_drafts, MAX_DRAFTS, err));
    TRY(range("pool_context", opt->pool_context, (uint64_t)MAX_CONTEXT * MAX_SEQUENCES, err));
    if (p->opt.max_sequences == 0) p->opt.max_sequences = 1;
    if (p->opt.chunk == 0) p->opt.chunk = DEFAULT_CHUNK;
    if (opt->cache_dir != NULL && opt->cache_memory == 0)
        return status_fail(err, WEIR_INVALID, "cache_dir: needs a cache_memory that is not 0");
    if (p->opt.cache_disk == 0) p->opt.cache_disk = default_cache_disk;
    TRY(read_draft(p, m, err));
    p->budget = opt->memory_limit != 0 ? opt->memory_limit : machine_memory();
    p->config = load_config(checkpoint_config(m->c), p->draft == DRAFT_MTP);
    TRY(read_kv(p, m, err));
    if (p->opt.kv_start != 0 && !kv_forms_coded(&p->kv))
        return status_fail(err, WEIR_INVALID, "kv_start: expected 0 where keys and values are not in codes, found %u",
                           p->opt.kv_start);
    p->decode_rows = decode_rows_of(p->opt.max_sequences, p->opt.max_drafts);
    p->max_rows    = p->opt.chunk + p->decode_rows;
    TRY(adapters_plan(&p->adapters, &p->opt, m, p->max_rows, err));
    size_state(p);
    return WEIR_OK;
}

weir_status plan_drafter(plan *out, const plan *p, weir_error *err)
{
    weir_engine_options o = p->opt;
    o.draft               = "off";
    o.draft_model         = NULL;
    o.kv_config           = NULL; /* which counts the other model's layers */
    o.max_drafts          = 0;
    o.adapters            = NULL;
    o.n_adapters          = 0;
    o.max_adapters        = 0;
    o.max_adapter_rank    = 0;
    o.adapter_memory      = 0;
    o.cache_memory        = 0;
    o.cache_dir           = NULL;
    o.memory_limit        = UINT64_MAX; /* counted as a part of the whole */
    const weir_status st  = plan_make(out, p->opt.draft_model, &o, err);
    if (st != WEIR_OK) return status_prefix(err, st, "draft_model");
    out->state.windows = p->opt.max_sequences; /* it guesses aside */
    return WEIR_OK;
}

k_limits plan_kernel_limits(const plan *p, uint32_t max_positions, const double *inv_freq, float rope_scale)
{
    const model_config *c        = &p->config;
    uint32_t            cols     = c->hidden_size;
    const uint32_t      inputs[] = {c->intermediate_size, c->shared_size, c->delta.value_heads * c->delta.value_dim,
                                    c->attention.heads * c->attention.head_dim, c->mtp ? 2 * c->hidden_size : 0};
    cols                         = p->adapters.limits.max_rank > cols ? p->adapters.limits.max_rank : cols;
    const uint32_t rank          = p->adapters.limits.max_rank;
    const uint32_t expert_cols   = c->n_experts > 0 && rank > c->expert_size ? rank : c->expert_size;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) cols = inputs[i] > cols ? inputs[i] : cols;
    return (k_limits){.max_rows          = plan_work_limits(p).max_rows,
                      .max_cols          = cols,
                      .max_positions     = max_positions,
                      .experts           = c->n_experts,
                      .experts_per_token = c->experts_per_token,
                      .expert_cols       = expert_cols,
                      .attention         = c->attention,
                      .delta             = c->delta,
                      .inv_freq          = inv_freq,
                      .rope_scale        = rope_scale};
}

work_limits plan_work_limits(const plan *p)
{
    const uint32_t rows = p->config.mtp ? batch_mtp_rows(p->opt.max_sequences, p->max_rows) : p->max_rows;
    return (work_limits){.max_rows = rows, .max_wanted = HEAD_ROWS};
}

/* ---- bytes ---- */

/* The engine's own lists: rows of a step for the head, requests for a draft source. */
static uint64_t host_bytes(const plan *p)
{
    return (uint64_t)plan_work_limits(p).max_rows * sizeof(uint32_t) + p->opt.max_sequences * sizeof(weir_request *);
}

static uint64_t workspace_bytes(const plan *p, const kernels *k, uint32_t context)
{
    const uint64_t    vocab = p->config.vocab_size;
    const k_limits    l     = plan_kernel_limits(p, context, NULL, 1.0f);
    const work_limits rows  = plan_work_limits(p);
    return work_bytes(&p->config, &rows) + k->workspace_bytes(k, &l) + sample_workspace_bytes((uint32_t)vocab) +
           batch_bytes(p->opt.max_sequences, p->max_rows) + host_bytes(p) +
           p->opt.max_sequences * vocab * sizeof(float) +
           (p->opt.cache_dir != NULL ? prefix_tree_disk_bytes(&p->state, p->opt.cache_disk) : 0) +
           state_recorded_bytes(&p->state);
}

static weir_status fit_at(plan *p, const weir_model *m, const kernels *k, uint32_t context, weir_fit *out,
                          weir_error *err);

static weir_status draft_bytes(const plan *p, const kernels *k, uint32_t context, uint64_t *out, weir_error *err)
{
    *out = 0;
    if (p->draft == DRAFT_NGRAM) *out = mul64(p->opt.max_sequences, ngram_bytes(context + 1));
    if (p->draft != DRAFT_MODEL) return WEIR_OK;
    plan     d;
    weir_fit f;
    TRY(plan_drafter(&d, p, err));
    TRY(fit_at(&d, p->opt.draft_model, k, context, &f, err));
    *out = f.total_bytes;
    return WEIR_OK;
}

/* Without the prefix cache, for a given context. */
static weir_status fit_at(plan *p, const weir_model *m, const kernels *k, uint32_t context, weir_fit *out,
                          weir_error *err)
{
    const uint64_t n    = p->opt.max_sequences;
    const uint64_t pool = p->opt.pool_context != 0 ? p->opt.pool_context / K_PAGE + n : mul64(n, pages_of(context));
    /* Every sequence has early pages of its own; one that takes the whole pool needs no others of these. */
    const uint64_t mine = min64(p->state.early, pages_of(context)), early = n * mine;
    const uint64_t late    = pool - min64(pool, p->opt.pool_context != 0 ? mine : early);
    p->state.max_positions = context;
    p->state.pages         = (uint32_t)min64(early + late, UINT32_MAX);
    p->state.early_pages   = (uint32_t)early;
    out->weights_bytes = m->d.weights_bytes + (p->config.mtp ? m->d.mtp_bytes : 0) + load_converted_bytes(&p->config);
    out->kv_bytes_per_token       = state_kv_bytes_per_position(&p->state);
    out->snapshot_bytes           = state_bytes_per_sequence(&p->state);
    out->state_bytes_per_sequence = out->snapshot_bytes * (p->state.windows > 0 ? 2 : 1);
    out->workspace_bytes          = workspace_bytes(p, k, context);
    out->cache_bytes              = 0;
    out->adapter_bytes            = adapters_bytes(&p->adapters, checkpoint_config(m->c)->n_layers);
    TRY(draft_bytes(p, k, context, &out->draft_bytes, err));
    out->kv_start_bytes = mine * state_page_bytes_at(&p->state, 0);
    const uint64_t kv   = add64(mul64(late * K_PAGE, out->kv_bytes_per_token), mul64(n, out->kv_start_bytes));
    const uint64_t ids  = mul64((early + late) * K_PAGE, sizeof(uint32_t));
    out->total_bytes    = add64(out->weights_bytes + out->workspace_bytes + mul64(n, out->state_bytes_per_sequence),
                                add64(add64(kv, ids), out->draft_bytes + out->adapter_bytes));
    out->fits           = out->total_bytes <= p->budget;
    return WEIR_OK;
}

/* The longest context that fits, by bisection: the formula is monotonic. */
static weir_status longest_context(plan *p, const weir_model *m, const kernels *k, uint64_t reserve, uint32_t *out,
                                   weir_error *err)
{
    uint32_t lo = 0, hi = checkpoint_config(m->c)->max_position;
    if (hi > MAX_CONTEXT) hi = MAX_CONTEXT;
    if (p->opt.pool_context != 0) hi = (uint32_t)min64(hi, p->opt.pool_context);
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        weir_fit       f;
        TRY(fit_at(p, m, k, mid, &f, err));
        if (f.total_bytes <= p->budget - reserve)
            lo = mid;
        else
            hi = mid - 1;
    }
    *out = lo;
    return WEIR_OK;
}

/* Pages of the prefix cache per snapshot, of them early ones: enough for prompts that share
 * nothing, but not all. */
enum { CACHE_PAGES = TOKENS_PER_SNAPSHOT / K_PAGE };
static uint32_t cache_early(const plan *p)
{
    return (uint32_t)min64(p->state.early, CACHE_PAGES / 2);
}

static uint64_t cache_page_bytes(const plan *p)
{
    const uint64_t early = cache_early(p);
    return early * state_page_bytes_at(&p->state, 0) + (CACHE_PAGES - early) * state_page_bytes(&p->state);
}

/* Snapshots and pages of the prefix cache out of `bytes`. */
static void add_cache(plan *p, weir_fit *f, uint64_t bytes)
{
    enum { MOST_PAGES = UINT32_MAX / K_PAGE };
    const uint64_t kv = cache_page_bytes(p), each = f->snapshot_bytes + kv;
    const uint64_t most = p->state.pages < MOST_PAGES ? (MOST_PAGES - p->state.pages) / CACHE_PAGES : 0;
    p->snapshots        = (uint32_t)min64(bytes / each, most);
    /* What the tree needs to keep its books is a part of it. */
    for (const uint32_t pages = p->state.pages; p->snapshots > 0; p->snapshots--) {
        p->state.pages = pages + p->snapshots * CACHE_PAGES;
        f->cache_bytes = prefix_tree_bytes(&p->state, p->snapshots, 0) + p->snapshots * kv;
        if (f->cache_bytes <= bytes) break;
        p->state.pages = pages;
        f->cache_bytes = 0;
    }
    p->state.early_pages += p->snapshots * cache_early(p);
    f->total_bytes = add64(f->total_bytes, f->cache_bytes);
    f->fits        = f->total_bytes <= p->budget;
}

weir_status plan_fit(plan *p, const weir_model *m, const kernels *k, weir_fit *out, weir_error *err)
{
    const bool     automatic = p->opt.cache_memory == WEIR_CACHE_AUTO;
    const uint64_t reserve = automatic ? min64(auto_cache_most, p->budget / 8) : min64(p->opt.cache_memory, p->budget);
    uint32_t       longest;
    TRY(longest_context(p, m, k, reserve, &longest, err));
    const uint32_t native = checkpoint_config(m->c)->max_position;
    if (p->opt.max_context == 0) p->opt.max_context = longest > 0 ? longest : native;
    TRY(fit_at(p, m, k, p->opt.max_context, out, err));
    out->max_context    = longest;
    const uint64_t left = out->fits ? p->budget - out->total_bytes : 0;
    add_cache(p, out, automatic ? min64(reserve, left) : p->opt.cache_memory);
    if (p->opt.cache_memory != 0 && !automatic && p->snapshots == 0)
        return status_fail(err, WEIR_INVALID, "cache_memory: expected more than %llu bytes, found %llu",
                           (unsigned long long)(out->snapshot_bytes + cache_page_bytes(p)),
                           (unsigned long long)p->opt.cache_memory);
    return WEIR_OK;
}

weir_status weir_engine_fit(const weir_model *m, const weir_engine_options *opt, weir_fit *out, weir_error *err)
{
    plan     p;
    kernels *k;
    memset(out, 0, sizeof *out);
    TRY(plan_make(&p, m, opt, err));
    TRY(kernels_open(&k, p.opt.device, p.opt.threads, p.opt.isa, err));
    const weir_status st = plan_fit(&p, m, k, out, err);
    k->close(k);
    return st;
}
