/* model/lora.c - see lora.h. */
#include "model/lora.h"

#include <string.h>

enum { X, T, DELTA = T + K_MAX_JOBS, BUFFERS };

static void sizes_of(uint64_t bytes[BUFFERS], const lora_limits *l)
{
    const uint64_t row = l->max_rank > 0 ? l->max_rows * sizeof(float) : 0, slots = row * l->per_token;
    bytes[X] = row * l->max_in;
    for (int i = 0; i < K_MAX_JOBS; i++) bytes[T + i] = row * l->max_rank;
    bytes[DELTA] = row * l->max_out;
    if (slots > row) bytes[T] = slots * l->max_rank;
    if (slots * l->slot_out > bytes[DELTA]) bytes[DELTA] = slots * l->slot_out;
}

uint64_t lora_work_bytes(const lora_limits *l)
{
    uint64_t bytes[BUFFERS], sum = 0;
    sizes_of(bytes, l);
    for (int i = 0; i < BUFFERS; i++) sum += bytes[i];
    return sum;
}

weir_status lora_work_new(lora_work *w, kernels *k, const lora_limits *l, weir_error *err)
{
    uint64_t    bytes[BUFFERS];
    k_buf     **to[BUFFERS] = {[X] = &w->x, [DELTA] = &w->delta};
    weir_status st          = WEIR_OK;
    memset(w, 0, sizeof *w);
    for (int i = 0; i < K_MAX_JOBS; i++) to[T + i] = &w->t[i];
    w->per_token = l->per_token;
    sizes_of(bytes, l);
    for (int i = 0; i < BUFFERS && st == WEIR_OK && l->max_rank > 0; i++) st = k->buf_new(k, bytes[i], to[i], err);
    if (st != WEIR_OK) lora_work_free(w, k);
    return st;
}

void lora_work_free(lora_work *w, kernels *k)
{
    k->buf_free(k, w->x);
    for (int i = 0; i < K_MAX_JOBS; i++) k->buf_free(k, w->t[i]);
    k->buf_free(k, w->delta);
    memset(w, 0, sizeof *w);
}

/* One run: its rows of x once through all A, then each through its B. */
static void add_run(const lora_step *s, const lora_run *r, const lora_work *w, kernels *k, uint32_t layer,
                    const k_buf *x, const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs)
{
    const lora_pair *pairs = r->adapter->layers[layer], *of[K_MAX_JOBS];
    k_linear_job     down[K_MAX_JOBS];
    k_buf           *y[K_MAX_JOBS];
    uint32_t         n = 0;
    for (uint32_t j = 0; j < n_jobs; j++) {
        const lora_pair *p = &pairs[targets[j]];
        if (p->a == NULL) continue;
        of[n]   = p;
        y[n]    = jobs[j].y;
        down[n] = (k_linear_job){p->a, w->t[n]};
        n++;
    }
    if (n == 0) return;
    k->copy_rows(k, w->x, NULL, x, r->rows, of[0]->in, r->n); /* x [n, in] */
    k->linear(k, w->x, r->n, down, n);                        /* t [n, rank] */
    for (uint32_t j = 0; j < n; j++) {
        k->linear(k, w->t[j], r->n, &(k_linear_job){of[j]->b, w->delta}, 1); /* delta [n, out] */
        for (uint32_t i = 0; i < r->n; i++) s->scales[i] = of[j]->scale * r->scales[i];
        k->add_scaled(k, y[j], r->rows, w->delta, s->scales, of[j]->out, r->n);
    }
}

void lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t layer, const k_buf *x,
              const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs)
{
    for (uint32_t i = 0; s != NULL && i < s->n_runs; i++)
        add_run(s, &s->runs[i], w, k, layer, x, jobs, targets, n_jobs);
}

static void add_expert_run(const lora_step *s, const lora_run *r, const lora_work *w, kernels *k, const lora_pair *p,
                           const k_buf *x, bool from_slots, k_buf *y)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++)
        for (uint32_t j = 0; j < w->per_token; j++, n++) {
            s->slots[n]  = r->rows[i] * w->per_token + j;
            s->scales[n] = p->scale * r->scales[i];
        }
    k->expert_linear(k, x, from_slots, &(k_linear_job){p->a, w->t[0]}, 1);  /* t [slots, rank] */
    k->expert_linear(k, w->t[0], true, &(k_linear_job){p->b, w->delta}, 1); /* delta [slots, out] */
    k->copy_rows(k, w->delta, NULL, w->delta, s->slots, p->out, n);         /* ascending: read before written */
    k->add_scaled(k, y, s->slots, w->delta, s->scales, p->out, n);
}

void lora_add_experts(const lora_step *s, const lora_work *w, kernels *k, uint32_t layer, const k_buf *x,
                      bool from_slots, const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs)
{
    for (uint32_t i = 0; s != NULL && i < s->n_runs; i++)
        for (uint32_t j = 0; j < n_jobs; j++) {
            const lora_pair *p = &s->runs[i].adapter->layers[layer][targets[j]];
            if (p->a != NULL) add_expert_run(s, &s->runs[i], w, k, p, x, from_slots, jobs[j].y);
        }
}
