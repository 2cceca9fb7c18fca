/* The convolution and the delta rule over several spans of a step: each has the
 * bits that it has alone, in place or from one slot to another. */
#include "weight_case.h"

enum { KEY = 32, VALUE = 80, KEY_HEADS = 2, VALUE_HEADS = 4, KERNEL = 4, SLOTS = 6, MAX_T = 16, MAX_SPANS = 4 };
enum { C = 2 * KEY_HEADS * KEY + VALUE_HEADS * VALUE, V = VALUE_HEADS * VALUE };
enum { TAIL = (KERNEL - 1) * C, STATE = VALUE_HEADS * KEY * VALUE };

static const k_limits limits = {
    .max_rows = MAX_T, .max_cols = C, .delta = {KEY_HEADS, VALUE_HEADS, KEY, VALUE, KERNEL, false}};

static float qkv[MAX_T * C], a[MAX_T * VALUE_HEADS], b[MAX_T * VALUE_HEADS], taps[KERNEL * C], rate[VALUE_HEADS],
    dt_bias[VALUE_HEADS], tails[SLOTS * TAIL], states[SLOTS * STATE];

/* All that the two operations leave behind. */
typedef struct outcome {
    float conv[MAX_T * C], y[MAX_T * V], tail[SLOTS * TAIL], state[SLOTS * STATE];
} outcome;

static outcome expected, found;

/* Slot `to` becomes a copy of slot `from`. */
static void copy_slot(kernels *k, k_buf *buf, uint32_t from, uint32_t to, size_t floats)
{
    static float slot[STATE > TAIL ? STATE : TAIL];
    k->buf_read(k, buf, from * floats * sizeof *slot, slot, floats * sizeof *slot);
    k->buf_write(k, buf, to * floats * sizeof *slot, slot, floats * sizeof *slot);
}

/* The spans in steps of `each` spans; of one, in place on a copy of the slot. */
static void run(uint32_t threads, const k_span *spans, uint32_t n_spans, uint32_t each, outcome *o)
{
    kernels *k  = backend_open(threads, &limits);
    k_buf   *in = backend_buf(k, qkv, MAX_T * C), *conv = backend_buf(k, NULL, MAX_T * C);
    k_buf   *ab = backend_buf(k, a, MAX_T * VALUE_HEADS), *bb = backend_buf(k, b, MAX_T * VALUE_HEADS);
    k_buf   *tp = backend_buf(k, taps, KERNEL * C), *y = backend_buf(k, NULL, MAX_T * V);
    k_buf   *rt = backend_buf(k, rate, VALUE_HEADS), *dt = backend_buf(k, dt_bias, VALUE_HEADS);
    k_buf   *tail = backend_buf(k, tails, SLOTS * TAIL), *state = backend_buf(k, states, SLOTS * STATE);
    for (uint32_t i = 0; i < n_spans; i += each) {
        const uint32_t n = n_spans - i < each ? n_spans - i : each;
        k_span         mine[MAX_SPANS];
        uint32_t       rows = 0;
        memcpy(mine, spans + i, n * sizeof *mine);
        for (uint32_t s = 0; s < n; s++) mine[s].row = rows, rows += mine[s].n;
        if (each == 1) {
            copy_slot(k, tail, mine[0].slot_in, mine[0].slot_out, TAIL);
            copy_slot(k, state, mine[0].slot_in, mine[0].slot_out, STATE);
            mine[0].slot_in = mine[0].slot_out;
        }
        /* the step's rows are the first ones of every buffer */
        const size_t at = spans[i].row;
        k->buf_write(k, in, 0, qkv + at * C, (size_t)rows * C * sizeof(float));
        k->buf_write(k, ab, 0, a + at * VALUE_HEADS, (size_t)rows * VALUE_HEADS * sizeof(float));
        k->buf_write(k, bb, 0, b + at * VALUE_HEADS, (size_t)rows * VALUE_HEADS * sizeof(float));
        const k_step step = {.n_rows = rows, .n_spans = n, .spans = mine};
        k->begin(k, &step);
        k->conv(k, conv, in, tp, tail);
        k->buf_read(k, conv, 0, o->conv + at * C, (size_t)rows * C * sizeof(float));
        k->delta(k, y, conv, ab, bb, rt, dt, state);
        k->buf_read(k, y, 0, o->y + at * V, (size_t)rows * V * sizeof(float));
    }
    k->buf_read(k, tail, 0, o->tail, sizeof o->tail);
    k->buf_read(k, state, 0, o->state, sizeof o->state);
    k_buf *all[] = {in, conv, ab, bb, tp, y, rt, dt, tail, state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) k->buf_free(k, all[i]);
    k->close(k);
}

static void check(const k_span *spans, uint32_t n_spans)
{
    run(1, spans, n_spans, 1, &expected);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        run(threads, spans, n_spans, n_spans, &found);
        assert_memory_equal(found.conv, expected.conv, sizeof found.conv);
        assert_memory_equal(found.y, expected.y, sizeof found.y);
        assert_memory_equal(found.tail, expected.tail, sizeof found.tail);
        assert_memory_equal(found.state, expected.state, sizeof found.state);
    }
}

static int setup(void **state)
{
    (void)state;
    uint64_t seed = 51;
    rng_fill(&seed, qkv, MAX_T * C, -1.0f, 1.0f);
    rng_fill(&seed, a, MAX_T * VALUE_HEADS, -2.0f, 2.0f);
    rng_fill(&seed, b, MAX_T * VALUE_HEADS, -2.0f, 2.0f);
    rng_fill(&seed, taps, KERNEL * C, -1.0f, 1.0f);
    rng_fill(&seed, rate, VALUE_HEADS, -1.0f, -0.1f);
    rng_fill(&seed, dt_bias, VALUE_HEADS, -1.0f, 1.0f);
    rng_fill(&seed, tails, SLOTS * TAIL, -1.0f, 1.0f);
    rng_fill(&seed, states, SLOTS * STATE, -1.0f, 1.0f);
    return 0;
}

static void spans_in_place(void **state)
{
    (void)state;
    const k_span spans[] = {{.row = 0, .n = 1, .slot_in = 2, .slot_out = 2},
                            {.row = 1, .n = 9, .slot_in = 0, .slot_out = 0},
                            {.row = 10, .n = 2, .slot_in = 5, .slot_out = 5},
                            {.row = 12, .n = 1, .slot_in = 1, .slot_out = 1}};
    check(spans, 4);
}

static void spans_from_one_slot_to_another(void **state)
{
    (void)state;
    const k_span spans[] = {{.row = 0, .n = 1, .slot_in = 0, .slot_out = 3},
                            {.row = 1, .n = 5, .slot_in = 1, .slot_out = 1},
                            {.row = 6, .n = 2, .slot_in = 0, .slot_out = 4}};
    check(spans, 3);
}

/* Span after span, as in steps of their own: a later one reads what an earlier one left. */
static void spans_that_follow_each_other(void **state)
{
    (void)state;
    const k_span spans[] = {{.row = 0, .n = 3, .slot_in = 0, .slot_out = 3},
                            {.row = 3, .n = 1, .slot_in = 3, .slot_out = 5},
                            {.row = 4, .n = 4, .slot_in = 5, .slot_out = 0}};
    check(spans, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_in_place),
        cmocka_unit_test(spans_from_one_slot_to_another),
        cmocka_unit_test(spans_that_follow_each_other),
    };
    return cmocka_run_group_tests_name("spans", tests, setup, NULL);
}
