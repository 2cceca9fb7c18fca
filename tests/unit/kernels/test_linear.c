/* y = x W^T on the CPU backend: right within the rounding that its order of
 * operations allows, and the same bits for a row whatever runs beside it. */
#include "support/golden.h"
#include "weight_case.h"

#include <math.h>
#include <stdio.h>

enum { MAX_T = 20, MAX_N = 200, MAX_K = 1152, MAX_THREADS = 4 };

static const k_limits limits = {.max_rows = MAX_T, .max_cols = MAX_K};

static float x[MAX_T * MAX_K], one_by_one[MAX_T * MAX_N], together[MAX_T * MAX_N];

/* y [t, rows of w] of the first t rows of x. */
static void run(kernels *k, const k_weight *w, uint32_t rows, const k_buf *xb, uint32_t t, float *y)
{
    k_buf             *yb  = backend_buf(k, NULL, (size_t)t * rows);
    const k_linear_job job = {.w = w, .y = yb};
    k->linear(k, xb, t, &job, 1);
    k->buf_read(k, yb, 0, y, (size_t)t * rows * sizeof(float));
    k->buf_free(k, yb);
}

/* A term passes at most nv + blocks + chunks roundings of its own lane, its
 * group's sum of x and the tree: fewer than K/8 + 16 of 2^-24 each. */
static void check_values(const weight_case *w, const float *y, uint32_t t)
{
    for (size_t j = 0; j < t; j++)
        for (size_t r = 0; r < w->rows; r++) {
            double       size;
            const double want = exact_dot(w, r, x + j * w->cols, &size), bound = (w->cols / 8.0 + 16) * 0x1p-24 * size;
            if (!(fabs((double)y[j * w->rows + r] - want) <= bound))
                fail_msg("format %d, group %u, [%u, %u], x row %zu, row %zu: expected %.9g within %.2g, found %.9g",
                         (int)w->form.format, w->form.group, w->rows, w->cols, j, r, want, bound,
                         (double)y[j * w->rows + r]);
        }
}

static void check_form(kernels *k, weight_form form, uint32_t rows, uint32_t cols, uint64_t *seed)
{
    weight_case w = weight_make(form, 1, rows, cols, seed);
    k_weight   *h = weight_load(k, &w, 0, 1);
    rng_fill(seed, x, (size_t)MAX_T * cols, -1.0f, 1.0f);
    for (uint32_t j = 0; j < MAX_T; j++) {
        k_buf *row = backend_buf(k, x + (size_t)j * cols, cols);
        run(k, h, rows, row, 1, one_by_one + (size_t)j * rows);
        k->buf_free(k, row);
    }
    check_values(&w, one_by_one, MAX_T);
    k_buf *all = backend_buf(k, x, (size_t)MAX_T * cols);
    for (uint32_t t = 1; t <= MAX_T; t++) {
        run(k, h, rows, all, t, together);
        if (memcmp(together, one_by_one, (size_t)t * rows * sizeof(float)) != 0)
            fail_msg("format %d, group %u, [%u, %u]: bits depend on the %u rows of the step", (int)form.format,
                     form.group, rows, cols, t);
    }
    k->buf_free(k, all);
    k->weight_free(k, h);
    weight_drop(&w);
}

static void rows_do_not_see_each_other(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {5, 2}, {37, 4}, {130, 9}}; /* rows, groups of 128 columns */
    uint64_t              seed        = 31;
    kernels              *k           = backend_open(3, &limits);
    for (size_t f = 0; f < N_FORMS; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            uint32_t cols = shapes[s][1] * 128;
            if (!is_affine(all_forms[f].format)) cols -= 128 - 1 - 9 * (uint32_t)s; /* 1, 138, ... */
            check_form(k, all_forms[f], shapes[s][0], cols, &seed);
        }
    k->close(k);
}

static void threads_and_jobs_change_no_bits(void **state)
{
    (void)state;
    enum { ROWS = 150, COLS = 640 };
    static float expected[N_FORMS][MAX_T * ROWS], found[MAX_T * ROWS];
    uint64_t     seed = 32;
    weight_case  w[N_FORMS];
    rng_fill(&seed, x, (size_t)MAX_T * COLS, -1.0f, 1.0f);
    for (size_t f = 0; f < N_FORMS; f++) w[f] = weight_make(all_forms[f], 1, ROWS - 7 * (uint32_t)f, COLS, &seed);
    for (uint32_t threads = 1; threads <= MAX_THREADS; threads++) {
        kernels *k  = backend_open(threads, &limits);
        k_buf   *xb = backend_buf(k, x, (size_t)MAX_T * COLS);
        assert_int_equal(k->threads(k), threads);
        k_linear_job jobs[N_FORMS];
        for (size_t f = 0; f < N_FORMS; f++) {
            k_weight *h = weight_load(k, &w[f], 0, 1);
            jobs[f]     = (k_linear_job){.w = h, .y = backend_buf(k, NULL, (size_t)MAX_T * w[f].rows)};
            if (threads == 1) run(k, h, w[f].rows, xb, MAX_T, expected[f]);
        }
        for (uint32_t t = 1; t <= MAX_T; t += t < 8 ? 1 : 6)
            for (size_t first = 0; first < N_FORMS; first += K_MAX_JOBS) { /* several layouts in a call */
                const size_t n = N_FORMS - first < K_MAX_JOBS ? N_FORMS - first : (size_t)K_MAX_JOBS;
                k->linear(k, xb, t, jobs + first, (uint32_t)n);
                for (size_t f = first; f < first + n; f++) {
                    k->buf_read(k, jobs[f].y, 0, found, (size_t)t * w[f].rows * sizeof(float));
                    if (memcmp(found, expected[f], (size_t)t * w[f].rows * sizeof(float)) != 0)
                        fail_msg("form %zu: %u threads, %u rows: other bits than alone", f, threads, t);
                }
            }
        for (size_t f = 0; f < N_FORMS; f++) {
            k->weight_free(k, (k_weight *)(uintptr_t)jobs[f].w);
            k->buf_free(k, jobs[f].y);
        }
        k->buf_free(k, xb);
        k->close(k);
    }
    for (size_t f = 0; f < N_FORMS; f++) weight_drop(&w[f]);
}

static void too_many_jobs_are_a_failure_of_the_step(void **state)
{
    (void)state;
    uint64_t           seed    = 33;
    weight_case        w       = weight_make(all_forms[0], 1, 3, 32, &seed);
    kernels           *k       = backend_open(1, &limits);
    k_weight          *h       = weight_load(k, &w, 0, 1);
    static const float row[32] = {1.0f};
    k_buf             *xb = backend_buf(k, row, 32), *yb = backend_buf(k, NULL, 3);
    k_linear_job       jobs[K_MAX_JOBS + 1];
    for (size_t i = 0; i <= K_MAX_JOBS; i++) jobs[i] = (k_linear_job){.w = h, .y = yb};
    weir_error err;
    k->linear(k, xb, 1, jobs, K_MAX_JOBS);
    assert_int_equal(k->finish(k, &err), WEIR_OK);
    k->linear(k, xb, 1, jobs, K_MAX_JOBS + 1);
    assert_int_equal(k->finish(k, &err), WEIR_INVALID);
    assert_int_equal(k->finish(k, &err), WEIR_OK); /* told once */
    k->buf_free(k, xb);
    k->buf_free(k, yb);
    k->weight_free(k, h);
    k->close(k);
    weight_drop(&w);
}

/* tests/fixtures/mlx-kernels: packed by another implementation, products in double. */
static void check_fixture(kernels *k, const safetensors *file, const char *codes, const char *scales, k_format format,
                          uint32_t group, dtype scale_type)
{
    enum { T = 3, ROWS = 12, COLS = 256 };
    char weight[32], scale[32], bias[32], result[32];
    (void)snprintf(weight, sizeof weight, "%s.weight", codes);
    (void)snprintf(scale, sizeof scale, "%s.scales", scales);
    (void)snprintf(bias, sizeof bias, "%s.biases", scales);
    (void)snprintf(result, sizeof result, "%s.y", scales);
    const k_matrix      mat  = {.data   = golden_data(file, weight, DTYPE_U32, NULL),
                                .scales = golden_data(file, scale, scale_type, NULL),
                                .biases = golden_data(file, bias, scale_type, NULL)};
    const k_weight_desc desc = {
        .format = format, .mats = 1, .rows = ROWS, .cols = COLS, .group = group, .scale_type = scale_type, .mat = &mat};
    const uint8_t *xs       = golden_data(file, "x", DTYPE_BF16, NULL),
                  *expected = golden_data(file, result, DTYPE_F64, NULL);
    k_weight  *w;
    weir_error err;
    if (k->weight_new(k, &desc, &w, &err) != WEIR_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < (size_t)T * COLS; i++) x[i] = bf16_to_f32(load_u16(xs + 2 * i));
    k_buf *xb = backend_buf(k, x, (size_t)T * COLS);
    run(k, w, ROWS, xb, T, together);
    for (size_t j = 0; j < T; j++) {
        double want[ROWS], squares = 0;
        memcpy(want, expected + j * sizeof want, sizeof want);
        for (size_t r = 0; r < ROWS; r++) squares += want[r] * want[r];
        for (size_t r = 0; r < ROWS; r++)
            if (!(fabs((double)together[j * ROWS + r] - want[r]) <= 1e-5 * (sqrt(squares / ROWS))))
                fail_msg("%s[%zu][%zu]: expected %.9g, found %.9g", result, j, r, want[r],
                         (double)together[j * ROWS + r]);
    }
    k->buf_free(k, xb);
    k->weight_free(k, w);
}

static void products_of_the_mlx_fixture(void **state)
{
    (void)state;
    safetensors file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/fixtures/mlx-kernels/expected.safetensors");
    kernels *k = backend_open(2, &limits);
    for (k_format f = K_AFFINE4; f <= K_AFFINE6; f++)
        for (uint32_t group = 32; group <= 128; group *= 2) {
            char codes[32];
            (void)snprintf(codes, sizeof codes, "b%u.g%u", k_code_bits(f), group);
            check_fixture(k, &file, codes, codes, f, group, DTYPE_BF16);
        }
    check_fixture(k, &file, "b3.g32", "b3.g32.f16", K_AFFINE3, 32, DTYPE_F16);
    check_fixture(k, &file, "b3.g32", "b3.g32.f32", K_AFFINE3, 32, DTYPE_F32);
    check_fixture(k, &file, "b4.g64", "b4.g64.f16", K_AFFINE4, 64, DTYPE_F16);
    check_fixture(k, &file, "b4.g64", "b4.g64.f32", K_AFFINE4, 64, DTYPE_F32);
    check_fixture(k, &file, "b5.g128", "b5.g128.f16", K_AFFINE5, 128, DTYPE_F16);
    check_fixture(k, &file, "b5.g128", "b5.g128.f32", K_AFFINE5, 128, DTYPE_F32);
    check_fixture(k, &file, "b6.g64", "b6.g64.f16", K_AFFINE6, 64, DTYPE_F16);
    check_fixture(k, &file, "b6.g64", "b6.g64.f32", K_AFFINE6, 64, DTYPE_F32);
    k->close(k);
    safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(threads_and_jobs_change_no_bits),
        cmocka_unit_test(too_many_jobs_are_a_failure_of_the_step),
        cmocka_unit_test(products_of_the_mlx_fixture),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
