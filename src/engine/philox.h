/* engine/philox.h - Philox4x32-10, a random generator that is a plain function.
 *
 * From 128 bits of counter and 64 bits of key it makes 128 random bits; there
 * is no state, so the bits drawn for one token depend on that token's counter
 * alone.  J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * SC11.  Integer arithmetic only: equal everywhere. */
#ifndef ENGINE_PHILOX_H
#define ENGINE_PHILOX_H

#include <stdint.h>

typedef struct philox_block {
    uint32_t v[4];
} philox_block;

enum { PHILOX_ROUNDS = 10 };

static inline philox_block philox4x32(philox_block counter, uint32_t key_low, uint32_t key_high)
{
    uint32_t a = counter.v[0], b = counter.v[1], c = counter.v[2], d = counter.v[3];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p = (uint64_t)a * 0xD2511F53u, q = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(q >> 32) ^ b ^ key_low;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ key_high;
        d = (uint32_t)p;
        key_low += 0x9E3779B9u;  /* the golden ratio */
        key_high += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return (philox_block){{a, b, c, d}};
}

#endif
