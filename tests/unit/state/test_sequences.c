/* tests/unit/state/test_sequences.c - sequences that share pages: forks, adopters, and
 * those that go back. */
#include "state_fixture.h"
#include "support/cmocka.h"

#include <string.h>

/* ---- sharing ---- */

/* Forks sequence 0, of `length` positions with every page and the state filled, and
 * says how many of its pages are the same. */
static uint32_t fork_at(fixture *f, uint32_t length)
{
    make(f, 0, 0);
    grow(f, 0, length);
    for (uint32_t i = 0; i < f->q[0]->n_pages; i++) page_fill(f, f->q[0]->pages[i], (uint8_t)(0x10 + i));
    slot_fill(f, f->q[0]->slot, 0x77);
    ok(f, sequence_fork(&f->q[1], f->q[0], 0, &f->err));
    assert_int_equal(sequence_length(f->q[1]), length);
    assert_memory_equal(sequence_tokens(f->q[1]), f->ids, length * sizeof *f->ids);
    assert_int_equal(f->q[1]->n_pages, f->q[0]->n_pages);
    assert_int_not_equal(f->q[1]->slot, f->q[0]->slot);
    assert_true(saved_is(f, 1, 0x77));
    uint32_t shared = 0;
    for (uint32_t i = 0; i < f->q[1]->n_pages; i++) {
        const uint32_t page = f->q[1]->pages[i];
        const bool     same = page == f->q[0]->pages[i];
        assert_true(page_is(f, page, (uint8_t)(0x10 + i)));
        assert_int_equal(f->s->page_refs[page], same ? 2 : 1);
        assert_int_equal(f->s->page_refs[f->q[0]->pages[i]], same ? 2 : 1);
        shared += same;
    }
    return shared;
}

/* The page that both would write into is the fork's own; what either writes is not in the other's. */
static void test_fork(void **given)
{
    fixture *f = *given;
    assert_int_equal(fork_at(f, 150), 2);
    page_fill(f, f->q[1]->pages[2], 0xEE);
    slot_fill(f, f->q[1]->slot, 0x55);
    assert_true(page_is(f, f->q[0]->pages[2], 0x12));
    assert_true(saved_is(f, 0, 0x77));
    grow(f, 0, 50);
    grow(f, 1, 50); /* each its own fourth page */
    assert_int_not_equal(f->q[0]->pages[3], f->q[1]->pages[3]);
    drop(f, 0); /* whoever goes first, the other's pages stay */
    assert_true(page_is(f, f->q[1]->pages[0], 0x10));
    assert_int_equal(f->s->n_free_pages, PAGES - 4);
}

static void test_fork_at_a_border(void **given)
{
    fixture *f = *given;
    assert_int_equal(fork_at(f, 128), 2); /* nothing of them will be written again */
    drop(f, 1);
    assert_int_equal(f->s->n_free_pages, PAGES - 2);
    drop(f, 0);
    assert_int_equal(fork_at(f, 129), 2);
}

/* With MTP the last position's row is written once more. */
static void test_fork_with_carry(void **given)
{
    fixture *f = *given;
    assert_int_equal(fork_at(f, 128), 1);
    drop(f, 0);
    drop(f, 1);
    assert_int_equal(fork_at(f, 129), 2);
    drop(f, 0);
    drop(f, 1);
    assert_int_equal(fork_at(f, 1), 0);
}

static void test_fork_refused(void **given)
{
    fixture *f = *given;
    make(f, 0, 0);
    grow(f, 0, 65);
    assert_int_equal(sequence_fork(&f->q[1], f->q[0], 64, &f->err), WEIR_INVALID);
    assert_null(f->q[1]);
    assert_non_null(strstr(f->err.text, "room for 65 positions, found 64"));
    assert_int_equal(f->s->n_promised, 4);
    make(f, 1, 64); /* an empty one is forked, too */
    ok(f, sequence_fork(&f->q[2], f->q[1], 64, &f->err));
    assert_int_equal(sequence_length(f->q[2]), 0);
    assert_int_equal(f->q[2]->n_pages, 0);
}

/* Sequence 0 leaves pages and a state of `length` positions to whoever adopts them. */
static void adopt_at(fixture *f, uint32_t length, uint32_t copied)
{
    uint8_t        from[SLOT_BYTES];
    const uint32_t n = (length + K_PAGE - 1) / K_PAGE;
    make(f, 0, 0);
    grow(f, 0, length);
    for (uint32_t i = 0; i < n; i++) {
        keep(f, f->q[0]->pages[i]);
        page_fill(f, f->kept[i], (uint8_t)(0x20 + i));
    }
    drop(f, 0);
    memset(from, 0x66, sizeof from);
    make(f, 0, 0);
    k_span failed; /* a step before took a page, and nothing came of it */
    ok(f, sequence_span(f->q[0], f->ids, 1, 0, &failed, &f->err));
    slot_fill(f, f->q[0]->slot, 0x01);
    sequence_adopt(f->q[0], f->ids, length, f->kept, from);
    assert_int_equal(sequence_length(f->q[0]), length);
    assert_int_equal(sequence_room(f->q[0]), POSITIONS - length);
    assert_memory_equal(sequence_tokens(f->q[0]), f->ids, length * sizeof *f->ids);
    assert_true(saved_is(f, 0, 0x66));
    for (uint32_t i = 0; i < n; i++) {
        const bool own = f->q[0]->pages[i] != f->kept[i];
        assert_int_equal(own, i == copied);
        assert_int_equal(f->s->page_refs[f->kept[i]], own ? 1 : 2);
        assert_true(page_is(f, f->q[0]->pages[i], (uint8_t)(0x20 + i)));
        if (own) page_fill(f, f->q[0]->pages[i], 0xEE);
        assert_true(page_is(f, f->kept[i], (uint8_t)(0x20 + i)));
    }
    drop(f, 0);
    while (f->n_kept > 0) page_release(f->s, f->kept[--f->n_kept]);
    assert_int_equal(f->s->n_free_pages, PAGES);
}

static void test_adopt(void **given)
{
    fixture *f = *given;
    adopt_at(f, 150, 2);
    adopt_at(f, 129, 2);
    adopt_at(f, 128, UINT32_MAX);
    adopt_at(f, 1, 0);
    adopt_at(f, POSITIONS, 3);
}

static void test_adopt_with_carry(void **given)
{
    fixture *f = *given;
    adopt_at(f, 150, 2);
    adopt_at(f, 129, 2);
    adopt_at(f, 128, 1);
    adopt_at(f, 127, 1);
}

/* What is given up for the copy may be what is being adopted. */
static void test_adopt_when_dry(void **given)
{
    fixture *f = *given;
    uint8_t  from[SLOT_BYTES];
    state_on_dry(f->s, reclaim, f);
    for (int i = 1; i < SEQUENCES; i++) make(f, i, 0), grow(f, i, POSITIONS);
    for (int i = 0; i < 4; i++) {
        f->kept[f->n_kept++] = page_take(f->s, 0);
        page_fill(f, f->kept[i], (uint8_t)(0x20 + i));
    }
    const uint32_t pages[] = {f->kept[0], f->kept[1], f->kept[2], f->kept[3]};
    memset(from, 0x66, sizeof from);
    f->lent = from;
    make(f, 0, 0);
    sequence_adopt(f->q[0], f->ids, 195, pages, from);
    assert_int_equal(f->reclaims, 4);
    assert_int_equal(from[0], 0xDD);
    assert_true(saved_is(f, 0, 0x66));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f->q[0]->pages[i], pages[i]);
        assert_true(page_is(f, pages[i], (uint8_t)(0x20 + i)));
    }
}

/* ---- state ---- */

/* A slot taken over or reset is all zero, and the neighbours' are untouched. */
static void test_slots_are_clean(void **given)
{
    fixture *f = *given;
    for (int i = 0; i < SEQUENCES; i++) {
        make(f, i, 0);
        assert_true(saved_is(f, i, 0));
        slot_fill(f, f->q[i]->slot, (uint8_t)(0x11 * (i + 1)));
    }
    const uint32_t slot = f->q[1]->slot;
    drop(f, 1);
    make(f, 1, 0);
    assert_int_equal(f->q[1]->slot, slot);
    assert_true(saved_is(f, 1, 0));
    grow(f, 2, 130);
    sequence_reset(f->q[2]);
    assert_int_equal(sequence_length(f->q[2]), 0);
    assert_int_equal(f->q[2]->n_pages, 0);
    assert_true(saved_is(f, 2, 0));
    assert_true(saved_is(f, 0, 0x11));
}

/* Restoring cuts the length, frees the pages past it and brings the bytes back. */
static void test_restore(void **given)
{
    fixture *f = *given;
    uint8_t  saved[SLOT_BYTES];
    make(f, 0, 0);
    grow(f, 0, 64);
    slot_fill(f, f->q[0]->slot, 0x5A);
    sequence_save(f->q[0], saved);
    const uint32_t first = f->q[0]->pages[0];
    grow(f, 0, POSITIONS - 64);
    slot_fill(f, f->q[0]->slot, 0x77);
    assert_int_equal(f->q[0]->n_pages, 4);
    sequence_restore(f->q[0], 64, saved);
    assert_int_equal(sequence_length(f->q[0]), 64);
    assert_int_equal(f->q[0]->n_pages, 1);
    assert_int_equal(f->q[0]->pages[0], first);
    assert_int_equal(f->s->n_free_pages, PAGES - 1);
    assert_true(saved_is(f, 0, 0x5A));
    sequence_restore(f->q[0], 0, saved);
    assert_int_equal(f->q[0]->n_pages, 0);
}

/* Going back into a page that others hold leaves them theirs, even to the one that took it. */
static void restore_shared(fixture *f, uint32_t length, bool copies)
{
    uint8_t saved[SLOT_BYTES] = {0};
    make(f, 0, 0);
    grow(f, 0, 150);
    keep(f, f->q[0]->pages[0]);
    keep(f, f->q[0]->pages[1]);
    for (int i = 0; i < 2; i++) page_fill(f, f->kept[i], (uint8_t)(0x40 + i));
    sequence_restore(f->q[0], length, saved);
    const uint32_t last = (length - 1) / K_PAGE;
    assert_int_equal(f->q[0]->n_pages, last + 1);
    assert_int_equal(f->q[0]->pages[last] != f->kept[last], copies);
    assert_true(page_is(f, f->q[0]->pages[last], (uint8_t)(0x40 + last)));
    if (copies) page_fill(f, f->q[0]->pages[last], 0xEE);
    for (int i = 0; i < 2; i++) assert_true(page_is(f, f->kept[i], (uint8_t)(0x40 + i)));
    drop(f, 0);
    while (f->n_kept > 0) page_release(f->s, f->kept[--f->n_kept]);
}

static void test_restore_shared(void **given)
{
    fixture *f = *given;
    restore_shared(f, 100, true);
    restore_shared(f, 128, f->s->carry != NULL);
    restore_shared(f, 64, f->s->carry != NULL);
    restore_shared(f, 1, true);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_state, close_state)
#define CARRIED(f) cmocka_unit_test_setup_teardown(f, open_carry, close_state)
    const struct CMUnitTest tests[] = {TEST(test_fork),
                                       CARRIED(test_fork),
                                       TEST(test_fork_at_a_border),
                                       CARRIED(test_fork_with_carry),
                                       TEST(test_fork_refused),
                                       TEST(test_adopt),
                                       CARRIED(test_adopt_with_carry),
                                       TEST(test_adopt_when_dry),
                                       CARRIED(test_adopt_when_dry),
                                       TEST(test_slots_are_clean),
                                       CARRIED(test_slots_are_clean),
                                       TEST(test_restore),
                                       CARRIED(test_restore),
                                       TEST(test_restore_shared),
                                       CARRIED(test_restore_shared)};
    return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
