/* state/state.h - what sequences remember: pages of keys and values, slots of
 * recurrent state, and the inputs of a window that may have to be replayed.
 * Knows no model shapes beyond the sizes given at the start.
 *
 * A `state` owns the memory of all sequences on one backend; everything is
 * taken when it is made, and physical memory only as it is touched.  One
 * thread at a time.
 *
 * Pages are shared by reference count.  A page has at most one writer, the
 * sequence that took it; others that hold it read only what stood in it when
 * they got it.  Who would write into a page that it did not take copies it first. */
#ifndef STATE_H
#define STATE_H

#include "kernels/kernels.h"

typedef struct state    state;
typedef struct sequence sequence;

typedef struct state_limits {
    uint32_t          delta_layers, attention_layers; /* attention: the MTP layer included */
    uint64_t          tail_bytes;                     /* convolution tail of one slot in one layer */
    uint64_t          recurrent_bytes;                /* recurrent state of one slot in one layer */
    uint32_t          kv_heads, head_dim; /* a page of keys (or values): [kv_heads][K_PAGE] rows of head_dim numbers */
    const k_kv_layer *kv;                 /* [attention_layers] their forms; copied */
    uint64_t          carry_bytes;        /* the hidden rows of one slot that wait for MTP; 0: no MTP */
    uint64_t          channel_bytes, gate_bytes;    /* one row of the delta layers' inputs: qkv; a (or b) */
    uint32_t          max_sequences, max_positions; /* positions: of one sequence */
    uint32_t          pages;                        /* of all sequences and all that is kept besides */
    uint32_t early;         /* pages at the start of every sequence that are early ones (kernels.h); whole blocks of the
                               prefix cache */
    uint32_t early_pages;   /* such pages among `pages`: enough for max_sequences */
    uint32_t windows;       /* sequences that may have a window in one step */
    uint32_t recorded_rows; /* rows of all windows of a step */
} state_limits;

/* Bytes of KV cache for one position behind the early pages; of one sequence's
 * recurrent state, which is also what sequence_save writes; of one page with all its
 * layers, the page of positions K_PAGE*index .., and behind the early ones; of what
 * windows record.  A state takes its pages, a recurrent state for each sequence and
 * each window, and the recorded rows. */
uint64_t state_kv_bytes_per_position(const state_limits *l);
uint64_t state_bytes_per_sequence(const state_limits *l);
uint64_t state_page_bytes_at(const state_limits *l, uint32_t index);
uint64_t state_page_bytes(const state_limits *l);
uint64_t state_recorded_bytes(const state_limits *l);

weir_status state_new(state **out, kernels *k, const state_limits *limits, weir_error *err);
void        state_free(state *s);       /* NULL is allowed; no sequence may be left */
uint64_t    state_size(const state *s); /* state_bytes_per_sequence of its limits */

/* The buffers of delta layer / attention layer i, counted within their kind. */
k_buf         *state_tail(const state *s, uint32_t i);      /* [slot][kernel-1][C] */
k_buf         *state_recurrent(const state *s, uint32_t i); /* [slot][value_head][key_dim][value_dim] */
const k_cache *state_cache(const state *s, uint32_t i);
k_buf         *state_carry(const state *s); /* [slot][carry_bytes]; NULL without MTP */

/* ---- pages ---- */

/* Pages that are promised to no sequence, in positions: what a new sequence can be
 * promised.  What is kept besides does not lessen them. */
uint32_t state_free_positions(const state *s);
/* Called when no page is free, until one is: gives up something that nobody was
 * promised (page_release); false when it has nothing left. */
typedef bool state_reclaim_fn(void *user);
void         state_on_dry(state *s, state_reclaim_fn *fn, void *user); /* fn NULL: none */

/* A zeroed page for positions K_PAGE*index .. with one reference; UINT32_MAX when there
 * is none to be had, which cannot happen to a sequence within its promise. */
uint32_t page_take(state *s, uint32_t index);
void     page_hold(state *s, uint32_t page);    /* one reference more */
void     page_release(state *s, uint32_t page); /* one less; free after the last */
/* All layers' keys and values of a page as bytes (state_page_bytes_at), and back. */
void page_read(const state *s, uint32_t page, void *to);
void page_write(state *s, uint32_t page, const void *from);

/* ---- sequences ---- */

/* A new empty sequence that is promised room for `positions` (0: max_positions),
 * rounded up to whole pages but not beyond max_positions; WEIR_NO_MEMORY when
 * all are in use or the pages are promised to others. */
weir_status sequence_new(sequence **out, state *s, uint32_t positions, weir_error *err);
void        sequence_free(sequence *q); /* NULL is allowed; no window of it may be in flight */

/* Another sequence with the same memory: pages are shared, the recurrent state
 * is copied.  The same failures as sequence_new. */
weir_status sequence_fork(sequence **out, const sequence *q, uint32_t positions, weir_error *err);

uint32_t        sequence_length(const sequence *q); /* positions committed */
uint32_t        sequence_room(const sequence *q);   /* positions promised beyond these */
const uint32_t *sequence_tokens(const sequence *q); /* their ids */
uint32_t        sequence_slot(const sequence *q);   /* of the recurrent state, for state_carry */
/* The pages of its positions, in order: (length + K_PAGE - 1) / K_PAGE of them. */
const uint32_t *sequence_pages(const sequence *q);

/* Makes room for n more positions and describes them as a span of a step whose
 * rows start at `row`.  WEIR_INVALID beyond the promise. */
weir_status sequence_span(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err);
/* A span of n positions from `position` on for the MTP head, which has keys and
 * values of its own there; it may go past the length, within the promise. */
weir_status sequence_aside(sequence *q, uint32_t position, uint32_t n, uint32_t row, k_span *out, weir_error *err);
/* The n positions of the last span are a part of the sequence from now on. */
void sequence_commit(sequence *q, uint32_t n);
/* Empties the sequence. */
void sequence_reset(sequence *q);

/* Notes a guess at index length + ahead of the tokens, within the promise: for
 * who looks at tokens that are not committed yet. */
void sequence_guess(sequence *q, uint32_t ahead, uint32_t id);
/* From here on the sequence goes on in a spare slot (one of `windows`), and
 * sequence_return takes it back to where it was (nothing when it did not leave). */
weir_status sequence_detour(sequence *q, weir_error *err);
void        sequence_return(sequence *q);

/* The recurrent state as bytes (state_bytes_per_sequence), and back. */
void sequence_save(const sequence *q, void *to);
/* Cuts the sequence to `length` positions and puts back what was saved there. */
void sequence_restore(sequence *q, uint32_t length, const void *from);
/* Makes an empty sequence one of `length` tokens, at most its room, that others
 * have computed: holds their pages, copies the one it will write into, and
 * restores the state.  Making room for the copy may release pages and `from`, not
 * before they have been used. */
void sequence_adopt(sequence *q, const uint32_t *ids, uint32_t length, const uint32_t *pages, const void *from);

/* ---- windows: spans of which only a part may stay ----
 *
 * The recurrence cannot be cut back, so a window reads its state from the
 * sequence's slot and leaves it in a spare one, and the inputs of the delta
 * layers are recorded.  When all of it stays, the spare slot becomes the
 * sequence's.  Otherwise the slot still has the state from before, and the
 * recorded inputs of the part that stays are run through it once more: the
 * same operations on the same numbers. */

/* Forgets the windows of the step before. */
void state_begin_step(state *s);
/* As sequence_span, for n >= 2 tokens.  WEIR_INVALID also beyond the limits' windows
 * in flight or recorded rows. */
weir_status sequence_window(sequence *q, const uint32_t *ids, uint32_t n, uint32_t row, k_span *out, weir_error *err);
/* `keep` of the n tokens of the window stay (1 to n) and are committed.  True
 * when the recorded inputs are to be replayed, as *out says. */
bool sequence_keep(sequence *q, const k_span *window, uint32_t keep, k_span *out);
/* The window is given up: its step failed. */
void sequence_drop_window(sequence *q, const k_span *window);

/* Rows of the step in flight that belong to windows, and where their inputs go:
 * row i of the list is row i of these buffers, of delta layer `layer`. */
uint32_t        state_n_recorded(const state *s);
const uint32_t *state_recorded(const state *s);
k_buf          *state_recorded_qkv(const state *s, uint32_t layer); /* [recorded, C] */
k_buf          *state_recorded_a(const state *s, uint32_t layer);   /* [recorded, value_heads] */
k_buf          *state_recorded_b(const state *s, uint32_t layer);

#endif
