/* Routing, the experts' linears and their combination on the CPU backend against
 * a plain reference: the same choice, and the same bits in the stated order. */
#include "weight_case.h"

#include "kernels/cpu/isa.h"

#include <math.h>

enum { MAX_T = 20, E = 8, CHOICES = 3, HIDDEN = 256, INNER = 128, SLOTS = MAX_T * CHOICES };

static const k_limits limits = {
    .max_rows = MAX_T, .max_cols = HIDDEN, .experts = E, .experts_per_token = CHOICES, .expert_cols = INNER};

static float logits[MAX_T * E], x[MAX_T * HIDDEN], shared[MAX_T * HIDDEN], shared_gate[MAX_T];

/* Rows with ties of every kind among ordinary ones. */
static void make_inputs(uint64_t *seed)
{
    rng_fill(seed, logits, (size_t)MAX_T * E, -4.0f, 4.0f);
    for (size_t e = 0; e < E; e++) {
        logits[1 * E + e] = 0.5f;                              /* all equal */
        logits[2 * E + e] = e % 2 == 0 ? 1.0f : 3.0f;          /* two classes */
        logits[3 * E + e] = e % 2 == 0 ? 0.0f : -0.0f;         /* zeros of both signs are equal */
        logits[4 * E + e] = (float)e;                          /* rising */
        logits[5 * E + e] = e < 6 ? -30.0f : 30.0f + (float)e; /* one weight underflows to nearly nothing */
    }
    rng_fill(seed, x, (size_t)MAX_T * HIDDEN, -1.0f, 1.0f);
    rng_fill(seed, shared, (size_t)MAX_T * HIDDEN, -1.0f, 1.0f);
    rng_fill(seed, shared_gate, MAX_T, -3.0f, 3.0f);
}

/* The best CHOICES, found one after the other; weights softmaxed over them. */
static void reference_route(const float *row, uint32_t *ids, float *weights)
{
    cpu_isa isa;
    cpu_isa_init(&isa, 0);
    bool taken[E] = {false};
    for (size_t c = 0; c < CHOICES; c++) {
        uint32_t best = E;
        for (uint32_t e = 0; e < E; e++)
            if (!taken[e] && (best == E || row[e] > row[best])) best = e;
        taken[best] = true;
        ids[c]      = best;
    }
    float sum = 0.0f;
    for (size_t c = 0; c < CHOICES; c++) {
        const float above = row[ids[c]] - row[ids[0]];
        isa.exp(&weights[c], &above, 1);
        sum += weights[c];
    }
    for (size_t c = 0; c < CHOICES; c++) weights[c] /= sum;
}

/* What the backend has to give for the slots of all rows: every expert's matrix
 * as a weight of its own, over the row of each slot. */
static void reference_expert(kernels *k, const weight_case *w, const float *from, bool from_slots, float *y)
{
    for (uint32_t j = 0; j < MAX_T; j++) {
        uint32_t ids[CHOICES];
        float    weights[CHOICES];
        reference_route(logits + j * E, ids, weights);
        for (uint32_t c = 0; c < CHOICES; c++) {
            const uint32_t     slot = j * CHOICES + c;
            k_weight          *one  = weight_load(k, w, ids[c], 1);
            k_buf             *xb   = backend_buf(k, from + (size_t)(from_slots ? slot : j) * w->cols, w->cols);
            k_buf             *yb   = backend_buf(k, NULL, w->rows);
            const k_linear_job job  = {.w = one, .y = yb};
            k->linear(k, xb, 1, &job, 1);
            k->buf_read(k, yb, 0, y + (size_t)slot * w->rows, w->rows * sizeof(float));
            k->buf_free(k, xb);
            k->buf_free(k, yb);
            k->weight_free(k, one);
        }
    }
}

/* fma by fma from zero: slots in order, then the shared expert. */
static void reference_combine(const float *slots, float *y)
{
    cpu_isa isa;
    cpu_isa_init(&isa, 0);
    for (size_t j = 0; j < MAX_T; j++) {
        uint32_t ids[CHOICES];
        float    weights[CHOICES], gate;
        reference_route(logits + j * E, ids, weights);
        isa.sigmoid(&gate, &shared_gate[j], 1);
        for (size_t i = 0; i < HIDDEN; i++) {
            float sum = 0.0f;
            for (size_t c = 0; c < CHOICES; c++) sum = fmaf(weights[c], slots[(j * CHOICES + c) * HIDDEN + i], sum);
            y[j * HIDDEN + i] = fmaf(gate, shared[j * HIDDEN + i], sum);
        }
    }
}

/* The expected values of one weight form, of all MAX_T rows. */
typedef struct expectation {
    float gate[SLOTS * INNER], up[SLOTS * INNER], down[SLOTS * HIDDEN], y[MAX_T * HIDDEN];
} expectation;

static void check_equal(const char *what, uint32_t t, const float *found, const float *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(found + i, expected + i, sizeof(float)) != 0)
            fail_msg("%s, %u rows, element %zu: expected %a, found %a", what, t, i, (double)expected[i],
                     (double)found[i]);
}

/* Rows first .. first+t-1 as a step of their own. */
static void check_step(kernels *k, const k_weight *const *w, const expectation *want, uint32_t first, uint32_t t)
{
    static float       found[SLOTS * HIDDEN];
    const size_t       slots = (size_t)t * CHOICES, slot0 = (size_t)first * CHOICES;
    const k_span       span = {.row = 0, .n = t};
    const k_step       step = {.n_rows = t, .n_spans = 1, .spans = &span};
    k_buf             *lb   = backend_buf(k, logits + (size_t)first * E, (size_t)t * E);
    k_buf             *xb   = backend_buf(k, x + (size_t)first * HIDDEN, (size_t)t * HIDDEN);
    k_buf             *sb   = backend_buf(k, shared + (size_t)first * HIDDEN, (size_t)t * HIDDEN);
    k_buf             *gb   = backend_buf(k, shared_gate + first, t);
    k_buf             *gate = backend_buf(k, NULL, slots * INNER), *up = backend_buf(k, NULL, slots * INNER);
    k_buf             *down = backend_buf(k, NULL, slots * HIDDEN), *y = backend_buf(k, NULL, (size_t)t * HIDDEN);
    const k_linear_job in[] = {{.w = w[0], .y = gate}, {.w = w[1], .y = up}}, out = {.w = w[2], .y = down};
    weir_error         err;

    k->begin(k, &step);
    k->route(k, lb);
    k->expert_linear(k, xb, false, in, 2);
    k->expert_linear(k, gate, true, &out, 1);
    k->combine(k, y, down, sb, gb, HIDDEN);
    assert_int_equal(k->finish(k, &err), WEIR_OK);
    k->buf_read(k, gate, 0, found, slots * INNER * sizeof(float));
    check_equal("first job", t, found, want->gate + slot0 * INNER, slots * INNER);
    k->buf_read(k, up, 0, found, slots * INNER * sizeof(float));
    check_equal("second job", t, found, want->up + slot0 * INNER, slots * INNER);
    k->buf_read(k, down, 0, found, slots * HIDDEN * sizeof(float));
    check_equal("linear from slots", t, found, want->down + slot0 * HIDDEN, slots * HIDDEN);
    k->buf_read(k, y, 0, found, (size_t)t * HIDDEN * sizeof(float));
    check_equal("combine", t, found, want->y + (size_t)first * HIDDEN, (size_t)t * HIDDEN);

    k_buf *all[] = {lb, xb, sb, gb, gate, up, down, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) k->buf_free(k, all[i]);
}

static void check_form(weight_form form, uint64_t *seed)
{
    static expectation want;
    weight_case        gate = weight_make(form, E, INNER, HIDDEN, seed), up = weight_make(form, E, INNER, HIDDEN, seed);
    weight_case        down = weight_make(form, E, HIDDEN, INNER, seed);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        kernels        *k   = backend_open(threads, &limits);
        const k_weight *w[] = {weight_load(k, &gate, 0, E), weight_load(k, &up, 0, E), weight_load(k, &down, 0, E)};
        if (threads == 1) {
            reference_expert(k, &gate, x, false, want.gate);
            reference_expert(k, &up, x, false, want.up);
            reference_expert(k, &down, want.gate, true, want.down);
            reference_combine(want.down, want.y);
        }
        check_step(k, w, &want, 0, MAX_T);
        check_step(k, w, &want, 3, 9);
        for (uint32_t j = 0; j < MAX_T; j++) check_step(k, w, &want, j, 1);
        for (size_t i = 0; i < 3; i++) k->weight_free(k, (k_weight *)(uintptr_t)w[i]);
        k->close(k);
    }
    weight_drop(&gate);
    weight_drop(&up);
    weight_drop(&down);
}

static void experts_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    uint64_t seed = 41;
    make_inputs(&seed);
    check_form(all_forms[2], &seed); /* bf16 */
    check_form(all_forms[4], &seed); /* 4 bits, groups of 64 */
    check_form(all_forms[6], &seed); /* 8 bits, groups of 32 */
}

/* The reference's own choice, by hand. */
static void ties_go_to_the_lower_expert(void **state)
{
    (void)state;
    static const uint32_t expected[][CHOICES] = {{0, 1, 2}, {1, 3, 5}, {0, 1, 2}, {7, 6, 5}, {7, 6, 0}};
    uint64_t              seed                = 42;
    make_inputs(&seed);
    for (size_t j = 0; j < sizeof expected / sizeof *expected; j++) {
        uint32_t ids[CHOICES];
        float    weights[CHOICES];
        reference_route(logits + (j + 1) * E, ids, weights);
        assert_memory_equal(ids, expected[j], sizeof ids);
        double sum = 0;
        for (size_t c = 0; c < CHOICES; c++) sum += (double)weights[c];
        assert_true(fabs(sum - 1.0) < 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_the_lower_expert),
        cmocka_unit_test(experts_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests_name("moe", tests, NULL, NULL);
}
