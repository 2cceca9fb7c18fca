/* grammar/regex_parts.h - an expression as a tree; for the two files that make and read it. */
#ifndef GRAMMAR_REGEX_PARTS_H
#define GRAMMAR_REGEX_PARTS_H

#include "grammar/regex.h"

typedef enum part_kind {
    PART_SET,    /* one character of `set` */
    PART_ALL,    /* the children, one behind the other */
    PART_ANY,    /* one of the children */
    PART_REPEAT, /* the child, least to most times */
} part_kind;

enum { PART_NONE = UINT32_MAX };

typedef struct regex_part {
    part_kind kind;
    uint32_t  child, next; /* the first child; the next of the same parent */
    uint32_t  set;
    uint32_t  least, most;
} regex_part;

typedef struct regex_tree {
    regex_part *parts;
    char_set   *sets;
    uint32_t    n_parts, n_sets, cap_parts, cap_sets, root;
} regex_tree;

void regex_tree_free(regex_tree *t);
/* regex_tree_parse: text to tree; regex_tree_dfa: tree to automaton. */
weir_status regex_tree_parse(regex_tree *t, const char *text, size_t len, bool search, weir_error *err);
weir_status regex_tree_dfa(char_dfa *out, const regex_tree *t, weir_error *err);

#endif
