/* quant/trellis_encode.c - the walk through the trellis that is nearest to a block.
 *
 * Viterbi's algorithm: the walk has the largest sum of
 *
 *   gain(t, s) = 2*x[t]*code(s) - code(s)^2
 *
 * which is what is left of the squared error, each operation rounded to float.
 * State n may follow p when n >> bits == p mod 2^(12-bits), so a step needs only
 *
 *   best[h] = the largest sum of a walk up to now that a state n with n >> bits == h may follow
 *   next[h] = max of best[p >> bits] + gain(t, p) over the 2^bits states p with p mod 2^(12-bits) == h
 *
 * and 4096 sums and as many comparisons.  Which p it was is not written down: best
 * of every t is kept, and the way back repeats the comparison where it comes along.
 * Of equal sums the largest state wins.  That is five operations a state and step:
 * two passes of 4096 states make 41 thousand for each weight, or 5 thousand in
 * registers of eight floats.  Two blocks go together, for each load of the code.
 *
 * A walk must end where it began.  Trying all 2^(12-bits) beginnings would be exact;
 * instead a first pass over the block turned by half, without that condition, tells
 * what joins the block's end and beginning when both are deep inside, and the second
 * pass is held to it. */
#include "quant/trellis_encode.h"

#include "base/half.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

enum { BITS = TRELLIS_STATE_BITS, STATES = TRELLIS_STATES, BLOCK = TRELLIS_BLOCK };

#define LANES 4
#define STEPS(name) narrow_##name
#define STEPS_TARGET
#include "quant/trellis_steps.h"

#define LANES 8
#define STEPS(name) wide_##name
#define STEPS_TARGET SIMD_WIDE
#include "quant/trellis_steps.h"

void trellis_encode_prepare(trellis_encode_tables *t, uint32_t bits, bool wide)
{
    t->bits    = bits;
    t->wide    = wide;
    double sum = 0;
    for (uint32_t s = 0; s < STATES; s++) {
        t->of_state[s] = trellis_code(s);
        sum += (double)t->of_state[s] * (double)t->of_state[s];
    }
    t->per_size = 1.0 / sqrt(sum / STATES);
    /* A register holds neighbours h; behind it come those of the other p of the same h. */
    const uint32_t n = STATES >> bits, lanes = wide ? 8 : 4;
    for (uint32_t s = 0; s < STATES; s++) {
        const uint32_t h = s % n, m = s / n, at = ((h / lanes << bits) + m) * lanes + h % lanes;
        t->code[at]   = t->of_state[s];
        t->square[at] = t->of_state[s] * t->of_state[s];
    }
}

/* ---- scales ---- */

bool trellis_encode_scale(uint16_t *scale, float *x, size_t n, const trellis_encode_tables *t)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    *scale        = f16_from_f32((float)(sqrt(sum / (double)n) * t->per_size));
    const float s = f16_to_f32(*scale);
    if (!isfinite(s)) return false;
    for (size_t i = 0; i < n && s > 0.0f; i++) x[i] /= s;
    return true;
}

/* ---- walks ---- */

/* The best sum of a walk up to step t that ends in state s: best is row t. */
static float sum_of(const trellis_encode_tables *t, const float *best, float twice, uint32_t s)
{
    const float c = t->of_state[s];
    return best[s >> t->bits] + (twice * c - c * c);
}

/* Of the states first, first + apart, ... the one whose walk up to step t is best, the largest of equals. */
static uint32_t best_of(const trellis_encode_tables *t, const float *best, float twice, uint32_t first, uint32_t apart)
{
    uint32_t state = first;
    float    most  = sum_of(t, best, twice, first);
    for (uint32_t s = first + apart; s < STATES; s += apart) {
        const float sum = sum_of(t, best, twice, s);
        if (sum >= most) {
            most  = sum;
            state = s;
        }
    }
    return state;
}

/* The same of those that may come before what begins with the bits h. */
static uint32_t state_before(const trellis_encode_tables *t, const float *best, float twice, uint32_t h)
{
    return best_of(t, best, twice, h, STATES >> t->bits);
}

/* Fills both histories from their first rows. */
static void run(float *best, const float *const *x, const trellis_encode_tables *t)
{
    if (t->wide)
        wide_steps(best, x, t);
    else
        narrow_steps(best, x, t);
}

/* Floats of one block's history: best[h] of every step. */
static size_t history(const trellis_encode_tables *t)
{
    return (size_t)BLOCK * (size_t)(STATES >> t->bits);
}

/* The upper bits of the first states, found as those of states in the middle of
 * the blocks that are turned by half. */
static void find_overlaps(uint32_t *overlap, const float *const *x, const trellis_encode_tables *t, float *best)
{
    enum { HALF = BLOCK / 2 };
    const size_t       n = STATES >> t->bits;
    float              turned[2][BLOCK];
    const float *const both[] = {turned[0], turned[1]};
    for (size_t w = 0; w < 2; w++) {
        memcpy(turned[w], x[w] + HALF, HALF * sizeof *x[w]);
        memcpy(turned[w] + HALF, x[w], HALF * sizeof *x[w]);
        for (size_t h = 0; h < n; h++) best[w * history(t) + h] = 0.0f;
    }
    run(best, both, t);
    for (size_t w = 0; w < 2; w++) {
        const float *row = best + w * history(t);
        uint32_t     s   = best_of(t, row + (BLOCK - 1) * n, 2.0f * turned[w][BLOCK - 1], 0, 1);
        for (size_t i = BLOCK - 1; i-- > HALF;) s = state_before(t, row + i * n, 2.0f * turned[w][i], s >> t->bits);
        overlap[w] = s >> t->bits;
    }
}

/* Back from the last state, whose bits come first. */
static void put_block(uint8_t *out, const float *x, const trellis_encode_tables *t, const float *best, uint32_t overlap)
{
    const size_t n    = STATES >> t->bits;
    uint64_t     word = 0;
    uint32_t     used = 0, h = overlap;
    for (size_t i = BLOCK; i-- > 0;) {
        const uint32_t s = state_before(t, best + i * n, 2.0f * x[i], h);
        word |= (uint64_t)(s & ((1u << t->bits) - 1u)) << used;
        h = s >> t->bits;
        for (used += t->bits; used >= 8; used -= 8, word >>= 8) *out++ = (uint8_t)word;
    }
}

void trellis_encode_blocks(uint8_t *out, const float *x, size_t n, const trellis_encode_tables *t, float *work)
{
    const size_t rows = STATES >> t->bits, bytes = BLOCK / 8 * t->bits;
    for (size_t b = 0; b < n; b += 2) {
        const float *const first = x + b * BLOCK, *const both[] = {first, b + 1 < n ? first + BLOCK : first};
        uint32_t overlap[2];
        find_overlaps(overlap, both, t, work);
        for (size_t w = 0; w < 2; w++)
            for (size_t h = 0; h < rows; h++) work[w * history(t) + h] = h == overlap[w] ? 0.0f : -INFINITY;
        run(work, both, t);
        for (size_t w = 0; w < 2 && b + w < n; w++)
            put_block(out + (b + w) * bytes, both[w], t, work + w * history(t), overlap[w]);
    }
}
