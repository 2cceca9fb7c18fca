/* kernels/open.c - a backend by name, and the machine's limits. */
#include "kernels/open.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

weir_status kernels_open(kernels **out, const char *device, uint32_t threads, const char *isa, weir_error *err)
{
    *out = NULL;
    if (device == NULL || strcmp(device, "cpu") == 0) return cpu_open(out, threads, isa, err);
    return status_fail(err, WEIR_INVALID, "device: expected \"cpu\", found \"%s\"", device);
}

size_t kernels_isas(const char **names, size_t max)
{
    const unsigned have    = cpu_flags();
    const unsigned steps[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512, CPU_NEON};
    size_t         n       = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && n < max; i++) {
        if ((steps[i] & ~have) != 0) continue;
        cpu_isa t;
        cpu_isa_init(&t, steps[i]);
        names[n++] = t.name;
    }
    return n;
}

typedef struct floor_job {
    const cpu_isa *isa;
    const uint8_t *memory;
    size_t         bytes, fmas;
    float          sink[POOL_MAX_THREADS];
} floor_job;

static void read_part(void *arg, uint32_t thread, uint32_t n)
{
    floor_job *j = arg;
    size_t     begin, end;
    pool_cut(j->bytes, 4096, thread, n, &begin, &end);
    j->sink[thread] = j->isa->read_burn(j->memory + begin, end - begin);
}

static void fma_part(void *arg, uint32_t thread, uint32_t n)
{
    floor_job *j = arg;
    (void)n;
    j->sink[thread] = j->isa->fma_burn(j->fmas);
}

/* Fewest nanoseconds of a few runs: the machine, not its other users. */
static double best_ns(pool *p, pool_fn *fn, floor_job *j)
{
    enum { RUNS = 5 };
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        const uint64_t start = clock_ns();
        pool_run(p, fn, j);
        const double ns = (double)(clock_ns() - start);
        if (i == 0 || ns < best) best = ns;
    }
    return best;
}

weir_status kernels_floor(uint32_t threads, const char *isa, double *read_gbps, double *fma_gflops, weir_error *err)
{
    enum { BYTES = 1 << 30, FMAS = 12000000 };
    kernels *k;
    TRY(cpu_open(&k, threads, isa, err));
    cpu_backend *b      = cpu_of(k);
    uint8_t     *memory = mem_pages(BYTES);
    if (memory == NULL) {
        k->close(k);
        return status_fail(err, WEIR_NO_MEMORY, "measuring memory: %d bytes are not to be had", BYTES);
    }
    memset(memory, 0, BYTES);
    floor_job job = {.isa = &b->isa, .memory = memory, .bytes = BYTES, .fmas = FMAS};
    *read_gbps    = BYTES / best_ns(b->pool, read_part, &job);
    *fma_gflops   = 2.0 * LANES * FMAS * pool_threads(b->pool) / best_ns(b->pool, fma_part, &job);
    mem_pages_free(memory, BYTES);
    k->close(k);
    return WEIR_OK;
}
