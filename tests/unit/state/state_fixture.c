/* tests/unit/state/state_fixture.c - see the header. */
#include "state_fixture.h"

#include "base/mem.h"
#include "kernels/open.h"
#include "support/cmocka.h"

#include <string.h>

static const k_kv_layer forms[2] = {0}; /* bf16 */

const state_limits fixture_limits = {.delta_layers     = 2,
                                     .attention_layers = 2,
                                     .tail_bytes       = TAIL,
                                     .recurrent_bytes  = RECURRENT,
                                     .kv_heads         = 1,
                                     .head_dim         = PAGE / K_PAGE / 2,
                                     .kv               = forms,
                                     .channel_bytes    = CHANNELS,
                                     .gate_bytes       = GATES,
                                     .max_sequences    = SEQUENCES,
                                     .max_positions    = POSITIONS,
                                     .pages            = PAGES,
                                     .windows          = WINDOWS,
                                     .recorded_rows    = RECORDED};

void ok(const fixture *f, weir_status st)
{
    if (st != WEIR_OK) fail_msg("%s", f->err.text);
}

static int open_with(void **given, uint64_t carry_bytes)
{
    fixture     *f = mem_zalloc(1, sizeof *f);
    state_limits l = fixture_limits;
    l.carry_bytes  = carry_bytes;
    assert_non_null(f);
    for (uint32_t i = 0; i < POSITIONS; i++) f->ids[i] = 1000 + i;
    ok(f, kernels_open(&f->k, "cpu", 1, "scalar", &f->err));
    ok(f, state_new(&f->s, f->k, &l, &f->err));
    *given = f;
    return 0;
}

int open_state(void **given)
{
    return open_with(given, 0);
}

int open_carry(void **given)
{
    return open_with(given, CARRY);
}

int close_state(void **given)
{
    fixture *f = *given;
    for (int i = 0; i < SEQUENCES; i++) sequence_free(f->q[i]);
    while (f->n_kept > 0) page_release(f->s, f->kept[--f->n_kept]);
    assert_int_equal(f->s->n_free_pages, PAGES); /* nothing got lost */
    assert_int_equal(f->s->n_promised, 0);
    assert_int_equal(f->s->n_free_slots, SEQUENCES + WINDOWS);
    for (int i = 0; i < PAGES; i++) assert_int_equal(f->s->page_refs[i], 0);
    state_free(f->s);
    f->k->close(f->k);
    mem_free(f);
    return 0;
}

void make(fixture *f, int i, uint32_t positions)
{
    ok(f, sequence_new(&f->q[i], f->s, positions, &f->err));
}

void drop(fixture *f, int i)
{
    sequence_free(f->q[i]);
    f->q[i] = NULL;
}

void grow(fixture *f, int i, uint32_t n)
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

void page_fill(fixture *f, uint32_t page, uint8_t byte)
{
    uint8_t all[PAGE_BYTES];
    memset(all, byte, sizeof all);
    page_write(f->s, page, all);
}

bool page_is(fixture *f, uint32_t page, uint8_t byte)
{
    uint8_t all[PAGE_BYTES];
    page_read(f->s, page, all);
    for (size_t j = 0; j < sizeof all; j++)
        if (all[j] != byte) return false;
    return true;
}

void slot_fill(fixture *f, uint32_t slot, uint8_t byte)
{
    uint8_t all[SLOT_BYTES];
    memset(all, byte, sizeof all);
    slot_write(f->s, slot, all);
}

bool slot_is(fixture *f, uint32_t slot, uint8_t byte)
{
    uint8_t all[SLOT_BYTES];
    slot_read(f->s, slot, all);
    for (size_t j = 0; j < state_size(f->s); j++)
        if (all[j] != byte) return false;
    return true;
}

bool saved_is(fixture *f, int i, uint8_t byte)
{
    uint8_t all[SLOT_BYTES];
    sequence_save(f->q[i], all);
    for (size_t j = 0; j < state_size(f->s); j++)
        if (all[j] != byte) return false;
    return slot_is(f, sequence_slot(f->q[i]), byte);
}

bool reclaim(void *given)
{
    fixture *f = given;
    f->reclaims++;
    if (f->lent != NULL) memset(f->lent, 0xDD, SLOT_BYTES);
    if (f->n_kept == 0) return false;
    page_release(f->s, f->kept[0]);
    memmove(f->kept, f->kept + 1, --f->n_kept * sizeof *f->kept);
    return true;
}

void keep(fixture *f, uint32_t page)
{
    page_hold(f->s, page);
    f->kept[f->n_kept++] = page;
}
