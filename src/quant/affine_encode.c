/* quant/affine_encode.c - MLX affine quantisation, encoding.
 *
 * The same codes, scales and biases as MLX's CPU device gives.  In each group
 * the end of larger magnitude (the edge) is met exactly and 0 is a point of
 * the grid: the step is stretched until the edge is a whole number of steps
 * from 0.  Codes come from the step in f32, before it is rounded to the type
 * in which it is stored. */
#include "quant/affine.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { GROUP_MAX = 128, LANES = 8 };

/* To the nearest integer, ties to even, of a number between 0 and 255: past
 * 2^23 a float has no fraction left. */
static float round_even(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* The least and the largest of a group; false when not all are finite. */
static bool range_of(const float *x, size_t n, float *least, float *largest)
{
    float low[LANES], high[LANES], odd[LANES] = {0};
    memcpy(low, x, sizeof low);
    memcpy(high, x, sizeof high);
    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            const float v = x[i + k];
            low[k]        = v < low[k] ? v : low[k];
            high[k]       = v > high[k] ? v : high[k];
            odd[k] += v * 0.0f; /* NaN from what is not finite */
        }
    for (size_t k = 1; k < LANES; k++) {
        low[0]  = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
        odd[0] += odd[k];
    }
    *least   = low[0];
    *largest = high[0];
    return odd[0] == 0.0f && high[0] - low[0] <= FLT_MAX;
}

static void step_of(float least, float largest, float steps, float *step, float *bias)
{
    const bool  low_edge = fabsf(least) > fabsf(largest);
    const float width = (largest - least) / steps, s = width > 1e-7f ? width : 1e-7f;
    const float edge    = low_edge ? least : largest;
    const float signed_ = low_edge ? s : -s, from_zero = rintf(edge / signed_);
    *step = from_zero != 0.0f ? edge / from_zero : signed_;
    *bias = from_zero != 0.0f ? edge : 0.0f;
}

/* Eight codes are as many bytes as a code has bits. */
static void pack(uint8_t *out, const float *codes, size_t n, uint32_t bits)
{
    for (size_t i = 0; i < n; i += 8, out += bits) {
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; k++) word |= (uint64_t)(uint32_t)codes[i + k] << k * bits;
        memcpy(out, &word, bits);
    }
}

bool affine_encode(const affine_target *r, const float *x, size_t n)
{
    const float last = (float)((1u << r->bits) - 1u);
    for (size_t g = 0; g < n / r->group; g++) {
        const float *v = x + g * r->group;
        float        codes[GROUP_MAX], least, largest, step, bias;
        if (!range_of(v, r->group, &least, &largest)) return false;
        step_of(least, largest, last, &step, &bias);
        for (size_t i = 0; i < r->group; i++) {
            const float q = (v[i] - bias) / step;
            codes[i]      = round_even(q < 0.0f ? 0.0f : q > last ? last : q);
        }
        pack(r->codes + g * r->group * r->bits / 8, codes, r->group, r->bits);
        dense_put(r->scales, r->scale_type, g, step);
        dense_put(r->biases, r->scale_type, g, bias);
    }
    return true;
}
