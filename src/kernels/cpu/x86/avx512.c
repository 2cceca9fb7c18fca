/* kernels/cpu/x86/avx512.c - the inner loops with one register for 16 lanes. */
#include "base/bytes.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_turbo.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
enum {
    TILE_N     = 4,
    DELTA_TILE = 4,
    SCORE_KEYS = 4,
    VALUE_TILE = 4,

    PARTS       = 1,
    BURN_CHAINS = 12
};
enum { DOT_MOST = 8 };                /* rows of x in one pass over the weights */
#define DOT_R(M) ((M) <= 4 ? 4 : 2)   /* weight rows that M rows of x meet at once */
#define PIECE_R(M) ((M) <= 2 ? 4 : 2) /* the same for formats that are decoded */

typedef __m512  vf;
typedef __m512i vi;

INLINE __mmask16 first(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}
INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}
INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
INLINE void vf_store_n(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, first(n), v);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* With a NaN in b the result is b, as in scalar/math.h. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
INLINE vf vf_neg(vf a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
INLINE vf vf_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
/* a where the sign bit of x is set, else b. */
INLINE vf vf_by_sign(vf x, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), b, a);
}
/* p * 2^n, where t = n + MATH_ROUND; in two steps, see scalar/math.h. */
INLINE vf vf_scale_pow2(vf p, vf t)
{
    const vi bias = _mm512_set1_epi32(127);
    const vi n    = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(0x4B400000));
    const vi half = _mm512_srai_epi32(n, 1);
    const vi a    = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    const vi b    = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}
INLINE float vf_sum(vf v)
{
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
/* The same tree for two vectors at once: the sums over lanes l, l+8 of a in the
 * lower and of b in the upper half. */
INLINE vf fold8(vf a, vf b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}
/* sums[i] = vf_sum of p[i][16], i < 8: every step folds two vectors into one. */
INLINE void vf_sum8(float *sums, const float *p)
{
    vf v[8];
    UNROLL for (int i = 0; i < 8; i++) v[i] = vf_load(p + i * 16);
    const vf a = fold8(v[0], v[1]), b = fold8(v[2], v[3]), c = fold8(v[4], v[5]), d = fold8(v[6], v[7]);
    /* a: 8 lanes of 0, 8 of 1.  Lanes l, l+4: even 128-bit parts and odd ones. */
    const vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); /* 4 of 0 1 2 3 */
    const vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x88), _mm512_shuffle_f32x4(c, d, 0xDD)); /* 4 of 4 5 6 7 */
    /* Lanes l, l+2 within each part: two of ab, two of cd. */
    const vf e = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
    const vf f = _mm512_add_ps(_mm512_shuffle_ps(e, e, 0x88), _mm512_shuffle_ps(e, e, 0xDD));
    /* Part k now holds the sums of k and 4 + k in its first two lanes. */
    const vi at = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_ps(sums, _mm512_castps512_ps256(_mm512_permutexvar_ps(at, f)));
}
INLINE vf bf16_lanes(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
INLINE vf vf_load_bf16(const void *p)
{
    return bf16_lanes(_mm256_loadu_si256(p));
}
INLINE vf vf_load_bf16_n(const void *p, size_t n)
{
    return bf16_lanes(_mm256_maskz_loadu_epi16(first(n), p));
}
INLINE vf vf_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE vf vf_load_f16_n(const void *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}
INLINE vf vf_load_f32(const void *p)
{
    return _mm512_loadu_ps(p);
}
INLINE vf vf_load_f32_n(const void *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}
INLINE vf vf_bytes(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}
/* Two numbers in bfloat16, each in all lanes. */
INLINE void vf_pair(const uint8_t *p, vf *lo, vf *hi)
{
    int32_t both;
    memcpy(&both, p, sizeof both);
    const vi v = _mm512_set1_epi32(both);
    *lo        = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
    *hi        = _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xFFFF0000u)));
}
/* The levels of 16 codes of three bits, the first one in the lowest bits; reads one byte more. */
INLINE vf vf_levels(const uint8_t *p)
{
    int32_t lo, hi;
    memcpy(&lo, p, sizeof lo);
    memcpy(&hi, p + 3, sizeof hi);
    const vi words = _mm512_inserti64x4(_mm512_set1_epi32(lo), _mm256_set1_epi32(hi), 1);
    const vi codes =
        _mm512_srlv_epi32(words, _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 0, 3, 6, 9, 12, 15, 18, 21));
    /* The permute looks at four bits of its index: the table stands there twice. */
    return _mm512_permutexvar_ps(codes, _mm512_broadcast_f32x8(_mm256_loadu_ps(kv_turbo_levels)));
}
/* A number in f16, in all lanes. */
INLINE vf vf_f16(const uint8_t *p)
{
    int16_t h;
    memcpy(&h, p, sizeof h);
    return _mm512_cvtph_ps(_mm256_set1_epi16(h));
}

/* One register's lanes: all of them. */
typedef __m512  vp;
typedef __m512i vq;
INLINE vp       vp_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE vp vp_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void vp_store(float *p, vp v)
{
    _mm512_storeu_ps(p, v);
}
INLINE vp vp_fma(vp a, vp b, vp c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vq vq_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}
/* Nibble s of every word, times 16^s but for the last. */
INLINE vp vq_nibble(vq words, const int s)
{
    if (s == 7) return _mm512_cvtepi32_ps(_mm512_srli_epi32(words, 28));
    return _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(15 << (4 * s))));
}
INLINE vp vp_bytes(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}
INLINE vp vp_load_bf16(const void *p)
{
    return vf_load_bf16(p);
}
INLINE vp vp_load_f16(const void *p)
{
    return vf_load_f16(p);
}
INLINE vp vp_load_f32(const void *p)
{
    return _mm512_loadu_ps(p);
}
INLINE vp vp_set1(float x)
{
    return _mm512_set1_ps(x);
}
/* The scales of 16 words, s[0] that of the first. */
INLINE vp vp_scale(const float *s, uint32_t group)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at   = _mm512_srl_epi32(lane, _mm_cvtsi32_si128(group == 32 ? 2 : group == 64 ? 3 : 4));
    return _mm512_permutexvar_ps(at, _mm512_castps128_ps512(_mm_loadu_ps(s)));
}
/* v in a register, where gcc would load it again for every use. */
INLINE vp vp_hold(vp v)
{
    __asm__("" : "+v"(v));
    return v;
}
/* v in a register: what follows is not mixed into what came before. */
INLINE vf vf_hold(vf v)
{
    return vp_hold(v);
}

#include "kernels/cpu/lanes/codes.h"
#include "kernels/cpu/x86/bytes.h"

/* Signed bytes as floats. */
INLINE vf vf_vb(vb v)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v));
}
/* 16 signed bytes. */
INLINE vf vf_signed(const uint8_t *p)
{
    return vf_vb(vb_load(p));
}
#define ALL_LANES(f, bits) \
    _mm512_setr_epi32(f(bits, 0), f(bits, 1), f(bits, 2), f(bits, 3), f(bits, 4), f(bits, 5), f(bits, 6), f(bits, 7), \
                      f(bits, 8), f(bits, 9), f(bits, 10), f(bits, 11), f(bits, 12), f(bits, 13), f(bits, 14), \
                      f(bits, 15))
typedef __m512i vc; /* 16 codes */
/* 16 codes of `bits` from CODES_READ bytes; what follows a code stays above it. */
INLINE vc vc_codes(const uint8_t *p, const int bits)
{
    const __m512i bytes = _mm512_broadcast_i32x4(vb_load(p));
    return _mm512_srlv_epi32(_mm512_shuffle_epi8(bytes, ALL_LANES(code_bytes, bits)), ALL_LANES(code_shift, bits));
}
/* 16 codes of `bits` from CODES_READ bytes, as floats. */
INLINE vf vf_codes(const uint8_t *p, const int bits)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(vc_codes(p, bits), _mm512_set1_epi32((1 << bits) - 1)));
}
/* Bytes in E4M3 as floats: a half has the bits, with its exponent 8 too low. */
INLINE vf vf_e4m3(const uint8_t *p)
{
    const __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(vb_load(p)), 7); /* the sign is there twice */
    return vf_mul(_mm512_cvtph_ps(_mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80))), vf_set1(256.0f));
}

/* 16 floats that a code of four bits or less chooses from, and 32 for one of five: what an
 * instruction looks up, where other sets compute.  Of a code the low four or five bits count. */
#define LEVEL_TABLES
INLINE vf vf_level(vf table, vc codes)
{
    return _mm512_permutexvar_ps(codes, table);
}
INLINE vf vf_level2(vf low, vf high, vc codes)
{
    return _mm512_permutex2var_ps(low, codes, high);
}
/* The low nibbles of 16 bytes, or the high ones. */
INLINE vc vc_half_nibbles(const uint8_t *p, const bool high)
{
    const __m512i bytes = _mm512_cvtepu8_epi32(vb_load(p));
    return high ? _mm512_srli_epi32(bytes, 4) : bytes;
}
/* v >> shift, or v << -shift. */
INLINE vc vc_shift(vc v, const int shift)
{
    return shift > 0 ? _mm512_srli_epi32(v, (unsigned)shift) : _mm512_slli_epi32(v, (unsigned)-shift);
}
/* Bits from, from + 1, ... of a word, each in a code's fifth place. */
INLINE vc vc_fifths(uint32_t bits, const int from)
{
    const __m512i by = _mm512_setr_epi32(-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    return _mm512_rorv_epi32(_mm512_set1_epi32((int)bits), _mm512_add_epi32(by, _mm512_set1_epi32(from)));
}
/* Codes with the low four bits of one and the fifth of another. */
INLINE vc vc_fives(vc nibbles, vc fifths)
{
    return _mm512_ternarylogic_epi32(nibbles, fifths, _mm512_set1_epi32(15), 0xE4);
}
/* 16 nibbles, the low one of a byte first. */
INLINE vc vc_nibbles(const uint8_t *p)
{
    const __m512i both = _mm512_castsi128_si512(_mm_loadl_epi64((const void *)p));
    const __m512i words =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), both);
    return _mm512_srlv_epi32(words, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
}
INLINE vf vf_nibbles(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_and_si512(vc_nibbles(p), _mm512_set1_epi32(15)));
}
/* Bytes that vf_trellis looks at. */
#define TRELLIS_READ(bits) ((bits) < 8 ? 16 : 24)
/* The levels of 16 trellis weights, the last one's state from bit 0 of p on. */
INLINE vf vf_trellis(const uint8_t *p, const int bits)
{
    const __m128i last  = _mm_loadu_si128((const void *)p);
    vi            words = _mm512_broadcast_i32x4(last);
    if (bits == 8) /* eight lanes' states take nine bytes */
        words = _mm512_inserti64x4(words, _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p + 8))), 0);
    words        = _mm512_shuffle_epi8(words, ALL_LANES(state_bytes, bits));
    words        = _mm512_srlv_epi32(words, ALL_LANES(state_shift, bits));
    words        = _mm512_and_si512(words, _mm512_set1_epi32(TRELLIS_STATES - 1));
    const vi x   = _mm512_add_epi32(_mm512_mullo_epi32(words, _mm512_set1_epi32(TRELLIS_MULTIPLIER)),
                                    _mm512_set1_epi32(TRELLIS_ADDEND));
    const vi sum = _mm512_madd_epi16(_mm512_maddubs_epi16(x, _mm512_set1_epi8(1)), _mm512_set1_epi16(1));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(TRELLIS_BYTES_MEAN)));
}
/* To the nearest bfloat16, ties away from zero. */
INLINE vf vf_near_bf16(vf x)
{
    const vi u = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    return _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xFFFF0000u)));
}

#include "kernels/cpu/lanes/attention.h"
#include "kernels/cpu/lanes/blocks.h"
#include "kernels/cpu/lanes/delta.h"
#include "kernels/cpu/lanes/linear.h"
#include "kernels/cpu/lanes/rows.h"

void cpu_isa_avx512(cpu_isa *t)
{
    t->name = "avx512";
    lanes_rows(t);
    lanes_delta(t);
    lanes_linear(t);
    lanes_blocks(t);
    lanes_attention(t);
}
