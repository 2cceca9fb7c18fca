/* grammar/char_dfa.h - deterministic automata over characters.
 *
 * Patterns become these before they become bytes: here they can be intersected,
 * limited in length, and looked at without regard to how a character is written. */
#ifndef GRAMMAR_CHAR_DFA_H
#define GRAMMAR_CHAR_DFA_H

#include "grammar/encode.h"

enum { CHAR_DFA_STATES_MOST = 1 << 14, CHAR_DFA_RANGES_MOST = 1 << 17, CHAR_DFA_NONE = UINT32_MAX };

/* lo..hi lead to `to`. */
typedef struct char_range {
    uint32_t lo, hi, to;
} char_range;

typedef struct char_state {
    uint32_t first, n; /* ranges, in order and disjoint */
    bool     accepts;
} char_state;

/* State 0 is the start.  Ranges of a state are added together. */
typedef struct char_dfa {
    char_state *states;
    char_range *ranges;
    uint32_t    n_states, n_ranges, cap_states, cap_ranges;
} char_dfa;

void char_dfa_free(char_dfa *d); /* all zero is allowed */

/* Adds a state / a range to the state that was begun last.  WEIR_INVALID: too many. */
weir_status char_dfa_state(char_dfa *d, weir_error *err);
void        char_dfa_begin(char_dfa *d, uint32_t state);
weir_status char_dfa_range(char_dfa *d, uint32_t state, char_range r, weir_error *err);

/* *out: what both accept. */
weir_status char_dfa_and(char_dfa *out, const char_dfa *a, const char_dfa *b, weir_error *err);
/* *out: what d accepts and has `least` to `most` characters (DATA_MANY: any number). */
weir_status char_dfa_length(char_dfa *out, const char_dfa *d, uint32_t least, uint32_t most, weir_error *err);
/* *out: all texts but the n given ones (UTF-8). */
weir_status char_dfa_but(char_dfa *out, const char *const *texts, size_t n, weir_error *err);

/* from --a text that d accepts--> to. */
weir_status char_dfa_emit(const char_dfa *d, automaton *a, uint32_t from, encoding e, uint32_t to, weir_error *err);

#endif
