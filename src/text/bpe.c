/* text/bpe.c - byte-pair encoding of one piece of text.
 *
 * Three ways to the same ids.  Most pieces are a token that merging reproduces:
 * one lookup and the memo.  Other short ones scan for the lowest rank, which is
 * quadratic but fastest at that size.  Long ones (a page of one letter) keep a
 * heap of candidate pairs over a linked list: n log n. */
#include "text/bpe.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { SHORT_PIECE = 48 };
#define BPE_FREE UINT64_MAX

enum { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };

void bpe_scratch_free(bpe_scratch *s)
{
    mem_free(s->ids);
    mem_free(s->prev);
    mem_free(s->next);
    mem_free(s->heap);
    *s = (bpe_scratch){0};
}

void bpe_free(bpe *b)
{
    mem_free(b->slots);
    mem_free((void *)b->whole);
    *b = (bpe){0};
}

static uint32_t pair_slot(const bpe *b, uint64_t pair)
{
    return (uint32_t)((pair * 0x9E3779B97F4A7C15u ^ pair >> 32) * 0xD6E8FEB86659FD93u >> b->shift);
}

/* The merge of two adjacent tokens, or NULL. */
static const bpe_slot *find_pair(const bpe *b, uint32_t left, uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    for (uint32_t i = pair_slot(b, pair);; i = (i + 1) & b->mask) {
        const bpe_slot *s = &b->slots[i];
        if (s->pair == pair) return s;
        if (s->pair == BPE_FREE) return NULL;
    }
}

static weir_status index_merges(bpe *b, const bpe_merge *merges, uint32_t n, weir_error *err)
{
    uint32_t bits = 6;
    while ((uint64_t)1 << bits < (uint64_t)n * 2) bits++;
    b->mask  = ((uint32_t)1 << bits) - 1;
    b->shift = 64 - bits;
    b->slots = mem_alloc((size_t)b->mask + 1, sizeof *b->slots);
    if (b->slots == NULL) return status_fail(err, WEIR_NO_MEMORY, "merges: out of memory");
    memset(b->slots, 0xFF, ((size_t)b->mask + 1) * sizeof *b->slots);
    for (uint32_t rank = 0; rank < n; rank++) {
        const uint64_t pair = (uint64_t)merges[rank].left << 32 | merges[rank].right;
        uint32_t       i    = pair_slot(b, pair);
        for (; b->slots[i].pair != BPE_FREE; i = (i + 1) & b->mask)
            if (b->slots[i].pair == pair)
                return status_fail(err, WEIR_FORMAT, "merges %" PRIu32 " and %" PRIu32 ": the same pair twice",
                                   b->slots[i].rank, rank);
        b->slots[i] = (bpe_slot){.pair = pair, .rank = rank, .joined = merges[rank].joined};
    }
    return WEIR_OK;
}

weir_status bpe_init(bpe *out, const vocab *v, const bpe_merge *merges, uint32_t n, bool ignore_merges, weir_error *err)
{
    *out = (bpe){.vocab = v, .ignore_merges = ignore_merges};
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t byte = (uint8_t)c;
        out->byte_id[c]    = vocab_find(v, &byte, 1);
        if (out->byte_id[c] == TOKEN_NONE)
            return status_fail(err, WEIR_FORMAT, "vocabulary: expected a token for every byte, found none for 0x%02X",
                               c);
    }
    TRY(index_merges(out, merges, n, err));
    out->whole = mem_zalloc(v->size, sizeof *out->whole);
    if (out->whole == NULL) return status_fail(err, WEIR_NO_MEMORY, "merges: out of memory");
    return WEIR_OK;
}

/* Merges ids[0..n) in place, n <= SHORT_PIECE; returns how many are left. */
static size_t merge_short(const bpe *b, uint32_t *ids, size_t n)
{
    uint32_t rank[SHORT_PIECE], joined[SHORT_PIECE]; /* of the pair (i, i+1) */
    for (size_t i = 0; i + 1 < n; i++) {
        const bpe_slot *s = find_pair(b, ids[i], ids[i + 1]);
        rank[i]           = s == NULL ? UINT32_MAX : s->rank;
        joined[i]         = s == NULL ? 0 : s->joined;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == UINT32_MAX) break;
        ids[best] = joined[best];
        n--;
        for (size_t i = best + 1; i < n; i++) ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i]   = rank[i + 1];
            joined[i] = joined[i + 1];
        }
        for (size_t i = best == 0 ? 0 : best - 1; i <= best && i + 1 < n; i++) {
            const bpe_slot *s = find_pair(b, ids[i], ids[i + 1]);
            rank[i]           = s == NULL ? UINT32_MAX : s->rank;
            joined[i]         = s == NULL ? 0 : s->joined;
        }
    }
    return n;
}

static weir_status reserve_scratch(bpe_scratch *s, size_t n, weir_error *err)
{
    if (n <= s->cap) return WEIR_OK;
    bpe_scratch_free(s);
    s->ids  = mem_alloc(n, sizeof *s->ids);
    s->prev = mem_alloc(n, sizeof *s->prev);
    s->next = mem_alloc(n, sizeof *s->next);
    s->heap = mem_alloc(n, 3 * sizeof *s->heap);
    if (s->ids == NULL || s->prev == NULL || s->next == NULL || s->heap == NULL) {
        bpe_scratch_free(s);
        return status_fail(err, WEIR_NO_MEMORY, "piece of %zu bytes: out of memory", n);
    }
    s->cap = n;
    return WEIR_OK;
}

/* A binary heap of rank << 32 | position: the smallest is the lowest rank, and
 * the leftmost among equals. */
static void heap_push(uint64_t *heap, size_t *n, uint64_t x)
{
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > x; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    const uint64_t top  = heap[0];
    const uint64_t last = heap[--*n];
    size_t         i    = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n) break;
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
        i       = child;
    }
    heap[i] = last;
    return top;
}

/* Adds the pair that starts at position i, if it can merge. */
static void push_pair(const bpe *b, bpe_scratch *s, size_t n, size_t *n_heap, uint32_t i)
{
    if (s->next[i] >= n) return;
    const bpe_slot *m = find_pair(b, s->ids[i], s->ids[s->next[i]]);
    if (m != NULL) heap_push(s->heap, n_heap, (uint64_t)m->rank << 32 | i);
}

/* Every merge removes one position and adds at most two candidates, so the
 * heap never holds more than 3n.  A candidate whose pair has changed since is
 * recognised by its rank when it comes up. */
static void merge_long(const bpe *b, bpe_scratch *s, size_t n)
{
    size_t n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->prev[i] = i == 0 ? TOKEN_NONE : i - 1;
        s->next[i] = i + 1;
    }
    for (uint32_t i = 0; i < n; i++) push_pair(b, s, n, &n_heap, i);
    while (n_heap > 0) {
        const uint64_t top = heap_pop(s->heap, &n_heap);
        const uint32_t i   = (uint32_t)top;
        if (s->ids[i] == TOKEN_NONE || s->next[i] >= n) continue;
        const uint32_t  right = s->next[i];
        const bpe_slot *m     = find_pair(b, s->ids[i], s->ids[right]);
        if (m == NULL || m->rank != top >> 32) continue;
        s->ids[i]     = m->joined;
        s->ids[right] = TOKEN_NONE;
        s->next[i]    = s->next[right];
        if (s->next[i] < n) s->prev[s->next[i]] = i;
        if (s->prev[i] != TOKEN_NONE) push_pair(b, s, n, &n_heap, s->prev[i]);
        push_pair(b, s, n, &n_heap, i);
    }
}

static weir_status encode_long(const bpe *b, const uint8_t *piece, size_t n, bpe_scratch *s, token_ids *out,
                               weir_error *err)
{
    TRY(reserve_scratch(s, n, err));
    for (size_t i = 0; i < n; i++) s->ids[i] = b->byte_id[piece[i]];
    merge_long(b, s, n);
    for (size_t i = 0; i < n; i = s->next[i]) TRY(token_ids_push(out, s->ids[i], err));
    return WEIR_OK;
}

weir_status bpe_encode(const bpe *b, const uint8_t *piece, size_t n, bpe_scratch *s, token_ids *out, weir_error *err)
{
    const uint32_t token = vocab_find(b->vocab, piece, n);
    if (token != TOKEN_NONE &&
        (b->ignore_merges || atomic_load_explicit(&b->whole[token], memory_order_relaxed) == WHOLE_YES))
        return token_ids_push(out, token, err);
    if (n > SHORT_PIECE) return encode_long(b, piece, n, s, out, err);

    uint32_t ids[SHORT_PIECE];
    for (size_t i = 0; i < n; i++) ids[i] = b->byte_id[piece[i]];
    const size_t left = merge_short(b, ids, n);
    if (token != TOKEN_NONE)
        atomic_store_explicit(&b->whole[token], left == 1 && ids[0] == token ? WHOLE_YES : WHOLE_NO,
                              memory_order_relaxed);
    TRY(token_ids_reserve(out, left, err));
    memcpy(out->ids + out->n, ids, left * sizeof *ids);
    out->n += left;
    return WEIR_OK;
}
