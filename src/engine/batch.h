/* engine/batch.h - one ragged step: spans of several sequences in one pass over
 * the weights.
 *
 *   batch_clear, batch_add ...       who takes part, with which tokens
 *   batch_forward                    the model's layers over all rows
 *   batch_logits ...                 rows of logits, a few at a time
 *   item->keep, item->next = ...     what became of the windows
 *   batch_commit                     the sequences move on; MTP follows
 *
 * A failure of the backend leaves every sequence of the batch broken (its
 * recurrent state is of no known position) and no other. */
#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H

#include "engine/engine_parts.h"

/* Positions whose hidden rows may wait for MTP. */
enum { MTP_LAG = 32 };

/* Rows of one MTP pass, at most: the step's, or all that wait. */
static inline uint32_t batch_mtp_rows(uint32_t max_items, uint32_t max_rows)
{
    const uint32_t waiting = max_items * MTP_LAG;
    return waiting > max_rows ? waiting : max_rows;
}

/* One sequence's part of the step.  `next`: the token after the last that
 * stays, if it is known by batch_commit (UINT32_MAX: not yet). */
struct batch_item {
    weir_sequence *s;
    k_span         span;
    bool           window; /* of its tokens only a part may stay */
    bool           mtp;    /* MTP's rows are to be made now; else they may wait */
    uint32_t       keep;   /* tokens that stay; all, unless the caller says less */
    uint32_t       next;
    uint32_t       drafted_row; /* of work.drafted, after batch_commit: MTP's output before `next` */
};

/* Bytes and memory for the most that a step may have. */
uint64_t    batch_bytes(uint32_t max_items, uint32_t max_rows);
weir_status batch_new(batch *b, uint32_t max_items, uint32_t max_rows, weir_error *err);
void        batch_free(batch *b); /* all zero is allowed */

void batch_clear(weir_engine *e);
/* Adds n tokens of s; as a window when only a part may stay.  *out stays valid
 * until batch_clear.  Each sequence at most once. */
weir_status batch_add(weir_engine *e, weir_sequence *s, const uint32_t *ids, uint32_t n, bool window, batch_item **out,
                      weir_error *err);
/* Gives a step up that has not begun: windows return their slots. */
void        batch_abandon(weir_engine *e);
weir_status batch_forward(weir_engine *e, const model_tap *tap, weir_error *err);
/* Logits [n, vocab] of n <= HEAD_ROWS rows of the step, valid until the next call. */
weir_status batch_logits(weir_engine *e, const uint32_t *rows, uint32_t n, const float **out, weir_error *err);
weir_status batch_commit(weir_engine *e, weir_error *err);

#endif
