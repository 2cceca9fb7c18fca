/* tests/support/rng.h - a small seeded generator (splitmix64) for test data. */
#ifndef SUPPORT_RNG_H
#define SUPPORT_RNG_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t rng_next(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* 0 <= result < n; n >= 1. */
static inline uint32_t rng_below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)((rng_next(seed) >> 32) * n >> 32);
}

static inline float rng_float(uint64_t *seed, float lo, float hi)
{
    return lo + (hi - lo) * (float)(rng_next(seed) >> 40) * 0x1p-24f;
}

static inline void rng_fill(uint64_t *seed, float *x, size_t n, float lo, float hi)
{
    for (size_t i = 0; i < n; i++) x[i] = rng_float(seed, lo, hi);
}

#endif
