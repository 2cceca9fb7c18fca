/* tests/oracle/test_mtp.c - the MTP head against float64: its output and logits
 * at every position of a prompt, and three guesses chained from the last one.
 *
 * The mixture's prompts keep the trunk's router away from ties, not MTP's: with
 * the cache in bfloat16 a row whose choice of experts hangs by less than the
 * cache's own error is not compared.  One layer, so no other row sees it. */
#include "fixture_cases.h"

#include "kernels/cpu/cpu.h"
#include "support/mtp_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 40, MAX_CONTEXT = 64 };

/* Largest |found - expected| over the rms of MTP's output, with the cache in
 * float32.  About four times what is measured. */
static const double bound_hidden = 2e-5;

static const float near_tie = 0.005f; /* router logits */

typedef struct mtp_case {
    const fixture_case *c;
    mtp_rig             r;
    sequence           *q;
    const char         *norm; /* "post", "pre": the hidden row MTP reads */
    double              logits, hidden;
    unsigned            decided, drafts, tied;
} mtp_case;

/* The router of the last pass, seen through an entry of the backend's table
 * that calls the real one: by how much the last expert chosen leads the next. */
static struct {
    void (*route)(kernels *k, const k_buf *logits);
    uint32_t experts, chosen;
    float    lead[MAX_ROWS];
} router;

static void look(kernels *k, const k_buf *logits)
{
    const cpu_backend *b = cpu_of(k);
    const float       *x = k->buf_host(k, logits);
    router.route(k, logits);
    for (uint32_t i = 0; i < b->step->n_rows; i++) {
        const uint32_t *ids  = b->route_ids + (size_t)i * router.chosen;
        float           next = -INFINITY;
        for (uint32_t e = 0; e < router.experts; e++) {
            bool taken = false;
            for (uint32_t j = 0; j < router.chosen; j++) taken = taken || ids[j] == e;
            if (!taken) next = fmaxf(next, x[i * router.experts + e]);
        }
        router.lead[i] = x[i * router.experts + ids[router.chosen - 1]] - next;
    }
}

static void watch_router(kernels *k, const model_config *c)
{
    for (unsigned i = 0; i < MAX_ROWS; i++) router.lead[i] = INFINITY;
    if (c->n_experts == 0) return;
    router.experts = c->n_experts;
    router.chosen  = c->experts_per_token;
    router.route   = k->route;
    k->route       = look;
}

/* Is row i of the last pass far enough from a tie? */
static bool compared(mtp_case *t, uint32_t i)
{
    if (strcmp(t->c->kv, "f32") == 0 || router.lead[i] > near_tie) return true;
    t->tied++;
    return false;
}

static void raise_to(double *worst_so_far, double value)
{
    if (!(value <= *worst_so_far)) *worst_so_far = value;
}

/* The best logit minus the second best. */
static double margin(const double *x, size_t n)
{
    double first = x[0] > x[1] ? x[0] : x[1], second = x[0] > x[1] ? x[1] : x[0];
    for (size_t i = 2; i < n; i++) {
        if (x[i] > first) {
            second = first;
            first  = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return first - second;
}

/* Logits of w->drafted's row against one expected row. */
static const float *check_row(mtp_case *t, uint32_t row, const double *expected)
{
    const size_t vocab = t->r.m.config.vocab_size;
    model_mtp_head(&t->r.m, t->r.k, &t->r.w, &row, 1);
    const float *found = rig_floats(&t->r, t->r.w.logits);
    raise_to(&t->logits, numbers_worst(found, expected, vocab) / numbers_std(expected, vocab));
    return found;
}

static void check_rows(mtp_case *t, unsigned p, uint32_t n)
{
    const size_t H = t->r.m.config.hidden_size, vocab = t->r.m.config.vocab_size;
    numbers      hidden = tensors_get(&t->c->expected, "mtp.%s.p%u.hidden", t->norm, p);
    numbers      logits = tensors_get(&t->c->expected, "mtp.%s.p%u.logits", t->norm, p);
    assert_int_equal(hidden.n, n * H);
    assert_int_equal(logits.n, n * vocab);
    const double rms = numbers_rms(hidden.x, hidden.n);
    for (uint32_t i = 0; i < n; i++) {
        if (!compared(t, i)) continue;
        raise_to(&t->hidden, numbers_worst(rig_floats(&t->r, t->r.w.drafted) + i * H, hidden.x + i * H, H) / rms);
        (void)check_row(t, i, logits.x + i * vocab);
    }
    numbers_free(&hidden);
    numbers_free(&logits);
}

/* Guess by guess from the last of n rows; the expected tokens are fed back. */
static void check_drafts(mtp_case *t, unsigned p, uint32_t n)
{
    size_t         n_drafts;
    const size_t   vocab  = t->r.m.config.vocab_size;
    uint32_t      *tokens = tensors_ids(&t->c->expected, &n_drafts, "mtp.%s.p%u.draft_tokens", t->norm, p);
    numbers        logits = tensors_get(&t->c->expected, "mtp.%s.p%u.draft_logits", t->norm, p);
    const uint32_t last   = n - 1;
    for (uint32_t d = 0; d < n_drafts; d++) {
        if (d > 0) rig_guess(&t->r, t->q, last + d, &tokens[d - 1], 1, t->r.w.drafted, d == 1 ? &last : NULL);
        assert_true(compared(t, d == 0 ? last : 0)); /* all that follows would hang on it */
        const double *expected = logits.x + d * vocab;
        const float  *found    = check_row(t, d == 0 ? last : 0, expected);
        t->drafts++;
        if (margin(expected, vocab) <= 2.0 * t->c->bound * numbers_std(expected, vocab)) continue;
        assert_int_equal(numbers_best(found, vocab), tokens[d]);
        t->decided++;
    }
    free(tokens);
    numbers_free(&logits);
}

static void check_prompt(mtp_case *t, unsigned p)
{
    size_t n, n_next;
    if (!tensors_have(&t->c->expected, "mtp.%s.p%u.hidden", t->norm, p)) return;
    uint32_t *ids  = tensors_ids(&t->c->expected, &n, "p%u.input_ids", p);
    uint32_t *next = tensors_ids(&t->c->expected, &n_next, "mtp.p%u.tokens", p);
    assert_true(n == n_next && n <= MAX_ROWS);
    sequence_reset(t->q);
    rig_read(&t->r, t->q, ids, (uint32_t)n);
    rig_guess(&t->r, t->q, 0, next, (uint32_t)n, t->r.w.hidden, NULL);
    check_rows(t, p, (uint32_t)n);
    check_drafts(t, p, (uint32_t)n);
    free(ids);
    free(next);
}

static void test_mtp(void **given)
{
    mtp_case t = {.c = *given};
    rig_open(&t.r, t.c->m,
             (rig_options){
                 .kv = t.c->kv, .threads = 2, .max_rows = MAX_ROWS, .max_sequences = 1, .max_positions = MAX_CONTEXT});
    watch_router(t.r.k, &t.r.m.config);
    t.q    = rig_sequence(&t.r);
    t.norm = "post";
    check_prompt(&t, 5);
    check_prompt(&t, 37);
    t.norm             = "pre";
    t.r.m.mtp_pre_norm = true;
    check_prompt(&t, 5);
    print_message("%-24s MTP logits %.1e of std (allowed %.1e), output %.1e of rms (%u rows on a tie of experts); "
                  "%u of %u drafts are decided, and equal\n",
                  t.c->name, t.logits, t.c->bound, t.hidden, t.tied, t.decided, t.drafts);
    assert_int_equal(t.drafts, 9);
    assert_true(t.logits <= t.c->bound && t.decided >= 5 && t.tied <= 1);
    if (strcmp(t.c->kv, "f32") == 0) assert_true(t.hidden <= bound_hidden);
    sequence_free(t.q);
    rig_close(&t.r);
}

static bool wanted(const fixture_case *c)
{
    return fixture_case_plain(c) && strncmp(c->fixture, "tiny-", 5) == 0 &&
           strcmp(c->fixture, "tiny-odd") != 0; /* which has no MTP */
}

int main(void)
{
    return fixture_cases_run("oracle MTP", test_mtp, wanted);
}
