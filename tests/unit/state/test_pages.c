/* tests/unit/state/test_pages.c - pages of the pool: who has them, to whom they are
 * promised, and what is given up for a promise. */
#include "base/mem.h"
#include "state_fixture.h"
#include "support/cmocka.h"

#include <string.h>

/* ---- sizes ---- */

static uint64_t n_taken;
static weir_status (*real_buf_new)(kernels *, uint64_t, k_buf **, weir_error *);

static weir_status counting_buf_new(kernels *k, uint64_t bytes, k_buf **out, weir_error *err)
{
    n_taken += bytes;
    return real_buf_new(k, bytes, out, err);
}

static void test_sizes(void **given)
{
    fixture     *f = *given;
    state_limits l = fixture_limits;
    assert_int_equal(state_kv_bytes_per_position(&l), 2 * 2 * 2); /* keys and values, two layers */
    assert_int_equal(state_page_bytes(&l), PAGE_BYTES);
    assert_int_equal(state_bytes_per_sequence(&l), 2 * (TAIL + RECURRENT));
    assert_int_equal(state_size(f->s), 2 * (TAIL + RECURRENT));
    real_buf_new  = f->k->buf_new;
    f->k->buf_new = counting_buf_new;
    for (int i = 0; i < 4; i++) {
        state *s;
        n_taken = 0;
        ok(f, state_new(&s, f->k, &l, &f->err));
        assert_int_equal(l.pages * state_page_bytes(&l) + (l.max_sequences + l.windows) * state_bytes_per_sequence(&l) +
                             state_recorded_bytes(&l),
                         n_taken);
        state_free(s);
        if (i == 0) l.carry_bytes = CARRY;
        if (i == 1) l.windows = l.recorded_rows = 0;
        if (i == 2) l.delta_layers = 3, l.pages = 7;
    }
    f->k->buf_new = real_buf_new;
    l             = fixture_limits;
    l.carry_bytes = CARRY;
    assert_int_equal(state_bytes_per_sequence(&l), SLOT_BYTES);
    assert_int_equal(state_recorded_bytes(&l), 2 * RECORDED * (CHANNELS + 2 * GATES));
}

/* ---- pages and promises ---- */

/* Pages come as they are needed, one for each begun K_PAGE positions, no two owners for one. */
static void test_pages(void **given)
{
    fixture *f            = *given;
    bool     owned[PAGES] = {0};
    for (int i = 0; i < SEQUENCES; i++) make(f, i, 0);
    grow(f, 0, 1);
    assert_int_equal(f->q[0]->n_pages, 1);
    grow(f, 0, K_PAGE - 1);
    assert_int_equal(f->q[0]->n_pages, 1);
    grow(f, 0, 1);
    assert_int_equal(f->q[0]->n_pages, 2);
    grow(f, 1, POSITIONS);
    grow(f, 2, 100);
    grow(f, 0, POSITIONS - K_PAGE - 1);
    for (int i = 0; i < SEQUENCES; i++)
        for (uint32_t p = 0; p < f->q[i]->n_pages; p++) {
            const uint32_t page = sequence_pages(f->q[i])[p];
            assert_true(page < PAGES);
            assert_false(owned[page]);
            owned[page] = true;
        }
    assert_int_equal(f->s->n_free_pages, PAGES - 4 - 4 - 2);
    assert_memory_equal(sequence_tokens(f->q[1]), f->ids, sizeof f->ids);
}

/* A span that is not committed leaves no trace in the length. */
static void test_uncommitted(void **given)
{
    fixture *f = *given;
    k_span   span;
    make(f, 0, 0);
    ok(f, sequence_span(f->q[0], f->ids, 70, 0, &span, &f->err));
    assert_int_equal(sequence_length(f->q[0]), 0);
    grow(f, 0, 3);
    assert_int_equal(sequence_length(f->q[0]), 3);
}

/* A page that someone else had is zero, and the pages beside it are as they were. */
static void test_page_take(void **given)
{
    fixture *f = *given;
    uint32_t p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = page_take(f->s, 0);
        page_fill(f, p[i], (uint8_t)(i + 1));
    }
    page_hold(f->s, p[1]);
    page_release(f->s, p[1]);
    assert_int_equal(f->s->n_free_pages, PAGES - 3); /* one holder left */
    assert_true(page_is(f, p[1], 2));
    page_release(f->s, p[1]);
    assert_int_equal(f->s->n_free_pages, PAGES - 2);
    assert_int_equal(page_take(f->s, 0), p[1]);
    assert_true(page_is(f, p[1], 0));
    assert_true(page_is(f, p[0], 1));
    assert_true(page_is(f, p[2], 3));
    for (int i = 0; i < 3; i++) page_release(f->s, p[i]);
}

static void test_promises(void **given)
{
    fixture  *f = *given;
    sequence *q;
    k_span    span;
    assert_int_equal(state_free_positions(f->s), PAGES * K_PAGE);
    make(f, 0, 70);
    assert_int_equal(f->s->n_promised, 2);
    assert_int_equal(sequence_room(f->q[0]), 128); /* whole pages */
    assert_int_equal(state_free_positions(f->s), 10 * K_PAGE);
    make(f, 1, 0);
    assert_int_equal(f->s->n_promised, 6);
    assert_int_equal(sequence_room(f->q[1]), POSITIONS); /* of the 256 in its pages */
    grow(f, 1, POSITIONS - 1);
    assert_int_equal(f->s->n_promised, 6); /* taking them promises no more */
    assert_int_equal(sequence_room(f->q[1]), 1);
    assert_int_equal(sequence_span(f->q[1], f->ids, 2, 0, &span, &f->err), WEIR_INVALID);
    assert_non_null(strstr(f->err.text, "2 tokens after 199 do not fit the 200 promised"));
    grow(f, 1, 1); /* the last one fits */
    assert_int_equal(sequence_span(f->q[0], f->ids, 129, 0, &span, &f->err), WEIR_INVALID);
    assert_non_null(strstr(f->err.text, "129 tokens after 0 do not fit the 128 promised"));

    assert_int_equal(sequence_new(&q, f->s, POSITIONS + 1, &f->err), WEIR_INVALID);
    assert_null(q);
    assert_non_null(strstr(f->err.text, "at most 200 positions (max_context), found 201"));
    make(f, 2, 1);
    assert_int_equal(sequence_new(&q, f->s, 1, &f->err), WEIR_NO_MEMORY);
    assert_null(q);
    assert_non_null(strstr(f->err.text, "all 3 (max_sequences)"));
    assert_int_equal(f->s->n_promised, 7);
    drop(f, 1);
    assert_int_equal(f->s->n_promised, 3);
    make(f, 1, 0);
}

/* More sequences than there are pages for: the one too many is told how many are left. */
static void test_promised_to_others(void **given)
{
    fixture     *f = *given;
    state_limits l = fixture_limits;
    state       *s;
    sequence    *a, *b, *c;
    l.pages = 6;
    ok(f, state_new(&s, f->k, &l, &f->err));
    ok(f, sequence_new(&a, s, 0, &f->err)); /* 4 pages; none of them taken */
    assert_int_equal(sequence_new(&b, s, 129, &f->err), WEIR_NO_MEMORY);
    assert_null(b);
    assert_non_null(strstr(f->err.text, "129 positions are needed, 128 are free"));
    ok(f, sequence_new(&b, s, 128, &f->err));
    assert_int_equal(state_free_positions(s), 0);
    assert_int_equal(sequence_fork(&c, b, 1, &f->err), WEIR_NO_MEMORY);
    assert_null(c);
    assert_non_null(strstr(f->err.text, "1 positions are needed, 0 are free"));
    sequence_free(a);
    sequence_free(b);
    assert_int_equal(s->n_promised, 0);
    state_free(s);
}

/* What is kept besides fills the pool, and a promise is met all the same. */
static void test_dry(void **given)
{
    fixture *f = *given;
    make(f, 0, 0);
    for (uint32_t page; (page = page_take(f->s, 0)) != UINT32_MAX;) f->kept[f->n_kept++] = page;
    assert_int_equal(f->n_kept, PAGES); /* promised pages may be lent until they are wanted */
    state_on_dry(f->s, reclaim, f);
    grow(f, 0, 100);
    assert_int_equal(f->reclaims, 2);
    assert_int_equal(f->n_kept, PAGES - 2);
    keep(f, f->kept[0]); /* giving up this one frees nothing: it is kept twice */
    grow(f, 0, POSITIONS - 100);
    assert_int_equal(f->q[0]->n_pages, 4);
    assert_int_equal(f->reclaims, 2 + 3);
    assert_int_equal(f->n_kept, PAGES - 4);
    while (f->n_kept > 0) page_hold(f->s, f->kept[--f->n_kept]); /* nothing left to give up */
    assert_int_equal(page_take(f->s, 0), UINT32_MAX);
    assert_int_equal(f->reclaims, 6);
    for (uint32_t p = 0; p < PAGES; p++) {
        if (f->s->page_refs[p] != 2) continue;
        page_release(f->s, p);
        page_release(f->s, p);
    }
}

/* No page is free for the copy, and none is kept but the one to be copied: it becomes the sequence's own. */
static void test_own_when_dry(void **given)
{
    fixture *f                = *given;
    uint8_t  from[SLOT_BYTES] = {0};
    state_on_dry(f->s, reclaim, f);
    for (int i = 0; i < SEQUENCES; i++) make(f, i, 0);
    for (int i = 1; i < SEQUENCES; i++) grow(f, i, POSITIONS);
    grow(f, 0, POSITIONS);
    for (int i = 0; i < 4; i++) {
        keep(f, f->q[0]->pages[3 - i]); /* the one to be written is given up first */
        page_fill(f, f->q[0]->pages[3 - i], (uint8_t)(0x30 + 3 - i));
    }
    sequence_restore(f->q[0], POSITIONS - 1, from);
    assert_int_equal(f->reclaims, 1);
    assert_int_equal(f->n_kept, 3); /* no more than was needed */
    assert_true(page_is(f, f->q[0]->pages[3], 0x33));
    assert_int_equal(f->s->page_refs[f->q[0]->pages[3]], 1);
    keep(f, f->q[0]->pages[3]); /* now last in the row: pages are let go of until it is the turn of this one */
    sequence_restore(f->q[0], POSITIONS - 2, from);
    assert_int_equal(f->n_kept, 0);
    assert_int_equal(f->s->page_refs[f->q[0]->pages[3]], 1);
    grow(f, 0, 2);
}

/* ---- failing ---- */

/* Every allocation of making a state, a sequence and its fork may fail: nothing leaks, nothing is half made. */
static void test_no_memory(void **given)
{
    fixture *f = *given;
    for (uint64_t n = 1;; n++) {
        state    *s;
        sequence *q = NULL, *fork = NULL;
        mem_fail_at(n);
        weir_status st   = state_new(&s, f->k, &f->s->limits, &f->err);
        const bool  made = st == WEIR_OK;
        if (st == WEIR_OK) st = sequence_new(&q, s, 0, &f->err);
        if (st == WEIR_OK) st = sequence_fork(&fork, q, 0, &f->err);
        mem_fail_at(0);
        const uint32_t sequences = (q != NULL ? 1u : 0u) + (fork != NULL ? 1u : 0u);
        if (made) {
            assert_int_equal(s->n_free_slots, SEQUENCES + WINDOWS - sequences);
            assert_int_equal(s->n_sequences, sequences);
            assert_int_equal(s->n_promised, 4 * sequences);
        } else
            assert_null(s);
        sequence_free(q);
        sequence_free(fork);
        state_free(s);
        if (st == WEIR_OK) {
            assert_true(n > 20);
            return;
        }
        assert_int_equal(st, WEIR_NO_MEMORY);
    }
}

static void test_beyond_32_bits(void **given)
{
    fixture     *f = *given;
    state       *s;
    state_limits l = fixture_limits;
    l.pages        = UINT32_MAX / K_PAGE + 1;
    assert_int_equal(state_new(&s, f->k, &l, &f->err), WEIR_INVALID);
    assert_null(s);
    assert_non_null(strstr(f->err.text, "67108864 pages and 200 positions"));
    l               = fixture_limits;
    l.max_positions = UINT32_MAX - K_PAGE + 1;
    assert_int_equal(state_new(&s, f->k, &l, &f->err), WEIR_INVALID);
    l               = fixture_limits;
    l.max_sequences = UINT32_MAX;
    assert_int_equal(state_new(&s, f->k, &l, &f->err), WEIR_INVALID);
    assert_null(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_state, close_state)
#define CARRIED(f) cmocka_unit_test_setup_teardown(f, open_carry, close_state)
    const struct CMUnitTest tests[] = {TEST(test_sizes),        TEST(test_pages),         TEST(test_uncommitted),
                                       TEST(test_page_take),    TEST(test_promises),      TEST(test_promised_to_others),
                                       TEST(test_dry),          TEST(test_own_when_dry),  TEST(test_no_memory),
                                       CARRIED(test_no_memory), TEST(test_beyond_32_bits)};
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
