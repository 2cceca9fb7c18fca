/* base/mem.h - counted allocation with overflow-checked sizes.
 *
 * Everything the library allocates passes here, so that a test can fail the
 * N-th allocation and prove that a step makes none. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/status.h"

#include <stdbool.h>

/* *out = a * b; false on overflow. */
static inline bool size_mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = a + b; false on overflow. */
static inline bool size_add(size_t *out, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Memory of n * size bytes, uninitialised / zeroed; NULL when it is not to be
 * had or the product overflows.  n * size == 0 gives a pointer to nothing. */
void *mem_alloc(size_t n, size_t size);
void *mem_zalloc(size_t n, size_t size);
/* Like realloc; on NULL the old block stays. */
void *mem_realloc(void *p, size_t n, size_t size);
/* 64-byte aligned, zeroed.  Release with mem_free. */
void *mem_aligned(size_t n, size_t size);
void  mem_free(void *p);

/* Zeroed whole pages straight from the system, which take physical memory only
 * once they are touched.  Release with the same size. */
void *mem_pages(size_t bytes);
void  mem_pages_free(void *p, size_t bytes);

/* A copy of the string / of n bytes with a NUL behind; NULL without memory. */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* Number of allocations so far, over all threads. */
uint64_t mem_count(void);
/* Test hook: the n-th allocation from now fails (1 = the next); 0 = never. */
void mem_fail_at(uint64_t n);

#endif
