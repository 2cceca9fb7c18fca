/* grammar/trie.h - the vocabulary as a tree of bytes, in the order of a walk.
 *
 * Tokens that begin with the same bytes are read together, and where the first of
 * those bytes is not allowed all of them are skipped at once. */
#ifndef GRAMMAR_TRIE_H
#define GRAMMAR_TRIE_H

#include "base/status.h"

enum { TRIE_NO_TOKEN = UINT32_MAX, TRIE_DEPTH_MOST = 254 };

typedef struct trie_node {
    uint32_t id;   /* of the token that ends here, or TRIE_NO_TOKEN */
    uint32_t skip; /* the first node that is not below this one */
    uint8_t  byte;
    uint8_t  depth;  /* bytes before this one */
    uint8_t  height; /* most bytes that follow below */
} trie_node;

typedef struct trie {
    trie_node *nodes; /* in pre-order */
    uint32_t   n;
    uint32_t   n_ids;   /* of the vocabulary */
    uint32_t   longest; /* token, in bytes */
} trie;

/* The bytes of token `id`; NULL: it is none that a grammar may use. */
typedef const uint8_t *trie_bytes_fn(const void *user, uint32_t id, size_t *len);

/* Tokens longer than TRIE_DEPTH_MOST bytes are left out, and so are never allowed. */
weir_status trie_make(trie *out, uint32_t n_ids, trie_bytes_fn *bytes, const void *user, weir_error *err);
void        trie_free(trie *t); /* all zero is allowed */

#endif
