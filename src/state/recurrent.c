/* state/recurrent.c - slots of recurrent state: zeroed, copied, saved, and the
 * windows that may be replayed. */
#include "base/status.h"
#include "state/state_parts.h"
uint64_t state_bytes_per_sequence(const state_limits *l)
{
    return (l->tail_bytes + l->recurrent_bytes) * l->delta_layers + l->carry_bytes;
}

/* One part of a slot: where it lies in its buffer. */
typedef struct part {
    k_buf   *buf;
    uint64_t bytes;
} part;

/* Part i of a slot, in the order of sequence_save: tail and state of every delta
 * layer, then the carry.  False after the last. */
static bool slot_part(const state *s, uint32_t i, part *out)
{
    const state_limits *l = &s->limits;
    if (i < 2 * l->delta_layers)
        *out = i % 2 == 0 ? (part){s->tails[i / 2], l->tail_bytes} : (part){s->recurrent[i / 2], l->recurrent_bytes};
    else if (i == 2 * l->delta_layers && s->carry != NULL)
        *out = (part){s->carry, l->carry_bytes};
    else
        return false;
    return true;
}

void slot_zero(state *s, uint32_t slot)
{
    part p;
    for (uint32_t i = 0; slot_part(s, i, &p); i++) s->k->buf_zero(s->k, p.buf, slot * p.bytes, p.bytes);
}

void slot_copy(state *s, uint32_t to, uint32_t from)
{
    part p;
    for (uint32_t i = 0; slot_part(s, i, &p); i++)
        s->k->buf_copy(s->k, p.buf, to * p.bytes, p.buf, from * p.bytes, p.bytes);
}

void slot_read(const state *s, uint32_t slot, void *to)
{
    part     p;
    uint8_t *at = to;
    for (uint32_t i = 0; slot_part(s, i, &p); at += p.bytes, i++)
        s->k->buf_read(s->k, p.buf, slot * p.bytes, at, p.bytes);
}

void slot_write(state *s, uint32_t slot, const void *from)
{
    part           p;
    const uint8_t *at = from;
    for (uint32_t i = 0; slot_part(s, i, &p); at += p.bytes, i++)
        s->k->buf_write(s->k, p.buf, slot * p.bytes, at, p.bytes);
}

/* Slots that are no sequence's.  Those of sequences yet to come are not lent. */
static uint32_t lent_slots(const state *s)
{
    return s->n_slots - s->n_free_slots - s->n_sequences;
}

weir_status sequence_detour(sequence *q, weir_error *err)
{
    state *s = q->s;
    if (lent_slots(s) == s->limits.windows)
        return status_fail(err, WEIR_INVALID, "detour: all %u spare slots are in use", s->limits.windows);
    q->home_slot   = q->slot;
    q->home_length = q->length;
    q->aside       = true;
    q->slot        = s->free_slots[--s->n_free_slots];
    slot_copy(s, q->slot, q->home_slot);
    return WEIR_OK;
}

void sequence_return(sequence *q)
{
    if (!q->aside) return;
    q->aside                               = false;
    q->s->free_slots[q->s->n_free_slots++] = q->slot;
    q->slot                                = q->home_slot;
    q->length                              = q->home_length;
}

/* ---- windows ---- */

void state_begin_step(state *s)
{
    s->n_recorded = 0;
}

weir_status sequence_window(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err)
{
    state *s = q->s;
    if (n < 2 || lent_slots(s) == s->limits.windows || n - 1 > s->limits.recorded_rows - s->n_recorded)
        return status_fail(err, WEIR_INVALID, "window: %u rows after %u of at most %u in %u windows", n, s->n_recorded,
                           s->limits.recorded_rows, s->limits.windows);
    TRY(sequence_span(q, ids, n, row, out, err));
    out->slot_out = s->free_slots[--s->n_free_slots];
    q->record_row = s->n_recorded;
    /* When the last one stays, all stay, and nothing is replayed. */
    for (uint32_t i = 0; i + 1 < n; i++) s->recorded[s->n_recorded++] = row + i;
    return WEIR_OK;
}

bool sequence_keep(sequence *q, const k_span *window, uint32_t keep, k_span *out)
{
    state     *s                     = q->s;
    const bool all                   = keep == window->n;
    s->free_slots[s->n_free_slots++] = all ? window->slot_in : window->slot_out;
    if (all) q->slot = window->slot_out;
    *out = (k_span){.row      = q->record_row,
                    .n        = keep,
                    .position = window->position,
                    .slot_in  = q->slot,
                    .slot_out = q->slot,
                    .pages    = q->pages};
    sequence_commit(q, keep);
    return !all;
}

void sequence_drop_window(sequence *q, const k_span *window)
{
    q->s->free_slots[q->s->n_free_slots++] = window->slot_out;
}

uint32_t state_n_recorded(const state *s)
{
    return s->n_recorded;
}

const uint32_t *state_recorded(const state *s)
{
    return s->recorded;
}

k_buf *state_recorded_qkv(const state *s, uint32_t layer)
{
    return s->recorded_qkv[layer];
}

k_buf *state_recorded_a(const state *s, uint32_t layer)
{
    return s->recorded_a[layer];
}

k_buf *state_recorded_b(const state *s, uint32_t layer)
{
    return s->recorded_b[layer];
}
