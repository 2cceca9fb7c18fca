/* kernels/cpu/arm/neon.c - the inner loops with four registers for 16 lanes. */
#include "base/bytes.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_turbo.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")
#define PREFETCH(p) __builtin_prefetch(p)
enum {
    TILE_N     = 4,
    DELTA_TILE = 1,
    SCORE_KEYS = 1,
    VALUE_TILE = 1,

    PARTS       = 4,
    BURN_CHAINS = 4
};
enum { DOT_MOST = 8 };                /* rows of x in one pass over the weights */
#define DOT_R(M) ((M) <= 4 ? 4 : 2)   /* weight rows that M rows of x meet at once */
#define PIECE_R(M) ((M) <= 2 ? 2 : 1) /* the same for formats that are decoded */

typedef struct vf {
    float32x4_t v[4];
} vf;

/* r.v[i] = expr for the four registers; gcc keeps the struct in registers once
 * the loop is unrolled. */
#define EACH_V(type, expr) \
    type r; \
    UNROLL for (int i = 0; i < 4; i++) r.v[i] = (expr); \
    return r

INLINE vf vf_set1(float x)
{
    EACH_V(vf, vdupq_n_f32(x));
}
INLINE vf vf_zero(void)
{
    return vf_set1(0.0f);
}
INLINE vf vf_load(const float *p)
{
    EACH_V(vf, vld1q_f32(p + 4 * i));
}
INLINE void vf_store(float *p, vf a)
{
    UNROLL for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.v[i]);
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
    EACH_V(vf, vaddq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_sub(vf a, vf b)
{
    EACH_V(vf, vsubq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_mul(vf a, vf b)
{
    EACH_V(vf, vmulq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_div(vf a, vf b)
{
    EACH_V(vf, vdivq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    EACH_V(vf, vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
INLINE vf vf_max(vf a, vf b)
{
    EACH_V(vf, vmaxq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_min(vf a, vf b)
{
    EACH_V(vf, vminq_f32(a.v[i], b.v[i]));
}
INLINE vf vf_neg(vf a)
{
    EACH_V(vf, vnegq_f32(a.v[i]));
}
INLINE vf vf_abs(vf a)
{
    EACH_V(vf, vabsq_f32(a.v[i]));
}
/* a where the sign bit of x is set, else b. */
INLINE vf vf_by_sign(vf x, vf a, vf b)
{
    EACH_V(vf, vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_f32(x.v[i]), 31)), a.v[i], b.v[i]));
}
INLINE float32x4_t scale_pow2(float32x4_t p, float32x4_t t)
{
    const int32x4_t bias = vdupq_n_s32(127);
    const int32x4_t n    = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(0x4B400000));
    const int32x4_t half = vshrq_n_s32(n, 1);
    const int32x4_t a    = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t b    = vshlq_n_s32(vaddq_s32(vsubq_s32(n, half), bias), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(a)), vreinterpretq_f32_s32(b));
}
/* p * 2^n, where t = n + MATH_ROUND; in two steps, see scalar/math.h. */
INLINE vf vf_scale_pow2(vf p, vf t)
{
    EACH_V(vf, scale_pow2(p.v[i], t.v[i]));
}
INLINE float vf_sum(vf v)
{
    const float32x4_t a = vaddq_f32(vaddq_f32(v.v[0], v.v[2]), vaddq_f32(v.v[1], v.v[3]));
    const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
/* sums[i] = vf_sum of p[i][16], i < 8. */
INLINE void vf_sum8(float *sums, const float *p)
{
    UNROLL for (int i = 0; i < 8; i++) sums[i] = vf_sum(vf_load(p + i * 16));
}
INLINE vf vf_load_bf16(const void *p)
{
    const uint8_t *b = p;
    EACH_V(vf, vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(b + 8 * i)), 16)));
}
INLINE vf vf_load_bf16_n(const void *p, size_t n)
{
    uint16_t t[LANES] = {0};
    memcpy(t, p, n * sizeof *t);
    return vf_load_bf16(t);
}
INLINE vf vf_load_f16(const void *p)
{
    const uint8_t *b = p;
    EACH_V(vf, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(b + 8 * i))));
}
INLINE vf vf_load_f16_n(const void *p, size_t n)
{
    uint16_t t[LANES] = {0};
    memcpy(t, p, n * sizeof *t);
    return vf_load_f16(t);
}
INLINE vf vf_load_f32(const void *p)
{
    const uint8_t *b = p;
    EACH_V(vf, vreinterpretq_f32_u8(vld1q_u8(b + 16 * i)));
}
INLINE vf vf_load_f32_n(const void *p, size_t n)
{
    float t[LANES] = {0};
    memcpy(t, p, n * sizeof *t);
    return vf_load(t);
}
INLINE vf byte_lanes(uint8x16_t b)
{
    const uint16x8_t lo = vmovl_u8(vget_low_u8(b)), hi = vmovl_u8(vget_high_u8(b));
    return (vf){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(lo))),
                 vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(hi)))}};
}
INLINE vf vf_bytes(const uint8_t *p)
{
    return byte_lanes(vld1q_u8(p));
}
/* 16 codes of four bits, the first one in the lowest bits. */
INLINE vf vf_nibbles(const uint8_t *p)
{
    const uint8x8_t   b = vld1_u8(p);
    const uint8x8x2_t z = vzip_u8(vand_u8(b, vdup_n_u8(15)), vshr_n_u8(b, 4));
    return byte_lanes(vcombine_u8(z.val[0], z.val[1]));
}
/* Two numbers in bfloat16, each in all lanes. */
INLINE void vf_pair(const uint8_t *p, vf *lo, vf *hi)
{
    uint32_t both;
    memcpy(&both, p, sizeof both);
    const float32x4_t a = vreinterpretq_f32_u32(vdupq_n_u32(both << 16));
    const float32x4_t b = vreinterpretq_f32_u32(vdupq_n_u32(both & 0xFFFF0000u));
    *lo                 = (vf){{a, a, a, a}};
    *hi                 = (vf){{b, b, b, b}};
}
/* The levels of 16 codes of three bits, the first one in the lowest bits. */
INLINE vf vf_levels(const uint8_t *p)
{
    uint64_t bits = 0;
    float    t[LANES];
    memcpy(&bits, p, 6);
    UNROLL for (int l = 0; l < LANES; l++) t[l] = kv_turbo_levels[bits >> 3 * l & 7];
    return vf_load(t);
}
/* A number in f16, in all lanes. */
INLINE vf vf_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    const float32x4_t x = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h)));
    return (vf){{x, x, x, x}};
}

/* One register's lanes alone. */
typedef float32x4_t vp;
typedef uint32x4_t  vq;
INLINE vp           vp_zero(void)
{
    return vdupq_n_f32(0.0f);
}
INLINE vp vp_load(const float *p)
{
    return vld1q_f32(p);
}
INLINE void vp_store(float *p, vp v)
{
    vst1q_f32(p, v);
}
INLINE vp vp_fma(vp a, vp b, vp c)
{
    return vfmaq_f32(c, a, b);
}
INLINE vq vq_load(const uint8_t *p)
{
    return vreinterpretq_u32_u8(vld1q_u8(p));
}
/* Nibble s of every word, times 16^s but for the last. */
INLINE vp vq_nibble(vq words, const int s)
{
    if (s == 7) return vcvtq_f32_u32(vshrq_n_u32(words, 28));
    return vcvtq_f32_u32(vandq_u32(words, vdupq_n_u32(15u << (4 * s))));
}
INLINE vp vp_bytes(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four)))));
}
INLINE vp vp_load_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
INLINE vp vp_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
INLINE vp vp_load_f32(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}
INLINE vp vp_set1(float x)
{
    return vdupq_n_f32(x);
}
/* The scale of four words, which a group has at least. */
INLINE vp vp_scale(const float *s, uint32_t group)
{
    (void)group;
    return vdupq_n_f32(*s);
}
INLINE vp vp_hold(vp v)
{
    return v;
}
INLINE vf vf_hold(vf v)
{
    return v;
}

#include "kernels/cpu/lanes/codes.h"

/* 16 bytes. */
typedef uint8x16_t vb;
INLINE vb          vb_load(const uint8_t *p)
{
    return vld1q_u8(p);
}
INLINE vb vb_make(uint64_t lo, uint64_t hi)
{
    return vcombine_u8(vcreate_u8(lo), vcreate_u8(hi));
}
/* v >> shift, or v << -shift, and of every byte the bits of `mask` (no others come into it). */
INLINE vb vb_bits(vb v, const int shift, const int mask)
{
    return vandq_u8(vshlq_u8(v, vdupq_n_s8((int8_t)-shift)), vdupq_n_u8((uint8_t)mask));
}
INLINE vb vb_or(vb a, vb b)
{
    return vorrq_u8(a, b);
}
INLINE vb vb_sub(vb v, const int n)
{
    return vsubq_u8(v, vdupq_n_u8((uint8_t)n));
}
/* table[v], v < 16. */
INLINE vb vb_lookup(const int8_t *table, vb v)
{
    return vqtbl1q_u8(vreinterpretq_u8_s8(vld1q_s8(table)), v);
}
/* `value` where the bit of the 16 at p is set, else 0. */
INLINE vb vb_flags(const uint8_t *p, const int value)
{
    const uint8x16_t bytes = vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1]));
    const uint8x16_t set   = vtstq_u8(bytes, vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u)));
    return vandq_u8(set, vdupq_n_u8((uint8_t)value));
}
/* Signed bytes as floats. */
INLINE vf vf_vb(vb v)
{
    const int8x16_t b  = vreinterpretq_s8_u8(v);
    const int16x8_t lo = vmovl_s8(vget_low_s8(b)), hi = vmovl_s8(vget_high_s8(b));
    return (vf){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
                 vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))}};
}
/* 16 signed bytes. */
INLINE vf vf_signed(const uint8_t *p)
{
    return vf_vb(vb_load(p));
}
/* 16 codes of `bits` from CODES_READ bytes, as floats. */
INLINE vf vf_codes(const uint8_t *p, const int bits)
{
    const uint8x16_t bytes = vld1q_u8(p);
    const uint32x4_t mask  = vdupq_n_u32((1u << bits) - 1u);
    vf               r;
    UNROLL for (int i = 0; i < 4; i++)
    {
        uint32_t at[4];
        int32_t  by[4];
        UNROLL for (int l = 0; l < 4; l++)
        {
            at[l] = (uint32_t)code_bytes(bits, 4 * i + l);
            by[l] = -code_shift(bits, 4 * i + l);
        }
        const uint8x16_t two   = vqtbl1q_u8(bytes, vreinterpretq_u8_u32(vld1q_u32(at)));
        const uint32x4_t words = vshlq_u32(vreinterpretq_u32_u8(two), vld1q_s32(by));
        r.v[i]                 = vcvtq_f32_u32(vandq_u32(words, mask));
    }
    return r;
}
/* 16 nibbles, the low one of a byte first. */
INLINE vb vb_nibbles(const uint8_t *p)
{
    const uint8x8_t   bytes = vld1_u8(p);
    const uint8x8x2_t codes = vzip_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4));
    return vcombine_u8(codes.val[0], codes.val[1]);
}
/* Bytes in E4M3 as floats: a half has the bits, with its exponent 8 too low. */
INLINE vf vf_e4m3(const uint8_t *p)
{
    const int8x16_t b    = vreinterpretq_s8_u8(vld1q_u8(p));
    const int16x8_t mask = vdupq_n_s16((int16_t)0xBF80); /* the sign is there twice */
    const int16x8_t lo   = vandq_s16(vshlq_n_s16(vmovl_s8(vget_low_s8(b)), 7), mask);
    const int16x8_t hi   = vandq_s16(vshlq_n_s16(vmovl_s8(vget_high_s8(b)), 7), mask);
    uint16_t        half[LANES];
    vst1q_s16((int16_t *)half, lo);
    vst1q_s16((int16_t *)half + 8, hi);
    return vf_mul(vf_load_f16(half), vf_set1(256.0f));
}
/* Bytes that vf_trellis looks at. */
#define TRELLIS_READ(bits) ((bits) < 8 ? 16 : 24)
/* The levels of 16 trellis weights, the last one's state from bit 0 of p on. */
INLINE vf vf_trellis(const uint8_t *p, const int bits)
{
    const uint8x16_t last = vld1q_u8(p), first = bits < 8 ? last : vld1q_u8(p + 8);
    const uint32x4_t mask = vdupq_n_u32(TRELLIS_STATES - 1), add = vdupq_n_u32(TRELLIS_ADDEND);
    vf               r;
    UNROLL for (int i = 0; i < 4; i++)
    {
        uint32_t at[4];
        int32_t  by[4];
        UNROLL for (int l = 0; l < 4; l++)
        {
            at[l] = (uint32_t)state_bytes(bits, 4 * i + l);
            by[l] = -state_shift(bits, 4 * i + l);
        }
        const uint8x16_t three = vqtbl1q_u8(i < 2 ? first : last, vreinterpretq_u8_u32(vld1q_u32(at)));
        const uint32x4_t words = vandq_u32(vshlq_u32(vreinterpretq_u32_u8(three), vld1q_s32(by)), mask);
        const uint32x4_t x     = vmlaq_n_u32(add, words, TRELLIS_MULTIPLIER);
        const uint32x4_t sum   = vpaddlq_u16(vpaddlq_u8(vreinterpretq_u8_u32(x)));
        r.v[i]                 = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(sum), vdupq_n_s32(TRELLIS_BYTES_MEAN)));
    }
    return r;
}
/* To the nearest bfloat16, ties away from zero. */
INLINE vf vf_near_bf16(vf x)
{
    EACH_V(vf, vreinterpretq_f32_u32(
                   vandq_u32(vaddq_u32(vreinterpretq_u32_f32(x.v[i]), vdupq_n_u32(0x8000)), vdupq_n_u32(0xFFFF0000u))));
}

#include "kernels/cpu/lanes/attention.h"
#include "kernels/cpu/lanes/blocks.h"
#include "kernels/cpu/lanes/delta.h"
#include "kernels/cpu/lanes/linear.h"
#include "kernels/cpu/lanes/rows.h"

void cpu_isa_neon(cpu_isa *t)
{
    t->name = "neon";
    lanes_rows(t);
    lanes_delta(t);
    lanes_linear(t);
    lanes_blocks(t);
    lanes_attention(t);
}
