/* text/bpe.h - byte-pair encoding of one piece of text.
 *
 * Sennrich, Haddow and Birch 2016, on bytes: a piece starts as one token a byte;
 * the adjacent pair with the lowest rank (its place in the list of merges) is
 * joined, leftmost first among equals, until no pair is in the list.
 *
 * Filled once, then read-only and shared by threads, but for `whole`: a memo
 * whose entries only ever change from "unknown" to the one true answer. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "text/token_ids.h"
#include "text/vocab.h"

typedef struct bpe_merge {
    uint32_t left, right, joined; /* token ids */
} bpe_merge;

typedef struct bpe_slot {
    uint64_t pair; /* left << 32 | right; BPE_FREE: free */
    uint32_t rank, joined;
} bpe_slot;

typedef struct bpe {
    const vocab     *vocab; /* borrowed */
    uint32_t         byte_id[256];
    bpe_slot        *slots; /* open addressing over pairs */
    uint32_t         shift; /* a hash's top bits are the slot */
    uint32_t         mask;
    bool             ignore_merges; /* a piece that is a token is that token, whatever the merges say */
    _Atomic uint8_t *whole;         /* [vocab.size] what merging the token's own bytes gives */
} bpe;

/* Memory for long pieces; one a call of the tokenizer.  All zero is empty. */
typedef struct bpe_scratch {
    uint32_t *ids, *prev, *next; /* [cap] */
    uint64_t *heap;              /* [3 * cap] */
    size_t    cap;
} bpe_scratch;

void bpe_scratch_free(bpe_scratch *s);

/* `v` is indexed and outlives *out; merges in order of rank.  A byte without a
 * token and a pair that is listed twice are WEIR_FORMAT.  On failure *out can
 * be freed. */
weir_status bpe_init(bpe *out, const vocab *v, const bpe_merge *merges, uint32_t n, bool ignore_merges,
                     weir_error *err);
void        bpe_free(bpe *b); /* all zero is allowed */

/* Appends the ids of the piece (n <= BPE_MAX_PIECE bytes) to `out`. */
enum { BPE_MAX_PIECE = 1 << 30 };
weir_status bpe_encode(const bpe *b, const uint8_t *piece, size_t n, bpe_scratch *s, token_ids *out, weir_error *err);

#endif
