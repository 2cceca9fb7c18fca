/* GGML's block types: every instruction set gives the scalar bits, and those are
 * the dense ones over the decoded blocks; from odd addresses and without a read
 * past the last weight, input or panel element. */
#include "isa_case.h"

#include "quant/blocks.h"

enum { MAX_M = DOT_ROWS, MAX_ROWS = 9 };

/* One weight, its inputs, and what dense dot products over its floats make of them. */
typedef struct block_case {
    lin_weight   w;
    lin_layout   lo;
    size_t       number;
    const float *x[MAX_M];
    float        y[MAX_M][MAX_ROWS];
} block_case;

/* Where the halves of a block stand. */
static size_t halves(dtype t, size_t at[2])
{
    at[0] = t == DTYPE_Q2_K ? 80 : t == DTYPE_Q3_K ? 108 : t == DTYPE_Q6_K ? 208 : 0;
    at[1] = at[0] + 2;
    if (t == DTYPE_MXFP4) return 0;
    return t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q2_K || t == DTYPE_Q4_K || t == DTYPE_Q5_K ? 2 : 1;
}

/* Any codes; scales between 2^-10 and 2^-3, of either sign. */
static void fill_blocks(uint64_t *seed, uint8_t *p, dtype t, size_t bytes)
{
    size_t       at[2];
    const size_t n = halves(t, at);
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)rng_next(seed);
    for (size_t b = 0; b < bytes; b += dtype_table[t].bytes) {
        if (n == 0) p[b] = (uint8_t)(120 + rng_below(seed, 8));
        for (size_t i = 0; i < n; i++) {
            const uint16_t h = (uint16_t)((rng_next(seed) & 0x83FFu) | (5 + rng_below(seed, 8)) << 10);
            memcpy(p + b + at[i], &h, sizeof h);
        }
    }
}

/* Fence 0 holds the weight, `back` bytes from the end, fence 1 its floats. */
static void make_case(block_case *c, uint64_t *seed, dtype t, uint32_t cols, size_t back)
{
    lin_weight  *w     = &c->w;
    const size_t bytes = blocks_bytes(t, cols);
    *w                 = (lin_weight){.format = k_block_format(t), .rows = MAX_ROWS, .cols = cols, .row_bytes = bytes};
    uint8_t *data      = fence_place(0, MAX_ROWS * bytes, back);
    float   *q         = fence_floats(1, (size_t)MAX_ROWS * cols);
    fill_blocks(seed, data, t, MAX_ROWS * bytes);
    blocks_decode(q, data, t, (size_t)MAX_ROWS * cols);
    w->data = data;
    c->lo   = lin_layout_of(w->format, 0, cols);

    const lin_weight dense = {
        .format = K_F32, .rows = MAX_ROWS, .cols = cols, .row_bytes = 4 * (size_t)cols, .data = (const uint8_t *)q};
    float *x = fence_floats(2, cols);
    for (size_t j = 0; j < MAX_M; j++) {
        float *xp  = fence_floats(3 + j, lin_x_floats(&c->lo));
        float *y[] = {c->y[j]};
        rng_fill(seed, x, cols, -1.0f, 1.0f);
        lin_prepare(&c->lo, w->format, 0, cols, xp, x);
        c->x[j] = xp;
        tables[0].lin_dot(&dense, 0, MAX_ROWS, &c->x[j], 1, y);
    }
}

static void check_dots(const block_case *c, const cpu_isa *t)
{
    for (unsigned m = 1; m <= DOT_ROWS; m++)
        for (size_t n = 1; n <= MAX_ROWS; n++) {
            const size_t row0 = (n * 5 + m) % (MAX_ROWS - n + 1);
            float       *y[DOT_ROWS];
            for (unsigned j = 0; j < m; j++) y[j] = fence_floats(12 + j, n);
            t->block_dot(&c->w, row0, n, c->x, m, y);
            for (unsigned j = 0; j < m; j++)
                check_floats("block_dot", t, c->number * 100 + m * 10 + n, c->y[j] + row0, y[j], n);
        }
}

static void check_panel(const block_case *c, const cpu_isa *t, size_t row0, size_t n)
{
    const size_t size = lin_panel_floats(&c->lo);
    float       *want = fence_floats(12, size), *panel = fence_floats(13, size);
    tables[0].block_expand(&c->w, row0, n, want);
    t->block_expand(&c->w, row0, n, panel);
    check_floats("block_expand", t, c->number, want, panel, size);
    float *acc  = fence_floats(14, (size_t)TILE_ROWS * PANEL_ROWS * LANES),
          *sums = fence_floats(15, TILE_ROWS * PANEL_ROWS);
    for (size_t i = 0; i < c->lo.n_pieces; i++) t->lin_tile(&c->lo, acc, c->x, TILE_ROWS, panel, i);
    t->lin_reduce(sums, acc, TILE_ROWS * PANEL_ROWS);
    for (unsigned j = 0; j < TILE_ROWS; j++)
        check_bits("lin_tile", t, c->number, c->y[j] + row0, sums + j * PANEL_ROWS, n);
}

static void every_type(void **state)
{
    (void)state;
    static const uint32_t small[] = {32, 64, 96, 288, 544, 1056}, large[] = {256, 512, 1280};
    uint64_t              seed = 35;
    block_case            c    = {.number = 0};
    unsigned              n    = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (!blocks_is((dtype)t)) continue;
        n++;
        const bool is_small = dtype_table[t].elements == 32;
        for (size_t i = 0; i < (is_small ? 6u : 3u); i++, c.number++) {
            make_case(&c, &seed, (dtype)t, is_small ? small[i] : large[i], i % 2);
            for (size_t k = 0; k < n_tables; k++) {
                check_dots(&c, &tables[k]);
                for (size_t r = 1; r <= PANEL_ROWS; r++)
                    check_panel(&c, &tables[k], (c.number + r) % (MAX_ROWS - r + 1), r);
            }
        }
    }
    assert_int_equal(n, K_FORMATS - K_Q4_0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type)};
    return cmocka_run_group_tests_name("isa_blocks", tests, isa_setup, isa_teardown);
}
