/* tests/unit/state/test_sequences.c - slots and pages: who has them, who gets
 * them next, and what is in them. */
#include "base/mem.h"
#include "kernels/open.h"
#include "state/state_parts.h"
#include "support/cmocka.h"

#include <string.h>

enum { SEQUENCES = 3, POSITIONS = 200, PAGES = 4, TAIL = 48, RECURRENT = 96, PAGE = 128 * K_PAGE };

static const state_limits limits = {.delta_layers     = 2,
                                    .attention_layers = 2,
                                    .tail_bytes       = TAIL,
                                    .recurrent_bytes  = RECURRENT,
                                    .page_bytes       = PAGE,
                                    .max_sequences    = SEQUENCES,
                                    .max_positions    = POSITIONS};

typedef struct fixture {
    kernels   *k;
    state     *s;
    sequence  *q[SEQUENCES];
    uint32_t   ids[POSITIONS];
    weir_error err;
} fixture;

static void ok(const fixture *f, weir_status st)
{
    if (st != WEIR_OK) fail_msg("%s", f->err.text);
}

static int open_state(void **given)
{
    fixture *f = mem_zalloc(1, sizeof *f);
    assert_non_null(f);
    for (uint32_t i = 0; i < POSITIONS; i++) f->ids[i] = 1000 + i;
    ok(f, kernels_open(&f->k, "cpu", 1, "scalar", &f->err));
    ok(f, state_new(&f->s, f->k, &limits, &f->err));
    *given = f;
    return 0;
}

static int close_state(void **given)
{
    fixture *f = *given;
    for (int i = 0; i < SEQUENCES; i++) sequence_free(f->q[i]);
    assert_int_equal(f->s->n_free_pages, SEQUENCES * PAGES); /* nothing got lost */
    assert_int_equal(f->s->n_free_slots, SEQUENCES);
    state_free(f->s);
    f->k->close(f->k);
    mem_free(f);
    return 0;
}

static void grow(fixture *f, int i, uint32_t n)
{
    k_span span;
    ok(f, sequence_span(f->q[i], f->ids + sequence_length(f->q[i]), n, 5, &span, &f->err));
    assert_int_equal(span.row, 5);
    assert_int_equal(span.n, n);
    assert_int_equal(span.position, sequence_length(f->q[i]));
    assert_int_equal(span.slot_in, f->q[i]->slot);
    assert_int_equal(span.slot_out, f->q[i]->slot);
    assert_ptr_equal(span.pages, f->q[i]->pages);
    sequence_commit(f->q[i], n);
}

static void test_sizes(void **given)
{
    (void)given;
    assert_int_equal(state_kv_bytes_per_position(&limits), 2 * 2 * 128); /* keys and values, two layers */
    assert_int_equal(state_bytes_per_sequence(&limits), 2 * (TAIL + RECURRENT));
}

/* Pages come as they are needed, one for each begun K_PAGE positions, no two owners for one. */
static void test_pages(void **given)
{
    fixture *f                        = *given;
    bool     owned[SEQUENCES * PAGES] = {0};
    for (int i = 0; i < SEQUENCES; i++) ok(f, sequence_new(&f->q[i], f->s, &f->err));
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
            assert_true(f->q[i]->pages[p] < SEQUENCES * PAGES);
            assert_false(owned[f->q[i]->pages[p]]);
            owned[f->q[i]->pages[p]] = true;
        }
    assert_int_equal(f->s->n_free_pages, SEQUENCES * PAGES - 4 - 4 - 2);
    assert_memory_equal(sequence_tokens(f->q[1]), f->ids, sizeof f->ids);
}

/* A span that is not committed leaves no trace in the length. */
static void test_uncommitted(void **given)
{
    fixture *f = *given;
    k_span   span;
    ok(f, sequence_new(&f->q[0], f->s, &f->err));
    ok(f, sequence_span(f->q[0], f->ids, 70, 0, &span, &f->err));
    assert_int_equal(sequence_length(f->q[0]), 0);
    grow(f, 0, 3);
    assert_int_equal(sequence_length(f->q[0]), 3);
}

static void test_too_many(void **given)
{
    fixture  *f = *given;
    sequence *one_more;
    k_span    span;
    for (int i = 0; i < SEQUENCES; i++) ok(f, sequence_new(&f->q[i], f->s, &f->err));
    assert_int_equal(sequence_new(&one_more, f->s, &f->err), WEIR_NO_MEMORY);
    assert_null(one_more);
    assert_non_null(strstr(f->err.text, "all 3 (max_sequences)"));
    grow(f, 0, POSITIONS - 1);
    assert_int_equal(sequence_span(f->q[0], f->ids, 2, 0, &span, &f->err), WEIR_INVALID);
    assert_non_null(strstr(f->err.text, "max_context 200"));
    grow(f, 0, 1); /* the last one fits */
    sequence_free(f->q[1]);
    f->q[1] = NULL;
    ok(f, sequence_new(&f->q[1], f->s, &f->err));
}

static void fill(fixture *f, int i, uint8_t byte)
{
    uint8_t block[RECURRENT];
    memset(block, byte, sizeof block);
    for (uint32_t l = 0; l < limits.delta_layers; l++) {
        f->k->buf_write(f->k, state_tail(f->s, l), f->q[i]->slot * TAIL, block, TAIL);
        f->k->buf_write(f->k, state_recurrent(f->s, l), f->q[i]->slot * RECURRENT, block, RECURRENT);
    }
}

static bool filled_with(fixture *f, int i, uint8_t byte)
{
    uint8_t all[2 * (TAIL + RECURRENT)];
    assert_int_equal(state_size(f->s), sizeof all);
    sequence_save(f->q[i], all);
    for (size_t j = 0; j < sizeof all; j++)
        if (all[j] != byte) return false;
    return true;
}

/* A slot taken over or reset is all zero, and the neighbours' are untouched. */
static void test_slots_are_clean(void **given)
{
    fixture *f = *given;
    for (int i = 0; i < SEQUENCES; i++) {
        ok(f, sequence_new(&f->q[i], f->s, &f->err));
        assert_true(filled_with(f, i, 0));
        fill(f, i, (uint8_t)(0x11 * (i + 1)));
    }
    const uint32_t slot = f->q[1]->slot;
    sequence_free(f->q[1]);
    f->q[1] = NULL;
    ok(f, sequence_new(&f->q[1], f->s, &f->err));
    assert_int_equal(f->q[1]->slot, slot);
    assert_true(filled_with(f, 1, 0));
    grow(f, 2, 130);
    sequence_reset(f->q[2]);
    assert_int_equal(sequence_length(f->q[2]), 0);
    assert_int_equal(f->q[2]->n_pages, 0);
    assert_true(filled_with(f, 2, 0));
    assert_true(filled_with(f, 0, 0x11));
}

/* Restoring cuts the length, frees the pages past it and brings the bytes back. */
static void test_restore(void **given)
{
    fixture *f = *given;
    uint8_t  saved[2 * (TAIL + RECURRENT)];
    ok(f, sequence_new(&f->q[0], f->s, &f->err));
    grow(f, 0, 64);
    fill(f, 0, 0x5A);
    sequence_save(f->q[0], saved);
    const uint32_t first = f->q[0]->pages[0];
    grow(f, 0, POSITIONS - 64);
    fill(f, 0, 0x77);
    assert_int_equal(f->q[0]->n_pages, PAGES);
    sequence_restore(f->q[0], 64, saved);
    assert_int_equal(sequence_length(f->q[0]), 64);
    assert_int_equal(f->q[0]->n_pages, 1);
    assert_int_equal(f->q[0]->pages[0], first);
    assert_int_equal(f->s->n_free_pages, SEQUENCES * PAGES - 1);
    assert_true(filled_with(f, 0, 0x5A));
    sequence_restore(f->q[0], 0, saved);
    assert_int_equal(f->q[0]->n_pages, 0);
}

/* Every allocation of making a state and a sequence may fail: nothing leaks, nothing is half made. */
static void test_no_memory(void **given)
{
    fixture *f = *given;
    for (uint64_t n = 1;; n++) {
        state    *s;
        sequence *q = NULL;
        mem_fail_at(n);
        const weir_status made = state_new(&s, f->k, &limits, &f->err);
        const weir_status st   = made == WEIR_OK ? sequence_new(&q, s, &f->err) : made;
        mem_fail_at(0);
        if (made == WEIR_OK) assert_int_equal(s->n_free_slots, SEQUENCES - (st == WEIR_OK));
        sequence_free(q);
        state_free(s);
        if (st == WEIR_OK) {
            assert_true(n > 8);
            return;
        }
        assert_int_equal(st, WEIR_NO_MEMORY);
    }
}

static void test_pages_beyond_32_bits(void **given)
{
    fixture     *f    = *given;
    state       *s    = NULL;
    state_limits big  = limits;
    big.max_sequences = 4096;
    big.max_positions = UINT32_MAX - K_PAGE;
    big.page_bytes    = 1;
    assert_int_equal(state_new(&s, f->k, &big, &f->err), WEIR_INVALID);
    assert_null(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_state, close_state)
    const struct CMUnitTest tests[] = {
        TEST(test_sizes),           TEST(test_pages),   TEST(test_uncommitted), TEST(test_too_many),
        TEST(test_slots_are_clean), TEST(test_restore), TEST(test_no_memory),   TEST(test_pages_beyond_32_bits)};
    return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
