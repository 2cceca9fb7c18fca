/* text/detok.h - token ids to text, as a stream of whole characters.
 *
 * A token may end inside a character.  What is incomplete is held back (at most
 * three bytes) until a later token completes it or shows that it never will;
 * then it becomes one U+FFFD for each maximal part of a character, the practice
 * the Unicode Standard recommends (3.9) and Python's errors="replace" follows.
 * The pieces joined are the text of all ids at once.
 *
 * An added token gives its text.  (The reference reads it in the byte alphabet
 * if it can, and so spoils an added token that is spelled with accents.) */
#ifndef TEXT_DETOK_H
#define TEXT_DETOK_H

#include "base/str.h"
#include "text/tokenizer.h"

/* A plain value: copying it forks the stream. */
typedef struct detok {
    const tokenizer *tokenizer; /* borrowed */
    bool             skip_special;
    uint8_t          held[3];
    uint8_t          n_held;
} detok;

void detok_init(detok *d, const tokenizer *t, bool skip_special);

/* Appends to `out` what is certain once this token is known.  An id that no
 * token has is WEIR_INVALID and changes nothing.  Memory is asked of `out` and
 * reported by str_status, which the caller asks. */
weir_status detok_push(detok *d, uint32_t id, str *out, weir_error *err);
/* The end of the stream: what is still held becomes U+FFFD. */
void detok_flush(detok *d, str *out);

/* The text of all ids: pushes and the flush in one. */
weir_status detok_all(const tokenizer *t, const uint32_t *ids, size_t n, bool skip_special, str *out, weir_error *err);

#endif
