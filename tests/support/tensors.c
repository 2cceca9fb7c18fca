/* tests/support/tensors.c - expected values out of a safetensors file, widened. */
#include "support/tensors.h"

#include "support/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 128 };

void tensors_open(safetensors *out, const char *path)
{
    weir_error err;
    if (safetensors_open(out, path, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static const safetensors_tensor *find(const safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i];
    return NULL;
}

static const safetensors_tensor *require(const safetensors *s, const char *name)
{
    const safetensors_tensor *t = find(s, name);
    if (t == NULL) fail_msg("%s: no tensor %s", s->path, name);
    return t;
}

bool tensors_have(const safetensors *s, const char *fmt, ...)
{
    char    name[NAME_MAX_LEN];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    return find(s, name) != NULL;
}

static double element(const safetensors *s, const safetensors_tensor *t, size_t i)
{
    const uint8_t *p = s->data + t->begin;
    double         d = 0.0;
    float          f;
    int32_t        k;
    switch (t->type) {
    case DTYPE_F64: memcpy(&d, p + 8 * i, sizeof d); return d;
    case DTYPE_F32: memcpy(&f, p + 4 * i, sizeof f); return (double)f;
    case DTYPE_I32: memcpy(&k, p + 4 * i, sizeof k); return (double)k;
    default: fail_msg("%s: %s: expected F64, F32 or I32, found %s", s->path, t->name, t->type_name);
    }
    return d;
}

numbers tensors_get(const safetensors *s, const char *fmt, ...)
{
    char    name[NAME_MAX_LEN];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    const safetensors_tensor *t   = require(s, name);
    numbers                   out = {.n = 1, .rank = t->rank};
    memcpy(out.shape, t->shape, sizeof out.shape);
    for (uint32_t i = 0; i < t->rank; i++) out.n *= (size_t)t->shape[i];
    out.x = malloc(out.n * sizeof *out.x);
    assert_non_null(out.x);
    for (size_t i = 0; i < out.n; i++) out.x[i] = element(s, t, i);
    return out;
}

void numbers_free(numbers *n)
{
    free(n->x);
    memset(n, 0, sizeof *n);
}

uint32_t *tensors_ids(const safetensors *s, size_t *n, const char *fmt, ...)
{
    char    name[NAME_MAX_LEN];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    numbers   x   = tensors_get(s, "%s", name);
    uint32_t *ids = malloc(x.n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < x.n; i++) ids[i] = (uint32_t)x.x[i];
    *n = x.n;
    numbers_free(&x);
    return ids;
}

double numbers_rms(const double *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

double numbers_std(const double *x, size_t n)
{
    double mean = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)n);
}

double numbers_worst(const float *found, const double *expected, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)found[i] - expected[i]);
        if (!(d <= worst)) worst = d; /* NaN counts as the worst */
    }
    return worst;
}

uint32_t numbers_best(const float *x, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return (uint32_t)at;
}
