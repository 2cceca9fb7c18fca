/* engine/draft_length.c - measuring, choosing and probing; the formula is in the header. */
#include "engine/draft_length.h"

#include <math.h>
#include <string.h>

/* How fast the average over all rows forgets, and durations learn. */
#define SHARED_MEMORY 100 /* outcomes */
#define PRIOR_WEIGHT 4    /* outcomes that the prior counts as */
#define FORGET 0.02       /* of the way to that average, a round */
#define TIME_MEMORY 32    /* measurements */
#define TIME_CLAMP 0.25   /* of the duration: what one measurement may differ by */
#define TIME_DOUBT 1.5    /* standard errors, about, that a duration may be wrong by */
#define TIME_FAR 1.5      /* a measurement off by this factor contradicts the duration */

#define LEAST_PRODUCT 0.01 /* of acceptances: below it a draft is not worth its trouble */
#define STAKE 0.8          /* of the purse: what one round may risk */

/* ---- durations ---- */

/* Of an even number, the lesser. */
static double median(const double *x, uint32_t n)
{
    double sorted[DRAFT_CONFIRM];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > x[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = x[i];
    }
    return sorted[(n - 1) / 2];
}

/* A first measurement may be an outlier like any other, so the beginning is the
 * median of a few, and so is what takes the place of a duration that all of the
 * last measurements contradict. */
static void measure(draft_times *times, uint32_t n, double seconds)
{
    if (n == 0 || n > DRAFT_MAX_ROWS || !isfinite(seconds) || seconds <= 0) return;
    draft_time *t = &times->of[n];
    if (t->n < DRAFT_CONFIRM) {
        t->doubt[t->n++] = seconds;
        t->seconds       = median(t->doubt, t->n);
        return;
    }
    const bool far = seconds > t->seconds * TIME_FAR || seconds < t->seconds / TIME_FAR;
    if (far) t->doubt[t->n_doubt] = seconds;
    t->n_doubt = far ? t->n_doubt + 1 : 0;
    if (t->n_doubt == DRAFT_CONFIRM) {
        *t = (draft_time){.seconds = median(t->doubt, DRAFT_CONFIRM), .n = DRAFT_CONFIRM};
        return;
    }
    if (t->n < TIME_MEMORY) t->n++;
    const double change = fmax(-TIME_CLAMP, fmin(TIME_CLAMP, seconds / t->seconds - 1));
    t->seconds += t->seconds * change / t->n;
    times->deviation += (fabs(change) - times->deviation) / TIME_MEMORY;
}

void draft_length_step_took(draft_policy *p, uint32_t n_rows, double seconds)
{
    measure(&p->step, n_rows, seconds);
}

void draft_length_draft_took(draft_policy *p, uint32_t source, uint32_t n, double seconds)
{
    if (source < DRAFT_SOURCES) measure(&p->draft[source], n, seconds);
}

/* By which part of itself the duration for n may be wrong. */
static double doubt(const draft_times *t, uint32_t n)
{
    return TIME_DOUBT * t->deviation / sqrt(fmax(1, t->of[n].n));
}

/* What a round over n_rows rows would take. */
typedef struct round_costs {
    uint32_t n_rows;
    double   plain;                                    /* seconds without drafts; 0: unknown */
    double   step[DRAFT_MAX_ROWS + 1];                 /* [rows, drafts included], from n_rows on */
    double   draft[DRAFT_SOURCES][DRAFT_MAX_ROWS + 1]; /* [drafts] */
} round_costs;

/* seconds[from] is given; fills in what follows: linear between what was
 * measured, behind that on along the line through seconds[from] and the last. */
static void interpolate(double *seconds, uint32_t from, const draft_times *t)
{
    uint32_t last = from;
    for (uint32_t n = from + 1; n <= DRAFT_MAX_ROWS; n++) {
        if (t->of[n].seconds <= 0) continue;
        seconds[n] = t->of[n].seconds;
        /* Steps alone begin with rows.  More rows do not save time, nor do they
         * take more than steps of their own would. */
        if (from > 0) seconds[n] = fmax(seconds[from], fmin(seconds[n], seconds[from] * n / from));
        for (uint32_t i = last + 1; i < n; i++)
            seconds[i] = seconds[last] + (seconds[n] - seconds[last]) * (i - last) / (n - last);
        last = n;
    }
    /* Nothing measured: a row costs what each of the first did, so that no draft
     * is worth it and a probe decides. */
    const double slope = last > from ? (seconds[last] - seconds[from]) / (last - from)
                         : from > 0  ? seconds[from] / from
                                     : 0;
    for (uint32_t n = last + 1; n <= DRAFT_MAX_ROWS; n++) seconds[n] = seconds[last] + slope * (n - last);
}

/* A plain step of n rows.  No step of fewer rows takes longer than one of more:
 * this is measured seldom while all rows have drafts, and what it is compared
 * with often. */
static double plain_seconds(const draft_times *t, uint32_t n)
{
    uint32_t below = n, above = n;
    while (below > 0 && t->of[below].seconds <= 0) below--;
    while (above < DRAFT_MAX_ROWS && t->of[above].seconds <= 0) above++;
    const double lo = t->of[below].seconds, hi = t->of[above].seconds;
    double       plain;
    if (below == above)
        plain = lo;
    else if (below > 0 && hi > 0)
        plain = lo + (hi - lo) * (n - below) / (above - below);
    else
        plain = below > 0 ? lo * n / below : hi * n / above;
    for (uint32_t i = n + 1; i <= DRAFT_MAX_ROWS; i++)
        if (t->of[i].n >= DRAFT_CONFIRM) plain = fmin(plain, t->of[i].seconds * (1 + doubt(t, i)));
    return plain;
}

static void find_costs(round_costs *c, const draft_policy *p, uint32_t n_rows)
{
    c->n_rows       = n_rows;
    c->plain        = plain_seconds(&p->step, n_rows);
    c->step[n_rows] = c->plain;
    interpolate(c->step, n_rows, &p->step);
    for (int s = 0; s < DRAFT_SOURCES; s++) {
        c->draft[s][0] = 0;
        interpolate(c->draft[s], 0, &p->draft[s]);
    }
}

static uint32_t count_drafts(const uint32_t *n_drafted)
{
    uint32_t n = 0;
    for (int s = 0; s < DRAFT_SOURCES; s++) n += n_drafted[s];
    return n;
}

static double seconds_of(const round_costs *c, const uint32_t *n_drafted)
{
    double seconds = c->step[c->n_rows + count_drafts(n_drafted)];
    for (int s = 0; s < DRAFT_SOURCES; s++) seconds += c->draft[s][n_drafted[s]];
    return seconds;
}

/* In plain steps: what a round with these drafts takes longer than one without,
 * or a little more where that is not known well. */
static double price(const round_costs *c, const draft_policy *p, const uint32_t *n_drafted)
{
    const uint32_t n = c->n_rows + count_drafts(n_drafted);
    if (n == c->n_rows) return 0;
    const double wrong = hypot(doubt(&p->step, c->n_rows), doubt(&p->step, n));
    return (seconds_of(c, n_drafted) + wrong * c->step[n]) / c->plain - 1;
}

/* ---- acceptance ---- */

void draft_length_init(draft_policy *p)
{
    *p                = (draft_policy){.purse = DRAFT_PURSE, .interval = DRAFT_PROBE_MIN};
    p->step.deviation = TIME_CLAMP;
    for (int s = 0; s < DRAFT_SOURCES; s++)
        for (int j = 0; j < DRAFT_MAX; j++) p->alpha[s][j] = DRAFT_PRIOR;
}

void draft_length_row_init(draft_row *row, const draft_policy *p)
{
    *row = (draft_row){0};
    memcpy(row->alpha, p->alpha, sizeof row->alpha);
}

/* What a row was not tried for lately is believed less and less: after a streak of
 * bad luck the others' luck, or its own of long ago, brings it back. */
static void forget(draft_row *row, const draft_policy *p)
{
    double       *own    = row->alpha[row->source];
    const double *shared = p->alpha[row->source];
    for (uint32_t j = 0; j < DRAFT_MAX; j++) own[j] += FORGET * (shared[j] - own[j]);
}

/* A running mean at first, so that the prior is soon outweighed.  A draft that
 * nobody ever had is thought to be like the one before. */
static void learn_shared(draft_policy *p, uint8_t source, uint32_t j, double right)
{
    double  *alpha = p->alpha[source];
    uint8_t *seen  = p->n_seen[source];
    if (seen[j] + PRIOR_WEIGHT < SHARED_MEMORY) seen[j]++;
    alpha[j] += (right - alpha[j]) / (seen[j] + PRIOR_WEIGHT);
    for (uint32_t deeper = j + 1; deeper < DRAFT_MAX && seen[deeper] == 0; deeper++) alpha[deeper] = alpha[j];
}

/* A probe whose draft was right calls for the next one soon, any other for
 * patience.  (It may be right and still not pay; the purse bounds that.) */
static void learn_from_probe(draft_policy *p, bool right)
{
    p->interval *= 2;
    if (p->interval > DRAFT_PROBE_MAX) p->interval = DRAFT_PROBE_MAX;
    if (right) p->interval = DRAFT_PROBE_MIN;
}

void draft_length_outcome(draft_policy *p, draft_row *row, uint32_t drafted, uint32_t accepted)
{
    if (drafted > row->n_drafts) drafted = row->n_drafts;
    if (accepted > drafted) accepted = drafted;
    double *own = row->alpha[row->source];
    for (uint32_t j = 0; j < drafted && j <= accepted; j++) {
        const double right = j < accepted ? 1 : 0;
        own[j] += (1 - DRAFT_DECAY) * (right - own[j]);
        learn_shared(p, row->source, j, right);
    }
    p->round.n_drafted[row->source] += drafted;
    p->round.n_accepted += accepted;
    if (row->probe > 0 && drafted >= row->probe) learn_from_probe(p, accepted >= row->probe);
    row->probe = 0;
}

/* ---- choosing ---- */

/* Pays for the last round, with what it turned out to be.  There are no debts:
 * a round that took more than was staked was not known, and now is. */
static void settle(draft_policy *p)
{
    if (p->round.n_rows > 0) {
        round_costs c;
        find_costs(&c, p, p->round.n_rows);
        p->purse += (double)p->round.n_accepted / p->round.n_rows - price(&c, p, p->round.n_drafted);
        p->purse = fmax(0, fmin(DRAFT_PURSE, p->purse + DRAFT_ALLOWANCE));
    }
    p->round = (draft_round){0};
}

/* The row whose next draft is likeliest to be right, with likelihood product[r];
 * -1: none is worth a try. */
static int likeliest(draft_row *const *rows, const double *product, uint32_t n_rows)
{
    int    best = -1;
    double most = LEAST_PRODUCT;
    for (uint32_t r = 0; r < n_rows; r++)
        if (rows[r]->n_drafts < rows[r]->limit && product[r] > most) most = product[r], best = (int)r;
    return best;
}

/* Goes on adding beyond the first draft that does not pay, since steps grow in
 * jumps and one bad measurement must not hide what lies behind it; then takes
 * back what was too much. */
static void add_drafts(draft_policy *p, const round_costs *c, draft_row *const *rows, uint32_t *n_drafted)
{
    double   product[DRAFT_MAX_ROWS];
    uint8_t  added[DRAFT_MAX_ROWS];
    uint32_t n = 0, n_best = 0;
    double   tokens = c->n_rows, best = tokens / c->plain;
    for (uint32_t r = 0; r < c->n_rows; r++) product[r] = rows[r]->alpha[rows[r]->source][0];

    while (c->n_rows + n < DRAFT_MAX_ROWS) {
        const int r = likeliest(rows, product, c->n_rows);
        if (r < 0) break;
        draft_row *row = rows[r];
        tokens += product[r];
        added[n++] = (uint8_t)r;
        n_drafted[row->source]++;
        if (++row->n_drafts < DRAFT_MAX) product[r] *= row->alpha[row->source][row->n_drafts];
        const double rate = tokens / seconds_of(c, n_drafted);
        if (rate > best && price(c, p, n_drafted) <= STAKE * p->purse) best = rate, n_best = n;
    }
    while (n > n_best) {
        draft_row *row = rows[added[--n]];
        row->n_drafts--;
        n_drafted[row->source]--;
    }
}

/* Whose turn it is of those that may go deeper; NULL: nobody may. */
static draft_row *next_to_probe(draft_policy *p, draft_row *const *rows, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t r = (p->next_row + i) % n_rows;
        if (rows[r]->n_drafts >= rows[r]->limit) continue;
        p->next_row = r + 1;
        return rows[r];
    }
    return NULL;
}

/* Where there are drafts, every other probe is a plain step: c must stay known
 * there as well. */
static void probe(draft_policy *p, const round_costs *c, draft_row *const *rows, uint32_t *n_drafted)
{
    if (++p->since_probe < p->interval) return;
    const uint32_t n   = count_drafts(n_drafted);
    draft_row     *row = c->n_rows + n < DRAFT_MAX_ROWS ? next_to_probe(p, rows, c->n_rows) : NULL;
    if (n > 0 && (row == NULL || p->probe_plain)) {
        for (uint32_t r = 0; r < c->n_rows; r++) rows[r]->n_drafts = 0;
        p->probe_plain = false;
        p->since_probe = 0;
        learn_from_probe(p, false);
        return;
    }
    if (row == NULL) return;
    n_drafted[row->source]++;
    /* A full purse pays for any probe, or one bad measurement could forbid the next. */
    if (price(c, p, n_drafted) > p->purse && p->purse < DRAFT_PURSE) return;
    row->probe     = ++row->n_drafts;
    p->probe_plain = true;
    p->since_probe = 0;
}

void draft_length_choose(draft_policy *p, draft_row *const *rows, uint32_t n_rows)
{
    settle(p);
    for (uint32_t r = 0; r < n_rows; r++) {
        rows[r]->n_drafts = 0;
        rows[r]->probe    = 0;
        forget(rows[r], p);
        if (rows[r]->limit > DRAFT_MAX) rows[r]->limit = DRAFT_MAX;
    }
    if (n_rows == 0 || n_rows >= DRAFT_MAX_ROWS) return;
    round_costs c;
    find_costs(&c, p, n_rows);
    if (c.plain <= 0) return;
    p->round.n_rows                   = n_rows;
    uint32_t n_drafted[DRAFT_SOURCES] = {0};
    add_drafts(p, &c, rows, n_drafted);
    probe(p, &c, rows, n_drafted);
}
