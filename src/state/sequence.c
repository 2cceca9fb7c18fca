/* state/sequence.c - one conversation: pages, a slot, a length.
 *
 * Attention needs no care on the way back: positions past `length` are simply
 * overwritten.  The recurrence cannot be cut, so going back restores a saved
 * copy (sequence_save). */
#include "base/mem.h"
#include "state/state_parts.h"

#include <string.h>

static void zero_slot(sequence *q)
{
    const state_limits *l = &q->s->limits;
    kernels            *k = q->s->k;
    for (uint32_t i = 0; i < l->delta_layers; i++) {
        k->buf_zero(k, q->s->tails[i], q->slot * l->tail_bytes, l->tail_bytes);
        k->buf_zero(k, q->s->recurrent[i], q->slot * l->recurrent_bytes, l->recurrent_bytes);
    }
}

weir_status sequence_new(sequence **out, state *s, weir_error *err)
{
    *out = NULL;
    if (s->n_free_slots == 0)
        return status_fail(err, WEIR_NO_MEMORY, "sequence: all %u (max_sequences) are in use", s->limits.max_sequences);
    sequence *q = mem_zalloc(1, sizeof *q);
    if (q == NULL) return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
    q->s      = s;
    q->pages  = mem_alloc(s->pages_per_sequence, sizeof *q->pages);
    q->tokens = mem_alloc(s->limits.max_positions, sizeof *q->tokens);
    if (q->pages == NULL || q->tokens == NULL) {
        mem_free(q->pages);
        mem_free(q->tokens);
        mem_free(q);
        return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
    }
    q->slot = s->free_slots[--s->n_free_slots];
    zero_slot(q);
    *out = q;
    return WEIR_OK;
}

static void drop_pages(sequence *q, uint32_t keep)
{
    while (q->n_pages > keep) q->s->free_pages[q->s->n_free_pages++] = q->pages[--q->n_pages];
}

void sequence_free(sequence *q)
{
    if (q == NULL) return;
    drop_pages(q, 0);
    q->s->free_slots[q->s->n_free_slots++] = q->slot;
    mem_free(q->pages);
    mem_free(q->tokens);
    mem_free(q);
}

uint32_t sequence_length(const sequence *q)
{
    return q->length;
}

const uint32_t *sequence_tokens(const sequence *q)
{
    return q->tokens;
}

weir_status sequence_span(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err)
{
    const uint32_t max = q->s->limits.max_positions;
    if (n > max - q->length)
        return status_fail(err, WEIR_INVALID, "context: %u tokens after %u do not fit max_context %u", n, q->length,
                           max);
    /* Every sequence may have all its pages at once, so this cannot run dry. */
    const uint32_t need = (q->length + n + K_PAGE - 1) / K_PAGE;
    while (q->n_pages < need) q->pages[q->n_pages++] = q->s->free_pages[--q->s->n_free_pages];
    memcpy(q->tokens + q->length, ids, n * sizeof *ids);
    *out =
        (k_span){.row = row, .n = n, .position = q->length, .slot_in = q->slot, .slot_out = q->slot, .pages = q->pages};
    return WEIR_OK;
}

void sequence_commit(sequence *q, uint32_t n)
{
    q->length += n;
}

void sequence_reset(sequence *q)
{
    drop_pages(q, 0);
    q->length = 0;
    zero_slot(q);
}

void sequence_save(const sequence *q, void *to)
{
    const state_limits *l = &q->s->limits;
    kernels            *k = q->s->k;
    uint8_t            *p = to;
    for (uint32_t i = 0; i < l->delta_layers; i++) {
        k->buf_read(k, q->s->tails[i], q->slot * l->tail_bytes, p, l->tail_bytes);
        p += l->tail_bytes;
        k->buf_read(k, q->s->recurrent[i], q->slot * l->recurrent_bytes, p, l->recurrent_bytes);
        p += l->recurrent_bytes;
    }
}

void sequence_restore(sequence *q, uint32_t length, const void *from)
{
    const state_limits *l = &q->s->limits;
    kernels            *k = q->s->k;
    const uint8_t      *p = from;
    for (uint32_t i = 0; i < l->delta_layers; i++) {
        k->buf_write(k, q->s->tails[i], q->slot * l->tail_bytes, p, l->tail_bytes);
        p += l->tail_bytes;
        k->buf_write(k, q->s->recurrent[i], q->slot * l->recurrent_bytes, p, l->recurrent_bytes);
        p += l->recurrent_bytes;
    }
    q->length = length;
    drop_pages(q, (length + K_PAGE - 1) / K_PAGE);
}
