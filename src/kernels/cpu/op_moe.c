/* kernels/cpu/op_moe.c - routing and the experts' linears.
 *
 * A slot is a (row, choice) pair: slot = row * per_token + choice.  Experts
 * write their results per slot, and combine adds a row's slots in order, so
 * that a row's bits do not depend on which other rows chose its experts. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

typedef struct route_job {
    cpu_backend *b;
    const float *logits;
} route_job;

/* Highest logits first; among equals the lower expert. */
static void route_row(void *arg, size_t row)
{
    const route_job *j = arg;
    const size_t     E = j->b->limits.experts, n = j->b->limits.experts_per_token;
    const float     *logits = j->logits + row * E;
    uint32_t        *ids    = j->b->route_ids + row * n;
    float           *w      = j->b->route_weights + row * n;
    size_t           found  = 0;
    for (uint32_t e = 0; e < E; e++) {
        size_t at = found;
        while (at > 0 && logits[e] > w[at - 1]) at--;
        if (at == n) continue;
        const size_t last = found < n ? found++ : n - 1;
        for (size_t i = last; i > at; i--) ids[i] = ids[i - 1], w[i] = w[i - 1];
        ids[at] = e;
        w[at]   = logits[e];
    }
    const float max = w[0];
    float       sum = 0.0f;
    for (size_t i = 0; i < n; i++) w[i] -= max;
    j->b->isa.exp(w, w, n);
    for (size_t i = 0; i < n; i++) sum += w[i];
    for (size_t i = 0; i < n; i++) w[i] /= sum;
}

/* Orders the step's slots by expert: slots[0..n-1], then the first slot of
 * every expert and one end mark. */
static void order_slots(cpu_backend *b)
{
    const uint32_t E = b->limits.experts, n = b->step->n_rows * b->limits.experts_per_token;
    uint32_t      *first = b->slots + n;
    memset(first, 0, (E + 1) * sizeof *first);
    for (uint32_t s = 0; s < n; s++) first[b->route_ids[s] + 1]++;
    for (uint32_t e = 0; e < E; e++) first[e + 1] += first[e];
    for (uint32_t s = 0; s < n; s++) b->slots[first[b->route_ids[s]]++] = s;
    for (uint32_t e = E; e > 0; e--) first[e] = first[e - 1]; /* each was moved to its end */
    first[0] = 0;
}

void cpu_route(kernels *k, const k_buf *logits)
{
    cpu_backend *b   = cpu_of(k);
    route_job    job = {.b = b, .logits = buf_f32(logits)};
    for_rows(b, route_row, &job, b->step->n_rows, 8 * (size_t)b->limits.experts);
    order_slots(b);
}

void cpu_expert_linear(kernels *k, const k_buf *x, bool from_slots, const k_linear_job *jobs, uint32_t n_jobs)
{
    cpu_backend    *b         = cpu_of(k);
    const uint32_t  per_token = b->limits.experts_per_token, n_slots = b->step->n_rows * per_token;
    const uint32_t *first = b->slots + n_slots;
    /* The x row of a slot: the slot itself, or the row it belongs to. */
    for (uint32_t s = 0; s < n_slots; s++) b->slot_rows[s] = from_slots ? b->slots[s] : b->slots[s] / per_token;
    uint32_t n = 0;
    b->failed  = b->failed || n_jobs > K_MAX_JOBS;
    for (uint32_t e = 0; e < b->limits.experts && !b->failed; e++) {
        const uint32_t count = first[e + 1] - first[e];
        for (uint32_t i = 0; i < n_jobs && count > 0; i++)
            b->expert_jobs[n++] = (lin_job){.w      = weight_mat(jobs[i].w, e),
                                            .y      = buf_f32(jobs[i].y),
                                            .x_rows = b->slot_rows + first[e],
                                            .y_rows = b->slots + first[e],
                                            .n      = count};
    }
    linear_run(b, buf_f32(x), from_slots ? n_slots : b->step->n_rows, b->expert_jobs, n);
}

typedef struct combine_job {
    cpu_backend *b;
    float       *y;
    const float *x, *shared, *gate;
    size_t       n;
} combine_job;

static void combine_row(void *arg, size_t row)
{
    const combine_job *j = arg;
    const size_t       n = j->n, per_token = j->b->limits.experts_per_token;
    float             *y = j->y + row * n, g;
    memset(y, 0, n * sizeof *y);
    for (size_t i = row * per_token; i < (row + 1) * per_token; i++)
        j->b->isa.axpy(y, j->b->route_weights[i], j->x + i * n, n);
    j->b->isa.sigmoid(&g, j->gate + row, 1);
    j->b->isa.axpy(y, g, j->shared + row * n, n);
}

void cpu_combine(kernels *k, k_buf *y, const k_buf *x, const k_buf *shared, const k_buf *shared_gate, uint32_t n)
{
    cpu_backend *b   = cpu_of(k);
    combine_job  job = {
         .b = b, .y = buf_f32(y), .x = buf_f32(x), .shared = buf_f32(shared), .gate = buf_f32(shared_gate), .n = n};
    for_rows(b, combine_row, &job, b->step->n_rows, (size_t)(b->limits.experts_per_token + 1) * n);
}
