/* grammar/masks.h - which tokens may come next.
 *
 * For each place that reads bytes, the vocabulary is walked once, with the calls below
 * the place taken to be unknown.  That settles nearly all tokens: they are kept as bits,
 * or as a list where they are few.  What is left are tokens that go past the end of
 * the place's rule, or past an edge that asks for data: they are kept as a list of
 * "from here on" (trie node and place), by the byte that comes next, and settled each
 * time with the calls as they are.
 *
 * All memory is taken once, as pages that cost nothing until they are used; where it
 * does not suffice, everything is forgotten and found again when it is needed. */
#ifndef GRAMMAR_MASKS_H
#define GRAMMAR_MASKS_H

#include "grammar/places.h"
#include "grammar/trie.h"

typedef struct mask_entry {
    uint64_t data;
    uint32_t node, next; /* the place; of the same hash */
    uint32_t dense;      /* slot of bits, or MASK_SPARSE: */
    uint32_t ids, n_ids; /* in the pool */
    uint32_t asks, n_asks;
    uint32_t by_byte;   /* in the pool of ids, where n_asks > 0: [257] where the asks of a byte begin */
    uint32_t one_place; /* the place of all asks; 0: they have several */
} mask_entry;

/* Whether the tokens at and below trie node `at` are allowed depends on what follows `place`. */
typedef struct mask_ask {
    uint32_t at, place;
} mask_ask;

/* Trie nodes first <= i < end. */
typedef struct mask_range {
    uint32_t first, end;
} mask_range;

typedef struct masks {
    const automaton *a;
    const trie      *t;
    uint32_t         words; /* of a set of tokens */
    void            *memory;
    size_t           memory_bytes;

    place_list *list;
    place_table below, here; /* with the calls unknown, and as they are */
    frames      below_frames;

    mask_entry *entries;
    uint32_t   *heads, n_entries;
    uint64_t   *dense; /* [DENSE_MOST][words] */
    uint64_t   *bits;  /* [words] of the walk */
    uint32_t   *ids;   /* pools */
    mask_ask   *asks;
    uint32_t    n_dense, n_ids, n_asks;
    mask_ask   *raw; /* of the walk, */
    mask_range *as;  /* and the parts of the tree where it is as without a limit */
    uint32_t    n_raw, n_as;
} masks;

weir_status masks_init(masks *m, const automaton *a, const trie *t, weir_error *err);
void        masks_free(masks *m); /* all zero is allowed */
/* Memory that is in use. */
size_t masks_bytes(const masks *m);

/* Adds to `bits` the tokens that may come at n places, whose calls are in f.
 * WEIR_INVALID: the grammar is too ambiguous. */
weir_status masks_add(masks *m, const place *p, uint32_t n, frames *f, uint64_t *bits, weir_error *err);

/* Settles beforehand what is sure to be asked and takes long. */
weir_status masks_warm(masks *m, weir_error *err);

#endif
