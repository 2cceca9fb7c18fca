/* Every instruction set gives the scalar bits: dot products over every storage
 * format, one by one and through panels, from odd addresses and without a read
 * past the last weight, scale, input or panel element. */
#include "isa_case.h"

enum { MAX_M = DOT_ROWS, PINNED_M = 6, MAX_ROWS = 9, MAX_COLS = 2176 };

/* One weight of a format, its prepared inputs and what the scalar table makes of
 * them row by row. */
typedef struct linear_case {
    lin_weight   w;
    lin_layout   lo;
    size_t       number;
    const float *x[MAX_M]; /* prepared */
    float        y[MAX_M][MAX_ROWS];
} linear_case;

static const dtype scale_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

static void put_u16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

/* n random floats of a type; halves have subnormals among them. */
static void fill_floats(uint64_t *seed, uint8_t *p, dtype type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float    x    = rng_float(seed, -1.0f, 1.0f);
        const uint32_t bits = (uint32_t)rng_next(seed);
        if (type == DTYPE_F32)
            memcpy(p + 4 * i, &x, sizeof x);
        else if (type == DTYPE_BF16)
            put_u16(p + 2 * i, bf16_from_f32(x));
        else
            put_u16(p + 2 * i, (uint16_t)((bits & 0x83FFu) | (bits >> 16 & 15u) << 10));
    }
}

static dtype dense_type(k_format f)
{
    return f == K_F32 ? DTYPE_F32 : f == K_F16 ? DTYPE_F16 : DTYPE_BF16;
}

/* Fences 0 to 2 hold the weight, `back` bytes from the end. */
static void make_weight(linear_case *c, uint64_t *seed, k_format format, uint32_t group, dtype scale_type,
                        uint32_t cols, size_t back)
{
    lin_weight *w = &c->w;
    *w            = (lin_weight){.format = format, .rows = MAX_ROWS, .cols = cols};
    if (format == K_AFFINE4 || format == K_AFFINE8) {
        w->group           = group;
        w->scale_type      = scale_type;
        w->row_bytes       = format == K_AFFINE4 ? cols / 2 : cols;
        w->scale_row_bytes = cols / group * (scale_type == DTYPE_F32 ? 4u : 2u);
        uint8_t *codes     = fence_place(0, MAX_ROWS * w->row_bytes, back);
        uint8_t *scales    = fence_place(1, MAX_ROWS * w->scale_row_bytes, back);
        uint8_t *biases    = fence_place(2, MAX_ROWS * w->scale_row_bytes, back);
        for (size_t i = 0; i < MAX_ROWS * w->row_bytes; i++) codes[i] = (uint8_t)rng_next(seed);
        fill_floats(seed, scales, scale_type, MAX_ROWS * cols / group);
        fill_floats(seed, biases, scale_type, MAX_ROWS * cols / group);
        w->data   = codes;
        w->scales = scales;
        w->biases = biases;
    } else {
        w->row_bytes  = cols * (format == K_F32 ? 4u : 2u);
        uint8_t *data = fence_place(0, MAX_ROWS * w->row_bytes, back);
        fill_floats(seed, data, dense_type(format), (size_t)MAX_ROWS * cols);
        w->data = data;
    }
    c->lo = lin_layout_of(format, group, cols);
}

/* Fence 3 holds the plain input in turn, fences 4 to 11 the prepared rows.  Those
 * that no digest covers have a seed of their own, so that the digests keep. */
static void make_inputs(linear_case *c, uint64_t *seed)
{
    float   *x    = fence_floats(3, c->w.cols);
    uint64_t more = 13;
    for (size_t j = 0; j < MAX_M; j++) {
        float *xp = fence_floats(4 + j, lin_x_floats(&c->lo));
        rng_fill(j < PINNED_M ? seed : &more, x, c->w.cols, -1.0f, 1.0f);
        lin_prepare(&c->lo, c->w.format, c->w.group, c->w.cols, xp, x);
        assert_true(fence_intact(xp));
        c->x[j]    = xp;
        float *y[] = {c->y[j]};
        tables[0].lin_dot(&c->w, 0, MAX_ROWS, &c->x[j], 1, y);
    }
}

/* Any rows, for any number of inputs, have the bits of the one-by-one dots. */
static void check_dots(const linear_case *c, const cpu_isa *t)
{
    for (unsigned m = 1; m <= DOT_ROWS; m++)
        for (size_t n = 1; n <= MAX_ROWS; n++) {
            const size_t row0 = (n * 5 + m) % (MAX_ROWS - n + 1);
            float       *y[DOT_ROWS];
            for (unsigned j = 0; j < m; j++) y[j] = fence_floats(12 + j, n);
            t->lin_dot(&c->w, row0, n, c->x, m, y);
            for (unsigned j = 0; j < m; j++)
                check_floats("lin_dot", t, c->number * 100 + m * 10 + n, c->y[j] + row0, y[j], n);
        }
}

/* A panel of n rows from row0, multiplied with 1 to 6 inputs piece by piece, has
 * them too, whatever the accumulators held before. */
static void check_panel(const linear_case *c, const cpu_isa *t, size_t row0, size_t n)
{
    const size_t size = lin_panel_floats(&c->lo);
    float       *want = fence_floats(12, size), *panel = fence_floats(13, size);
    tables[0].lin_expand(&c->w, row0, n, want);
    t->lin_expand(&c->w, row0, n, panel);
    check_floats("lin_expand", t, c->number, want, panel, size);
    for (unsigned m = 1; m <= TILE_ROWS; m++) {
        float *acc = fence_floats(14, (size_t)m * PANEL_ROWS * LANES), *sums = fence_floats(15, (size_t)m * PANEL_ROWS);
        for (size_t i = 0; i < c->lo.n_pieces; i++) t->lin_tile(&c->lo, acc, c->x, m, panel, i);
        t->lin_reduce(sums, acc, (size_t)m * PANEL_ROWS);
        for (unsigned j = 0; j < m; j++)
            check_bits("lin_tile", t, c->number * 10 + m, c->y[j] + row0, sums + j * PANEL_ROWS, n);
        assert_true(fence_intact(acc) && fence_intact(sums));
    }
}

static void check_case(linear_case *c, uint64_t *seed, uint64_t *h)
{
    make_inputs(c, seed);
    for (size_t j = 0; j < PINNED_M; j++) digest(h, c->y[j], MAX_ROWS);
    for (size_t t = 0; t < n_tables; t++) {
        check_dots(c, &tables[t]);
        for (size_t n = 1; n <= PANEL_ROWS; n++) check_panel(c, &tables[t], (c->number + n) % (MAX_ROWS - n + 1), n);
    }
}

static void dense_formats(void **state)
{
    (void)state;
    static const k_format formats[] = {K_F32, K_F16, K_BF16};
    static const uint32_t cols[]    = {1, 2, 15, 16, 17, 31, 33, 100, 511, 513, 1024, 1040};
    uint64_t              seed = 10, h = DIGEST_START;
    linear_case           c = {.number = 0};
    for (size_t f = 0; f < 3; f++)
        for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
            for (size_t back = 0; back < 2; back++, c.number++) {
                make_weight(&c, &seed, formats[f], 0, DTYPE_F32, cols[i], back);
                check_case(&c, &seed, &h);
            }
    check_digest("dense", h, 0x520453007DFCA023u);
}

/* Columns that end within a word block, a group chunk or exactly with one. */
static void check_affine(k_format format, uint64_t seed, uint64_t expected)
{
    static const uint32_t groups[] = {32, 64, 128}, n_groups[] = {1, 2, 3, 4, 5, 15, 16, 17};
    uint64_t              h = DIGEST_START;
    linear_case           c = {.number = 0};
    for (size_t g = 0; g < 3; g++)
        for (size_t s = 0; s < 3; s++)
            for (size_t i = 0; i < sizeof n_groups / sizeof *n_groups; i++, c.number++) {
                make_weight(&c, &seed, format, groups[g], scale_types[s], groups[g] * n_groups[i], c.number % 2);
                assert_in_range(c.w.cols, 32, MAX_COLS);
                check_case(&c, &seed, &h);
            }
    check_digest(format == K_AFFINE4 ? "affine4" : "affine8", h, expected);
}

static void affine_of_4_bits(void **state)
{
    (void)state;
    check_affine(K_AFFINE4, 11, 0x613B0DEC472BAE83u);
}

static void affine_of_8_bits(void **state)
{
    (void)state;
    check_affine(K_AFFINE8, 12, 0x7D6234143D6FC818u);
}

/* What linear_layout.h promises about sizes. */
static void no_layout_takes_more_than_the_maximum(void **state)
{
    (void)state;
    static const k_format formats[] = {K_F32, K_AFFINE4, K_AFFINE8};
    for (size_t f = 0; f < 3; f++)
        for (uint32_t group = 32; group <= 128; group *= 2)
            for (uint32_t cols = formats[f] == K_F32 ? 1 : group; cols <= 9000;
                 cols += formats[f] == K_F32 ? 7 : group) {
                const lin_layout lo = lin_layout_of(formats[f], group, cols);
                if (lin_x_stride(&lo) > lin_x_stride_max(cols) || lin_panel_floats(&lo) > lin_panel_floats_max(cols))
                    fail_msg("format %d, group %u, %u columns: %zu and %zu floats, expected at most %zu and %zu",
                             (int)formats[f], group, cols, lin_x_stride(&lo), lin_panel_floats(&lo),
                             lin_x_stride_max(cols), lin_panel_floats_max(cols));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_formats),
        cmocka_unit_test(affine_of_4_bits),
        cmocka_unit_test(affine_of_8_bits),
        cmocka_unit_test(no_layout_takes_more_than_the_maximum),
    };
    return cmocka_run_group_tests_name("isa_linear", tests, isa_setup, isa_teardown);
}
