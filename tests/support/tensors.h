/* tests/support/tensors.h - expected values out of a safetensors file, widened. */
#ifndef SUPPORT_TENSORS_H
#define SUPPORT_TENSORS_H

#include "checkpoint/safetensors.h"

#include <stdbool.h>

/* A tensor's n numbers in row-major order; release with numbers_free. */
typedef struct numbers {
    size_t   n;
    uint32_t rank;
    uint64_t shape[CHECKPOINT_MAX_RANK];
    double  *x;
} numbers;

/* Opens the file; the test fails when that is impossible. */
void tensors_open(safetensors *out, const char *path);

/* The names below are printf formats, so that "p%u.logits" reads as one. */
__attribute__((format(printf, 2, 3))) bool tensors_have(const safetensors *s, const char *fmt, ...);

/* F64, F32 or I32 as double.  The test fails when the tensor is missing. */
__attribute__((format(printf, 2, 3))) numbers tensors_get(const safetensors *s, const char *fmt, ...);
void                                          numbers_free(numbers *n);

/* Token ids of an I32 tensor; free().  The test fails when it is missing. */
__attribute__((format(printf, 3, 4))) uint32_t *tensors_ids(const safetensors *s, size_t *n, const char *fmt, ...);

/* Of n numbers: the standard deviation, and the root of the mean square. */
double numbers_std(const double *x, size_t n);
double numbers_rms(const double *x, size_t n);
/* The largest |found - expected|. */
double numbers_worst(const float *found, const double *expected, size_t n);
/* The index of the largest; of equals the first. */
uint32_t numbers_best(const float *x, size_t n);

#endif
