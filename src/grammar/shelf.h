/* grammar/shelf.h - a vocabulary's tree and the grammars that were compiled lately.
 *
 * Both are made when they are first asked for.  Any thread. */
#ifndef GRAMMAR_SHELF_H
#define GRAMMAR_SHELF_H

#include "grammar/grammar.h"

enum { SHELF_GRAMMARS_MOST = 256 };
#define SHELF_BYTES_MOST ((size_t)64 << 20)

typedef struct shelf shelf;

/* `bytes` and `user` as for trie_make; both must outlive the shelf. */
weir_status shelf_new(shelf **out, uint32_t n_ids, trie_bytes_fn *bytes, const void *user, weir_error *err);
void        shelf_free(shelf *s); /* NULL is allowed; no grammar of it may be left */

/* Compiles it, unless it is there.  The caller owns a share of *out: grammar_release. */
weir_status shelf_compile(shelf *s, grammar **out, weir_grammar_kind kind, const char *text, size_t len,
                          const weir_grammar_options *opt, weir_error *err);

#endif
