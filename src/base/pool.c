/* base/pool.c - a fixed set of threads.
 *
 * A run is published by raising `generation`; every worker that sees a new
 * generation runs the function and then raises `arrived`.  Workers spin on the
 * generation for SPINS loads, then sleep under the lock; the publisher takes
 * the lock only when `sleepers` says that someone may sleep. */
#define _GNU_SOURCE
#include "base/pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SPINS = 20000, LINE = 64 };

struct pool {
    _Alignas(LINE) atomic_uint generation;
    _Alignas(LINE) atomic_uint arrived;    /* workers done with this generation */
    _Alignas(LINE) atomic_uint at_barrier; /* arrivals at the current barrier   */
    _Alignas(LINE) atomic_uint barrier_no; /* barriers passed                   */
    atomic_uint     sleepers;
    atomic_bool     quit;
    pool_fn        *fn;
    void           *arg;
    uint32_t        n_threads;
    bool            crowded; /* more threads than cores: yield instead of spinning */
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    uint32_t        n_started;
    struct worker {
        pool     *owner;
        uint32_t  index;
        pthread_t id;
    } * workers;
};

static inline void relax(const pool *p, unsigned spins)
{
    if (p->crowded || spins % 1024 == 1023) {
        (void)sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits for a generation other than `seen` and returns it. */
static unsigned wait_generation(pool *p, unsigned seen)
{
    for (unsigned i = 0; i < SPINS; i++) {
        const unsigned g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen) return g;
        relax(p, i);
    }
    (void)pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    unsigned g;
    while ((g = atomic_load(&p->generation)) == seen) (void)pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    (void)pthread_mutex_unlock(&p->lock);
    return g;
}

static void *worker_main(void *arg)
{
    const struct worker *w    = arg;
    pool                *p    = w->owner;
    unsigned             seen = 0;
    for (;;) {
        seen = wait_generation(p, seen);
        if (atomic_load(&p->quit)) return NULL;
        p->fn(p->arg, w->index, p->n_threads);
        atomic_fetch_add_explicit(&p->arrived, 1, memory_order_release);
    }
}

static void publish(pool *p)
{
    atomic_fetch_add(&p->generation, 1); /* sequentially consistent: before the look at sleepers */
    if (atomic_load(&p->sleepers) == 0) return;
    (void)pthread_mutex_lock(&p->lock);
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
}

/* The first processor of every physical core this process may use, into cpus;
 * the processors themselves where the system does not tell cores. */
static uint32_t physical_cores(int *cpus, uint32_t max)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 0;
    uint32_t n = 0;
    for (int c = 0; c < CPU_SETSIZE && n < max; c++) {
        if (!CPU_ISSET((size_t)c, &mine)) continue;
        char path[96];
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c);
        FILE *f     = fopen(path, "re");
        int   first = c;
        if (f != NULL) {
            if (fscanf(f, "%d", &first) != 1) first = c;
            (void)fclose(f);
        }
        /* a sibling that this process may not use does not count as the core's first */
        if (first != c && first >= 0 && first < CPU_SETSIZE && CPU_ISSET((size_t)first, &mine)) continue;
        cpus[n++] = c;
    }
    return n;
}

weir_status pool_new(pool **out, uint32_t n_threads, weir_error *err)
{
    *out = NULL;
    int            cpus[POOL_MAX_THREADS];
    const uint32_t n_cores = physical_cores(cpus, POOL_MAX_THREADS);
    if (n_threads == 0) n_threads = n_cores == 0 ? 1 : n_cores;
    if (n_threads > POOL_MAX_THREADS)
        return status_fail(err, WEIR_INVALID, "threads: expected at most %d, found %u", POOL_MAX_THREADS, n_threads);

    pool *p = mem_aligned(1, sizeof *p);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "thread pool: out of memory");
    p->n_threads = n_threads;
    p->crowded   = n_threads > n_cores;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->wake, NULL);
    p->workers = mem_zalloc(n_threads, sizeof *p->workers);
    if (p->workers == NULL) {
        pool_free(p);
        return status_fail(err, WEIR_NO_MEMORY, "thread pool: out of memory");
    }
    for (uint32_t i = 1; i < n_threads; i++) {
        p->workers[i] = (struct worker){.owner = p, .index = i};
        const int e   = pthread_create(&p->workers[i].id, NULL, worker_main, &p->workers[i]);
        if (e != 0) {
            pool_free(p);
            return status_fail(err, WEIR_NO_MEMORY, "thread pool: cannot start thread %u: %s", i, strerror(e));
        }
        p->n_started++;
        /* Thread 0 is the caller's and stays where the caller wants it. */
        if (!p->crowded) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET((size_t)cpus[i], &one);
            (void)pthread_setaffinity_np(p->workers[i].id, sizeof one, &one);
        }
    }
    *out = p;
    return WEIR_OK;
}

void pool_free(pool *p)
{
    if (p == NULL) return;
    if (p->workers != NULL) {
        atomic_store(&p->quit, true);
        publish(p);
        for (uint32_t i = 1; i <= p->n_started; i++) (void)pthread_join(p->workers[i].id, NULL);
    }
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    mem_free(p->workers);
    mem_free(p);
}

uint32_t pool_threads(const pool *p)
{
    return p->n_threads;
}

void pool_run(pool *p, pool_fn *fn, void *arg)
{
    if (p->n_threads == 1) {
        fn(arg, 0, 1);
        return;
    }
    p->fn  = fn;
    p->arg = arg;
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    publish(p);
    fn(arg, 0, p->n_threads);
    for (unsigned i = 0; atomic_load_explicit(&p->arrived, memory_order_acquire) != p->n_threads - 1; i++) relax(p, i);
}

void pool_barrier(pool *p)
{
    if (p->n_threads == 1) return;
    const unsigned no = atomic_load_explicit(&p->barrier_no, memory_order_acquire);
    if (atomic_fetch_add_explicit(&p->at_barrier, 1, memory_order_acq_rel) == p->n_threads - 1) {
        atomic_store_explicit(&p->at_barrier, 0, memory_order_relaxed);
        atomic_store_explicit(&p->barrier_no, no + 1, memory_order_release);
        return;
    }
    for (unsigned i = 0; atomic_load_explicit(&p->barrier_no, memory_order_acquire) == no; i++) relax(p, i);
}
