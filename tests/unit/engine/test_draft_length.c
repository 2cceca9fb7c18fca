/* The choice of draft lengths, worked out by hand and in simulated runs. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "engine/draft_length.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 4000, WINDOW = 200, MAX_BATCH = 16 };

/* ---- a machine and a source that exist on paper ---- */

typedef struct machine {
    const char *name;
    double      per_row;   /* c(n) = 1 + per_row * (n - 1) */
    double      per_draft; /* g(j) = per_draft * j */
} machine;

typedef struct text {
    const char *name;
    double      before, after; /* acceptance of every draft in the first and second half */
    bool        spiteful;      /* instead: right as long as few are asked for, wrong whenever many are */
} text;

typedef struct scenario {
    machine  m;
    text     t;
    uint32_t n_rows, limit;
    bool     noisy; /* measurements: +-30 %, and one in twenty ten times too long */
    uint64_t seed;
} scenario;

typedef struct ledger {
    double   seconds[ROUNDS + 1], tokens[ROUNDS + 1]; /* after so many rounds; what was true, not what was measured */
    uint32_t drafted[ROUNDS + 1];
} ledger;

static double step_seconds(const machine *m, uint32_t n)
{
    return 1 + m->per_row * (n - 1);
}

static double uniform(uint64_t *seed)
{
    return (double)(rng_next(seed) >> 11) * 0x1p-53;
}

static double measured(double seconds, bool noisy, uint64_t *seed)
{
    if (!noisy) return seconds;
    if (rng_below(seed, 20) == 0) return seconds * 10;
    return seconds * (0.7 + 0.6 * uniform(seed));
}

/* How many of n drafts are right. */
static uint32_t accept(const scenario *s, uint32_t round, uint32_t n, uint64_t *seed)
{
    if (s->t.spiteful) return n < 3 ? n : 0;
    uint32_t right = 0;
    while (right < n && uniform(seed) < (round < ROUNDS / 2 ? s->t.before : s->t.after)) right++;
    return right;
}

static void simulate(const scenario *s, ledger *out)
{
    draft_policy p;
    draft_row    rows[MAX_BATCH], *list[MAX_BATCH];
    uint64_t     seed = s->seed;
    *out              = (ledger){0};
    draft_length_init(&p);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        draft_length_row_init(&rows[r], &p);
        list[r] = &rows[r];
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t drafted = 0, accepted = 0;
        for (uint32_t r = 0; r < s->n_rows; r++) rows[r].limit = (uint8_t)s->limit, rows[r].source = 1;
        draft_length_choose(&p, list, s->n_rows);
        for (uint32_t r = 0; r < s->n_rows; r++) {
            const uint32_t n     = rows[r].n_drafts;
            const uint32_t right = accept(s, round, n, &seed);
            assert_true(n <= s->limit);
            if (n > 0) draft_length_outcome(&p, &rows[r], n, right);
            drafted += n;
            accepted += right;
        }
        assert_true(s->n_rows + drafted <= DRAFT_MAX_ROWS);
        const double step = step_seconds(&s->m, s->n_rows + drafted), draft = s->m.per_draft * drafted;
        draft_length_step_took(&p, s->n_rows + drafted, measured(step, s->noisy, &seed));
        if (drafted > 0) draft_length_draft_took(&p, 1, drafted, measured(draft, s->noisy, &seed));
        out->seconds[round + 1] = out->seconds[round] + step + draft;
        out->tokens[round + 1]  = out->tokens[round] + s->n_rows + accepted;
        out->drafted[round + 1] = out->drafted[round] + drafted;
    }
}

/* Tokens a second, expected, when every row always has d drafts. */
static double fixed_rate(const scenario *s, uint32_t d)
{
    double tokens = 1;
    for (uint32_t j = 1; j <= d; j++) tokens += (pow(s->t.before, j) + pow(s->t.after, j)) / 2;
    return s->n_rows * tokens / (step_seconds(&s->m, s->n_rows * (1 + d)) + s->m.per_draft * s->n_rows * d);
}

static double best_fixed_rate(const scenario *s)
{
    double best = 0;
    for (uint32_t d = 0; d <= s->limit && s->n_rows * (1 + d) <= DRAFT_MAX_ROWS; d++)
        best = fmax(best, fixed_rate(s, d));
    return best;
}

/* The most that `WINDOW` rounds in a row took, as a multiple of the time that
 * their tokens take without drafts. */
static double worst_window(const scenario *s, const ledger *l)
{
    const double plain = step_seconds(&s->m, s->n_rows) / s->n_rows;
    double       worst = 0;
    for (uint32_t i = WINDOW; i <= ROUNDS; i++)
        worst =
            fmax(worst, (l->seconds[i] - l->seconds[i - WINDOW]) / ((l->tokens[i] - l->tokens[i - WINDOW]) * plain));
    return worst;
}

static const machine machines[] = {
    {"memory-bound", 0, 0}, {"cheap rows", 0.05, 0.02}, {"dear rows", 0.2, 0.05}, {"compute-bound", 1, 0}};
static const text texts[] = {
    {"never", 0, 0, false},  {"half", 0.5, 0.5, false},         {"good", 0.8, 0.8, false},
    {"always", 1, 1, false}, {"good, then bad", 0.9, 0, false}, {"always, then never", 1, 0, false},
    {"spiteful", 0, 0, true}};

enum { N_MACHINES = 4, N_TEXTS = 7, N_SEEDS = 2, NEVER = 0, SPITEFUL = 6 };

/* Says which scenario it was, since an assertion inside a loop does not. */
static void require(bool holds, const scenario *s, const char *what, double value)
{
    if (holds) return;
    fail_msg("%s, %s, %u rows, up to %u drafts, %s, seed %u: %s %.3f", s->t.name, s->m.name, s->n_rows, s->limit,
             s->noisy ? "noisy" : "exact", (unsigned)s->seed, what, value);
}

typedef struct summary {
    double least, mean; /* tokens a second, as a part of those of the best fixed length */
} summary;

/* Runs N_SEEDS of a scenario: in none may any window, or all of it, take longer
 * than allowed. */
static summary run(scenario s, double window_limit)
{
    static ledger l;
    summary       sum = {.least = 9};
    for (s.seed = 1; s.seed <= N_SEEDS; s.seed++) {
        simulate(&s, &l);
        const double window = worst_window(&s, &l), rate = l.tokens[ROUNDS] / l.seconds[ROUNDS];
        require(window <= window_limit, &s, "the worst window took", window);
        require(rate * 1.03 >= fixed_rate(&s, 0), &s, "of the speed without drafts", rate / fixed_rate(&s, 0));
        sum.least = fmin(sum.least, rate / best_fixed_rate(&s));
        sum.mean += rate / best_fixed_rate(&s) / N_SEEDS;
    }
    return sum;
}

static void exact_measurements(void **state)
{
    (void)state;
    for (int t = 0; t < N_TEXTS; t++) {
        for (int m = 0; m < N_MACHINES; m++) {
            for (uint32_t n_rows = 1; n_rows <= 16; n_rows *= 4) {
                scenario      s   = {machines[m], texts[t], n_rows, n_rows == 1 ? 8 : 5, false, 0};
                const summary sum = run(s, 1.03);
                if (t != SPITEFUL) require(sum.least >= 0.9, &s, "of the best fixed length", sum.least);
            }
        }
    }
}

/* A source that never hits stays within the bound; where there is something to
 * win, a window may once be misjudged a little more. */
static void noisy_measurements(void **state)
{
    (void)state;
    for (int t = 0; t < N_TEXTS; t++) {
        for (int m = 0; m < N_MACHINES; m++) {
            for (uint32_t n_rows = 1; n_rows <= 4; n_rows *= 4) {
                scenario      s   = {machines[m], texts[t], n_rows, n_rows == 1 ? 8 : 5, true, 0};
                const summary sum = run(s, t == NEVER ? 1.03 : 1.05);
                if (t == SPITEFUL) continue;
                require(sum.mean >= 0.9, &s, "on the average, of the best fixed length", sum.mean);
                require(sum.least >= 0.8, &s, "of the best fixed length", sum.least);
            }
        }
    }
}

static void probes_become_rare_and_never_end(void **state)
{
    (void)state;
    static ledger l;
    for (int noisy = 0; noisy < 2; noisy++) {
        for (int m = 1; m < N_MACHINES; m++) {
            const scenario s = {machines[m], texts[NEVER], 1, 5, noisy, 3};
            simulate(&s, &l);
            const uint32_t drafts  = l.drafted[ROUNDS] - l.drafted[ROUNDS / 2];
            const double   seconds = l.seconds[ROUNDS] - l.seconds[ROUNDS / 2];
            require(drafts >= 2 && (noisy || drafts <= 5), &s, "drafts in the second half", drafts);
            require(seconds <= 1.005 * ROUNDS / 2, &s, "the second half took", seconds);
        }
    }
}

/* ---- by hand ---- */

static void know(draft_times *t, uint32_t n, double seconds)
{
    t->of[n] = (draft_time){.seconds = seconds, .n = 32};
}

static void set_alpha(draft_row *row, uint8_t limit, double a, double b, double c)
{
    const double alpha[] = {a, b, c};
    *row                 = (draft_row){.limit = limit};
    memcpy(row->alpha[0], alpha, sizeof alpha);
}

static void drafts_go_where_they_are_worth_most(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    rows[2], *list[2] = {&rows[0], &rows[1]};
    draft_length_init(&p);
    p.step.deviation = 0;
    for (uint32_t n = 2; n <= 10; n++) know(&p.step, n, 0.1 * n + 0.8);
    set_alpha(&rows[0], 8, 0.9, 0.8, 0.7);
    set_alpha(&rows[1], 8, 0.5, 0.1, 0.1);
    /* 2/1 < 2.9/1.1 < 3.62/1.2 < 4.12/1.3 < 4.62/1.4 > 4.67/1.5 tokens a second */
    draft_length_choose(&p, list, 2);
    assert_true(rows[0].n_drafts == 3 && rows[1].n_drafts == 1);
    rows[0].limit = 1;
    rows[1].limit = 0;
    draft_length_choose(&p, list, 2);
    assert_true(rows[0].n_drafts == 1 && rows[1].n_drafts == 0);
    /* Drafting costs: 2.9/(1.1 + 0.2) > 2/1 > ..., but with 0.5 nothing is worth it. */
    rows[0].limit = 8;
    know(&p.draft[0], 1, 0.5);
    draft_length_choose(&p, list, 2);
    assert_true(rows[0].n_drafts == 0 && rows[1].n_drafts == 0);
    rows[0].source = 1;
    memcpy(rows[0].alpha[1], rows[0].alpha[0], sizeof rows[0].alpha[1]);
    p.since_probe = 0;
    draft_length_choose(&p, list, 2);
    assert_int_equal(rows[0].n_drafts, 3); /* the other source is free */
}

static void one_dear_draft_opens_the_way_to_cheap_ones(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, *list[1] = {&row};
    draft_length_init(&p);
    p.step.deviation = 0;
    know(&p.step, 1, 1);
    for (uint32_t n = 2; n <= 4; n++) know(&p.step, n, 1.95);
    know(&p.step, 5, 4.9);
    set_alpha(&row, 4, 0.9, 0.9, 0.9);
    draft_length_choose(&p, list, 1); /* 1/1 > 1.9/1.95 but < 3.4/1.95 */
    assert_int_equal(row.n_drafts, 3);
    p.purse = 0.5; /* less than the 0.95 that this costs */
    draft_length_choose(&p, list, 1);
    assert_int_equal(row.n_drafts, 0);
}

static void hardly_likely_drafts_are_not_even_free(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, *list[1] = {&row};
    draft_length_init(&p);
    memset(p.alpha, 0, sizeof p.alpha);
    p.step.deviation = 0;
    know(&p.step, 1, 1);
    know(&p.step, 4, 1);
    set_alpha(&row, 3, 0.2, 0.2, 0.2);
    draft_length_choose(&p, list, 1); /* 0.2 and 0.04, but not 0.008 */
    assert_int_equal(row.n_drafts, 2);
}

/* While every round has drafts, c(1) may be long out of date; that c(2) is less
 * tells.  1.2/1.6 > 1/1.6 and > 1.24/2.0. */
static void a_plain_step_takes_no_longer_than_one_with_drafts(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, *list[1] = {&row};
    draft_length_init(&p);
    p.step.deviation = 0;
    know(&p.step, 1, 3);
    know(&p.step, 2, 1.6);
    know(&p.step, 3, 2);
    set_alpha(&row, 2, 0.2, 0.2, 0);
    draft_length_choose(&p, list, 1);
    assert_int_equal(row.n_drafts, 1);
}

static void plain_steps_are_probed_too(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, *list[1] = {&row};
    uint32_t     plain = 0, last = 0;
    draft_length_init(&p);
    draft_length_row_init(&row, &p);
    for (uint32_t n = 1; n <= 3; n++) know(&p.step, n, 1);
    for (uint32_t i = 1; i <= 1000; i++) {
        row.limit = 2;
        draft_length_choose(&p, list, 1);
        if (row.n_drafts > 0)
            draft_length_outcome(&p, &row, row.n_drafts, row.n_drafts);
        else
            plain++, last = i;
    }
    assert_int_equal(plain, 7); /* after 4 + 8 + 16 + ... + 256 rounds; 512 are not over */
    assert_int_equal(last, 508);
}

static void a_bad_measurement_neither_forbids_a_probe_nor_makes_debts(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, *list[1] = {&row};
    draft_length_init(&p);
    draft_length_row_init(&row, &p);
    know(&p.step, 1, 1);
    draft_length_draft_took(&p, 0, 1, 50); /* an outlier */
    row.limit     = 1;
    p.since_probe = 100;
    p.purse       = DRAFT_PURSE / 2;
    draft_length_choose(&p, list, 1);
    assert_int_equal(row.n_drafts, 0);
    p.purse = DRAFT_PURSE;
    draft_length_choose(&p, list, 1);
    assert_int_equal(row.n_drafts, 1);
    draft_length_outcome(&p, &row, 1, 0);
    draft_length_choose(&p, list, 1);
    assert_true(p.purse == 0); /* not 3 - 51 */
    draft_length_choose(&p, list, 1);
    assert_true(fabs(p.purse - DRAFT_ALLOWANCE) < 1e-12);
}

static void the_unknown_is_probed(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    rows[2], *list[2] = {&rows[0], &rows[1]};
    draft_length_init(&p);
    draft_length_row_init(&rows[0], &p);
    draft_length_row_init(&rows[1], &p);
    for (int i = 0; i < 20; i++) {
        rows[0].limit = rows[1].limit = 5;
        draft_length_choose(&p, list, 2);
        assert_true(rows[0].n_drafts == 0 && rows[1].n_drafts == 0); /* not a step was measured */
    }
    /* Wrong probes: 4 rounds, 8 and 16, the rows in turn. */
    for (int i = 1; i <= 28; i++) {
        draft_length_step_took(&p, 2, 1);
        draft_length_choose(&p, list, 2);
        assert_int_equal(rows[0].n_drafts, i == 4 || i == 28);
        assert_int_equal(rows[1].n_drafts, i == 12);
        for (int r = 0; r < 2; r++)
            if (rows[r].n_drafts > 0) draft_length_outcome(&p, &rows[r], 1, 0);
    }
    assert_int_equal(p.interval, 32);
    rows[0].probe = rows[0].n_drafts = 1;
    draft_length_outcome(&p, &rows[0], 1, 1); /* a right one: soon again */
    assert_int_equal(p.interval, DRAFT_PROBE_MIN);
}

static void outcomes_count_up_to_the_first_miss(void **state)
{
    (void)state;
    draft_policy p;
    draft_row    row, fresh;
    draft_length_init(&p);
    draft_length_row_init(&row, &p);
    row.source   = 2;
    row.n_drafts = 4;
    draft_length_outcome(&p, &row, 4, 1);
    const double want[] = {0.64, 0.54, 0.6, 0.6};
    for (int j = 0; j < 4; j++) assert_true(fabs(row.alpha[2][j] - want[j]) < 1e-12);
    assert_true(row.alpha[0][0] == 0.6 && p.alpha[0][0] == 0.6);
    /* A prior that counts as four: (4 * 0.6 + 1) / 5 and, of the second, (4 * 0.68 + 0) / 5;
     * the third is thought to be like the second. */
    draft_length_row_init(&fresh, &p);
    assert_true(fabs(fresh.alpha[2][0] - 0.68) < 1e-12);
    assert_true(fabs(fresh.alpha[2][1] - 0.544) < 1e-12);
    assert_true(fresh.alpha[2][15] == fresh.alpha[2][1]);
}

static void outliers_do_not_count_and_changes_do(void **state)
{
    (void)state;
    draft_policy p;
    draft_length_init(&p);
    const draft_time *t       = &p.step.of[3];
    const double      first[] = {50, 1.1, 0.9, 30, 1.0};
    for (int i = 0; i < 5; i++) draft_length_step_took(&p, 3, first[i]);
    assert_true(t->seconds == 1.1);
    draft_length_step_took(&p, 3, 50); /* a quarter more at most, of which a sixth */
    assert_true(fabs(t->seconds - 1.1 * (1 + 0.25 / 6)) < 1e-12);
    for (int i = 0; i < 200; i++) draft_length_step_took(&p, 3, i % 20 == 0 ? 10 : 1);
    assert_true(t->seconds > 0.98 && t->seconds < 1.05);
    for (int i = 0; i < 5; i++) draft_length_step_took(&p, 3, 2 + i * 0.1);
    assert_true(t->seconds == 2.2); /* all of them contradict: the machine is another one now */
    const double before = t->seconds;
    draft_length_step_took(&p, 3, 0);
    draft_length_step_took(&p, 3, -1);
    draft_length_step_took(&p, 3, (double)NAN);
    draft_length_step_took(&p, 3, (double)INFINITY);
    draft_length_step_took(&p, 0, 1);
    draft_length_step_took(&p, DRAFT_MAX_ROWS + 1, 1);
    draft_length_draft_took(&p, DRAFT_SOURCES, 1, 1);
    assert_true(t->seconds == before && p.step.of[0].seconds == 0);
}

static void large_batches_stay_within_the_table(void **state)
{
    (void)state;
    static draft_policy p;
    static draft_row    rows[DRAFT_MAX_ROWS + 1];
    draft_row          *list[DRAFT_MAX_ROWS + 1];
    draft_length_init(&p);
    know(&p.step, 1, 1);
    know(&p.step, 64, 1); /* rows are free */
    for (uint32_t n_rows = 1; n_rows <= DRAFT_MAX_ROWS + 1; n_rows++) {
        for (uint32_t r = 0; r < n_rows; r++) {
            list[r] = &rows[r];
            draft_length_row_init(&rows[r], &p);
            rows[r].alpha[0][0] = rows[r].alpha[0][1] = 1;
            rows[r].limit                             = 255;
        }
        p.since_probe = 0;
        p.purse       = DRAFT_PURSE;
        draft_length_choose(&p, list, n_rows);
        uint32_t total = 0;
        for (uint32_t r = 0; r < n_rows; r++) {
            assert_true(rows[r].n_drafts <= DRAFT_MAX);
            total += rows[r].n_drafts;
        }
        if (n_rows >= DRAFT_MAX_ROWS)
            assert_int_equal(total, 0);
        else
            assert_in_range(total, n_rows < 22 ? 2 * n_rows : DRAFT_MAX_ROWS - n_rows, DRAFT_MAX_ROWS - n_rows);
    }
    draft_length_choose(&p, list, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_go_where_they_are_worth_most),
        cmocka_unit_test(one_dear_draft_opens_the_way_to_cheap_ones),
        cmocka_unit_test(hardly_likely_drafts_are_not_even_free),
        cmocka_unit_test(a_plain_step_takes_no_longer_than_one_with_drafts),
        cmocka_unit_test(plain_steps_are_probed_too),
        cmocka_unit_test(a_bad_measurement_neither_forbids_a_probe_nor_makes_debts),
        cmocka_unit_test(the_unknown_is_probed),
        cmocka_unit_test(outcomes_count_up_to_the_first_miss),
        cmocka_unit_test(outliers_do_not_count_and_changes_do),
        cmocka_unit_test(large_batches_stay_within_the_table),
        cmocka_unit_test(exact_measurements),
        cmocka_unit_test(noisy_measurements),
        cmocka_unit_test(probes_become_rare_and_never_end),
    };
    return cmocka_run_group_tests_name("draft_length", tests, NULL, NULL);
}
