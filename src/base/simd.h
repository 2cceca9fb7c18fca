/* base/simd.h - wider registers for one function, where compiler and processor have them.
 *
 * A function marked SIMD_WIDE is compiled for 256-bit registers of floats; it
 * may run when simd_wide() says so.  Elsewhere the mark is empty and the
 * answer no. */
#ifndef BASE_SIMD_H
#define BASE_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__)
#define SIMD_WIDE __attribute__((target("avx2")))
static inline bool simd_wide(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
}
#else
#define SIMD_WIDE
static inline bool simd_wide(void)
{
    return false;
}
#endif

#endif
