/* state/state.h - what sequences remember: pages of keys and values, slots of
 * recurrent state.  Knows no model shapes beyond the sizes given at the start.
 *
 * A `state` owns the memory of all sequences on one backend; everything is
 * taken when it is made, and physical memory only as it is touched.  One
 * thread at a time. */
#ifndef STATE_H
#define STATE_H

#include "kernels/kernels.h"

typedef struct state    state;
typedef struct sequence sequence;

typedef struct state_limits {
    uint32_t delta_layers, attention_layers;
    uint64_t tail_bytes;                   /* convolution tail of one slot in one layer */
    uint64_t recurrent_bytes;              /* recurrent state of one slot in one layer */
    uint64_t page_bytes;                   /* keys (or values) of one page in one layer */
    uint32_t max_sequences, max_positions; /* positions: of one sequence */
} state_limits;

/* Bytes of KV cache for one position, and of recurrent state for one sequence. */
uint64_t state_kv_bytes_per_position(const state_limits *l);
uint64_t state_bytes_per_sequence(const state_limits *l);

weir_status state_new(state **out, kernels *k, const state_limits *limits, weir_error *err);
void        state_free(state *s);       /* NULL is allowed; no sequence may be left */
uint64_t    state_size(const state *s); /* state_bytes_per_sequence of its limits */

/* The buffers of delta layer / attention layer i, counted within their kind. */
k_buf *state_tail(const state *s, uint32_t i);
k_buf *state_recurrent(const state *s, uint32_t i);
k_buf *state_keys(const state *s, uint32_t i);
k_buf *state_values(const state *s, uint32_t i);

/* A new empty sequence; WEIR_NO_MEMORY when all are in use. */
weir_status sequence_new(sequence **out, state *s, weir_error *err);
void        sequence_free(sequence *q); /* NULL is allowed */

uint32_t        sequence_length(const sequence *q); /* positions committed */
const uint32_t *sequence_tokens(const sequence *q); /* their ids */

/* Makes room for n more positions and describes them as a span of a step whose
 * rows start at `row`.  WEIR_INVALID beyond max_positions. */
weir_status sequence_span(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err);
/* The n positions of the last span are a part of the sequence from now on. */
void sequence_commit(sequence *q, uint32_t n);
/* Empties the sequence. */
void sequence_reset(sequence *q);

/* The recurrent state as bytes (state_bytes_per_sequence), and back. */
void sequence_save(const sequence *q, void *to);
/* Cuts the sequence to `length` positions and puts back what was saved there. */
void sequence_restore(sequence *q, uint32_t length, const void *from);

#endif
