/* grammar/regex.h - regular expressions, as far as they are regular.
 *
 * Characters, ".", classes, \d \w \s and their opposites, groups, "|", "*", "+", "?",
 * "{m}", "{m,}", "{m,n}"; "^" and "$" at the ends of the whole or of its alternatives.
 * Greedy and lazy are one: both match the same texts.  What looks around, looks back
 * or means Unicode's classes is refused by name. */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include "grammar/char_dfa.h"

enum { REGEX_BYTES_MOST = 1 << 16, REGEX_DEPTH_MOST = 200, REGEX_REPEAT_MOST = 10000 };

/* `search`: the expression may match anywhere in the text unless "^" and "$" say otherwise, as JSON
 * Schema has it; else it must match the whole.  WEIR_INVALID names the offset; WEIR_UNSUPPORTED
 * what is not known here. */
weir_status regex_parse(char_dfa *out, const char *text, size_t len, bool search, weir_error *err);

/* Ranges of characters, in order and disjoint. */
typedef struct char_set {
    struct {
        uint32_t lo, hi;
    } * r;
    uint32_t n, cap;
} char_set;

void        char_set_free(char_set *s); /* all zero is allowed */
weir_status char_set_add(char_set *s, uint32_t lo, uint32_t hi, weir_error *err);
/* Sorts and joins; `inverted`: all that is not in it. */
weir_status char_set_finish(char_set *s, bool inverted, weir_error *err);
/* The class that \d, \D, \w, \W, \s or \S stands for, added; false for another letter. */
bool char_set_class(char_set *s, char letter, weir_status *st, weir_error *err);

#endif
