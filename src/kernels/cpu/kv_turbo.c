/* kernels/cpu/kv_turbo.c - see kv_turbo.h.  Plain C for every instruction set. */
#include "kernels/cpu/kv_turbo.h"

#include "base/bytes.h"
#include "base/half.h"

#include <math.h>

enum { GROUP = K_KV_TURBO_GROUP, MAX_DIM = 512 };

/* ---- the rotation ---- */

/* Bit i of the table for n numbers is set where the sign is minus; lowest bit first. */
static const uint8_t signs64[]  = {0x8e, 0x54, 0x69, 0xb7, 0x02, 0x48, 0xde, 0x62};
static const uint8_t signs128[] = {0x0d, 0xdf, 0x39, 0x6a, 0x50, 0x02, 0x9c, 0x6a,
                                   0xd5, 0x37, 0x83, 0x4a, 0xde, 0x59, 0x60, 0x14};
static const uint8_t signs256[] = {0x12, 0x30, 0xe6, 0x62, 0x11, 0x4a, 0xcd, 0x10, 0x6f, 0x14, 0x6d,
                                   0xa9, 0xc9, 0x5e, 0x9c, 0xd3, 0x9b, 0xf2, 0x2f, 0x3a, 0x73, 0x5d,
                                   0x27, 0xb2, 0x6b, 0xd9, 0x30, 0x57, 0x57, 0xc3, 0x8b, 0xfe};
static const uint8_t signs512[] = {0xbd, 0x4b, 0x36, 0x70, 0x0d, 0xe3, 0xfb, 0x62, 0x63, 0xe4, 0x39, 0xd4, 0x61,
                                   0xd2, 0xca, 0x5c, 0x8f, 0x7c, 0x47, 0x9b, 0x43, 0x12, 0xdd, 0xe9, 0x30, 0xde,
                                   0x2a, 0x54, 0xba, 0xca, 0xba, 0x77, 0x84, 0x3e, 0x87, 0x11, 0x18, 0x15, 0x4c,
                                   0x9a, 0xc5, 0xa3, 0x04, 0x32, 0x1f, 0x72, 0x81, 0x5d, 0x52, 0x14, 0x82, 0x8a,
                                   0xc2, 0x9b, 0xa7, 0x8e, 0xef, 0x4b, 0x0e, 0x52, 0x6d, 0x9d, 0x6b, 0x29};

static const uint8_t *signs_of(size_t n)
{
    return n == 64 ? signs64 : n == 128 ? signs128 : n == 256 ? signs256 : signs512;
}

static void apply_signs(float *x, size_t n)
{
    const uint8_t *signs = signs_of(n);
    for (size_t i = 0; i < n; i++) x[i] = signs[i / 8] >> i % 8 & 1 ? -x[i] : x[i];
}

/* In Sylvester's order, scaled so that lengths stay. */
static void transform(float *x, size_t n)
{
    for (size_t h = 1; h < n; h *= 2)
        for (size_t i = 0; i < n; i += 2 * h)
            for (size_t j = i; j < i + h; j++) {
                const float a = x[j], b = x[j + h];
                x[j]     = a + b;
                x[j + h] = a - b;
            }
    const float scale = (float)(1.0 / __builtin_sqrt((double)n));
    for (size_t i = 0; i < n; i++) x[i] *= scale;
}

void kv_rotate(float *x, size_t n)
{
    apply_signs(x, n);
    transform(x, n);
}

void kv_rotate_back(float *x, size_t n)
{
    transform(x, n);
    apply_signs(x, n);
}

/* ---- codes ---- */

static float limited(float x, float most)
{
    return !(x > -most) ? -most : x < most ? x : most;
}

/* Scale, zero point and codes of a group: x = (code + zero) * scale. */
static void put_keys(uint8_t *codes, uint8_t *pair, const float *x)
{
    enum { MOST = 127 };
    const float tiny = 1e-8f, most_exact = 2048.0f; /* the largest range of integers in f16 */
    float       lo = x[0], hi = x[0], poison = 0.0f;
    for (size_t i = 0; i < GROUP; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        poison += x[i] * 0.0f;
    }
    const float scale = (hi - lo) / (2 * MOST), zero = rintf((hi + lo) / (2.0f * (scale + tiny)));
    uint16_t    s = f16_from_f32(scale), z = f16_from_f32(zero);
    float       step = scale + tiny, from = zero;
    bool        same = hi == lo;
    if (fabsf(zero) > most_exact) { /* what is stored is not what was found: codes make up for it */
        step = f16_to_f32(s);
        from = f16_to_f32(z);
        same = same || step == 0.0f || isinf(from);
    }
    if (same || poison != 0.0f) { /* as good as one number, or none */
        s = f16_from_f32(poison != 0.0f ? NAN : lo + (hi - lo) * 0.5f);
        z = 0;
    }
    store_u16(pair, s);
    store_u16(pair + 2, z);
    for (size_t i = 0; i < GROUP; i++)
        codes[i] = (uint8_t)(int8_t)(same || poison != 0.0f ? 1.0f : limited(rintf(x[i] / step - from), MOST));
}

void kv_turbo_keys(uint8_t *row, const float *x, size_t n)
{
    for (size_t g = 0; g < n / GROUP; g++) put_keys(row + g * GROUP, row + n + 4 * g, x + g * GROUP);
}

/* How many of the bounds between levels lie below u. */
static unsigned level_of(float u)
{
    static const float bounds[] = {-1.74793f, -1.04996f, -0.50055f, 0.0f, 0.50055f, 1.04996f, 1.74793f};
    unsigned           n        = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) n += u > bounds[i];
    return n;
}

void kv_turbo_values(uint8_t *row, const float *rotated, size_t n)
{
    for (size_t at = 0; at < n; at += GROUP) {
        float sum = 0.0f;
        for (size_t i = at; i < at + GROUP; i++) sum += rotated[i] * rotated[i];
        const float rms = sqrtf(sum / GROUP), unit = rms + 1e-8f;
        store_u16(row + 3 * n / 8 + 2 * (at / GROUP), f16_from_f32(rms));
        for (size_t i = at; i < at + GROUP; i += 8) {
            uint32_t bits = 0;
            for (size_t k = 0; k < 8; k++) bits |= level_of(rotated[i + k] / unit) << 3 * k;
            for (size_t k = 0; k < 3; k++) row[3 * i / 8 + k] = (uint8_t)(bits >> 8 * k);
        }
    }
}
