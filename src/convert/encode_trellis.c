/* convert/encode_trellis.c - rows or columns of the source as trellis blocks.
 *
 * First each thread widens and scales rows, then all blocks are cut among the
 * threads: a block takes a quarter of a millisecond, a row may have seventy. */
#include "convert/encode_trellis.h"

#include "base/mem.h"
#include "base/simd.h"
#include "quant/dense.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK = TRELLIS_BLOCK, BLOCKS_OF_THREAD = 64, LEAST_COLUMNS = 32 };

uint64_t trellis_coder_most(const plan_item *i, uint32_t threads)
{
    const uint64_t blocks = plan_coded_cols(i) / BLOCK, all = plan_coded_rows(i);
    uint64_t       n = ((uint64_t)BLOCKS_OF_THREAD * threads + blocks - 1) / blocks;
    /* A column's numbers are far from each other; their neighbours come with them. */
    if (i->axis == 0) n = (n + LEAST_COLUMNS - 1) / LEAST_COLUMNS * LEAST_COLUMNS;
    return n < all ? n : all;
}

static uint64_t block_row(const plan_item *i)
{
    return plan_coded_cols(i) / 8 * i->bits;
}

static void take(size_t *most, uint64_t n)
{
    if (n > *most) *most = n;
}

weir_status trellis_coder_new(trellis_coder *c, const plan *p, uint32_t threads, weir_error *err)
{
    size_t floats = 0, blocks = 0, rows = 0, n_tables = 0;
    bool   used[sizeof c->of_bits / sizeof *c->of_bits] = {false};
    *c                                                  = (trellis_coder){0};
    for (size_t k = 0; k < p->n; k++) {
        const plan_item *i = &p->items[k];
        if (i->kind != PLAN_TRELLIS) continue;
        const uint64_t most = trellis_coder_most(i, threads);
        take(&floats, most * plan_coded_cols(i));
        take(&blocks, most * block_row(i));
        take(&rows, most);
        take(&c->work_floats, trellis_encode_work(i->bits));
        n_tables += !used[i->bits];
        used[i->bits] = true;
    }
    c->tables = mem_alloc(n_tables, sizeof *c->tables);
    c->work   = mem_alloc(threads, c->work_floats * sizeof *c->work);
    c->x      = mem_alloc(floats, sizeof *c->x);
    c->blocks = mem_alloc(blocks, 1);
    c->scales = mem_alloc(rows, sizeof(uint16_t));
    if (c->tables == NULL || c->work == NULL || c->x == NULL || c->blocks == NULL || c->scales == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    for (uint32_t bits = 0, at = 0; bits < sizeof used / sizeof *used; bits++) {
        if (!used[bits]) continue;
        trellis_encode_prepare(&c->tables[at], bits, simd_wide());
        c->of_bits[bits] = &c->tables[at++];
    }
    return WEIR_OK;
}

void trellis_coder_free(trellis_coder *c)
{
    mem_free(c->tables);
    mem_free(c->work);
    mem_free(c->x);
    mem_free(c->blocks);
    mem_free(c->scales);
    *c = (trellis_coder){0};
}

typedef struct job {
    trellis_coder   *c;
    const plan_item *i;
    uint64_t         first, n;
    atomic_bool      odd; /* some number is not finite */
} job;

/* Coded rows begin .. end - 1 of the job as floats. */
static void widen(const job *j, size_t begin, size_t end)
{
    const plan_item *i    = j->i;
    const uint64_t   cols = plan_coded_cols(i), bytes = dtype_table[i->type].bytes;
    if (i->axis == 1) {
        dense_decode(j->c->x + begin * cols, i->mat[0] + (j->first + begin) * cols * bytes, i->type,
                     (end - begin) * cols);
        return;
    }
    for (uint64_t r = 0; r < cols; r++) /* of the source, where its columns are the coded rows */
        for (size_t k = begin; k < end; k++)
            j->c->x[k * cols + r] = dense_at(i->mat[0] + r * i->cols * bytes, i->type, j->first + k);
}

static void scale_rows(void *arg, uint32_t thread, uint32_t n_threads)
{
    job           *j    = arg;
    const uint64_t cols = plan_coded_cols(j->i);
    size_t         begin, end;
    pool_cut(j->n, 1, thread, n_threads, &begin, &end);
    widen(j, begin, end);
    for (size_t k = begin; k < end; k++) {
        uint16_t scale;
        if (!trellis_encode_scale(&scale, j->c->x + k * cols, cols, j->c->of_bits[j->i->bits])) {
            atomic_store(&j->odd, true);
            return;
        }
        memcpy(j->c->scales + k * sizeof scale, &scale, sizeof scale);
    }
}

static void encode_blocks(void *arg, uint32_t thread, uint32_t n_threads)
{
    job           *j    = arg;
    trellis_coder *c    = j->c;
    const uint32_t bits = j->i->bits;
    size_t         begin, end;
    pool_cut(j->n * (plan_coded_cols(j->i) / BLOCK), 2, thread, n_threads, &begin, &end);
    trellis_encode_blocks(c->blocks + begin * (BLOCK / 8 * bits), c->x + begin * BLOCK, end - begin, c->of_bits[bits],
                          c->work + thread * c->work_floats);
}

bool trellis_coder_rows(trellis_coder *c, const plan_item *i, uint64_t first, uint64_t n, pool *threads)
{
    job j = {.c = c, .i = i, .first = first, .n = n};
    pool_run(threads, scale_rows, &j);
    if (atomic_load(&j.odd)) return false;
    pool_run(threads, encode_blocks, &j);
    return true;
}
