/* engine/verify.c - weir_verify: random schedules against the dullest run.
 *
 * The dullest run reads one token at a time with one thread and scalar code;
 * its logits at every position are the truth.  A schedule picks an instruction
 * set, a number of threads, cuts, single tokens, detours that are rewound, and
 * resets; every logit it sees must have the same bits. */
#include "base/clock.h"
#include "base/half.h"
#include "base/mem.h"
#include "engine/engine_parts.h"
#include "kernels/open.h"
#include "weir/experimental.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ISAS = 4, MAX_THREADS = 4, LEAST_LENGTH = 6, SHORT_LENGTH = 48, MAX_DETOUR = 24 };
/* Past the first border between partitions of attention (K_PARTITION), time permitting. */
enum { MAX_LENGTH = K_PARTITION + 3 * K_PAGE };

typedef enum invariant { CHUNKING, PREFILL, DECODE, THREADS, ISA, REWIND, RESET, INVARIANTS } invariant;
static const char *const invariant_names[INVARIANTS] = {"chunking", "prefill", "decode", "threads",
                                                        "isa",      "rewind",  "reset"};

/* The bits of one row of logits, boiled down: two independent 64-bit chains.
 * A row that differs has another digest but for a chance of 2^-128. */
typedef struct digest {
    uint64_t a, b;
} digest;

static digest digest_of(const float *x, size_t n)
{
    digest d = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu};
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = f32_bits(x[i]);
        d.a              = (d.a ^ w) * 0x9FB21C651E98DF25u;
        d.a ^= d.a >> 29;
        d.b = (d.b + w) * 0xD6E8FEB86659FD93u;
        d.b ^= d.b >> 32;
    }
    return d;
}

typedef struct verifier {
    const weir_model        *m;
    const char              *kv;
    uint32_t                 vocab, length; /* tokens of the sequence compared */
    uint32_t                *ids;           /* [MAX_LENGTH] */
    digest                  *truth;         /* [length] */
    const char              *isas[MAX_ISAS];
    size_t                   n_isas;
    weir_engine             *engines[MAX_ISAS][MAX_THREADS];
    uint64_t                 seed, end; /* when the budget is spent, in clock_ns() */
    weir_verify_result      *out;
    weir_verify_progress_fn *progress;
    void                    *user;
    uint64_t                 start;
    bool                     stopped; /* the caller asked to stop */
} verifier;

/* True when time is up or the caller has had enough. */
static bool over(verifier *v)
{
    const uint64_t now = clock_ns();
    if (!v->stopped && v->progress != NULL) v->stopped = !v->progress(v->user, (double)(now - v->start) * 1e-9, v->out);
    return v->stopped || now >= v->end;
}

/* splitmix64, as in Steele, Lea and Flood, 2014 */
static uint32_t below(uint64_t *seed, uint32_t n)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z >> 32) * n >> 32);
}

/* Engines are made when a schedule first wants them: a model may be large. */
static weir_status engine_for(verifier *v, size_t isa, uint32_t threads, weir_engine **out, weir_error *err)
{
    weir_engine **e = &v->engines[isa][threads - 1];
    if (*e == NULL) {
        weir_engine_options opt = WEIR_ENGINE_OPTIONS_INIT;
        opt.isa                 = v->isas[isa];
        opt.threads             = threads;
        opt.kv                  = v->kv;
        opt.max_context         = MAX_LENGTH + MAX_DETOUR;
        TRY(weir_engine_open(e, v->m, &opt, err));
    }
    *out = *e;
    return WEIR_OK;
}

/* The dullest run, until the length is reached or its share of time is spent. */
static weir_status dull_run(verifier *v, uint64_t deadline, weir_error *err)
{
    weir_engine   *e;
    weir_sequence *s;
    TRY(engine_for(v, 0, 1, &e, err));
    TRY(weir_sequence_new(&s, e, err));
    weir_status st = WEIR_OK;
    uint32_t    n  = 0;
    while (st == WEIR_OK && n < v->length && !over(v) && (n < LEAST_LENGTH || clock_ns() < deadline)) {
        st = weir_sequence_append(s, &v->ids[n], 1, NULL, NULL, err);
        if (st == WEIR_OK) v->truth[n] = digest_of(weir_sequence_logits(s), v->vocab);
        n++;
    }
    weir_sequence_free(s);
    v->length = n;
    return st;
}

/* ---- one schedule ---- */

typedef struct schedule {
    verifier      *v;
    uint64_t       seed;
    weir_sequence *s;
    uint32_t       threads;
    size_t         isa;
    bool           used[INVARIANTS];
    bool           differs;
    uint32_t       at;         /* first differing position */
    char           steps[200]; /* what was done, for the message */
} schedule;

static void note(schedule *c, const char *what, uint32_t n)
{
    const size_t len = strlen(c->steps);
    (void)snprintf(c->steps + len, sizeof c->steps - len, " %s%u", what, n);
}

static void compare(schedule *c, uint32_t position, const float *logits)
{
    const digest found = digest_of(logits, c->v->vocab), *expected = &c->v->truth[position];
    if (c->differs || (found.a == expected->a && found.b == expected->b)) return;
    c->differs = true;
    c->at      = position;
}

static bool compare_rows(void *user, const weir_rows *rows)
{
    schedule *c = user;
    for (uint32_t i = 0; i < rows->n; i++) compare(c, rows->first_position + i, rows->logits + (size_t)i * c->v->vocab);
    return true;
}

/* The next n tokens of the sequence, all logits compared or only the last. */
static weir_status advance(schedule *c, uint32_t n, weir_error *err)
{
    const uint32_t  at                 = weir_sequence_length(c->s);
    const uint32_t *ids                = c->v->ids + at;
    c->used[n == 1 ? DECODE : PREFILL] = true;
    if (below(&c->seed, 2) == 0) {
        note(c, "score", n);
        return weir_sequence_score(c->s, ids, n, false, compare_rows, c, err);
    }
    note(c, "append", n);
    TRY(weir_sequence_append(c->s, ids, n, NULL, NULL, err));
    compare(c, at + n - 1, weir_sequence_logits(c->s));
    return WEIR_OK;
}

/* Reads other tokens and comes back. */
static weir_status detour(schedule *c, weir_error *err)
{
    weir_snapshot *snap;
    uint32_t       other[MAX_DETOUR];
    const uint32_t n = 1 + below(&c->seed, MAX_DETOUR);
    for (uint32_t i = 0; i < n; i++) other[i] = below(&c->seed, c->v->vocab);
    note(c, "detour", n);
    c->used[REWIND] = true;
    TRY(weir_sequence_snapshot(c->s, &snap, err));
    weir_status st = weir_sequence_append(c->s, other, n, NULL, NULL, err);
    if (st == WEIR_OK) st = weir_sequence_rewind(c->s, snap, err);
    weir_snapshot_free(snap);
    if (st == WEIR_OK) compare(c, weir_sequence_length(c->s) - 1, weir_sequence_logits(c->s));
    return st;
}

static weir_status run_schedule(schedule *c, weir_error *err)
{
    /* Every other schedule is short, so that a small budget tries everything. */
    const uint32_t whole = c->v->length, most = whole < SHORT_LENGTH ? whole : SHORT_LENGTH;
    const uint32_t length = below(&c->seed, 2) == 0 ? whole : 1 + below(&c->seed, most);
    /* Most cuts are short: there the paths differ most. */
    const uint32_t longest = below(&c->seed, 3) == 0 ? length : 1 + below(&c->seed, 12);
    uint32_t       cuts    = 0;
    /* What a schedule saw before time ran out is compared and counts. */
    while (weir_sequence_length(c->s) < length && (cuts == 0 || !over(c->v))) {
        const uint32_t at = weir_sequence_length(c->s), left = length - at;
        const uint32_t n = 1 + below(&c->seed, longest);
        if (at > 0 && below(&c->seed, 8) == 0) TRY(detour(c, err));
        if (at > 0 && below(&c->seed, 40) == 0) {
            note(c, "reset", 0);
            c->used[RESET] = true;
            weir_sequence_reset(c->s);
            continue;
        }
        TRY(advance(c, n < left ? n : left, err));
        cuts++;
    }
    c->used[CHUNKING] = cuts > 1;
    c->used[THREADS]  = c->threads > 1;
    c->used[ISA]      = c->isa > 0;
    return WEIR_OK;
}

static weir_status one_schedule(verifier *v, weir_error *err)
{
    schedule     c = {.v = v, .seed = v->seed};
    weir_engine *e;
    (void)below(&v->seed, 2); /* the next schedule has another seed */
    c.isa     = below(&c.seed, (uint32_t)v->n_isas);
    c.threads = 1 + below(&c.seed, MAX_THREADS);
    /* Scalar code is many times slower; now and then is enough. */
    if (c.isa == 0 && v->n_isas > 1 && below(&c.seed, 4) != 0) c.isa = 1 + below(&c.seed, (uint32_t)v->n_isas - 1);
    TRY(engine_for(v, c.isa, c.threads, &e, err));
    TRY(weir_sequence_new(&c.s, e, err));
    const weir_status st = run_schedule(&c, err);
    weir_sequence_free(c.s);
    TRY(st);
    v->out->schedules++;
    for (int i = 0; i < INVARIANTS; i++) v->out->invariants[i].count += c.used[i];
    if (!c.differs) return WEIR_OK;
    v->out->differing++;
    char text[sizeof v->out->first_difference];
    (void)snprintf(text, sizeof text, "position %u: isa %s, threads %u, steps:%s", c.at, v->isas[c.isa], c.threads,
                   c.steps);
    /* Keep the shortest: the text grows with the steps. */
    if (v->out->first_difference[0] == '\0' || strlen(text) < strlen(v->out->first_difference))
        memcpy(v->out->first_difference, text, sizeof text);
    return WEIR_OK;
}

static weir_status run_all(verifier *v, double budget, weir_error *err)
{
    v->start = clock_ns();
    v->end   = v->start + (uint64_t)(budget * 1e9);
    TRY(dull_run(v, v->start + (v->end - v->start) / 3, err));
    while (!v->stopped && v->length > 0) {
        TRY(one_schedule(v, err));
        if (over(v)) break;
    }
    return WEIR_OK;
}

weir_status weir_verify(const weir_model *m, double budget_seconds, uint64_t seed, const char *kv,
                        weir_verify_progress_fn *progress, void *user, weir_verify_result *out, weir_error *err)
{
    *out = (weir_verify_result){.n_invariants = INVARIANTS};
    for (int i = 0; i < INVARIANTS; i++) out->invariants[i].name = invariant_names[i];
    if (!(budget_seconds > 0 && budget_seconds < 1e6))
        return status_fail(err, WEIR_INVALID, "budget: expected 0 to 1e6 seconds, found %g", budget_seconds);
    verifier v = {.m        = m,
                  .kv       = kv,
                  .vocab    = checkpoint_config(m->c)->vocab_size,
                  .seed     = seed,
                  .out      = out,
                  .progress = progress,
                  .user     = user};
    v.n_isas   = kernels_isas(v.isas, MAX_ISAS);
    /* A length that differs from seed to seed, so that page and block borders are met at random. */
    v.length       = MAX_LENGTH - below(&v.seed, 2 * K_PAGE);
    v.ids          = mem_alloc(MAX_LENGTH, sizeof *v.ids);
    v.truth        = mem_alloc(v.length, sizeof *v.truth);
    weir_status st = WEIR_OK;
    if (v.ids == NULL || v.truth == NULL) st = status_fail(err, WEIR_NO_MEMORY, "verify: out of memory");
    for (uint32_t i = 0; st == WEIR_OK && i < v.length; i++) v.ids[i] = below(&v.seed, v.vocab);
    if (st == WEIR_OK) st = run_all(&v, budget_seconds, err);
    for (size_t i = 0; i < MAX_ISAS; i++)
        for (size_t t = 0; t < MAX_THREADS; t++) weir_engine_close(v.engines[i][t]);
    mem_free(v.ids);
    mem_free(v.truth);
    return st;
}
