/* quant/trellis_steps.h - the forward recursion of trellis_encode.c, LANES states at a time.
 *
 * Included once for each width of registers, with LANES (4 or 8), STEPS(name)
 * (makes the width's own name) and STEPS_TARGET (what functions are compiled for). */

typedef float   STEPS(lanes) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t STEPS(masks) __attribute__((vector_size(4 * LANES)));

/* One step of two blocks, which share what is loaded of the code; for a width
 * that the compiler knows, so that the inner loop unrolls.  The second block's
 * sums lie a whole history behind the first's. */
STEPS_TARGET static inline __attribute__((always_inline)) void STEPS(one)(float *restrict next,
                                                                          const float *restrict best,
                                                                          const float *restrict code,
                                                                          const float *restrict square,
                                                                          const float *twice, uint32_t bits)
{
    const uint32_t n = STATES >> bits, stride = n >> bits;
    const size_t   history = (size_t)BLOCK * n;
    for (uint32_t h = 0; h < n; h += LANES) {
        STEPS(lanes) top[2] = {{0}, {0}};
        for (uint32_t m = 0; m < 1u << bits; m++, code += LANES, square += LANES) {
            const STEPS(lanes) c = *(const STEPS(lanes) *)code, s = *(const STEPS(lanes) *)square;
            for (size_t w = 0; w < 2; w++) {
                const float *from = best + w * history + (h >> bits) + m * stride;
#if LANES == 8 /* with 2 bits only four states share what they come from */
                const float low = from[0], high = from[bits == 2];
                const STEPS(lanes) before = {low, low, low, low, high, high, high, high};
#else
                const float same          = from[0];
                const STEPS(lanes) before = {same, same, same, same};
#endif
                const STEPS(lanes) sum  = before + (twice[w] * c - s);
                const STEPS(masks) more = sum > top[w];
                top[w] = m == 0 ? sum : (STEPS(lanes))(((STEPS(masks))sum & more) | ((STEPS(masks))top[w] & ~more));
            }
        }
        *(STEPS(lanes) *)(next + h)           = top[0];
        *(STEPS(lanes) *)(next + history + h) = top[1];
    }
}

/* Row t + 1 of both histories from row t, for all steps of a block but the last. */
STEPS_TARGET static void STEPS(steps)(float *best, const float *const *x, const trellis_encode_tables *t)
{
    const size_t n = STATES >> t->bits;
    for (size_t i = 0; i + 1 < BLOCK; i++, best += n) {
        const float twice[2] = {2.0f * x[0][i], 2.0f * x[1][i]};
        switch (t->bits) {
        case 2: STEPS(one)(best + n, best, t->code, t->square, twice, 2); break;
        case 3: STEPS(one)(best + n, best, t->code, t->square, twice, 3); break;
        default: STEPS(one)(best + n, best, t->code, t->square, twice, 4); break;
        }
    }
}

#undef LANES
#undef STEPS
#undef STEPS_TARGET
