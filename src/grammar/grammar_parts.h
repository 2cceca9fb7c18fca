/* grammar/grammar_parts.h - a grammar's insides, for the files that use them. */
#ifndef GRAMMAR_GRAMMAR_PARTS_H
#define GRAMMAR_GRAMMAR_PARTS_H

#include "grammar/masks.h"

#include <pthread.h>

struct grammar {
    automaton       a;
    const trie     *t;
    pthread_mutex_t lock; /* of everything below, and of the scratch in masks */
    masks           masks;
    uint32_t        owners;
};

#endif
