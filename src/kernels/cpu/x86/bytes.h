/* kernels/cpu/x86/bytes.h - 16 bytes at a time, for both sets with AVX. */
#ifndef KERNELS_CPU_X86_BYTES_H
#define KERNELS_CPU_X86_BYTES_H

#include <immintrin.h>
#include <stdint.h>

/* 16 bytes. */
typedef __m128i vb;
INLINE vb       vb_load(const uint8_t *p)
{
    return _mm_loadu_si128((const void *)p);
}
INLINE vb vb_make(uint64_t lo, uint64_t hi)
{
    return _mm_set_epi64x((long long)hi, (long long)lo);
}
/* v >> shift, or v << -shift, and of every byte the bits of `mask` (no others come into it). */
INLINE vb vb_bits(vb v, const int shift, const int mask)
{
    const __m128i moved = shift > 0 ? _mm_srli_epi16(v, shift) : shift < 0 ? _mm_slli_epi16(v, -shift) : v;
    return _mm_and_si128(moved, _mm_set1_epi8((char)mask));
}
INLINE vb vb_or(vb a, vb b)
{
    return _mm_or_si128(a, b);
}
INLINE vb vb_sub(vb v, const int n)
{
    return _mm_sub_epi8(v, _mm_set1_epi8((char)n));
}

#endif
