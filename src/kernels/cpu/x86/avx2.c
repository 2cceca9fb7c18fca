/* kernels/cpu/x86/avx2.c - the inner loops with two registers for 16 lanes. */
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
    TILE_N     = 2,
    DELTA_TILE = 1,
    SCORE_KEYS = 1,
    VALUE_TILE = 1,

    PARTS       = 2,
    BURN_CHAINS = 6
};
enum { DOT_MOST = 4 };                             /* rows of x in one pass over the weights */
#define DOT_R(M) ((M) == 1 ? 2 : (M) == 2 ? 3 : 2) /* weight rows that M rows of x meet at once */
#define PIECE_R(M) ((M) <= 3 ? 2 : 1)              /* the same for formats that are decoded */

typedef struct vf {
    __m256 lo, hi;
} vf;

INLINE vf vf_zero(void)
{
    return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
INLINE vf vf_set1(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
INLINE vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}
INLINE vf vf_load_n(const float *p, size_t n)
{
    float t[LANES] = {0};
    memcpy(t, p, n * sizeof *p);
    return vf_load(t);
}
INLINE void vf_store_n(float *p, vf v, size_t n)
{
    float t[LANES];
    vf_store(t, v);
    memcpy(p, t, n * sizeof *p);
}
INLINE vf vf_add(vf a, vf b)
{
    return (vf){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
INLINE vf vf_sub(vf a, vf b)
{
    return (vf){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
INLINE vf vf_mul(vf a, vf b)
{
    return (vf){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
INLINE vf vf_div(vf a, vf b)
{
    return (vf){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return (vf){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
/* With a NaN in b the result is b, as in scalar/math.h. */
INLINE vf vf_max(vf a, vf b)
{
    return (vf){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
INLINE vf vf_min(vf a, vf b)
{
    return (vf){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
INLINE vf vf_neg(vf a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
INLINE vf vf_abs(vf a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
/* a where the sign bit of x is set, else b. */
INLINE vf vf_by_sign(vf x, vf a, vf b)
{
    return (vf){_mm256_blendv_ps(b.lo, a.lo, x.lo), _mm256_blendv_ps(b.hi, a.hi, x.hi)};
}
INLINE __m256 scale_pow2(__m256 p, __m256 t)
{
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i n    = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4B400000));
    const __m256i half = _mm256_srai_epi32(n, 1);
    const __m256i a    = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b    = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}
/* p * 2^n, where t = n + MATH_ROUND; in two steps, see scalar/math.h. */
INLINE vf vf_scale_pow2(vf p, vf t)
{
    return (vf){scale_pow2(p.lo, t.lo), scale_pow2(p.hi, t.hi)};
}
INLINE float vf_sum(vf v)
{
    const __m256 a = _mm256_add_ps(v.lo, v.hi);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
/* sums[i] = vf_sum of p[i][16], i < 8: every step of the tree for two vectors at once. */
INLINE void vf_sum8(float *sums, const float *p)
{
    __m256 half[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        const vf     a = vf_load(p + i * 16), b = vf_load(p + (i + 4) * 16);
        const __m256 sa = _mm256_add_ps(a.lo, a.hi), sb = _mm256_add_ps(b.lo, b.hi);
        /* lanes l, l+4: four of i below, four of i+4 above */
        half[i] = _mm256_add_ps(_mm256_permute2f128_ps(sa, sb, 0x20), _mm256_permute2f128_ps(sa, sb, 0x31));
    }
    const __m256 e =
        _mm256_add_ps(_mm256_shuffle_ps(half[0], half[1], 0x44), _mm256_shuffle_ps(half[0], half[1], 0xEE));
    const __m256 f =
        _mm256_add_ps(_mm256_shuffle_ps(half[2], half[3], 0x44), _mm256_shuffle_ps(half[2], half[3], 0xEE));
    _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_shuffle_ps(e, f, 0x88), _mm256_shuffle_ps(e, f, 0xDD)));
}
INLINE __m256 bf16_lanes(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
INLINE vf vf_load_bf16(const void *p)
{
    const __m128i *h = p;
    return (vf){bf16_lanes(_mm_loadu_si128(h)), bf16_lanes(_mm_loadu_si128(h + 1))};
}
/* n < 16 bytes, an even number, and zeros.  Through general registers: a vector that is
 * loaded over smaller stores waits for them. */
INLINE __m128i load_bytes(const uint8_t *p, size_t n)
{
    uint64_t lo = 0, hi = 0;
    uint32_t a, b;
    uint16_t c = 0;
    if (n >= 8) {
        memcpy(&lo, p, 8);
        memcpy(&hi, p + n - 8, 8);
        hi = n == 8 ? 0 : hi >> (8 * (16 - n));
    } else if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        lo = a | (uint64_t)b << (8 * (n - 4));
    } else if (n > 0) {
        memcpy(&c, p, 2);
        lo = c;
    }
    return _mm_set_epi64x((long long)hi, (long long)lo);
}
/* n < 16 halves, as two registers. */
INLINE void load_halves(__m128i *lo, __m128i *hi, const uint8_t *p, size_t n)
{
    *lo = n >= 8 ? _mm_loadu_si128((const void *)p) : load_bytes(p, 2 * n);
    *hi = n > 8 ? load_bytes(p + 16, 2 * (n - 8)) : _mm_setzero_si128();
}
INLINE vf vf_load_bf16_n(const void *p, size_t n)
{
    __m128i lo, hi;
    load_halves(&lo, &hi, p, n);
    return (vf){bf16_lanes(lo), bf16_lanes(hi)};
}
INLINE vf vf_load_f16(const void *p)
{
    const __m128i *h = p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
INLINE vf vf_load_f16_n(const void *p, size_t n)
{
    __m128i lo, hi;
    load_halves(&lo, &hi, p, n);
    return (vf){_mm256_cvtph_ps(lo), _mm256_cvtph_ps(hi)};
}
INLINE vf vf_load_f32(const void *p)
{
    return vf_load(p);
}
INLINE vf vf_load_f32_n(const void *p, size_t n)
{
    float t[LANES] = {0};
    memcpy(t, p, n * sizeof *t);
    return vf_load(t);
}
INLINE __m256 nibble(__m256i words, const int s)
{
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(words, 4 * s), _mm256_set1_epi32(15)));
}
INLINE vf vf_bytes(const uint8_t *p)
{
    const __m128i b = _mm_loadu_si128((const void *)p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(b, 8)))};
}
/* 8 codes of four bits, the first one in the lowest bits. */
INLINE __m256 word_nibbles(const uint8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return nibble(_mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)), 0);
}
INLINE vf vf_nibbles(const uint8_t *p)
{
    return (vf){word_nibbles(p), word_nibbles(p + 4)};
}
/* Two numbers in bfloat16, each in all lanes. */
INLINE void vf_pair(const uint8_t *p, vf *lo, vf *hi)
{
    int32_t both;
    memcpy(&both, p, sizeof both);
    const __m256i v = _mm256_set1_epi32(both);
    const __m256  a = _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
    const __m256  b = _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xFFFF0000u)));
    *lo             = (vf){a, a};
    *hi             = (vf){b, b};
}
/* The permute looks at the low three bits of its index alone. */
INLINE __m256 eight_levels(const uint8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    const __m256i codes = _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21));
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(kv_turbo_levels), codes);
}
/* The levels of 16 codes of three bits, the first one in the lowest bits; reads one byte more. */
INLINE vf vf_levels(const uint8_t *p)
{
    return (vf){eight_levels(p), eight_levels(p + 3)};
}
/* A number in f16, in all lanes. */
INLINE vf vf_f16(const uint8_t *p)
{
    int16_t h;
    memcpy(&h, p, sizeof h);
    const __m256 x = _mm256_cvtph_ps(_mm_set1_epi16(h));
    return (vf){x, x};
}

/* One register's lanes alone. */
typedef __m256  vp;
typedef __m256i vq;
INLINE vp       vp_zero(void)
{
    return _mm256_setzero_ps();
}
INLINE vp vp_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void vp_store(float *p, vp v)
{
    _mm256_storeu_ps(p, v);
}
INLINE vp vp_fma(vp a, vp b, vp c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vq vq_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}
/* Nibble s of every word, times 16^s but for the last. */
INLINE vp vq_nibble(vq words, const int s)
{
    if (s == 7) return _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 28));
    return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(15 << (4 * s))));
}
INLINE vp vp_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}
INLINE vp vp_load_bf16(const void *p)
{
    return bf16_lanes(_mm_loadu_si128(p));
}
INLINE vp vp_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
INLINE vp vp_load_f32(const void *p)
{
    return _mm256_loadu_ps(p);
}
INLINE vp vp_set1(float x)
{
    return _mm256_set1_ps(x);
}
/* The scales of eight words, s[0] that of the first. */
INLINE vp vp_scale(const float *s, uint32_t group)
{
    if (group >= 64) return _mm256_broadcast_ss(s);
    return _mm256_set_m128(_mm_broadcast_ss(s + 1), _mm_broadcast_ss(s));
}
/* v in a register, where gcc would load it again for every use. */
INLINE vp vp_hold(vp v)
{
    __asm__("" : "+x"(v));
    return v;
}
/* v in registers: what follows is not mixed into what came before. */
INLINE vf vf_hold(vf v)
{
    __asm__("" : "+x"(v.lo), "+x"(v.hi));
    return v;
}

#include "kernels/cpu/lanes/codes.h"
#include "kernels/cpu/x86/bytes.h"

/* table[v], v < 16. */
INLINE vb vb_lookup(const int8_t *table, vb v)
{
    return _mm_shuffle_epi8(_mm_loadu_si128((const void *)table), v);
}
/* `value` where the bit of the 16 at p is set, else 0. */
INLINE vb vb_flags(const uint8_t *p, const int value)
{
    const __m128i at   = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bit  = _mm_set1_epi64x((long long)0x8040201008040201u);
    const __m128i bits = _mm_and_si128(_mm_shuffle_epi8(_mm_set1_epi16((short)load_u16(p)), at), bit);
    return _mm_and_si128(_mm_cmpeq_epi8(bits, bit), _mm_set1_epi8((char)value));
}
/* Signed bytes as floats. */
INLINE vf vf_vb(vb v)
{
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}
/* 16 signed bytes. */
INLINE vf vf_signed(const uint8_t *p)
{
    return vf_vb(vb_load(p));
}
/* 16 codes of `bits` from CODES_READ bytes, as floats. */
INLINE __m256 half_codes(__m256i bytes, const int bits, const int l)
{
    const __m256i at    = _mm256_setr_epi32(code_bytes(bits, l), code_bytes(bits, l + 1), code_bytes(bits, l + 2),
                                            code_bytes(bits, l + 3), code_bytes(bits, l + 4), code_bytes(bits, l + 5),
                                            code_bytes(bits, l + 6), code_bytes(bits, l + 7));
    const __m256i by    = _mm256_setr_epi32(code_shift(bits, l), code_shift(bits, l + 1), code_shift(bits, l + 2),
                                            code_shift(bits, l + 3), code_shift(bits, l + 4), code_shift(bits, l + 5),
                                            code_shift(bits, l + 6), code_shift(bits, l + 7));
    const __m256i words = _mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, at), by);
    return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32((1 << bits) - 1)));
}
INLINE vf vf_codes(const uint8_t *p, const int bits)
{
    const __m256i bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
    return (vf){half_codes(bytes, bits, 0), half_codes(bytes, bits, 8)};
}
/* 16 nibbles, the low one of a byte first. */
INLINE vb vb_nibbles(const uint8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const void *)p), low = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
}
/* Bytes in E4M3 as floats: a half has the bits, with its exponent 8 too low. */
INLINE vf vf_e4m3(const uint8_t *p)
{
    const __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(vb_load(p)), 7); /* the sign is there twice */
    const __m256i bits = _mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80));
    const vf x = {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
    return vf_mul(x, vf_set1(256.0f));
}
/* Bytes that vf_trellis looks at. */
#define TRELLIS_READ(bits) ((bits) <= 2 ? (bits) + 4 : (bits) < 8 ? (bits) + 8 : 24)
/* The states of 8 trellis weights, the last one from bit 0 of p on. */
INLINE __m256i half_states(const uint8_t *p, const int bits)
{
#define LAST_LANES(f) \
    _mm256_setr_epi32(f(bits, 8), f(bits, 9), f(bits, 10), f(bits, 11), f(bits, 12), f(bits, 13), f(bits, 14), \
                      f(bits, 15))
    __m256i   words;
    int       four;
    long long eight;
    if (bits <= 2) {
        memcpy(&four, p, sizeof four);
        words = _mm256_srlv_epi32(_mm256_set1_epi32(four), LAST_LANES(state_bit));
    } else {
        memcpy(&eight, p, sizeof eight);
        words = bits < 8 ? _mm256_set1_epi64x(eight) : _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
        words = _mm256_shuffle_epi8(words, LAST_LANES(state_bytes));
        if (bits < 8) words = _mm256_srlv_epi32(words, LAST_LANES(state_shift));
    }
    return _mm256_and_si256(words, _mm256_set1_epi32(TRELLIS_STATES - 1));
#undef LAST_LANES
}
INLINE __m256 half_levels(__m256i states)
{
    const __m256i x   = _mm256_add_epi32(_mm256_mullo_epi32(states, _mm256_set1_epi32(TRELLIS_MULTIPLIER)),
                                         _mm256_set1_epi32(TRELLIS_ADDEND));
    const __m256i two = _mm256_maddubs_epi16(x, _mm256_set1_epi8(1));
    const __m256i sum = _mm256_madd_epi16(two, _mm256_set1_epi16(1));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, _mm256_set1_epi32(TRELLIS_BYTES_MEAN)));
}
/* The levels of 16 trellis weights, the last one's state from bit 0 of p on. */
INLINE vf vf_trellis(const uint8_t *p, const int bits)
{
    return (vf){half_levels(half_states(p + bits, bits)), half_levels(half_states(p, bits))};
}
INLINE __m256 half_bf16(__m256 x)
{
    const __m256i u = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x8000));
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xFFFF0000u)));
}
/* To the nearest bfloat16, ties away from zero. */
INLINE vf vf_near_bf16(vf x)
{
    return (vf){half_bf16(x.lo), half_bf16(x.hi)};
}

#include "kernels/cpu/lanes/attention.h"
#include "kernels/cpu/lanes/blocks.h"
#include "kernels/cpu/lanes/delta.h"
#include "kernels/cpu/lanes/linear.h"
#include "kernels/cpu/lanes/rows.h"

void cpu_isa_avx2(cpu_isa *t)
{
    t->name = "avx2";
    lanes_rows(t);
    lanes_delta(t);
    lanes_linear(t);
    lanes_blocks(t);
    lanes_attention(t);
}
