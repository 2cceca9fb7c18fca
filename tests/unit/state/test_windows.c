/* tests/unit/state/test_windows.c - windows: where their state goes, what is recorded,
 * and what is left when a part stays or nothing. */
#include "state_fixture.h"
#include "support/cmocka.h"

#include <string.h>

static k_span window(fixture *f, int i, uint32_t n, uint32_t row)
{
    k_span w;
    ok(f, sequence_window(f->q[i], f->ids + sequence_length(f->q[i]), n, row, &w, &f->err));
    assert_int_equal(w.row, row);
    assert_int_equal(w.n, n);
    assert_int_equal(w.position, sequence_length(f->q[i]));
    assert_int_equal(w.slot_in, f->q[i]->slot);
    assert_ptr_equal(w.pages, f->q[i]->pages);
    for (int j = 0; j < SEQUENCES; j++)
        if (f->q[j] != NULL) assert_int_not_equal(w.slot_out, f->q[j]->slot);
    return w;
}

/* All stay: the spare slot is the sequence's, and nothing is replayed. */
static void test_window_kept(void **given)
{
    fixture *f = *given;
    k_span   r;
    make(f, 0, 0);
    grow(f, 0, 10);
    slot_fill(f, f->q[0]->slot, 0x0A);
    state_begin_step(f->s);
    const k_span w = window(f, 0, 4, 7);
    assert_int_equal(state_n_recorded(f->s), 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(state_recorded(f->s)[i], 7 + i);
    slot_fill(f, w.slot_out, 0x0B); /* what the step does */
    assert_false(sequence_keep(f->q[0], &w, 4, &r));
    assert_int_equal(sequence_slot(f->q[0]), w.slot_out);
    assert_true(saved_is(f, 0, 0x0B));
    assert_int_equal(sequence_length(f->q[0]), 14);
    assert_memory_equal(sequence_tokens(f->q[0]), f->ids, 14 * sizeof *f->ids);
    assert_int_equal(f->s->n_free_slots, SEQUENCES + WINDOWS - 1);
    state_begin_step(f->s);
    const k_span next = window(f, 0, 2, 0); /* in a slot that is not the sequence's */
    assert_true(sequence_keep(f->q[0], &next, 1, &r));
    assert_true(saved_is(f, 0, 0x0B));
}

/* A part stays: the old slot has its bytes, and the replay reads what was recorded for it. */
static void test_windows_cut(void **given)
{
    fixture *f = *given;
    k_span   r[2];
    for (int i = 0; i < 2; i++) {
        make(f, i, 0);
        grow(f, i, 60 + (uint32_t)i);
        slot_fill(f, f->q[i]->slot, (uint8_t)(0x0A + i));
    }
    const uint32_t before = f->q[1]->slot;
    state_begin_step(f->s);
    const k_span a = window(f, 0, 3, 0), b = window(f, 1, 5, 3);
    assert_int_not_equal(a.slot_out, b.slot_out);
    static const uint32_t rows[] = {0, 1, 3, 4, 5, 6};
    assert_int_equal(state_n_recorded(f->s), 6);
    assert_memory_equal(state_recorded(f->s), rows, sizeof rows);
    slot_fill(f, a.slot_out, 0xEE);
    slot_fill(f, b.slot_out, 0xEE);
    assert_true(sequence_keep(f->q[1], &b, 4, &r[1]));
    assert_true(sequence_keep(f->q[0], &a, 1, &r[0]));
    assert_true(saved_is(f, 0, 0x0A));
    assert_true(saved_is(f, 1, 0x0B));
    assert_int_equal(r[0].row, 0);
    assert_int_equal(r[0].n, 1);
    assert_int_equal(r[0].position, 60);
    assert_int_equal(r[1].row, 2); /* behind the first window's two */
    assert_int_equal(r[1].n, 4);
    assert_int_equal(r[1].position, 61);
    assert_int_equal(r[1].slot_in, before);
    assert_int_equal(r[1].slot_out, before);
    assert_int_equal(sequence_slot(f->q[1]), before);
    assert_int_equal(sequence_length(f->q[0]), 61);
    assert_int_equal(sequence_length(f->q[1]), 65);
    assert_int_equal(f->s->n_free_slots, SEQUENCES + WINDOWS - 2);
    state_begin_step(f->s);
    assert_int_equal(state_n_recorded(f->s), 0);
}

static void test_window_dropped(void **given)
{
    fixture *f = *given;
    make(f, 0, 0);
    grow(f, 0, 62);
    slot_fill(f, f->q[0]->slot, 0x0A);
    for (int i = 0; i < 4; i++) { /* and is given back every time */
        state_begin_step(f->s);
        const k_span w = window(f, 0, 4, 0);
        slot_fill(f, w.slot_out, 0xEE);
        sequence_drop_window(f->q[0], &w);
        assert_true(saved_is(f, 0, 0x0A));
        assert_int_equal(sequence_length(f->q[0]), 62);
    }
}

static void refused(fixture *f, int i, uint32_t n, const char *why)
{
    k_span         w;
    const uint32_t recorded = f->s->n_recorded, slots = f->s->n_free_slots;
    assert_int_equal(sequence_window(f->q[i], f->ids, n, 0, &w, &f->err), WEIR_INVALID);
    if (strstr(f->err.text, why) == NULL) fail_msg("%s", f->err.text);
    assert_int_equal(f->s->n_recorded, recorded);
    assert_int_equal(f->s->n_free_slots, slots);
}

static void test_windows_refused(void **given)
{
    fixture *f = *given;
    make(f, 0, 0);
    make(f, 1, 0);
    state_begin_step(f->s);
    refused(f, 0, 1, "1 rows");
    refused(f, 0, 8, "8 rows after 0 of at most 6");
    const k_span a = window(f, 0, 5, 0);
    refused(f, 1, 4, "4 rows after 4 of at most 6");
    const k_span b = window(f, 1, 3, 5); /* 4 + 2 recorded */
    sequence_drop_window(f->q[0], &a);
    sequence_drop_window(f->q[1], &b);
    grow(f, 1, POSITIONS - 2);
    state_begin_step(f->s);
    refused(f, 1, 3, "3 tokens after 198 do not fit the 200 promised");
}

/* Slots of sequences that do not exist yet are not lent: there is always one for a new sequence. */
static void test_third_window(void **given)
{
    fixture     *f = *given;
    state_limits l = fixture_limits;
    sequence    *q[SEQUENCES];
    k_span       w;
    state       *s;
    l.windows = 1;
    ok(f, state_new(&s, f->k, &l, &f->err));
    for (int i = 0; i < 2; i++) ok(f, sequence_new(&q[i], s, 64, &f->err));
    ok(f, sequence_window(q[0], f->ids, 2, 0, &w, &f->err));
    assert_int_equal(s->n_free_slots, 1);
    k_span none;
    assert_int_equal(sequence_window(q[1], f->ids, 2, 2, &none, &f->err), WEIR_INVALID);
    assert_non_null(strstr(f->err.text, "in 1 windows"));
    ok(f, sequence_new(&q[2], s, 64, &f->err));
    assert_int_not_equal(sequence_slot(q[2]), w.slot_out);
    sequence_drop_window(q[0], &w);
    for (int i = 0; i < SEQUENCES; i++) sequence_free(q[i]);
    state_free(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_state, close_state)
#define CARRIED(f) cmocka_unit_test_setup_teardown(f, open_carry, close_state)
    const struct CMUnitTest tests[] = {TEST(test_window_kept),    CARRIED(test_window_kept),  TEST(test_windows_cut),
                                       TEST(test_window_dropped), TEST(test_windows_refused), TEST(test_third_window)};
    return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
