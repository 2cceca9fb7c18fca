/* tests/unit/kernels/weight_case.h - random weights in every storage format, with
 * their exact values, and a backend to run them on. */
#ifndef TESTS_KERNELS_WEIGHT_CASE_H
#define TESTS_KERNELS_WEIGHT_CASE_H

#include "support/cmocka.h"
#include "support/rng.h"

#include "base/bytes.h"
#include "base/half.h"
#include "base/mem.h"
#include "kernels/open.h"

#include <string.h>

typedef struct weight_form {
    k_format format;
    uint32_t group;
    dtype    scale_type;
} weight_form;

static const weight_form all_forms[] = {
    {K_F32, 0, DTYPE_F32},       {K_F16, 0, DTYPE_F32},       {K_BF16, 0, DTYPE_F32},
    {K_AFFINE4, 32, DTYPE_BF16}, {K_AFFINE4, 64, DTYPE_F16},  {K_AFFINE4, 128, DTYPE_F32},
    {K_AFFINE8, 32, DTYPE_F16},  {K_AFFINE8, 64, DTYPE_BF16}, {K_AFFINE8, 128, DTYPE_F32},
};
enum { N_FORMS = sizeof all_forms / sizeof *all_forms };

/* `mats` matrices [rows, cols] one behind the other. */
typedef struct weight_case {
    weight_form form;
    uint32_t    mats, rows, cols;
    uint8_t    *data, *scales, *biases;
    size_t      data_bytes, scale_bytes; /* of one matrix */
} weight_case;

static inline bool is_affine(k_format f)
{
    return f == K_AFFINE4 || f == K_AFFINE8;
}

/* Random floats within -1..1 (halves: 2^-6 to 2 in size), as the type stores them. */
static inline void put_float(uint8_t *p, dtype type, size_t i, uint64_t *seed)
{
    const float    x    = rng_float(seed, -1.0f, 1.0f);
    const uint32_t bits = rng_below(seed, 0x10000u);
    const uint16_t half = type == DTYPE_BF16 ? bf16_from_f32(x) : (uint16_t)((bits & 0x83FFu) | (9 + bits % 7) << 10);
    if (type == DTYPE_F32)
        memcpy(p + 4 * i, &x, sizeof x);
    else
        memcpy(p + 2 * i, &half, sizeof half);
}

static inline double stored_float(const uint8_t *p, dtype type, size_t i)
{
    switch (type) {
    case DTYPE_F32: return (double)load_f32(p + 4 * i);
    case DTYPE_F16: return (double)f16_to_f32(load_u16(p + 2 * i));
    default: return (double)bf16_to_f32(load_u16(p + 2 * i));
    }
}

static inline dtype dense_type(k_format f)
{
    return f == K_F32 ? DTYPE_F32 : f == K_F16 ? DTYPE_F16 : DTYPE_BF16;
}

static inline weight_case weight_make(weight_form form, uint32_t mats, uint32_t rows, uint32_t cols, uint64_t *seed)
{
    weight_case    w          = {.form = form, .mats = mats, .rows = rows, .cols = cols};
    const size_t   n          = (size_t)rows * cols;
    const unsigned scale_size = form.scale_type == DTYPE_F32 ? 4 : 2;
    if (!is_affine(form.format)) {
        w.data_bytes = n * (form.format == K_F32 ? 4 : 2);
        w.data       = mem_alloc(mats, w.data_bytes);
        for (size_t i = 0; i < mats * n; i++) put_float(w.data, dense_type(form.format), i, seed);
        return w;
    }
    w.data_bytes  = form.format == K_AFFINE4 ? n / 2 : n;
    w.scale_bytes = n / form.group * scale_size;
    w.data        = mem_alloc(mats, w.data_bytes);
    w.scales      = mem_alloc(mats, w.scale_bytes);
    w.biases      = mem_alloc(mats, w.scale_bytes);
    for (size_t i = 0; i < mats * w.data_bytes; i++) w.data[i] = (uint8_t)rng_next(seed);
    for (size_t i = 0; i < mats * n / form.group; i++) {
        put_float(w.scales, form.scale_type, i, seed);
        put_float(w.biases, form.scale_type, i, seed);
    }
    return w;
}

static inline void weight_drop(weight_case *w)
{
    mem_free(w->data);
    mem_free(w->scales);
    mem_free(w->biases);
}

/* Matrices first .. first+n-1 for a backend. */
static inline k_weight *weight_load(kernels *k, const weight_case *w, uint32_t first, uint32_t n)
{
    enum { MAX_MATS = 16 };
    k_matrix mat[MAX_MATS];
    assert_in_range(n, 1, MAX_MATS);
    for (uint32_t i = 0; i < n; i++) {
        mat[i] = (k_matrix){.data = w->data + (first + i) * w->data_bytes};
        if (!is_affine(w->form.format)) continue;
        mat[i].scales = w->scales + (first + i) * w->scale_bytes;
        mat[i].biases = w->biases + (first + i) * w->scale_bytes;
    }
    const k_weight_desc d = {.format     = w->form.format,
                             .mats       = n,
                             .rows       = w->rows,
                             .cols       = w->cols,
                             .group      = w->form.group,
                             .scale_type = w->form.scale_type,
                             .mat        = mat};
    k_weight           *out;
    weir_error          err;
    if (k->weight_new(k, &d, &out, &err) != WEIR_OK) fail_msg("%s", err.text);
    return out;
}

/* One dot product of the first matrix's row r, exact but for double rounding;
 * *size is the sum of the magnitudes of all terms, scale * code and bias apart. */
static inline double exact_dot(const weight_case *w, size_t r, const float *x, double *size)
{
    double sum = 0.0;
    *size      = 0.0;
    for (size_t i = 0; i < w->cols; i++) {
        const size_t at = r * w->cols + i;
        double       term, bias = 0.0;
        if (is_affine(w->form.format)) {
            const unsigned code =
                w->form.format == K_AFFINE8 ? w->data[at] : (unsigned)w->data[at / 2] >> 4 * (at % 2) & 15u;
            const size_t g = at / w->form.group;
            term           = stored_float(w->scales, w->form.scale_type, g) * code;
            bias           = stored_float(w->biases, w->form.scale_type, g);
        } else {
            term = stored_float(w->data, dense_type(w->form.format), at);
        }
        const double v = (double)x[i];
        sum += (term + bias) * v;
        *size += (term < 0 ? -term : term) * (v < 0 ? -v : v) + (bias < 0 ? -bias : bias) * (v < 0 ? -v : v);
    }
    return sum;
}

static inline kernels *backend_open(uint32_t threads, const k_limits *limits)
{
    static const double no_frequency = 0.0;
    kernels            *k;
    weir_error          err;
    k_limits            l = *limits;
    l.inv_freq            = &no_frequency;
    if (kernels_open(&k, "cpu", threads, NULL, &err) != WEIR_OK || k->reserve(k, &l, &err) != WEIR_OK)
        fail_msg("%s", err.text);
    return k;
}

static inline k_buf *backend_buf(kernels *k, const float *x, size_t n)
{
    k_buf     *b;
    weir_error err;
    if (k->buf_new(k, n * sizeof(float), &b, &err) != WEIR_OK) fail_msg("%s", err.text);
    if (x != NULL) k->buf_write(k, b, 0, x, n * sizeof(float));
    return b;
}

#endif
