/* tests/unit/grammar/rig.h - grammars over small vocabularies, and texts walked through them. */
#ifndef UNIT_GRAMMAR_RIG_H
#define UNIT_GRAMMAR_RIG_H

#include "grammar/grammar.h"

/* Every byte is a token (id = byte); then come these texts, each once. */
typedef struct vocabulary {
    trie     t;
    uint8_t *bytes; /* [n][16] */
    uint8_t *len;
    uint32_t n, words;
} vocabulary;

/* The 256 bytes and `more` pieces of 2 to 16 bytes that texts like JSON are made of, from the seed. */
void vocabulary_make(vocabulary *v, uint32_t more, uint64_t seed);
void vocabulary_free(vocabulary *v);

/* Fails the test with the message unless it compiles. */
grammar *compiled(const vocabulary *v, weir_grammar_kind kind, const char *text, const weir_grammar_options *opt);

/* The text is within the grammar, byte by byte to its end. */
bool accepts(grammar *g, const char *text, size_t n);

/* At every place of the text, token by token as the seed cuts it: the mask is what trying each token
 * says.  Returns whether the whole text is accepted; fails the test where mask and trial differ. */
bool accepts_by_tokens(const vocabulary *v, grammar *g, const char *text, size_t n, uint64_t seed, bool all_tokens);

#endif
