/* base/pool.h - a fixed set of threads that run one function together.
 *
 * The caller of pool_run is thread 0 and works too.  One pool serves one
 * caller at a time.  Between runs the workers spin for a moment (a step has
 * hundreds of short runs) and then sleep. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/status.h"

typedef struct pool pool;

/* thread is 0..n_threads-1. */
typedef void pool_fn(void *arg, uint32_t thread, uint32_t n_threads);

enum { POOL_MAX_THREADS = 512 };

/* n_threads 0: one per physical core this process may run on.  Workers are
 * bound to one core each when the process owns enough cores. */
weir_status pool_new(pool **out, uint32_t n_threads, weir_error *err);
void        pool_free(pool *p); /* NULL is allowed */
uint32_t    pool_threads(const pool *p);

/* Calls fn on every thread and returns when all have returned. */
void pool_run(pool *p, pool_fn *fn, void *arg);

/* Inside pool_run: waits until every thread of the run has come here. */
void pool_barrier(pool *p);

/* The part of 0..n-1 that `thread` of n_threads has: static cuts of near equal
 * size at multiples of `unit`.  Which thread does what never changes bits. */
static inline void pool_cut(size_t n, size_t unit, uint32_t thread, uint32_t n_threads, size_t *begin, size_t *end)
{
    const size_t units = (n + unit - 1) / unit;
    const size_t b = units * thread / n_threads * unit, e = units * (thread + 1) / n_threads * unit;
    *begin = b < n ? b : n;
    *end   = e < n ? e : n;
}

#endif
