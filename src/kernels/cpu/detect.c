/* kernels/cpu/detect.c - what the processor has and the system saves on a switch.
 * The compiler's own check asks cpuid and xgetbv; F16C has no name there in
 * older compilers, so it is asked directly. */
#include "kernels/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

unsigned cpu_flags(void)
{
    unsigned flags = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) flags |= CPU_AVX2;
    if ((flags & CPU_AVX2) != 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        flags |= CPU_AVX512;
    return flags;
}
#elif defined(__aarch64__)
unsigned cpu_flags(void)
{
    return CPU_NEON; /* part of the base architecture */
}
#else
unsigned cpu_flags(void)
{
    return 0;
}
#endif
