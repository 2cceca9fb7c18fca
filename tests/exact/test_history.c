/* tests/exact/test_history.c - however a sequence got here, by a snapshot, a
 * reset, a cancelled call, in another's place, it remembers the same bits. */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t stops[] = {1, 2, 5, 16, 48, 64, 70, 128, 136};
enum { N_STOPS = sizeof stops / sizeof *stops, CHUNK = 16, LENGTH = 136, DETOUR = 100, CONTEXT = LENGTH + DETOUR };

typedef struct history {
    weir_model    *m;
    weir_engine   *e;
    weir_sequence *s, *other; /* the other one takes pages and rows in between */
    trace          t;
    uint32_t      *elsewhere; /* [DETOUR] tokens of another text */
} history;

static history history_open(const char *fixture, const char *kv)
{
    history h = {.m = model_named(fixture)};
    h.e       = engine_with(
              h.m, (weir_engine_options){.kv = kv, .threads = 2, .max_context = CONTEXT, .max_sequences = 2, .chunk = CHUNK});
    h.s     = sequence_on(h.e);
    h.other = sequence_on(h.e);
    trace_make(&h.t, h.m, kv, 31, stops, N_STOPS);
    h.elsewhere = random_ids(h.m, DETOUR, 32);
    return h;
}

static void history_close(history *h)
{
    trace_free(&h->t);
    free(h->elsewhere);
    weir_sequence_free(h->s);
    weir_sequence_free(h->other);
    weir_engine_close(h->e);
    weir_model_close(h->m);
}

static void read_to(history *h, uint32_t length, const char *what)
{
    trace_read(&h->t, h->s, length - weir_sequence_length(h->s), false, what);
}

/* Away and back from `length`; what was read meanwhile fills pages, and the
 * other sequence takes those that come free. */
static void detour(history *h, uint32_t length)
{
    weir_error     err;
    weir_snapshot *snap;
    read_to(h, length, "before the detour");
    must(weir_sequence_snapshot(h->s, &snap, &err), &err);
    assert_int_equal(weir_snapshot_length(snap), length);
    for (int again = 0; again < 2; again++) {
        append(h->s, h->elsewhere, again == 0 ? DETOUR : 3);
        must(weir_sequence_rewind(h->s, snap, &err), &err);
        assert_int_equal(weir_sequence_length(h->s), length);
        weir_sequence_reset(h->other);
        append(h->other, h->elsewhere, DETOUR);
        trace_check(&h->t, h->s, "rewound");
    }
    weir_snapshot_free(snap);
}

static void test_rewind(void **given)
{
    history h = history_open(*given, "bf16");
    detour(&h, 1);
    detour(&h, 5);
    detour(&h, 64);
    detour(&h, 70);
    read_to(&h, LENGTH, "after the detours");
    history_close(&h);
}

/* A snapshot of nothing brings an empty sequence back. */
static void test_rewind_to_nothing(void **given)
{
    weir_error     err;
    weir_snapshot *snap;
    history        h = history_open(*given, "f32");
    must(weir_sequence_snapshot(h.s, &snap, &err), &err);
    append(h.s, h.elsewhere, DETOUR);
    must(weir_sequence_rewind(h.s, snap, &err), &err);
    assert_null(weir_sequence_logits(h.s));
    read_to(&h, 70, "from nothing");
    weir_snapshot_free(snap);
    history_close(&h);
}

static void test_reset_and_reuse(void **given)
{
    history h = history_open(*given, "bf16");
    append(h.s, h.elsewhere, DETOUR);
    weir_sequence_reset(h.s);
    assert_int_equal(weir_sequence_length(h.s), 0);
    assert_null(weir_sequence_logits(h.s));
    read_to(&h, 128, "after a reset");
    weir_sequence_free(h.s);
    h.s = sequence_on(h.e); /* takes the slot and the pages over */
    read_to(&h, LENGTH, "in a freed sequence's place");
    history_close(&h);
}

static bool until_48(void *user, uint32_t done, uint32_t total)
{
    (void)user;
    (void)total;
    return done < 48;
}

static bool stop_at_once(void *user, const weir_rows *rows)
{
    (void)trace_check_rows(user, rows);
    return false;
}

static void test_cancel(void **given)
{
    weir_error err;
    history    h = history_open(*given, "f32");
    assert_int_equal(weir_sequence_append(h.s, h.t.ids, LENGTH, until_48, NULL, &err), WEIR_CANCELLED);
    assert_int_equal(weir_sequence_length(h.s), 48);
    trace_check(&h.t, h.s, "cancelled append");
    trace_rows rows = {.t = &h.t, .what = "cancelled score"};
    assert_int_equal(weir_sequence_score(h.s, h.t.ids + 48, LENGTH - 48, false, stop_at_once, &rows, &err),
                     WEIR_CANCELLED);
    assert_int_equal(weir_sequence_length(h.s), 48 + CHUNK);
    trace_check(&h.t, h.s, "cancelled score");
    read_to(&h, LENGTH, "after cancelling");
    history_close(&h);
}

/* What is refused changes nothing. */
static void test_refused(void **given)
{
    weir_error     err;
    weir_snapshot *snap;
    history        h      = history_open(*given, "bf16");
    uint32_t       bad[2] = {0, h.t.vocab};
    read_to(&h, 70, "before");
    assert_int_equal(weir_sequence_append(h.s, bad, 2, NULL, NULL, &err), WEIR_INVALID);
    assert_int_equal(weir_sequence_append(h.s, h.elsewhere, 0, NULL, NULL, &err), WEIR_INVALID);
    assert_int_equal(weir_sequence_append(h.s, h.t.ids, CONTEXT - 70 + 1, NULL, NULL, &err), WEIR_INVALID);
    trace_check(&h.t, h.s, "after refusals");
    append(h.other, h.elsewhere, 20);
    must(weir_sequence_snapshot(h.other, &snap, &err), &err);
    assert_int_equal(weir_sequence_rewind(h.s, snap, &err), WEIR_INVALID); /* another text */
    weir_snapshot_free(snap);
    trace_check(&h.t, h.s, "after a refused rewind");
    read_to(&h, LENGTH, "after refusals");
    history_close(&h);
}

int main(void)
{
    static const char *const fixtures[] = {"tiny-moe", "tiny-odd"};
    static const struct {
        const char        *name;
        CMUnitTestFunction run;
    } kinds[] = {{"rewind", test_rewind},
                 {"rewind to nothing", test_rewind_to_nothing},
                 {"reset and reuse", test_reset_and_reuse},
                 {"cancel", test_cancel},
                 {"refused", test_refused}};
    enum { N_FIXTURES = sizeof fixtures / sizeof *fixtures, N_KINDS = sizeof kinds / sizeof *kinds };
    struct CMUnitTest tests[N_FIXTURES * N_KINDS];
    char              names[N_FIXTURES * N_KINDS][64];
    for (unsigned i = 0; i < N_FIXTURES * N_KINDS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s, %s", kinds[i % N_KINDS].name, fixtures[i / N_KINDS]);
        tests[i] = (struct CMUnitTest){.name          = names[i],
                                       .test_func     = kinds[i % N_KINDS].run,
                                       .initial_state = (void *)(uintptr_t)fixtures[i / N_KINDS]};
    }
    return cmocka_run_group_tests_name("exact history", tests, NULL, NULL);
}
