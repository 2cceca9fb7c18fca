/* kernels/cpu/op_linear.c - y = x W^T: cuts work over weight rows and rows of x,
 * never over K.
 *
 * Few rows of x: each weight row is decoded on the fly and used for all of
 * them (lin_dot).  Many: some weight rows are decoded once into panels that
 * stay in L2, then blocks of TILE_ROWS rows of x run over them piece by piece,
 * so that the piece of x stays in L1 (lin_tile).  Both give the same bits. */
#include "kernels/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

enum {
    DOT_MAX        = 16,  /* rows of x up to which decoding twice beats panels */
    DOT_CHUNK      = 64,  /* weight rows that stay cached between two groups of x rows */
    MAX_PANELS     = 8,   /* panels expanded together */
    PASS_JOBS      = 16,  /* matrices in one run of the pool */
    PREPARE_SERIAL = 8192 /* floats that one thread prepares faster than it wakes others */
};

typedef struct linear_pass {
    cpu_backend   *b;
    const float   *x;
    uint32_t       rows;
    lin_layout     lo;
    k_format       format;
    uint32_t       group, cols;
    size_t         x_floats;
    bool           prepared; /* by the caller, before the threads woke */
    const lin_job *jobs[PASS_JOBS];
    uint32_t       n_jobs;
    size_t         unit[PASS_JOBS], first_unit[PASS_JOBS + 1]; /* weight rows of a unit of work; units before job i */
    atomic_size_t  next;
} linear_pass;

static void prepare_rows(const linear_pass *p, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        lin_prepare(&p->lo, p->format, p->group, p->cols, p->b->prepared + i * p->x_floats, p->x + i * p->cols);
}

static const float *prepared_row(const linear_pass *p, const lin_job *j, size_t i)
{
    return p->b->prepared + (j->x_rows != NULL ? j->x_rows[i] : i) * p->x_floats;
}

static float *result_row(const lin_job *j, size_t i)
{
    return j->y + (j->y_rows != NULL ? j->y_rows[i] : i) * j->w.rows;
}

/* Weight rows row0 .. row0+n-1 for few rows of x, in groups of near equal size. */
static void run_dot(const linear_pass *p, const lin_job *j, size_t row0, size_t n)
{
    const uint32_t groups = (j->n + DOT_ROWS - 1) / DOT_ROWS, size = (j->n + groups - 1) / groups;
    const size_t   chunk = j->w.format == K_TRELLIS_ACROSS ? n : DOT_CHUNK;
    for (size_t r = row0; r < row0 + n; r += chunk) {
        const size_t count = row0 + n - r < chunk ? row0 + n - r : chunk;
        for (uint32_t i = 0; i < j->n; i += size) {
            const unsigned m = j->n - i < size ? j->n - i : size;
            const float   *x[DOT_ROWS];
            float         *y[DOT_ROWS];
            for (unsigned s = 0; s < m; s++) {
                x[s] = prepared_row(p, j, i + s);
                y[s] = result_row(j, i + s) + r;
            }
            if (k_is_decoded(j->w.format))
                p->b->isa.block_dot(&j->w, r, count, x, m, y);
            else
                p->b->isa.lin_dot(&j->w, r, count, x, m, y);
        }
    }
}

/* Up to MAX_PANELS panels of weight rows for many rows of x. */
static void run_panels(const linear_pass *p, const lin_job *j, size_t row0, size_t n, float *panels)
{
    const cpu_isa *isa          = &p->b->isa;
    const size_t   n_panels     = (n + PANEL_ROWS - 1) / PANEL_ROWS;
    const size_t   panel_floats = lin_panel_floats(&p->lo);
    if (k_is_decoded(j->w.format)) isa->block_expand(&j->w, row0, n, panels);
    for (size_t q = 0; q < n_panels && !k_is_decoded(j->w.format); q++) {
        const size_t left = n - q * PANEL_ROWS, rows = left < PANEL_ROWS ? left : PANEL_ROWS;
        isa->lin_expand(&j->w, row0 + q * PANEL_ROWS, rows, panels + q * panel_floats);
    }
    enum { TILE = TILE_ROWS * PANEL_ROWS };
    _Alignas(64) float acc[MAX_PANELS][TILE * LANES];
    for (uint32_t i = 0; i < j->n; i += TILE_ROWS) {
        const unsigned m = j->n - i < TILE_ROWS ? j->n - i : TILE_ROWS;
        const float   *x[TILE_ROWS];
        for (unsigned s = 0; s < m; s++) x[s] = prepared_row(p, j, i + s);
        for (size_t k = 0; k < p->lo.n_pieces; k++)
            for (size_t q = 0; q < n_panels; q++) isa->lin_tile(&p->lo, acc[q], x, m, panels + q * panel_floats, k);
        for (size_t q = 0; q < n_panels; q++) {
            float        sums[TILE];
            const size_t left = n - q * PANEL_ROWS, count = left < PANEL_ROWS ? left : PANEL_ROWS;
            isa->lin_reduce(sums, acc[q], (size_t)m * PANEL_ROWS);
            for (unsigned s = 0; s < m; s++)
                memcpy(result_row(j, i + s) + row0 + q * PANEL_ROWS, sums + s * PANEL_ROWS, count * sizeof(float));
        }
    }
}

static void linear_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    linear_pass *p = arg;
    if (!p->prepared) {
        size_t begin, end;
        pool_cut(p->rows, 1, thread, n_threads, &begin, &end);
        prepare_rows(p, begin, end);
        pool_barrier(p->b->pool);
    }
    float *panels = p->b->panels + thread * p->b->panel_size;
    for (;;) {
        const size_t u = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (u >= p->first_unit[p->n_jobs]) return;
        uint32_t i = 0;
        while (u >= p->first_unit[i + 1]) i++;
        const lin_job *j    = p->jobs[i];
        const size_t   row0 = (u - p->first_unit[i]) * p->unit[i];
        const size_t   n    = j->w.rows - row0 < p->unit[i] ? j->w.rows - row0 : p->unit[i];
        if (j->n <= DOT_MAX)
            run_dot(p, j, row0, n);
        else
            run_panels(p, j, row0, n, panels);
    }
}

/* Weight rows of one unit of work: panels that fit the thread's memory, or a
 * few units a thread so that a slow one does not hold up the rest. */
static size_t unit_rows(const linear_pass *p, const lin_job *j, size_t all_rows)
{
    enum { UNITS = 6, LEAST = 16, ACROSS_LEAST = 64 };
    const bool across = j->w.format == K_TRELLIS_ACROSS; /* what is decoded is 16 rows of a block's 256 */
    if (j->n > DOT_MAX) {
        const size_t fit = p->b->panel_size / lin_panel_floats(&p->lo), some = fit > MAX_PANELS ? MAX_PANELS : fit;
        return (across && some > LEAST / PANEL_ROWS ? some / (LEAST / PANEL_ROWS) * (LEAST / PANEL_ROWS) : some) *
               PANEL_ROWS;
    }
    const size_t rows = all_rows / (pool_threads(p->b->pool) * UNITS);
    if (across) {
        size_t unit = TRELLIS_BLOCK;
        while (unit > ACROSS_LEAST && unit > rows) unit /= 2;
        return unit;
    }
    return (rows < LEAST ? LEAST : rows + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS;
}

/* The jobs whose weights share the layout of jobs[0], one run of the pool. */
static void run_pass(linear_pass *p)
{
    size_t all_rows = 0;
    for (uint32_t i = 0; i < p->n_jobs; i++) all_rows += p->jobs[i]->w.rows;
    p->first_unit[0] = 0;
    for (uint32_t i = 0; i < p->n_jobs; i++) {
        p->unit[i]           = unit_rows(p, p->jobs[i], all_rows);
        p->first_unit[i + 1] = p->first_unit[i] + (p->jobs[i]->w.rows + p->unit[i] - 1) / p->unit[i];
    }
    if (!p->prepared && (size_t)p->rows * p->cols <= PREPARE_SERIAL) {
        prepare_rows(p, 0, p->rows);
        p->prepared = true;
    }
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    pool_run(p->b->pool, linear_part, p);
    p->prepared = true;
}

static bool same_layout(const lin_weight *a, const lin_weight *b)
{
    const bool dense_a = a->format != K_AFFINE4 && a->format != K_AFFINE8;
    const bool dense_b = b->format != K_AFFINE4 && b->format != K_AFFINE8;
    return dense_a || dense_b ? dense_a == dense_b : a->format == b->format && a->group == b->group;
}

void linear_run(cpu_backend *b, const float *x, uint32_t rows, const lin_job *jobs, uint32_t n_jobs)
{
    for (uint32_t i = 0; i < n_jobs; i++) {
        bool first = true; /* of its layout: later ones ran with it */
        for (uint32_t e = 0; e < i && first; e++) first = !same_layout(&jobs[e].w, &jobs[i].w);
        if (!first) continue;
        const lin_weight *w = &jobs[i].w;
        linear_pass       p = {.b = b, .x = x, .rows = rows, .format = w->format, .group = w->group, .cols = w->cols};
        p.lo                = lin_layout_of(w->format, w->group, w->cols);
        p.x_floats          = lin_x_stride(&p.lo);
        for (uint32_t e = i; e < n_jobs; e++) {
            if (!same_layout(w, &jobs[e].w) || jobs[e].n == 0) continue;
            p.jobs[p.n_jobs++] = &jobs[e];
            if (p.n_jobs == PASS_JOBS) {
                run_pass(&p);
                p.n_jobs = 0;
            }
        }
        if (p.n_jobs > 0) run_pass(&p);
    }
}

void cpu_linear(kernels *k, const k_buf *x, uint32_t rows, const k_linear_job *jobs, uint32_t n_jobs)
{
    cpu_backend *b = cpu_of(k);
    lin_job      list[K_MAX_JOBS];
    b->failed = b->failed || n_jobs > K_MAX_JOBS;
    if (rows == 0 || b->failed) return;
    for (uint32_t i = 0; i < n_jobs; i++) list[i] = (lin_job){.w = jobs[i].w->form, .y = buf_f32(jobs[i].y), .n = rows};
    linear_run(b, buf_f32(x), rows, list, n_jobs);
}
