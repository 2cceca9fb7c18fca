/* tests/unit/kernels/isa_case.h - what the tests of the inner loops share: the
 * instruction sets of this machine, memory with a fence behind it, a comparison
 * of bits and a digest that is the same on every architecture.
 *
 * Needs libc alone, so that these tests can be built for another machine. */
#ifndef TESTS_KERNELS_ISA_CASE_H
#define TESTS_KERNELS_ISA_CASE_H

#include "support/cmocka.h"
#include "support/rng.h"

#include "base/half.h"
#include "kernels/cpu/isa.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory of this size that ends where nothing may be read or written. */
typedef struct fence {
    uint8_t *base, *end;
} fence;

enum { FENCE_BYTES = 1 << 20, FENCE_GUARD = 64, FENCE_FILL = 0xA5, N_FENCES = 22, MAX_TABLES = 4 };

static fence   fences[N_FENCES];
static cpu_isa tables[MAX_TABLES]; /* [0] is the scalar one */
static size_t  n_tables;

static int isa_setup(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < N_FENCES; i++) {
        uint8_t *p = mmap(NULL, FENCE_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + FENCE_BYTES, page, PROT_NONE) != 0) return 1;
        fences[i] = (fence){.base = p, .end = p + FENCE_BYTES};
    }
    const unsigned have    = cpu_flags();
    const unsigned steps[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512, CPU_NEON};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if ((steps[i] & ~have) == 0) {
            cpu_isa_init(&tables[n_tables], steps[i]);
            (void)printf("instruction set: %s\n", tables[n_tables++].name);
        }
    return 0;
}

static int isa_teardown(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < N_FENCES; i++) (void)munmap(fences[i].base, FENCE_BYTES + page);
    return 0;
}

/* The last `bytes` before the fence, moved `back` bytes away from it, all set to
 * the fill; what lies around them is watched by fence_intact. */
static void *fence_place(size_t which, size_t bytes, size_t back)
{
    uint8_t *p = fences[which].end - bytes - back;
    if (bytes + back + FENCE_GUARD > FENCE_BYTES) fail_msg("a fence is too small for %zu bytes", bytes);
    memset(p - FENCE_GUARD, FENCE_FILL, FENCE_GUARD + bytes + back);
    return p;
}

static float *fence_floats(size_t which, size_t n)
{
    return fence_place(which, n * sizeof(float), 0);
}

static bool fence_intact(const void *placed)
{
    const uint8_t *p = placed;
    for (size_t i = 1; i <= FENCE_GUARD; i++)
        if (*(p - i) != FENCE_FILL) return false;
    return true;
}

/* The payload and sign of a NaN differ between processors and are no part of
 * the contract. */
static inline uint32_t portable_bits(float x)
{
    const uint32_t u = f32_bits(x);
    return (u & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : u;
}

/* Index of the first element whose bits differ; n when there is none. */
static inline size_t first_difference(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (portable_bits(a[i]) != portable_bits(b[i])) return i;
    return n;
}

/* FNV-1a (Fowler, Noll, Vo) over the elements' little-endian bytes. */
static inline void digest(uint64_t *h, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            *h = (*h ^ (portable_bits(x[i]) >> shift & 0xFFu)) * 0x100000001B3u;
}

#define DIGEST_START 0xCBF29CE484222325u

/* Compares with the digest that every machine and compiler has to give. */
static inline void check_digest(const char *what, uint64_t found, uint64_t expected)
{
    if (found != expected) fail_msg("%s: expected digest 0x%016" PRIX64 ", found 0x%016" PRIX64, what, expected, found);
}

static inline void check_bits(const char *what, const cpu_isa *t, size_t n_case, const float *want, const float *got,
                              size_t n)
{
    const size_t at = first_difference(want, got, n);
    if (at < n)
        fail_msg("%s %s, case %zu: element %zu of %zu: expected %a, found %a", t->name, what, n_case, at, n,
                 (double)want[at], (double)got[at]);
}

/* The same for an output from fence_floats. */
static inline void check_floats(const char *what, const cpu_isa *t, size_t n_case, const float *want, const float *got,
                                size_t n)
{
    check_bits(what, t, n_case, want, got, n);
    if (!fence_intact(got)) fail_msg("%s %s, case %zu: wrote before its output", t->name, what, n_case);
}

#endif
