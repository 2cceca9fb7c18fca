/* tests/exact/test_mtp.c - the MTP head's output, and the keys and values it
 * keeps, have the bits of the dullest run: whatever the rows beside, the cuts,
 * the threads and the instruction set, and whatever was guessed on the way.
 *
 * Steps here are as an engine makes them: MTP lags a token behind the trunk, so
 * a pass begins with the hidden row kept from the step before; guesses write
 * rows ahead that later passes overwrite. */
#include "state/state_parts.h"
#include "support/cmocka.h"
#include "support/mtp_rig.h"
#include "support/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 3, MAX_ROWS = 36, AHEAD = 2 }; /* AHEAD: guesses chained from a row */

/* A text and the dullest run over it: [length, H] rows of the trunk, of MTP, and
 * of the guesses that chain from each; MTP's keys and values. */
typedef struct dull {
    uint32_t *ids; /* [length + 1 + AHEAD] */
    float    *hidden, *drafted, *ahead[AHEAD];
    uint8_t  *cache;
    size_t    cache_bytes;
} dull;

typedef struct mtp_case {
    const char *fixture, *kv;
    bool        pre_norm;
    uint32_t    length; /* of a text; scalar code is slow, but 65 and more are two pages */
    bool        scalar; /* runs a schedule too */
} mtp_case;

static const mtp_case cases[] = {
    {"tiny-dense", "bf16", false, 67, false},
    {"tiny-dense-tied", "f32", true, 67, true},
    {"tiny-moe", "f32", false, 67, true},
    {"demo", "bf16", false, 20, false},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct run {
    const mtp_case *c;
    weir_model     *m;
    dull            d[SEQUENCES];
    mtp_rig         r;
    sequence       *q[SEQUENCES];
    uint32_t        guessed[SEQUENCES]; /* MTP rows that are final */
    uint64_t        seed;
    char            what[96];
} run;

static void open_rig(run *r, const char *isa, uint32_t threads)
{
    rig_open(&r->r, r->m,
             (rig_options){.isa           = isa,
                           .kv            = r->c->kv,
                           .threads       = threads,
                           .max_rows      = MAX_ROWS + SEQUENCES, /* behind a step's: what is kept */
                           .max_sequences = SEQUENCES,
                           .max_positions = r->c->length + 1 + AHEAD});
    r->r.m.mtp_pre_norm = r->c->pre_norm;
    (void)snprintf(r->what, sizeof r->what, "%s, %s, %s, %u threads", r->c->fixture, r->c->kv, isa, threads);
}

/* MTP's keys and values of the first length - 1 positions; free(). */
static uint8_t *cache_of(const run *r, const sequence *q, size_t *n)
{
    const k_attention_shape *a      = &r->r.m.config.attention;
    const uint32_t           i      = r->r.m.config.n_attention_layers;
    const k_cache           *c      = state_cache(r->r.st, i);
    const size_t             head   = k_kv_row_bytes(c->form.keys, a->head_dim);
    const uint8_t           *from[] = {r->r.k->buf_host(r->r.k, c->keys), r->r.k->buf_host(r->r.k, c->values)};
    *n                              = 2 * (r->c->length - 1) * a->kv_heads * head;
    uint8_t *all = malloc(*n), *to = all;
    assert_non_null(all);
    for (int j = 0; j < 2; j++)
        for (uint32_t t = 0; t < r->c->length - 1; t++)
            for (uint32_t h = 0; h < a->kv_heads; h++, to += head)
                memcpy(to, from[j] + (((size_t)q->pages[t / K_PAGE] * a->kv_heads + h) * K_PAGE + t % K_PAGE) * head,
                       head);
    return all;
}

static float *rows_new(const run *r)
{
    float *x = malloc((size_t)r->c->length * r->r.m.config.hidden_size * sizeof *x);
    assert_non_null(x);
    return x;
}

static void keep(const run *r, float *rows, uint32_t at, const k_buf *from)
{
    const size_t H = r->r.m.config.hidden_size;
    memcpy(rows + at * H, rig_floats(&r->r, from), H * sizeof *rows);
}

/* Token by token, guess by guess, scalar, one thread. */
static void dull_make(run *r, dull *d, uint64_t seed)
{
    open_rig(r, "scalar", 1);
    sequence *q = rig_sequence(&r->r);
    work     *w = &r->r.w;
    d->ids      = random_ids(r->m, r->c->length + 1 + AHEAD, seed);
    d->hidden   = rows_new(r);
    d->drafted  = rows_new(r);
    for (int j = 0; j < AHEAD; j++) d->ahead[j] = rows_new(r);
    for (uint32_t t = 0; t < r->c->length; t++) {
        rig_read(&r->r, q, &d->ids[t], 1);
        keep(r, d->hidden, t, w->hidden);
        rig_guess(&r->r, q, t, &d->ids[t + 1], 1, w->hidden, NULL);
        keep(r, d->drafted, t, w->drafted);
        for (uint32_t j = 0; j < AHEAD; j++) {
            rig_guess(&r->r, q, t + 1 + j, &d->ids[t + 2 + j], 1, w->drafted, NULL);
            keep(r, d->ahead[j], t, w->drafted);
        }
    }
    d->cache = cache_of(r, q, &d->cache_bytes);
    sequence_free(q);
    rig_close(&r->r);
}

static void dull_free(dull *d)
{
    free(d->ids);
    free(d->hidden);
    free(d->drafted);
    for (int j = 0; j < AHEAD; j++) free(d->ahead[j]);
    free(d->cache);
}

static void check_row(const run *r, const k_buf *found, uint32_t row, const float *expected, uint32_t at,
                      const char *name)
{
    const size_t H = r->r.m.config.hidden_size;
    if (memcmp(rig_floats(&r->r, found) + row * H, expected + at * H, H * sizeof *expected) != 0)
        fail_msg("%s: %s at position %u has other bits", r->what, name, at);
}

/* A step that is being put together. */
typedef struct rows_of_step {
    uint32_t ids[MAX_ROWS], rows[MAX_ROWS], who[SEQUENCES], n, n_spans;
    k_span   spans[SEQUENCES];
} rows_of_step;

static k_step step_of(const rows_of_step *b)
{
    return (k_step){.n_rows = b->n, .n_spans = b->n_spans, .ids = b->ids, .spans = b->spans};
}

/* The trunk over some more tokens of some sequences. */
static void read_some(run *r, rows_of_step *b)
{
    weir_error     err;
    const uint32_t first = rng_below(&r->seed, SEQUENCES);
    *b                   = (rows_of_step){.n = 0};
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const uint32_t q = (first + i) % SEQUENCES, at = sequence_length(r->q[q]), left = r->c->length - at;
        uint32_t       n = rng_below(&r->seed, 2) == 0 ? 1 : rng_below(&r->seed, 12);
        if (n > left) n = left;
        if (n == 0) continue;
        memcpy(b->ids + b->n, r->d[q].ids + at, n * sizeof *b->ids);
        must(sequence_span(r->q[q], b->ids + b->n, n, b->n, &b->spans[b->n_spans], &err), &err);
        b->who[b->n_spans++] = q;
        b->n += n;
    }
    if (b->n == 0) return;
    const k_step s = step_of(b);
    rig_forward(&r->r, &s);
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const k_span *p = &b->spans[i];
        sequence_commit(r->q[b->who[i]], p->n);
        for (uint32_t j = 0; j < p->n; j++)
            check_row(r, r->r.w.hidden, p->row + j, r->d[b->who[i]].hidden, p->position + j, "hidden row");
    }
}

/* MTP over what that step completed: each row pairs the hidden row before with
 * the token, the first one the row kept behind the step's. */
static void guess_some(run *r, const rows_of_step *trunk, rows_of_step *b)
{
    uint32_t last[SEQUENCES], kept[SEQUENCES];
    *b = (rows_of_step){.n = 0};
    for (uint32_t i = 0; i < trunk->n_spans; i++) {
        const k_span  *p = &trunk->spans[i];
        const uint32_t q = trunk->who[i], skip = p->position == 0 ? 1 : 0, n = p->n - skip;
        last[i] = p->row + p->n - 1;
        kept[i] = MAX_ROWS + q;
        if (n == 0) continue;
        for (uint32_t j = 0; j < n; j++) {
            b->ids[b->n + j]  = trunk->ids[p->row + skip + j];
            b->rows[b->n + j] = j + skip == 0 ? kept[i] : p->row + j + skip - 1;
        }
        b->spans[b->n_spans] = rig_span(r->q[q], r->guessed[q], n, b->n);
        b->who[b->n_spans++] = q;
        b->n += n;
        r->guessed[q] += n;
    }
    const k_step s = step_of(b);
    if (b->n > 0) rig_mtp(&r->r, &s, r->r.w.hidden, b->rows);
    r->r.k->copy_rows(r->r.k, r->r.w.hidden, kept, r->r.w.hidden, last, r->r.m.config.hidden_size, trunk->n_spans);
    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t j = 0; j < b->spans[i].n; j++)
            check_row(r, r->r.w.drafted, b->spans[i].row + j, r->d[b->who[i]].drafted, b->spans[i].position + j,
                      "MTP's output");
}

/* Guesses ahead from the last row of every span of that pass, last span first. */
static void chain(run *r, const rows_of_step *b)
{
    for (uint32_t ahead = 0; ahead < AHEAD; ahead++) {
        rows_of_step c = {.n = 0};
        for (uint32_t i = b->n_spans; i-- > 0;) {
            const uint32_t q = b->who[i], from = r->guessed[q] - 1;
            c.ids[c.n]         = r->d[q].ids[from + 2 + ahead];
            c.rows[c.n]        = ahead == 0 ? b->spans[i].row + b->spans[i].n - 1 : c.n;
            c.spans[c.n_spans] = rig_span(r->q[q], from + 1 + ahead, 1, c.n);
            c.who[c.n_spans++] = q;
            c.n++;
        }
        const k_step s = step_of(&c);
        rig_mtp(&r->r, &s, r->r.w.drafted, c.rows);
        for (uint32_t i = 0; i < c.n; i++)
            check_row(r, r->r.w.drafted, i, r->d[c.who[i]].ahead[ahead], r->guessed[c.who[i]] - 1, "a guess ahead");
    }
}

static bool all_read(const run *r)
{
    for (int i = 0; i < SEQUENCES; i++)
        if (sequence_length(r->q[i]) < r->c->length) return false;
    return true;
}

static void run_schedule(run *r, const char *isa, uint32_t threads)
{
    open_rig(r, isa, threads);
    r->seed = 100 * threads;
    for (int i = 0; i < SEQUENCES; i++) {
        r->q[i]       = rig_sequence(&r->r);
        r->guessed[i] = 0;
    }
    while (!all_read(r)) {
        rows_of_step trunk, mtp;
        read_some(r, &trunk);
        if (trunk.n == 0) continue;
        guess_some(r, &trunk, &mtp);
        if (mtp.n > 0 && rng_below(&r->seed, 2) == 0) chain(r, &mtp);
    }
    for (int i = 0; i < SEQUENCES; i++) {
        size_t   n;
        uint8_t *cache = cache_of(r, r->q[i], &n);
        assert_int_equal(r->guessed[i], r->c->length - 1);
        if (memcmp(cache, r->d[i].cache, n) != 0) fail_msg("%s: MTP's keys and values have other bits", r->what);
        free(cache);
        sequence_free(r->q[i]);
    }
    rig_close(&r->r);
}

static void test_case(void **given)
{
    const char  *names[MAX_ISAS];
    const size_t n_isas = isas(names);
    run          r      = {.c = *given};
    r.m                 = model_named(r.c->fixture);
    for (uint64_t i = 0; i < SEQUENCES; i++) dull_make(&r, &r.d[i], 50 + i);
    for (size_t i = 0; i < n_isas; i++)
        for (uint32_t threads = 1; threads <= 3; threads++)
            if (i > 0 || n_isas == 1 || (r.c->scalar && threads == 2)) run_schedule(&r, names[i], threads);
    for (int i = 0; i < SEQUENCES; i++) dull_free(&r.d[i]);
    weir_model_close(r.m);
}

int main(void)
{
    struct CMUnitTest tests[CASES];
    for (unsigned i = 0; i < CASES; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].fixture, .test_func = test_case, .initial_state = (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests_name("exact MTP", tests, NULL, NULL);
}
