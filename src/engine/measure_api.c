/* engine/measure_api.c - weir_measure_step: one step of a given form, and its time. */
#include "base/clock.h"
#include "engine/batch.h"
#include "engine/sequence_parts.h"
#include "weir/experimental.h"

#include <string.h>

static weir_status check_sequence(const weir_engine *e, weir_sequence *const *s, uint32_t i, uint32_t tokens,
                                  weir_error *err)
{
    if (s[i]->e != e) return status_fail(err, WEIR_INVALID, "sequences: %u is of another engine", i);
    if (s[i]->broken) return status_fail(err, WEIR_INVALID, "sequences: a step of %u failed", i);
    if (sequence_room(s[i]->q) < tokens)
        return status_fail(err, WEIR_INVALID, "sequences: %u has room for %u tokens, expected %u", i,
                           sequence_room(s[i]->q), tokens);
    for (uint32_t j = 0; j < i; j++)
        if (s[j] == s[i]) return status_fail(err, WEIR_INVALID, "sequences: %u is also %u", i, j);
    return WEIR_OK;
}

static weir_status check(weir_sequence *const *s, uint32_t n, const uint32_t *ids, uint32_t tokens, uint32_t keep,
                         weir_error *err)
{
    if (n == 0) return status_fail(err, WEIR_INVALID, "sequences: expected at least one");
    const weir_engine *e = s[0]->e;
    TRY(engine_idle(e, "measure", err));
    if (tokens == 0 || keep == 0 || keep > tokens)
        return status_fail(err, WEIR_INVALID, "keep: expected 1 to %u, found %u", tokens, keep);
    if (tokens > 1 && e->draft == DRAFT_OFF)
        return status_fail(err, WEIR_INVALID, "tokens: expected 1 in an engine without drafts, found %u", tokens);
    if (n > e->batch.max_items || tokens > e->batch.max_rows / n)
        return status_fail(err, WEIR_INVALID, "step: expected at most %u sequences and %u rows", e->batch.max_items,
                           e->batch.max_rows);
    for (uint32_t i = 0; i < n; i++) TRY(check_sequence(e, s, i, tokens, err));
    for (uint32_t i = 0; i < n * tokens; i++)
        if (ids[i] >= e->m.config.vocab_size)
            return status_fail(err, WEIR_INVALID, "ids: expected less than vocab_size = %u, found %u",
                               e->m.config.vocab_size, ids[i]);
    return WEIR_OK;
}

static weir_status compose(weir_sequence *const *s, uint32_t n, const uint32_t *ids, uint32_t tokens, uint32_t keep,
                           weir_error *err)
{
    weir_engine *e = s[0]->e;
    batch_clear(e);
    for (uint32_t i = 0; i < n; i++) {
        batch_item       *it;
        const weir_status st = batch_add(e, s[i], ids + (size_t)i * tokens, tokens, tokens > 1, &it, err);
        if (st == WEIR_OK) {
            it->keep = keep;
            continue;
        }
        batch_abandon(e);
        return st;
    }
    return WEIR_OK;
}

/* All rows' logits; those of the last token that stays become the sequence's. */
static weir_status all_logits(weir_sequence *const *s, uint32_t rows, uint32_t tokens, uint32_t keep, weir_error *err)
{
    weir_engine *e = s[0]->e;
    const size_t V = e->m.config.vocab_size;
    for (uint32_t at = 0; at < rows; at += HEAD_ROWS) {
        const uint32_t count = rows - at < HEAD_ROWS ? rows - at : HEAD_ROWS;
        const float   *logits;
        TRY(batch_logits(e, e->rows + at, count, &logits, err));
        for (uint32_t i = 0; i < count; i++)
            if ((at + i) % tokens == keep - 1) memcpy(s[(at + i) / tokens]->logits, logits + i * V, V * sizeof *logits);
    }
    return WEIR_OK;
}

weir_status weir_measure_step(weir_sequence *const *sequences, uint32_t n, const uint32_t *ids, uint32_t tokens,
                              uint32_t keep, double *seconds, weir_error *err)
{
    TRY(check(sequences, n, ids, tokens, keep, err));
    weir_engine   *e     = sequences[0]->e;
    const uint64_t start = clock_ns();
    TRY(compose(sequences, n, ids, tokens, keep, err));
    TRY(batch_forward(e, NULL, err));
    TRY(all_logits(sequences, n * tokens, tokens, keep, err));
    TRY(batch_commit(e, err));
    *seconds = (double)(clock_ns() - start) * 1e-9;
    return WEIR_OK;
}
