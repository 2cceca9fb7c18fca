/* Rows and bytes from one place of the backend's memory to another. */
#include "weight_case.h"

#include <math.h>
#include <string.h>

/* Sizes below and above what is worth waking the threads for. */
enum { ROWS = 64, FEW = 24, MANY = 1000, MAX_COLS = MANY };

static const k_limits limits = {.max_rows = ROWS, .max_cols = MAX_COLS};
static float          from[ROWS * MAX_COLS], found[2 * ROWS * MAX_COLS], expected[2 * ROWS * MAX_COLS];

static void fill(float *x, size_t n, uint64_t seed)
{
    rng_fill(&seed, x, n, -1.0f, 1.0f);
}

static void check(kernels *k, k_buf *b, size_t n, const char *what, uint32_t cols)
{
    k->buf_read(k, b, 0, found, n * sizeof *found);
    if (memcmp(found, expected, n * sizeof *found) != 0) fail_msg("%s, %u columns: other bits", what, cols);
    k->buf_free(k, b);
}

/* y[y_rows[i]] = x[x_rows[i]], i < n_rows, between two buffers; the other rows stay. */
static void check_copy(kernels *k, const uint32_t *y_rows, const uint32_t *x_rows, uint32_t cols, uint32_t n_rows)
{
    const size_t n = (size_t)ROWS * cols;
    fill(from, n, 1);
    fill(expected, n, 2);
    k_buf *x = backend_buf(k, from, n), *y = backend_buf(k, expected, n);
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(expected + (size_t)(y_rows == NULL ? i : y_rows[i]) * cols,
               from + (size_t)(x_rows == NULL ? i : x_rows[i]) * cols, cols * sizeof *from);
    k->copy_rows(k, y, y_rows, x, x_rows, cols, n_rows);
    check(k, y, n, "between buffers", cols);
    k->buf_free(k, x);
}

/* The same within one buffer, in the order of the list. */
static void check_within(kernels *k, const uint32_t *y_rows, const uint32_t *x_rows, uint32_t cols, uint32_t n_rows)
{
    const size_t n = (size_t)ROWS * cols;
    fill(expected, n, 3);
    k_buf *x = backend_buf(k, expected, n);
    memcpy(from, expected, n * sizeof *from); /* a row is read before it is written: its old value */
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(expected + (size_t)(y_rows == NULL ? i : y_rows[i]) * cols,
               from + (size_t)(x_rows == NULL ? i : x_rows[i]) * cols, cols * sizeof *from);
    k->copy_rows(k, x, y_rows, x, x_rows, cols, n_rows);
    check(k, x, n, "within one", cols);
}

static void test_copy_rows(void **given)
{
    (void)given;
    uint32_t              backwards[ROWS], even[ROWS / 2], behind[ROWS / 2], next[ROWS - 1];
    static const uint32_t same[] = {7, 7, 7}, three[] = {40, 0, 63};
    for (uint32_t i = 0; i < ROWS; i++) backwards[i] = ROWS - 1 - i;
    for (uint32_t i = 0; i < ROWS / 2; i++) even[i] = 2 * i;
    for (uint32_t i = 0; i < ROWS / 2; i++) behind[i] = ROWS / 2 + (i + 5) % (ROWS / 2);
    for (uint32_t i = 0; i + 1 < ROWS; i++) next[i] = i + 1;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        kernels *k = backend_open(threads, &limits);
        for (uint32_t cols = FEW; cols <= MANY; cols += MANY - FEW) {
            check_copy(k, NULL, NULL, cols, ROWS);
            check_copy(k, NULL, backwards, cols, ROWS);
            check_copy(k, backwards, NULL, cols, ROWS);
            check_copy(k, behind, even, cols, ROWS / 2);
            check_copy(k, three, same, cols, 3);
            check_copy(k, three, same, cols, 0);
            check_within(k, behind, NULL, cols, ROWS / 2);
            check_within(k, NULL, even, cols, ROWS / 2);
            check_within(k, NULL, next, cols, ROWS - 1); /* each row is written after it was read */
            check_within(k, NULL, NULL, cols, ROWS);
        }
        k->close(k);
    }
}

/* y[y_rows[i]] += scales[i] * x[i], with one rounding; the other rows stay. */
static void test_add_scaled(void **given)
{
    (void)given;
    static const uint32_t rows[]   = {3, 0, 63, 17};
    static const float    scales[] = {1.0f, -0.3f, 1e-3f, 77.7f};
    enum { N = sizeof rows / sizeof *rows };
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        kernels *k = backend_open(threads, &limits);
        for (uint32_t cols = FEW; cols <= MANY; cols += MANY - FEW) {
            const size_t n = (size_t)ROWS * cols;
            fill(from, N * cols, 5);
            fill(expected, n, 6);
            k_buf *x = backend_buf(k, from, N * cols), *y = backend_buf(k, expected, n);
            for (uint32_t i = 0; i < N; i++)
                for (uint32_t j = 0; j < cols; j++) {
                    float *e = &expected[(size_t)rows[i] * cols + j];
                    *e       = fmaf(scales[i], from[(size_t)i * cols + j], *e);
                }
            k->add_scaled(k, y, rows, x, scales, cols, N);
            check(k, y, n, "scaled", cols);
            k->buf_free(k, x);
        }
        k->close(k);
    }
}

static void test_concat(void **given)
{
    (void)given;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        kernels *k = backend_open(threads, &limits);
        for (uint32_t cols = FEW; cols <= MANY; cols += MANY - FEW) {
            const size_t n = (size_t)ROWS * cols;
            fill(from, n, 4);
            k_buf *a = backend_buf(k, from, n);
            for (size_t i = 0; i < ROWS; i++) memcpy(expected + 2 * i * cols, from + i * cols, cols * sizeof *from);
            fill(from, n, 5);
            k_buf *b = backend_buf(k, from, n), *y = backend_buf(k, NULL, 2 * n);
            for (size_t i = 0; i < ROWS; i++)
                memcpy(expected + (2 * i + 1) * cols, from + i * cols, cols * sizeof *from);
            k->concat(k, y, a, b, cols, ROWS);
            check(k, y, 2 * n, "side by side", cols);
            k->buf_free(k, a);
            k->buf_free(k, b);
        }
        k->close(k);
    }
}

static void test_buf_copy(void **given)
{
    (void)given;
    enum { N = 1000 };
    kernels *k = backend_open(1, &limits);
    fill(from, N, 6);
    fill(expected, N, 7);
    k_buf *x = backend_buf(k, from, N), *y = backend_buf(k, expected, N);
    memcpy((uint8_t *)expected + 13, (const uint8_t *)from + 402, 1001);
    k->buf_copy(k, y, 13, x, 402, 1001);
    k->buf_copy(k, y, 0, x, 0, 0);
    memcpy((uint8_t *)expected + 3000, (const uint8_t *)expected + 100, 900); /* within one buffer */
    k->buf_copy(k, y, 3000, y, 100, 900);
    check(k, y, N, "bytes", 1);
    k->buf_free(k, x);
    k->close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy_rows), cmocka_unit_test(test_add_scaled),
                                       cmocka_unit_test(test_concat), cmocka_unit_test(test_buf_copy)};
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
