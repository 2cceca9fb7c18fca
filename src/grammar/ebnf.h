/* grammar/ebnf.h - grammars as text, in the form that llama.cpp calls GBNF.
 *
 *   root  ::= "answer: " value ("," value){0,3}     # the text is one root
 *   value ::= [0-9]+ | "no\n"
 *
 * Rules are a name, "::=" and alternatives of sequences; what stands in a sequence is
 * a literal, a class of characters, "." (any character), a rule's name or a group in
 * parentheses, each with "*", "+", "?", "{m}", "{m,}" or "{m,n}" behind it if need be.
 * Escapes are \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH.  A rule ends where the
 * next one begins; line breaks mean nothing. */
#ifndef GRAMMAR_EBNF_H
#define GRAMMAR_EBNF_H

#include "grammar/automaton.h"

enum { EBNF_BYTES_MOST = 1 << 20, EBNF_DEPTH_MOST = 200, EBNF_REPEAT_MOST = 1 << 20 };

/* Adds the rules to an empty automaton and finishes it; its root is the rule "root".  Failures name
 * the line. */
weir_status ebnf_compile(automaton *a, const char *text, size_t len, weir_error *err);

#endif
