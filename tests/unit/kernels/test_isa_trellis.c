/* Trellis codes, along the columns and across them: every instruction set gives the scalar
 * bits, and those are the dense ones over the decoded weights; from odd addresses and without
 * a read past the last block, scale, input or panel element. */
#include "isa_case.h"

#include "kernels/cpu/decode.h"

enum { MAX_M = DOT_ROWS, MAX_ROWS = 512 };

/* One weight, its inputs, and what dense dot products over its floats make of them. */
typedef struct trellis_case {
    lin_weight   w;
    lin_layout   lo;
    size_t       number;
    const float *x[MAX_M];
    float        y[MAX_M][MAX_ROWS];
} trellis_case;

/* Weight rows that are asked for at once. */
typedef struct row_range {
    size_t row0, n;
} row_range;

/* Any symbols in fence 0; in fence 20 scales of either sign, one of them zero and one subnormal, and two
 * of the significands that need care. */
static void make_weight(trellis_case *c, uint64_t *seed, const lin_weight *form, size_t back)
{
    static const uint16_t special[] = {0x0000, 0x8000, 0x0001, 0x2579, 0xA29B, 0x03FF};
    lin_weight           *w         = &c->w;
    *w                              = *form;
    const bool   across             = w->format == K_TRELLIS_ACROSS;
    const size_t stored = across ? w->cols : w->rows, coded = across ? w->rows : w->cols;
    const size_t bytes  = stored * coded * w->bits / 8;
    uint8_t     *data   = fence_place(0, bytes, back);
    uint8_t     *scales = fence_place(20, stored * 2, back);
    w->scale_type       = DTYPE_F16;
    w->scale_row_bytes  = 2;
    w->run              = w->run == 0 ? (uint32_t)coded / TRELLIS_BLOCK : w->run;
    w->row_bytes        = w->run * trellis_block_bytes(w->bits);
    w->run_bytes        = w->cols * w->row_bytes;
    w->data             = data;
    w->scales           = scales;
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)rng_next(seed);
    for (size_t i = 0; i < stored; i++) {
        const uint16_t any   = (uint16_t)((rng_next(seed) & 0x83FFu) | (8 + rng_below(seed, 6)) << 10);
        const uint16_t scale = i < sizeof special / sizeof *special ? special[i] : any;
        memcpy(scales + 2 * i, &scale, sizeof scale);
    }
}

/* Fence 1 holds a weight row's floats in turn, 2 the plain input, 3 to 10 the prepared ones. */
static void make_inputs(trellis_case *c, uint64_t *seed)
{
    const uint32_t cols = c->w.cols;
    c->lo               = lin_layout_of(c->w.format, c->w.group, cols);
    float *x            = fence_floats(2, cols);
    for (size_t j = 0; j < MAX_M; j++) {
        float *xp = fence_floats(3 + j, lin_x_floats(&c->lo));
        rng_fill(seed, x, cols, -1.0f, 1.0f);
        lin_prepare(&c->lo, c->w.format, c->w.group, cols, xp, x);
        c->x[j] = xp;
    }
    for (size_t r = 0; r < c->w.rows; r++) {
        float *q = fence_floats(1, cols), *y[MAX_M];
        weight_decode(&c->w, r, 0, cols, q);
        const lin_weight dense = {
            .format = K_F32, .rows = 1, .cols = cols, .row_bytes = 4 * (size_t)cols, .data = (const uint8_t *)q};
        for (size_t j = 0; j < MAX_M; j++) y[j] = &c->y[j][r];
        tables[0].lin_dot(&dense, 0, 1, c->x, MAX_M, y);
    }
}

static void check_dot(const trellis_case *c, const cpu_isa *t, row_range at, unsigned m)
{
    float *y[MAX_M];
    for (unsigned j = 0; j < m; j++) y[j] = fence_floats(12 + j, at.n);
    t->block_dot(&c->w, at.row0, at.n, c->x, m, y);
    for (unsigned j = 0; j < m; j++)
        check_floats("block_dot", t, c->number * 100 + m * 10 + j, c->y[j] + at.row0, y[j], at.n);
}

static void check_panels(const trellis_case *c, const cpu_isa *t, row_range at)
{
    const size_t panels = (at.n + PANEL_ROWS - 1) / PANEL_ROWS, one = lin_panel_floats(&c->lo), size = panels * one;
    float       *want = fence_floats(12, size), *got = fence_floats(13, size);
    tables[0].block_expand(&c->w, at.row0, at.n, want);
    t->block_expand(&c->w, at.row0, at.n, got);
    check_floats("block_expand", t, c->number, want, got, size);
    float *acc  = fence_floats(14, (size_t)TILE_ROWS * PANEL_ROWS * LANES),
          *sums = fence_floats(15, TILE_ROWS * PANEL_ROWS);
    for (size_t p = 0; p < panels; p++) {
        for (size_t i = 0; i < c->lo.n_pieces; i++) t->lin_tile(&c->lo, acc, c->x, TILE_ROWS, got + p * one, i);
        t->lin_reduce(sums, acc, TILE_ROWS * PANEL_ROWS);
        const size_t first = p * PANEL_ROWS, n = at.n - first < PANEL_ROWS ? at.n - first : PANEL_ROWS;
        for (unsigned j = 0; j < TILE_ROWS; j++)
            check_bits("lin_tile", t, c->number, c->y[j] + at.row0 + first, sums + j * PANEL_ROWS, n);
    }
}

/* The scalar dots decode every weight again for every row: they get few. */
static void check_case(trellis_case *c, uint64_t *seed, const row_range *ranges, size_t n_ranges)
{
    make_inputs(c, seed);
    for (size_t k = 0; k < n_tables; k++)
        for (size_t i = 0; i < n_ranges; i++) {
            for (unsigned m = 1; m <= (k == 0 ? 1 : MAX_M); m++)
                if (k > 0 || ranges[i].n <= 16) check_dot(c, &tables[k], ranges[i], m);
            if (ranges[i].n <= 32) check_panels(c, &tables[k], ranges[i]);
        }
}

static void along_the_columns(void **state)
{
    (void)state;
    static const row_range ranges[] = {{0, 1}, {5, 4}, {0, 9}, {2, 6}};
    uint64_t               seed     = 41;
    trellis_case           c        = {.number = 0};
    for (uint32_t bits = 1; bits <= TRELLIS_MAX_BITS; bits++)
        for (uint32_t blocks = 1; blocks <= 3; blocks += 2, c.number++) {
            const lin_weight form = {
                .format = K_TRELLIS, .rows = 9, .cols = blocks * TRELLIS_BLOCK, .group = 0, .bits = bits};
            make_weight(&c, &seed, &form, c.number % 2);
            check_case(&c, &seed, ranges, sizeof ranges / sizeof *ranges);
        }
}

/* Columns that end anywhere among the lanes; weight rows from anywhere in a block, over its end. */
static void across_the_columns(void **state)
{
    (void)state;
    static const row_range ranges[] = {{0, 512}, {0, 64}, {16, 16}, {511, 1}, {250, 13}, {3, 200}, {37, 30}, {64, 32}};
    uint64_t               seed     = 42;
    trellis_case           c        = {.number = 0};
    for (uint32_t bits = 1; bits <= TRELLIS_MAX_BITS; bits++, c.number++) {
        const lin_weight form = {
            .format = K_TRELLIS_ACROSS, .rows = MAX_ROWS, .cols = 5 + 7 * bits, .bits = bits, .run = bits == 3 ? 2 : 0};
        make_weight(&c, &seed, &form, c.number % 2);
        check_case(&c, &seed, ranges, sizeof ranges / sizeof *ranges);
    }
}

/* Two blocks side by side, all columns of them, then the next two. */
static void pairs_of_blocks(void **state)
{
    (void)state;
    enum { ROWS = 1024, COLS = 3, BLOCKS = ROWS / TRELLIS_BLOCK, BYTES = 96 };
    uint64_t   seed = 43;
    uint8_t   *rows = fence_place(0, COLS * BLOCKS * BYTES, 0), *pairs = fence_place(1, COLS * BLOCKS * BYTES, 0);
    uint16_t   one[] = {0x3C00, 0x3C00, 0x3C00};
    lin_weight w     = {.format          = K_TRELLIS_ACROSS,
                        .rows            = ROWS,
                        .cols            = COLS,
                        .bits            = 3,
                        .run             = BLOCKS,
                        .row_bytes       = BLOCKS * BYTES,
                        .run_bytes       = COLS * BLOCKS * BYTES,
                        .data            = rows,
                        .scales          = (const uint8_t *)one,
                        .scale_type      = DTYPE_F16,
                        .scale_row_bytes = 2};
    lin_weight p     = w;
    p.run            = 2;
    p.row_bytes      = 2 * BYTES;
    p.run_bytes      = COLS * 2 * BYTES;
    p.data           = pairs;
    for (size_t i = 0; i < COLS * BLOCKS * BYTES; i++) rows[i] = (uint8_t)rng_next(&seed);
    for (size_t c = 0; c < COLS; c++) /* from the words' formula, not from the kernels' */
        for (size_t b = 0; b < BLOCKS; b++)
            memcpy(pairs + 4 * (b / 2 * COLS * 48 + c * 48 + b % 2 * 24), rows + 4 * (c * BLOCKS * 24 + b * 24), BYTES);
    for (size_t r = 0; r < ROWS; r += 77) {
        float a[COLS], b[COLS];
        weight_decode(&w, r, 0, COLS, a);
        weight_decode(&p, r, 0, COLS, b);
        check_bits("weight_decode", &tables[0], r, a, b, COLS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(along_the_columns), cmocka_unit_test(across_the_columns),
                                       cmocka_unit_test(pairs_of_blocks)};
    return cmocka_run_group_tests_name("isa_trellis", tests, isa_setup, isa_teardown);
}
