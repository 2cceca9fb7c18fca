/* text/added.h - finding added tokens (control spellings) in text.
 *
 * Leftmost-longest, with the four flags of tokenizer.json:
 *   single_word  only where no word character touches it
 *   lstrip       the match takes the white space before it along
 *   rstrip       ... and behind it
 *   normalized   looked for in normalised text (a set of its own)
 * A token is found only where all of its bytes are trusted. */
#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H

#include "base/status.h"

#include <stdbool.h>

typedef struct added_token {
    char    *text; /* owned by the set */
    uint32_t len, id;
    bool     single_word, lstrip, rstrip;
} added_token;

/* All zero is the empty set. */
typedef struct added_set {
    added_token *tokens; /* sorted by bytes once added_set_sort has run */
    uint32_t     n, cap;
    uint32_t     first[257]; /* tokens that begin with byte c: first[c] .. first[c + 1] */
} added_set;

void        added_set_free(added_set *s);
weir_status added_set_put(added_set *s, const added_token *t, weir_error *err); /* copies text */
/* Makes the set searchable.  Two tokens with one text are WEIR_FORMAT. */
weir_status added_set_sort(added_set *s, weir_error *err);

/* The token with exactly this text, or NULL. */
const added_token *added_find(const added_set *s, const char *text, size_t len);

typedef struct added_match {
    size_t   start, end; /* what the token takes, stripped white space included */
    uint32_t id;
} added_match;

/* Text to search; untrusted may be NULL: one byte a byte of text, not 0 where
 * a user wrote it. */
typedef struct added_text {
    const char    *text;
    size_t         len;
    const uint8_t *untrusted;
} added_text;

/* The first match at or behind `from`, where the last one ended. */
bool added_next(const added_set *s, const added_text *t, size_t from, added_match *out);

#endif
