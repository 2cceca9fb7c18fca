/* grammar/encode.h - ranges of code points as edges over bytes. */
#ifndef GRAMMAR_ENCODE_H
#define GRAMMAR_ENCODE_H

#include "grammar/automaton.h"

enum { CODE_POINT_MOST = 0x10FFFF };

/* A character as UTF-8; or as it stands in a JSON string, where " and \ and the
 * characters below a blank are written in one way, the shortest. */
typedef enum encoding { ENCODE_PLAIN, ENCODE_JSON } encoding;

/* from --one character of lo..hi--> to.  Surrogates are no characters. */
void encode_range(automaton *a, uint32_t from, uint32_t lo, uint32_t hi, encoding e, uint32_t to);
/* Text (UTF-8) character by character. */
void encode_text(automaton *a, uint32_t from, const char *text, size_t n, encoding e, uint32_t to);
/* from --any character of a JSON string, escapes in all their forms--> to. */
void encode_json_any(automaton *a, uint32_t from, uint32_t to);

/* The first code point of n >= 1 bytes of valid UTF-8; *len its bytes. */
uint32_t utf8_decode(const char *s, size_t n, size_t *len);

#endif
