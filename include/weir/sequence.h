/* include/weir/sequence.h - one conversation's memory: what the model has read.
 *
 * Exactness (docs/EXACTNESS.md): the logits after a list of tokens are the
 * same bits however the list was cut into appends and whatever threads,
 * chunks or snapshots were used on the way. */
#ifndef WEIR_SEQUENCE_H
#define WEIR_SEQUENCE_H

#include "weir/engine.h"

typedef struct weir_sequence weir_sequence;

/* A new empty sequence with room for max_context positions.  WEIR_NO_MEMORY
 * when max_sequences are alive (those of running requests included) or
 * pool_context is promised to others. */
WEIR_API weir_status weir_sequence_new(weir_sequence **out, weir_engine *e, weir_error *err);
/* Another sequence that has read the same: keys and values are shared, the
 * recurrent state is copied.  The same failures. */
WEIR_API weir_status weir_sequence_fork(weir_sequence **out, const weir_sequence *s, weir_error *err);
WEIR_API void        weir_sequence_free(weir_sequence *s); /* NULL is allowed */

/* Chooses the adapters of an empty sequence, n of the engine's (0: none, as in a new one); they
 * stay over weir_sequence_reset, and a fork has the same.  WEIR_INVALID: a sequence that has read
 * something, more than WEIR_MAX_ADAPTERS, or one that the engine does not have. */
WEIR_API weir_status weir_sequence_set_adapters(weir_sequence *s, const weir_adapter_choice *adapters, size_t n,
                                                weir_error *err);

/* Tokens read so far, and the tokens themselves (borrowed until the next change). */
WEIR_API uint32_t        weir_sequence_length(const weir_sequence *s);
WEIR_API const uint32_t *weir_sequence_tokens(const weir_sequence *s);

/* Called after each chunk with tokens done and to do; return false to stop. */
typedef bool weir_progress_fn(void *user, uint32_t done, uint32_t total);

/* Reads n >= 1 tokens, in chunks.  Afterwards weir_sequence_logits() are those
 * of the last one.  `progress` may be NULL; when it stops the work, the
 * sequence holds the chunks done so far and the call gives WEIR_CANCELLED.
 * WEIR_INVALID: an id outside the vocabulary, or more than max_context. */
WEIR_API weir_status weir_sequence_append(weir_sequence *s, const uint32_t *ids, size_t n, weir_progress_fn *progress,
                                          void *user, weir_error *err);

/* Logits [vocab_size] of the next token, f32, borrowed until the next change;
 * NULL in an empty sequence. */
WEIR_API const float *weir_sequence_logits(const weir_sequence *s);

/* A chunk's results: rows first_position .. first_position + n - 1.  Return
 * false to stop. */
typedef struct weir_rows {
    uint32_t            first_position, n;
    const float        *logits; /* [n, vocab_size] */
    const float *const *hidden; /* per layer [n, hidden_size], the residual stream it leaves; NULL unless asked */
} weir_rows;
typedef bool weir_rows_fn(void *user, const weir_rows *rows);

/* Like append, and hands out the logits of every position, chunk by chunk;
 * with `hidden` also the residual stream after each layer.  WEIR_CANCELLED when
 * `rows` stops the work before the last position; the chunk it was in is read. */
WEIR_API weir_status weir_sequence_score(weir_sequence *s, const uint32_t *ids, size_t n, bool hidden,
                                         weir_rows_fn *rows, void *user, weir_error *err);

/* Forgets everything read. */
WEIR_API void weir_sequence_reset(weir_sequence *s);

/* A copy of the recurrent state at this length; attention needs none, it can
 * be cut anywhere.  Takes snapshot_bytes (weir_fit), the tokens and one row of logits of memory. */
typedef struct weir_snapshot weir_snapshot;

WEIR_API weir_status weir_sequence_snapshot(const weir_sequence *s, weir_snapshot **out, weir_error *err);
WEIR_API void        weir_snapshot_free(weir_snapshot *snap); /* NULL is allowed */
/* Tokens the snapshot stands for. */
WEIR_API uint32_t weir_snapshot_length(const weir_snapshot *snap);
/* Cuts the sequence back to the snapshot.  WEIR_INVALID unless the sequence
 * belongs to the same engine, has the same adapters and still begins with the snapshot's tokens. */
WEIR_API weir_status weir_sequence_rewind(weir_sequence *s, const weir_snapshot *snap, weir_error *err);

/* Writes everything the sequence remembers to a file (temporary file, fsync,
 * rename; docs/STATE-FILES.md has the format).  WEIR_INVALID for an empty one. */
WEIR_API weir_status weir_sequence_save(const weir_sequence *s, const char *path, weir_error *err);
/* Makes `s` what was saved.  WEIR_FORMAT names what is wrong with the file:
 * damaged, or of another model, adapters, cache format or version; WEIR_INVALID: longer
 * than `s` has room for.  After a failure `s` is empty. */
WEIR_API weir_status weir_sequence_load(weir_sequence *s, const char *path, weir_error *err);

#endif
