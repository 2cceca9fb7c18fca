/* engine/sample.c - temperature, top_k, top_p, min_p, XTC and the draw.
 *
 * Tokens are compared by their logits before the temperature: dividing keeps
 * the order, rounding the quotients could make ties.  The scaled logit is
 * x = (z - z_max) / temperature in double, so the best token has x = 0 and the
 * weight exp(x) = 1. */
#include "engine/sample.h"

#include "base/pmath.h"
#include "base/status.h"
#include "engine/exp_sum.h"
#include "engine/philox.h"

#include <inttypes.h>
#include <string.h>

enum {
    HEAP_MAX     = 256, /* up to so many are found by the one-pass heap */
    FIRST_SLICE  = 256, /* top_p sorts this many, then SLICE_GROWTH times as many */
    SLICE_GROWTH = 4,
};

/* The last word of a counter: what the random bits are for. */
enum { DRAW_TOKEN = 0, DRAW_XTC = 1 };

size_t sample_workspace_bytes(uint32_t n_vocab)
{
    return (size_t)n_vocab * (sizeof(candidate) + sizeof(uint32_t) + sizeof(float));
}

void sample_workspace_init(sample_workspace *ws, void *memory, uint32_t n_vocab)
{
    *ws      = (sample_workspace){.n_vocab = n_vocab, .c = memory};
    ws->seen = (uint32_t *)(void *)(ws->c + n_vocab);
    ws->z    = (float *)(void *)(ws->seen + n_vocab);
}

/* The set while it shrinks: sample_set with its array writable. */
typedef struct kept {
    candidate *c;
    uint32_t   n;
    bool       sorted;
    float      z_max;
    double     temperature;
} kept;

static double scaled(float z, float z_max, double temperature)
{
    return ((double)z - (double)z_max) / temperature;
}

/* exp(x); what is too small for a normal number next to 1 counts as 2^-1021. */
static double weight(float z, float z_max, double temperature)
{
    const double x = scaled(z, z_max, temperature);
    return pmath_exp_normal(x < -708.0 ? -708.0 : x);
}

/* The sum of the weights, in the array's order (exp_sum.h). */
static double total_weight(const candidate *c, uint32_t n, float z_max, double temperature)
{
    exp_sum sum = {0};
    for (uint32_t begin = 0; begin < n; begin += EXP_SUM_BLOCK) {
        double         x[EXP_SUM_BLOCK];
        const uint32_t size = n - begin < EXP_SUM_BLOCK ? n - begin : EXP_SUM_BLOCK;
        for (uint32_t i = 0; i < size; i++) x[i] = scaled(c[begin + i].z, z_max, temperature);
        exp_sum_add(&sum, x, size);
    }
    return exp_sum_total(&sum);
}

double sample_set_log_total(const sample_set *s)
{
    return pmath_log(total_weight(s->c, s->n, s->z_max, s->temperature));
}

/* Keeps the candidates with z >= least, in their order. */
static void keep_from(kept *s, float least)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->c[n] = s->c[i];
        n += s->c[i].z >= least;
    }
    s->n = n;
}

/* Step 7, and the first gathering of candidates. */
static void keep_top_k(kept *s, const float *z, uint32_t n_valid, uint32_t k)
{
    if (k > 0 && k <= HEAP_MAX) {
        s->n      = candidates_best(s->c, k, z, n_valid);
        s->sorted = true;
        return;
    }
    s->n = candidates_all(s->c, z, n_valid);
    if (k == 0 || k >= s->n) return;
    candidates_partition(s->c, s->n, k);
    candidates_sort(s->c, k);
    s->n      = k;
    s->sorted = true;
}

/* Drops what step 8 surely drops without sorting.  Tokens lighter than
 * (1 - top_p) total / n weigh less than 1 - top_p of the total even all together,
 * so the crossing token is not among them; 0.99 keeps rounding out of it. */
static void drop_light(kept *s, double top_p, double total)
{
    const double rest = 1.0 - top_p;
    if (rest < 1e-6) return;
    const double x = pmath_log(0.99 * rest * total / (double)s->n);
    /* One float lower than asked is harmless, one higher is not. */
    const double least = (double)s->z_max + x * s->temperature;
    keep_from(s, (float)(least - 1e-6 * (least < 0 ? -least : least)));
}

/* Makes the next slice of the set sorted; returns where it ends. */
static uint32_t sort_slice(kept *s, uint32_t begin)
{
    const uint32_t room = s->n - begin, want = begin == 0 ? FIRST_SLICE : begin * (SLICE_GROWTH - 1);
    const uint32_t size = want < room ? want : room;
    candidates_partition(s->c + begin, room, size);
    candidates_sort(s->c + begin, size);
    return begin + size;
}

/* Step 8. */
static void keep_top_p(kept *s, double top_p)
{
    const double total = total_weight(s->c, s->n, s->z_max, s->temperature), wanted = top_p * total;
    if (!s->sorted) drop_light(s, top_p, total);

    uint32_t n = 0, sorted = s->sorted ? s->n : 0;
    double   mass = 0;
    do {
        if (n == sorted) sorted = sort_slice(s, sorted);
        mass += weight(s->c[n].z, s->z_max, s->temperature);
        n++;
    } while (mass < wanted && n < s->n);
    s->n      = n;
    s->sorted = true;
}

/* Step 9: p >= min_p p_max, which is x >= log(min_p). */
static void keep_min_p(kept *s, double min_p)
{
    const double least = pmath_log(min_p);
    uint32_t     n     = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const candidate c = s->c[i];
        if (scaled(c.z, s->z_max, s->temperature) >= least) s->c[n++] = c;
    }
    s->n = n;
}

static bool among(uint32_t id, const uint32_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

static philox_block random_block(const sample_input *in, uint32_t purpose, uint32_t index)
{
    const weir_sample_params *p = in->params;
    return philox4x32((philox_block){{index, in->position, p->choice, purpose}}, (uint32_t)p->seed,
                      (uint32_t)(p->seed >> 32));
}

/* 0 < result < 1, exact. */
static double unit_interval(uint32_t bits)
{
    return ((double)bits + 0.5) * 0x1p-32;
}

/* Step 10.  "At least the threshold" is a property of z alone, so the least
 * likely such token is the one with the least z; its equals stay with it. */
static void exclude_top_choices(kept *s, const sample_input *in)
{
    const weir_sample_params *p = in->params;
    if (unit_interval(random_block(in, DRAW_XTC, 0).v[0]) >= p->xtc_probability) return;

    /* p >= threshold is x >= log(threshold * total). */
    const double total = total_weight(s->c, s->n, s->z_max, s->temperature);
    const double bar   = pmath_log(p->xtc_threshold * total);
    float        least = __builtin_inff();
    for (uint32_t i = 0; i < s->n; i++) {
        const float z = s->c[i].z;
        if (z < least && scaled(z, s->z_max, s->temperature) >= bar) least = z;
    }

    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const candidate c = s->c[i];
        if (c.z <= least || among(c.id, in->eos, in->n_eos) || among(c.id, in->newlines, in->n_newlines)) s->c[n++] = c;
    }
    s->n = n;
}

/* Steps 1 to 4: *z points at the processed row. */
static weir_status prepare_row(const float **z, float *z_max, const sample_input *in, sample_workspace *ws,
                               weir_error *err)
{
    if (in->n_valid == 0 || in->n_valid > in->n_logits || in->n_logits > ws->n_vocab)
        return status_fail(err, WEIR_INVALID,
                           "logits: expected 1 to %" PRIu32 " token ids and at most %" PRIu32 " rows, found %" PRIu32
                           " and %" PRIu32,
                           in->n_logits, ws->n_vocab, in->n_valid, in->n_logits);
    *z = in->logits;
    if (!logits_max(*z, in->n_valid, z_max))
        return status_fail(err, WEIR_NUMERICS, "logits: position %" PRIu32 ": NaN or infinity", in->position);
    if (*z_max == -__builtin_inff())
        return status_fail(err, WEIR_NUMERICS, "logits: position %" PRIu32 ": all are -infinity", in->position);
    if (sample_row_plain(in)) return WEIR_OK;

    memcpy(ws->z, in->logits, in->n_valid * sizeof(float));
    sample_row_process(ws->z, in, ws);
    *z = ws->z;
    if (!logits_max(*z, in->n_valid, z_max))
        return status_fail(err, WEIR_NUMERICS, "logits: position %" PRIu32 ": bias or penalties overflow",
                           in->position);
    if (*z_max == -__builtin_inff())
        return status_fail(err, WEIR_NUMERICS, "logits: position %" PRIu32 ": bias and bans leave no token",
                           in->position);
    return WEIR_OK;
}

weir_status sample_filter(sample_set *out, const sample_input *in, sample_workspace *ws, weir_error *err)
{
    const weir_sample_params *p = in->params;
    const float              *z = NULL;
    kept                      s = {.c = ws->c, .temperature = p->temperature};
    TRY(prepare_row(&z, &s.z_max, in, ws, err));

    if (p->temperature == 0) {
        s.c[0] = (candidate){s.z_max, logits_find(z, in->n_valid, s.z_max)};
        *out   = (sample_set){.c = s.c, .n = 1, .z_max = s.z_max, .temperature = 1};
        return WEIR_OK;
    }
    keep_top_k(&s, z, in->n_valid, p->top_k > 0 ? (uint32_t)p->top_k : 0);
    if (p->top_p < 1) keep_top_p(&s, p->top_p);
    if (p->min_p > 0) keep_min_p(&s, p->min_p);
    if (p->xtc_probability > 0) exclude_top_choices(&s, in);
    *out = (sample_set){.c = s.c, .n = s.n, .z_max = s.z_max, .temperature = s.temperature};
    return WEIR_OK;
}

/* An upper bound of g = -log(-log(u)) without a logarithm: g <= -log(1 - u), and
 * 1 - u = (~bits + 1/2) / 2^32 has at most that many leading zeros.  The
 * constant is ln 2 rounded up, by more than pmath_log can err. */
static double gumbel_bound(uint32_t bits)
{
    const uint32_t rest  = ~bits;
    const int      zeros = rest == 0 ? 32 : __builtin_clz(rest);
    return (zeros + 1) * 0.6931472;
}

uint32_t sample_draw(const sample_set *s, const sample_input *in)
{
    double       best    = -__builtin_inf();
    uint32_t     best_id = s->c[0].id, block_index = UINT32_MAX;
    philox_block block = {{0}};
    for (uint32_t i = 0; i < s->n; i++) {
        const candidate c = s->c[i];
        const double    x = scaled(c.z, s->z_max, s->temperature);
        if (x + gumbel_bound(UINT32_MAX) < best) continue;

        if (c.id / 4 != block_index) {
            block_index = c.id / 4;
            block       = random_block(in, DRAW_TOKEN, block_index);
        }
        const uint32_t bits = block.v[c.id % 4];
        if (x + gumbel_bound(bits) < best) continue; /* nearly always: two logs saved */

        const double score = x - pmath_log(-pmath_log(unit_interval(bits)));
        if (score > best || (score == best && c.id < best_id)) {
            best    = score;
            best_id = c.id;
        }
    }
    return best_id;
}

weir_status sample_token(uint32_t *id, const sample_input *in, sample_workspace *ws, weir_error *err)
{
    sample_set set;
    TRY(sample_filter(&set, in, ws, err));
    *id = set.n == 1 ? set.c[0].id : sample_draw(&set, in);
    return WEIR_OK;
}
