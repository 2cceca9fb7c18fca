/* state/sequence.c - one conversation: pages, a slot, a length.
 *
 * Attention needs little care on the way back: positions past `length` are
 * overwritten, in a copy of the page when others hold it.  The recurrence
 * cannot be cut, so going back restores a saved copy (sequence_save). */
#include "base/mem.h"
#include "state/state_parts.h"

#include <string.h>

static uint32_t pages_of(uint32_t positions)
{
    return (positions + K_PAGE - 1) / K_PAGE;
}

static weir_status check_room(const state *s, uint32_t positions, weir_error *err)
{
    const state_limits *l = &s->limits;
    if (positions > l->max_positions)
        return status_fail(err, WEIR_INVALID, "sequence: expected at most %u positions (max_context), found %u",
                           l->max_positions, positions);
    if (s->n_sequences == l->max_sequences)
        return status_fail(err, WEIR_NO_MEMORY, "sequence: all %u (max_sequences) are in use", l->max_sequences);
    if (late_pages(l, positions) > l->pages - l->early_pages - s->n_promised)
        return status_fail(err, WEIR_NO_MEMORY, "sequence: %u positions are needed, %u are free", positions,
                           state_free_positions(s));
    return WEIR_OK;
}

weir_status sequence_new(sequence **out, state *s, uint32_t positions, weir_error *err)
{
    *out = NULL;
    if (positions == 0) positions = s->limits.max_positions;
    TRY(check_room(s, positions, err));
    sequence *q = mem_zalloc(1, sizeof *q);
    if (q == NULL) return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
    q->s        = s;
    q->promised = pages_of(positions);
    q->pages    = mem_alloc(q->promised, sizeof *q->pages);
    q->limit    = q->promised * K_PAGE < s->limits.max_positions ? q->promised * K_PAGE : s->limits.max_positions;
    q->tokens   = mem_alloc(q->limit, sizeof *q->tokens);
    if (q->pages == NULL || q->tokens == NULL) {
        mem_free(q->pages);
        mem_free(q->tokens);
        mem_free(q);
        return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
    }
    s->n_promised += late_pages(&s->limits, positions);
    s->n_sequences++;
    q->slot = s->free_slots[--s->n_free_slots];
    slot_zero(s, q->slot);
    *out = q;
    return WEIR_OK;
}

static void drop_pages(sequence *q, uint32_t keep)
{
    while (q->n_pages > keep) page_release(q->s, q->pages[--q->n_pages]);
}

void sequence_free(sequence *q)
{
    if (q == NULL) return;
    drop_pages(q, 0);
    q->s->n_promised -= late_pages(&q->s->limits, q->promised * K_PAGE);
    q->s->n_sequences--;
    q->s->free_slots[q->s->n_free_slots++] = q->slot;
    mem_free(q->pages);
    mem_free(q->tokens);
    mem_free(q);
}

uint32_t sequence_length(const sequence *q)
{
    return q->length;
}

uint32_t sequence_room(const sequence *q)
{
    return q->limit - q->length;
}

const uint32_t *sequence_tokens(const sequence *q)
{
    return q->tokens;
}

uint32_t sequence_slot(const sequence *q)
{
    return q->slot;
}

const uint32_t *sequence_pages(const sequence *q)
{
    return q->pages;
}

weir_status sequence_aside(sequence *q, uint32_t position, uint32_t n, uint32_t row, k_span *out, weir_error *err)
{
    if (position > q->limit || n > q->limit - position)
        return status_fail(err, WEIR_INVALID, "context: %u tokens after %u do not fit the %u promised", n, position,
                           q->limit);
    /* Within the promise, so this cannot run dry. */
    const uint32_t need = pages_of(position + n);
    for (; q->n_pages < need; q->n_pages++) q->pages[q->n_pages] = page_take(q->s, q->n_pages);
    *out =
        (k_span){.row = row, .n = n, .position = position, .slot_in = q->slot, .slot_out = q->slot, .pages = q->pages};
    return WEIR_OK;
}

weir_status sequence_span(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err)
{
    TRY(sequence_aside(q, q->length, n, row, out, err));
    memcpy(q->tokens + q->length, ids, n * sizeof *ids);
    return WEIR_OK;
}

void sequence_commit(sequence *q, uint32_t n)
{
    q->length += n;
}

void sequence_guess(sequence *q, uint32_t ahead, uint32_t id)
{
    q->tokens[q->length + ahead] = id;
}

void sequence_reset(sequence *q)
{
    drop_pages(q, 0);
    q->length = 0;
    slot_zero(q->s, q->slot);
}

/* The page that the next step writes into becomes the sequence's own.  MTP's
 * row of a position depends on the token after it, so with MTP the last
 * position is written once more. */
static void own_last_page(sequence *q)
{
    if (q->length == 0) return;
    const uint32_t next = q->s->carry != NULL ? q->length - 1 : q->length;
    if (next / K_PAGE < q->n_pages) page_own(q->s, &q->pages[next / K_PAGE]);
}

/* The first `length` tokens of pages that others hold, too. */
static void share(sequence *q, const uint32_t *ids, uint32_t length, const uint32_t *pages)
{
    for (uint32_t i = 0; i < pages_of(length); i++) {
        page_hold(q->s, pages[i]);
        q->pages[q->n_pages++] = pages[i];
    }
    memcpy(q->tokens, ids, length * sizeof *ids);
    q->length = length;
    own_last_page(q);
}

weir_status sequence_fork(sequence **out, const sequence *q, uint32_t positions, weir_error *err)
{
    TRY(sequence_new(out, q->s, positions, err));
    if (q->length > (*out)->limit) {
        const uint32_t room = (*out)->limit;
        sequence_free(*out);
        *out = NULL;
        return status_fail(err, WEIR_INVALID, "fork: expected room for %u positions, found %u", q->length, room);
    }
    share(*out, q->tokens, q->length, q->pages);
    slot_copy(q->s, (*out)->slot, q->slot);
    return WEIR_OK;
}

void sequence_save(const sequence *q, void *to)
{
    slot_read(q->s, q->slot, to);
}

void sequence_restore(sequence *q, uint32_t length, const void *from)
{
    slot_write(q->s, q->slot, from);
    q->length = length;
    drop_pages(q, pages_of(length));
    own_last_page(q);
}

void sequence_adopt(sequence *q, const uint32_t *ids, uint32_t length, const uint32_t *pages, const void *from)
{
    slot_write(q->s, q->slot, from); /* first: making room for a copy may take `from` away */
    drop_pages(q, 0);                /* of a step that failed */
    share(q, ids, length, pages);
}
