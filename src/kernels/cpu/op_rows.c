/* kernels/cpu/op_rows.c - operations that treat every row alone. */
#include "kernels/cpu/cpu.h"

#include <string.h>

typedef struct rows_run {
    row_fn *fn;
    void   *arg;
    size_t  rows;
} rows_run;

static void rows_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const rows_run *r = arg;
    size_t          begin, end;
    pool_cut(r->rows, 1, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++) r->fn(r->arg, i);
}

void for_rows(cpu_backend *b, row_fn *fn, void *arg, size_t rows, size_t cost)
{
    enum { WORTH_WAKING = 32768 };
    rows_run r = {.fn = fn, .arg = arg, .rows = rows};
    if (rows > 1 && rows * cost >= WORTH_WAKING)
        pool_run(b->pool, rows_part, &r);
    else
        rows_part(&r, 0, 1);
}

typedef struct row_job {
    const cpu_isa  *isa;
    float          *y;
    const float    *x, *w, *z, *scales;
    size_t          n, per_row;
    float           eps;
    const uint32_t *y_rows, *x_rows;
} row_job;

static void rmsnorm_row(void *arg, size_t i)
{
    const row_job *j = arg;
    j->isa->rmsnorm(j->y + i * j->n, j->x + i * j->n, j->w, j->n, j->eps);
}

void cpu_rmsnorm(kernels *k, k_buf *y, const k_buf *x, const k_buf *gain, uint32_t n, float eps, uint32_t rows)
{
    cpu_backend *b   = cpu_of(k);
    row_job      job = {.isa = &b->isa, .y = buf_f32(y), .x = buf_f32(x), .w = buf_f32(gain), .n = n, .eps = eps};
    for_rows(b, rmsnorm_row, &job, rows, n);
}

static void add_row(void *arg, size_t i)
{
    const row_job *j = arg;
    j->isa->add(j->y + i * j->n, j->x + i * j->n, j->n);
}

void cpu_add(kernels *k, k_buf *x, const k_buf *y, uint32_t n, uint32_t rows)
{
    cpu_backend *b   = cpu_of(k);
    row_job      job = {.isa = &b->isa, .y = buf_f32(x), .x = buf_f32(y), .n = n};
    for_rows(b, add_row, &job, rows, n);
}

static void add_scaled_row(void *arg, size_t i)
{
    const row_job *j = arg;
    j->isa->axpy(j->y + j->y_rows[i] * j->n, j->scales[i], j->x + i * j->n, j->n);
}

void cpu_add_scaled(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const float *scales, uint32_t n,
                    uint32_t n_rows)
{
    cpu_backend *b   = cpu_of(k);
    row_job      job = {.isa = &b->isa, .y = buf_f32(y), .x = buf_f32(x), .scales = scales, .n = n, .y_rows = y_rows};
    for_rows(b, add_scaled_row, &job, n_rows, n);
}

static void swiglu_row(void *arg, size_t i)
{
    const row_job *j = arg;
    j->isa->swiglu(j->y + i * j->n, j->x + i * j->n, j->z + i * j->n, j->n);
}

void cpu_swiglu(kernels *k, k_buf *y, const k_buf *gate, const k_buf *up, uint32_t n, uint32_t rows)
{
    cpu_backend *b   = cpu_of(k);
    row_job      job = {.isa = &b->isa, .y = buf_f32(y), .x = buf_f32(gate), .z = buf_f32(up), .n = n};
    for_rows(b, swiglu_row, &job, rows, 4 * (size_t)n);
}

static void copy_row(void *arg, size_t i)
{
    const row_job *j = arg;
    const size_t   y = j->y_rows == NULL ? i : j->y_rows[i], x = j->x_rows == NULL ? i : j->x_rows[i];
    if (j->y + y * j->n != j->x + x * j->n) memcpy(j->y + y * j->n, j->x + x * j->n, j->n * sizeof(float));
}

void cpu_copy_rows(kernels *k, k_buf *y, const uint32_t *y_rows, const k_buf *x, const uint32_t *x_rows, uint32_t n,
                   uint32_t n_rows)
{
    row_job job = {.y = buf_f32(y), .x = buf_f32(x), .n = n, .y_rows = y_rows, .x_rows = x_rows};
    for_rows(cpu_of(k), copy_row, &job, n_rows, y == x ? 0 : n); /* in place the order counts: one thread */
}

static void concat_row(void *arg, size_t i)
{
    const row_job *j = arg;
    memcpy(j->y + 2 * i * j->n, j->x + i * j->n, j->n * sizeof(float));
    memcpy(j->y + (2 * i + 1) * j->n, j->z + i * j->n, j->n * sizeof(float));
}

void cpu_concat(kernels *k, k_buf *y, const k_buf *a, const k_buf *b, uint32_t n, uint32_t rows)
{
    row_job job = {.y = buf_f32(y), .x = buf_f32(a), .z = buf_f32(b), .n = n};
    for_rows(cpu_of(k), concat_row, &job, rows, 2 * (size_t)n);
}

static void gated_norm_row(void *arg, size_t i)
{
    const row_job *j = arg;
    for (size_t h = 0; h < j->per_row; h++) {
        const size_t at = (i * j->per_row + h) * j->n;
        j->isa->rmsnorm(j->y + at, j->x + at, j->w, j->n, j->eps);
        j->isa->swiglu(j->y + at, j->z + at, j->y + at, j->n);
    }
}

void cpu_gated_norm(kernels *k, k_buf *y, const k_buf *x, const k_buf *z, const k_buf *gain, float eps)
{
    cpu_backend         *b   = cpu_of(k);
    const k_delta_shape *s   = &b->limits.delta;
    row_job              job = {.isa     = &b->isa,
                                .y       = buf_f32(y),
                                .x       = buf_f32(x),
                                .z       = buf_f32(z),
                                .w       = buf_f32(gain),
                                .n       = s->value_dim,
                                .per_row = s->value_heads,
                                .eps     = eps};
    for_rows(b, gated_norm_row, &job, b->step->n_rows, 6 * (size_t)s->value_heads * s->value_dim);
}
