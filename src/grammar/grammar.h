/* grammar/grammar.h - a compiled grammar, and texts on their way through it.
 *
 * A grammar belongs to a vocabulary.  It may be shared by threads: what changes in it
 * are masks that are found once and kept, under a lock of its own. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "grammar/trie.h"
#include "weir/grammar.h"

#include <stdbool.h>

typedef struct grammar grammar;
typedef struct matcher matcher;

/* `t` must outlive the grammar.  `err` says what is wrong with the text, by place. */
weir_status grammar_compile(grammar **out, const trie *t, weir_grammar_kind kind, const char *text, size_t len,
                            const weir_grammar_options *opt, weir_error *err);
void        grammar_hold(grammar *g);    /* one more owner */
void        grammar_release(grammar *g); /* one less; the last frees it.  NULL is allowed */
size_t      grammar_bytes(grammar *g);   /* memory in use; grows as masks are found */

weir_status matcher_new(matcher **out, grammar *g, weir_error *err); /* holds g */
void        matcher_free(matcher *m);                                /* NULL is allowed */
/* `to` becomes equal to `from`, of the same grammar.  Allocates nothing. */
void matcher_copy(matcher *to, const matcher *from);

/* Moves on by some bytes; WEIR_INVALID, and nothing happens, where they do not fit. */
weir_status matcher_bytes(matcher *m, const uint8_t *bytes, size_t n, weir_error *err);
/* Sets in bits[ceil(n_ids / 64)] those of the tokens that may come, clears all others. */
weir_status matcher_mask(matcher *m, uint64_t *bits, weir_error *err);
bool        matcher_may_end(const matcher *m);
bool        matcher_must_end(const matcher *m); /* nothing can follow */
/* The bytes that come next whatever is chosen, at most `size`; returns how many. */
size_t matcher_forced(const matcher *m, uint8_t *bytes, size_t size);

#endif
