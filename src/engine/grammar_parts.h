/* engine/grammar_parts.h - a public grammar's insides. */
#ifndef ENGINE_GRAMMAR_PARTS_H
#define ENGINE_GRAMMAR_PARTS_H

#include "engine/engine_parts.h"

struct weir_grammar {
    const weir_model *m;
    grammar          *g;
};

/* A trie_bytes_fn; `user` is the model, which has a tokenizer. */
const uint8_t *grammar_token_bytes(const void *user, uint32_t id, size_t *len);

#endif
