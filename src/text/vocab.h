/* text/vocab.h - the table of tokens: id -> bytes, bytes -> id.
 *
 * Filled once (vocab_add, vocab_index), then read-only and shared by threads.
 * Ordinary tokens are looked up here by their bytes; added tokens are stored
 * here too, but found by text through text/added.h, since an added token may
 * have the bytes of an ordinary one. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "base/status.h"

#include <stdbool.h>

/* Ids lie below this: sixteen times the family's vocabulary, and small enough
 * that one stray id cannot make the tables large. */
enum { VOCAB_MAX_IDS = 1 << 22 };

/* What a token is; a set.  0: no token has this id. */
enum { TOKEN_ORDINARY = 1, TOKEN_ADDED = 2, TOKEN_SPECIAL = 4 };

enum { TOKEN_NONE = UINT32_MAX }; /* no id */

typedef struct vocab_token {
    uint32_t off, len; /* in vocab.bytes */
} vocab_token;

typedef struct vocab_slot {
    uint32_t hash, id; /* id TOKEN_NONE: free */
} vocab_slot;

typedef struct vocab {
    uint8_t     *bytes; /* all tokens, one behind the other */
    size_t       n_bytes, bytes_cap;
    vocab_token *tokens; /* [size] */
    uint8_t     *kinds;  /* [size] */
    uint32_t     size;   /* largest id + 1 */
    uint32_t     cap;
    uint32_t     n_ordinary;
    vocab_slot  *slots; /* open addressing over ordinary tokens; NULL before vocab_index */
    uint32_t     mask;
} vocab;

void vocab_free(vocab *v); /* all zero is allowed, and is the empty vocabulary */

/* Adds a token with a copy of its bytes.  An id that is taken or past the
 * limit, and an empty token, are WEIR_FORMAT. */
weir_status vocab_add(vocab *v, uint32_t id, const uint8_t *bytes, size_t len, uint8_t kind, weir_error *err);

/* Makes ordinary tokens findable by their bytes.  Two with the same bytes are
 * WEIR_FORMAT.  Call once, after the last ordinary token. */
weir_status vocab_index(vocab *v, weir_error *err);

/* The ordinary token with these bytes, or TOKEN_NONE. */
uint32_t vocab_find(const vocab *v, const uint8_t *bytes, size_t len);

static inline uint8_t vocab_kind(const vocab *v, uint32_t id)
{
    return id < v->size ? v->kinds[id] : 0;
}

/* Borrowed; valid for ids with a kind only. */
static inline const uint8_t *vocab_bytes(const vocab *v, uint32_t id, size_t *len)
{
    *len = v->tokens[id].len;
    return v->bytes + v->tokens[id].off;
}

#endif
