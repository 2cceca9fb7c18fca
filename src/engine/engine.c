/* engine/engine.c - weir/engine.h: a model made ready on one device, and what
 * that costs in memory. */
#include "base/mem.h"
#include "engine/engine_parts.h"
#include "kernels/open.h"
#include "weir/experimental.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_CHUNK = 256, MAX_CHUNK = 8192, MAX_CONTEXT = 1 << 23, MAX_SEQUENCES = 4096, MAX_ROTARY = 1024 };

/* The options with every default filled in, and the sizes they lead to. */
typedef struct plan {
    weir_engine_options opt;
    k_kv_format         kv;
    model_config        config;
    state_limits        state;
    uint64_t            budget; /* bytes; what memory_limit or the machine allows */
} plan;

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

static weir_status range(const char *name, uint64_t value, uint64_t max, weir_error *err)
{
    if (value <= max) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s: expected at most %llu, found %llu", name, (unsigned long long)max,
                       (unsigned long long)value);
}

static weir_status plan_make(plan *p, const weir_model *m, const weir_engine_options *opt, weir_error *err)
{
    const weir_engine_options none = WEIR_ENGINE_OPTIONS_INIT;
    if (opt == NULL) opt = &none;
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_engine_options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    *p = (plan){.opt = *opt, .config = load_config(checkpoint_config(m->c))};
    if (opt->kv == NULL || strcmp(opt->kv, "bf16") == 0)
        p->kv = K_KV_BF16;
    else if (strcmp(opt->kv, "f32") == 0)
        p->kv = K_KV_F32;
    else
        return status_fail(err, WEIR_INVALID, "kv: expected bf16 or f32, found \"%s\"", opt->kv);
    TRY(range("max_context", opt->max_context, MAX_CONTEXT, err));
    TRY(range("max_sequences", opt->max_sequences, MAX_SEQUENCES, err));
    TRY(range("chunk", opt->chunk, MAX_CHUNK, err));
    if (p->opt.max_sequences == 0) p->opt.max_sequences = 1;
    if (p->opt.chunk == 0) p->opt.chunk = DEFAULT_CHUNK;
    p->budget = opt->memory_limit != 0 ? opt->memory_limit : machine_memory();

    const k_delta_shape     *d = &p->config.delta;
    const k_attention_shape *a = &p->config.attention;
    const uint64_t           V = (uint64_t)d->value_heads * d->value_dim, C = k_delta_channels(d);
    p->state = (state_limits){.delta_layers     = p->config.n_delta_layers,
                              .attention_layers = p->config.n_attention_layers,
                              .tail_bytes       = (d->conv_kernel - 1) * C * sizeof(float),
                              .recurrent_bytes  = V * d->key_dim * sizeof(float),
                              .page_bytes = (uint64_t)a->kv_heads * K_PAGE * a->head_dim * (p->kv == K_KV_F32 ? 4 : 2),
                              .max_sequences = p->opt.max_sequences};
    return WEIR_OK;
}

static k_limits limits_of(const plan *p, uint32_t max_positions, const double *inv_freq, float rope_scale)
{
    const model_config *c        = &p->config;
    uint32_t            cols     = c->hidden_size;
    const uint32_t      inputs[] = {c->intermediate_size, c->shared_size, c->delta.value_heads * c->delta.value_dim,
                                    c->attention.heads * c->attention.head_dim};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) cols = inputs[i] > cols ? inputs[i] : cols;
    return (k_limits){.max_rows          = p->opt.chunk,
                      .max_cols          = cols,
                      .max_positions     = max_positions,
                      .experts           = c->n_experts,
                      .experts_per_token = c->experts_per_token,
                      .expert_cols       = c->expert_size,
                      .attention         = c->attention,
                      .delta             = c->delta,
                      .kv                = p->kv,
                      .inv_freq          = inv_freq,
                      .rope_scale        = rope_scale};
}

/* The one formula of admission and `weir fit`, for a given context. */
static void fit_at(weir_fit *out, const plan *p, const weir_model *m, const kernels *k, uint32_t context)
{
    const uint64_t vocab          = p->config.vocab_size;
    const k_limits l              = limits_of(p, context, NULL, 1.0f);
    const uint64_t positions      = ((uint64_t)context + K_PAGE - 1) / K_PAGE * K_PAGE;
    out->weights_bytes            = m->d.weights_bytes + load_converted_bytes(&p->config);
    out->kv_bytes_per_token       = state_kv_bytes_per_position(&p->state);
    out->state_bytes_per_sequence = state_bytes_per_sequence(&p->state);
    out->workspace_bytes          = work_bytes(&p->config, p->opt.chunk, HEAD_ROWS) + k->workspace_bytes(k, &l) +
                           sample_workspace_bytes((uint32_t)vocab) + p->opt.max_sequences * vocab * sizeof(float);
    const uint64_t each =
        add64(mul64(out->kv_bytes_per_token + sizeof(uint32_t), positions), out->state_bytes_per_sequence);
    out->total_bytes = add64(out->weights_bytes + out->workspace_bytes, mul64(p->opt.max_sequences, each));
    out->fits        = out->total_bytes <= p->budget;
}

/* The longest context that fits, by bisection: the formula is monotonic. */
static uint32_t longest_context(const plan *p, const weir_model *m, const kernels *k)
{
    uint32_t lo = 0, hi = checkpoint_config(m->c)->max_position;
    if (hi > MAX_CONTEXT) hi = MAX_CONTEXT;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        weir_fit       f;
        fit_at(&f, p, m, k, mid);
        if (f.fits)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static void fit_compute(weir_fit *out, plan *p, const weir_model *m, const kernels *k)
{
    const uint32_t longest = longest_context(p, m, k);
    const uint32_t native  = checkpoint_config(m->c)->max_position;
    if (p->opt.max_context == 0) p->opt.max_context = longest > 0 ? longest : native;
    fit_at(out, p, m, k, p->opt.max_context);
    out->max_context = longest;
}

weir_status weir_engine_fit(const weir_model *m, const weir_engine_options *opt, weir_fit *out, weir_error *err)
{
    plan     p;
    kernels *k;
    memset(out, 0, sizeof *out);
    TRY(plan_make(&p, m, opt, err));
    TRY(kernels_open(&k, p.opt.device, p.opt.threads, p.opt.isa, err));
    fit_compute(out, &p, m, k);
    k->close(k);
    return WEIR_OK;
}

static weir_status build(weir_engine *e, plan *p, weir_error *err)
{
    const weir_model *m = e->source;
    weir_fit          fit;
    TRY(kernels_open(&e->k, p->opt.device, p->opt.threads, p->opt.isa, err));
    fit_compute(&fit, p, m, e->k);
    if (!fit.fits && fit.max_context == 0)
        return status_fail(err, WEIR_NO_MEMORY,
                           "%llu bytes are needed without any context, of them %llu for weights; %llu are allowed",
                           (unsigned long long)(fit.weights_bytes + fit.workspace_bytes + fit.state_bytes_per_sequence),
                           (unsigned long long)fit.weights_bytes, (unsigned long long)p->budget);
    if (!fit.fits)
        return status_fail(
            err, WEIR_NO_MEMORY,
            "max_context %u: %llu bytes are needed, %llu are allowed; the longest context that fits is %u",
            p->opt.max_context, (unsigned long long)fit.total_bytes, (unsigned long long)p->budget, fit.max_context);
    double inv_freq[MAX_ROTARY / 2];
    float  rope_scale;
    TRY(load_rope(checkpoint_config(m->c), inv_freq, &rope_scale, err));
    const k_limits limits = limits_of(p, p->opt.max_context, inv_freq, rope_scale);
    TRY(e->k->reserve(e->k, &limits, err));
    p->state.max_positions = p->opt.max_context;
    TRY(state_new(&e->st, e->k, &p->state, err));
    TRY(load_model(&e->m, e->k, m->c, err));
    TRY(work_new(&e->w, e->k, &p->config, p->opt.chunk, HEAD_ROWS, err));
    e->rows          = mem_alloc(p->opt.chunk, sizeof *e->rows);
    e->sample_memory = mem_aligned(sample_workspace_bytes(p->config.vocab_size), 1);
    if (e->rows == NULL || e->sample_memory == NULL) return status_fail(err, WEIR_NO_MEMORY, "engine: out of memory");
    for (uint32_t i = 0; i < p->opt.chunk; i++) e->rows[i] = i;
    sample_workspace_init(&e->sampler, e->sample_memory, p->config.vocab_size);
    e->info = (weir_engine_info){.device        = e->k->name,
                                 .isa           = e->k->isa,
                                 .kv            = p->kv == K_KV_F32 ? "f32" : "bf16",
                                 .threads       = e->k->threads(e->k),
                                 .max_context   = p->opt.max_context,
                                 .max_sequences = p->opt.max_sequences,
                                 .chunk         = p->opt.chunk};
    return WEIR_OK;
}

weir_status weir_engine_open(weir_engine **out, const weir_model *m, const weir_engine_options *opt, weir_error *err)
{
    *out = NULL;
    plan p;
    TRY(plan_make(&p, m, opt, err));
    weir_engine *e = mem_zalloc(1, sizeof *e);
    if (e == NULL) return status_fail(err, WEIR_NO_MEMORY, "engine: out of memory");
    e->source            = m;
    const weir_status st = build(e, &p, err);
    if (st != WEIR_OK)
        weir_engine_close(e);
    else
        *out = e;
    return st;
}

void weir_engine_close(weir_engine *e)
{
    if (e == NULL) return;
    if (e->k != NULL) {
        work_free(&e->w, e->k);
        load_free(&e->m, e->k);
        state_free(e->st);
        e->k->close(e->k);
    }
    mem_free(e->rows);
    mem_free(e->sample_memory);
    mem_free(e);
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
