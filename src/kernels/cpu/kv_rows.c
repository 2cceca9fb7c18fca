/* kernels/cpu/kv_rows.c - one key or value into the form of the cache (kernels.h).
 *
 * The affine quantiser is MLX's, with its CPU's rounding: in a group the number of
 * the larger magnitude and zero are points of the grid.  It is plain C for every
 * instruction set: what is stored once must be the same everywhere, and it is a
 * small part of a step. */
#include "base/bytes.h"
#include "base/half.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/kv_turbo.h"

#include <math.h>

/* To the nearest integer, ties to even, without a call for all that codes are made of: between 2^23
 * and 2^24 floats are the integers. */
static float round_even(float x)
{
    const float integers = 0x1.8p23f;
    return fabsf(x) < 0x1p22f ? x + integers - integers : rintf(x);
}

typedef struct affine_grid {
    float scale, bias;
} affine_grid;

/* The grid of n numbers for codes 0 .. most; NaN in both when a number is not finite, so that
 * what is broken stays visible. */
static affine_grid grid_of(const float *x, size_t n, float most)
{
    float lo = x[0], hi = x[0], poison = 0.0f;
    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        poison += x[i] * 0.0f;
    }
    if (poison != 0.0f) return (affine_grid){NAN, NAN};
    const bool low   = fabsf(lo) > fabsf(hi);
    float      scale = (hi - lo) / most;
    if (scale < 1e-7f) scale = 1e-7f;
    if (!low) scale = -scale;
    const float edge = low ? lo : hi, steps = round_even(edge / scale);
    if (steps == 0.0f) return (affine_grid){scale, 0.0f};
    return (affine_grid){edge / steps, edge};
}

static unsigned code_of(float x, affine_grid g, float most)
{
    const float c = round_even((x - g.bias) / g.scale);
    return !(c > 0.0f) ? 0 : c < most ? (unsigned)c : (unsigned)most;
}

static void write_affine(uint8_t *row, unsigned bits, uint32_t group, const float *x, size_t n)
{
    const float most  = (float)((1u << bits) - 1);
    uint8_t    *pairs = row + n * bits / 8;
    for (size_t at = 0; at < n; at += group, pairs += 4) {
        const affine_grid g = grid_of(x + at, group, most);
        store_u16(pairs, bf16_from_f32(g.scale));
        store_u16(pairs + 2, bf16_from_f32(g.bias));
        for (size_t i = at; i < at + group; i++) {
            const unsigned code = code_of(x[i], g, most);
            if (bits == 8)
                row[i] = (uint8_t)code;
            else
                row[i / 2] = (uint8_t)(i % 2 == 0 ? code : row[i / 2] | code << 4);
        }
    }
}

void kv_row_write(uint8_t *row, k_kv_form form, const float *x, size_t n)
{
    switch (form.kind) {
    case K_KV_F32: memcpy(row, x, n * sizeof *x); break;
    case K_KV_AFFINE8: write_affine(row, 8, form.group, x, n); break;
    case K_KV_AFFINE4: write_affine(row, 4, form.group, x, n); break;
    case K_KV_TURBO8: kv_turbo_keys(row, x, n); break;
    case K_KV_TURBO3: kv_turbo_values(row, x, n); break;
    default:
        for (size_t i = 0; i < n; i++) store_u16(row + 2 * i, bf16_from_f32(x[i]));
        break;
    }
}
