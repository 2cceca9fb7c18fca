/* engine/sensitivity.c - what a model says with one module of fewer bits, against what it says.
 *
 * The engine's own weights are exchanged for those of the module during one pass over the
 * text.  Of each position's distribution the likely tokens are remembered; the others are
 * one, so that memory does not grow with the vocabulary.  Merging outcomes can only lower a
 * divergence. */
#include "base/mem.h"
#include "base/pmath.h"
#include "engine/engine_parts.h"
#include "engine/exp_sum.h"
#include "load/load.h"
#include "quant/affine.h"
#include "quant/dense.h"
#include "weir/experimental.h"

#include <string.h>

static const double likely_logp = -8.317766166719343; /* ln 2^-12: at most 4096 tokens a position */
static const double least_rest  = 1e-9;               /* what is left of a probability is not known better */

typedef struct likely {
    uint32_t id;
    double   logp;
} likely;

struct weir_sensitivity {
    weir_engine      *e;
    weir_sequence    *s;
    weir_progress_fn *progress;
    void             *user;
    uint32_t         *ids;
    size_t            n;

    size_t *end; /* [n] behind the last likely token of a position */
    likely *likely;
    size_t  n_likely, cap;
};

/* One pass over the text. */
typedef struct pass {
    weir_sensitivity *s;
    bool              first; /* remember; else compare */
    double            sum;   /* of divergences */
    weir_status       st;
    bool              stopped;
    weir_error       *err;
} pass;

/* ln sum exp(logits). */
static double log_sum(const float *logits, uint32_t n)
{
    exp_sum sum = {0};
    float   top = logits[0];
    for (uint32_t i = 1; i < n; i++) top = logits[i] > top ? logits[i] : top;
    for (uint32_t at = 0; at < n; at += EXP_SUM_BLOCK) {
        double         x[EXP_SUM_BLOCK];
        const uint32_t count = n - at < EXP_SUM_BLOCK ? n - at : EXP_SUM_BLOCK;
        for (uint32_t i = 0; i < count; i++) x[i] = (double)logits[at + i] - (double)top;
        exp_sum_add(&sum, x, count);
    }
    return (double)top + pmath_log(exp_sum_total(&sum));
}

static weir_status remember(weir_sensitivity *s, size_t position, const float *logits, weir_error *err)
{
    const uint32_t V   = s->e->m.config.vocab_size;
    const double   sum = log_sum(logits, V);
    for (uint32_t i = 0; i < V; i++) {
        const double logp = (double)logits[i] - sum;
        if (!(logp > likely_logp)) continue;
        if (s->n_likely == s->cap) {
            const size_t cap  = s->cap == 0 ? 4096 : 2 * s->cap;
            likely      *more = mem_realloc(s->likely, cap, sizeof *more);
            if (more == NULL) return status_fail(err, WEIR_NO_MEMORY, "sensitivity: out of memory");
            s->likely = more;
            s->cap    = cap;
        }
        s->likely[s->n_likely++] = (likely){i, logp};
    }
    s->end[position] = s->n_likely;
    return WEIR_OK;
}

static double divergence(const weir_sensitivity *s, size_t position, const float *logits)
{
    const double sum    = log_sum(logits, s->e->m.config.vocab_size);
    double       p_rest = 1.0, q_rest = 1.0, d = 0.0;
    for (size_t i = position == 0 ? 0 : s->end[position - 1]; i < s->end[position]; i++) {
        const double logp = s->likely[i].logp, logq = (double)logits[s->likely[i].id] - sum, p = pmath_exp(logp);
        d += p * (logp - logq);
        p_rest -= p;
        q_rest -= pmath_exp(logq);
    }
    if (p_rest < least_rest) return d;
    return d + p_rest * (pmath_log(p_rest) - pmath_log(q_rest > least_rest ? q_rest : least_rest));
}

static bool on_rows(void *user, const weir_rows *r)
{
    pass          *p = user;
    const uint32_t V = p->s->e->m.config.vocab_size, done = r->first_position + r->n;
    for (uint32_t i = 0; i < r->n && p->st == WEIR_OK; i++) {
        const float *logits = r->logits + (size_t)i * V;
        if (p->first)
            p->st = remember(p->s, r->first_position + i, logits, p->err);
        else
            p->sum += divergence(p->s, r->first_position + i, logits);
    }
    p->stopped = p->s->progress != NULL && !p->s->progress(p->s->user, done, (uint32_t)p->s->n);
    return p->st == WEIR_OK && !p->stopped;
}

static weir_status run(pass *p)
{
    weir_sensitivity *s = p->s;
    weir_sequence_reset(s->s);
    const weir_status st = weir_sequence_score(s->s, s->ids, s->n, false, on_rows, p, p->err);
    if (p->st != WEIR_OK) return p->st;
    if (p->stopped) return status_fail(p->err, WEIR_CANCELLED, "sensitivity: stopped");
    return st;
}

/* ---- a module in place of another ---- */

static weir_status make_weight(k_weight **out, kernels *k, const weir_quantized_module *q, weir_error *err)
{
    static const k_format formats[] = {
        [2] = K_AFFINE2, [3] = K_AFFINE3, [4] = K_AFFINE4, [5] = K_AFFINE5, [6] = K_AFFINE6, [8] = K_AFFINE8};
    dtype type = DTYPE_COUNT;
    for (dtype t = 0; t < DTYPE_COUNT; t++)
        if (dense_is(t) && strcmp(dtype_table[t].name, q->scale_dtype) == 0) type = t;
    if (!affine_is(q->bits, q->group) || type == DTYPE_COUNT || q->cols % q->group != 0)
        return status_fail(err, WEIR_INVALID, "sensitivity: %s: expected an affine form, found %u bits, group %u, %s",
                           q->name, q->bits, q->group, q->scale_dtype);
    k_matrix *mat = mem_alloc(q->mats, sizeof *mat);
    if (mat == NULL) return status_fail(err, WEIR_NO_MEMORY, "sensitivity: out of memory");
    const size_t codes  = (size_t)q->rows * (q->cols / 8 * q->bits),
                 scales = (size_t)q->rows * (q->cols / q->group) * dtype_table[type].bytes;
    for (uint32_t i = 0; i < q->mats; i++)
        mat[i] = (k_matrix){(const uint8_t *)q->codes + i * codes, (const uint8_t *)q->scales + i * scales,
                            (const uint8_t *)q->biases + i * scales};
    const k_weight_desc d  = {.format     = formats[q->bits],
                              .mats       = q->mats,
                              .rows       = q->rows,
                              .cols       = q->cols,
                              .group      = q->group,
                              .scale_type = type,
                              .mat        = mat};
    const weir_status   st = k->weight_new(k, &d, out, err);
    mem_free(mat);
    return st;
}

weir_status weir_sensitivity_of(void *sensitivity, const weir_quantized_module *q, double *damage, weir_error *err)
{
    weir_sensitivity *s = sensitivity;
    weir_engine      *e = s->e;
    load_slot         slot;
    k_weight         *other;
    if (!load_module(&slot, &e->m, q->name))
        return status_fail(err, WEIR_INVALID, "sensitivity: expected a module of the trunk, found \"%.200s\"", q->name);
    if (q->mats != slot.mats || q->rows != slot.rows || q->cols != slot.cols)
        return status_fail(err, WEIR_INVALID, "sensitivity: %s: expected the shape [%u, %u, %u], found [%u, %u, %u]",
                           q->name, slot.mats, slot.rows, slot.cols, q->mats, q->rows, q->cols);
    TRY(make_weight(&other, e->k, q, err));
    k_weight  *own  = *slot.weight;
    const bool tied = own == e->m.embed && own == e->m.head;
    pass       p    = {.s = s, .err = err};
    *slot.weight    = other;
    if (tied) e->m.head = other;
    const weir_status st = run(&p);
    *slot.weight         = own;
    if (tied) e->m.head = own;
    e->k->weight_free(e->k, other);
    *damage = p.sum > 0.0 ? p.sum / (double)s->n : 0.0;
    return st;
}

/* ---- opening ---- */

static weir_status open_engine(weir_sensitivity *s, const weir_model *m, const weir_engine_options *opt,
                               weir_error *err)
{
    enum { CHUNK = 64 }; /* so that `progress` is asked often enough */
    weir_engine_options o = WEIR_ENGINE_OPTIONS_INIT;
    o.device              = opt->device;
    o.isa                 = opt->isa;
    o.threads             = opt->threads;
    o.memory_limit        = opt->memory_limit;
    o.max_context         = (uint32_t)s->n;
    o.max_sequences       = 1;
    o.chunk               = CHUNK;
    TRY(weir_engine_open(&s->e, m, &o, err));
    return weir_sequence_new(&s->s, s->e, err);
}

weir_status weir_sensitivity_open(weir_sensitivity **out, const weir_model *m, const uint32_t *ids, size_t n,
                                  const weir_engine_options *opt, weir_progress_fn *progress, void *user,
                                  weir_error *err)
{
    *out = NULL;
    if (n < 2 || n > UINT32_MAX)
        return status_fail(err, WEIR_INVALID, "sensitivity: expected at least 2 ids, found %zu", n);
    weir_sensitivity *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "sensitivity: out of memory");
    s->n        = n;
    s->progress = progress;
    s->user     = user;
    s->ids      = mem_alloc(n, sizeof *s->ids);
    s->end      = mem_alloc(n, sizeof *s->end);
    weir_status st =
        s->ids != NULL && s->end != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "sensitivity: out of memory");
    if (st == WEIR_OK) st = open_engine(s, m, opt, err);
    if (st == WEIR_OK) {
        memcpy(s->ids, ids, n * sizeof *ids);
        pass p = {.s = s, .first = true, .err = err};
        st     = run(&p);
    }
    if (st == WEIR_OK)
        *out = s;
    else
        weir_sensitivity_close(s);
    return st;
}

void weir_sensitivity_close(weir_sensitivity *s)
{
    if (s == NULL) return;
    weir_sequence_free(s->s);
    weir_engine_close(s->e);
    mem_free(s->ids);
    mem_free(s->end);
    mem_free(s->likely);
    mem_free(s);
}
