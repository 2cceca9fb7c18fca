/* kernels/cpu/isa.c - the tables of inner loops, from plain to special. */
#include "kernels/cpu/isa.h"

#include "kernels/cpu/scalar/scalar.h"

void cpu_isa_scalar(cpu_isa *t)
{
    t->name = "scalar";
    cpu_scalar_rows(t);
    cpu_scalar_delta(t);
    cpu_scalar_linear(t);
    cpu_scalar_blocks(t);
    cpu_scalar_attention(t);
}

/* From plain to special, so a later set replaces only what it does better and a
 * missing kernel is slow, never absent. */
void cpu_isa_init(cpu_isa *t, unsigned flags)
{
    cpu_isa_scalar(t);
#if defined(__x86_64__)
    if ((flags & CPU_AVX2) != 0) cpu_isa_avx2(t);
    if ((flags & CPU_AVX512) != 0) cpu_isa_avx512(t);
#elif defined(__aarch64__)
    if ((flags & CPU_NEON) != 0) cpu_isa_neon(t);
#else
    (void)flags;
#endif
}
