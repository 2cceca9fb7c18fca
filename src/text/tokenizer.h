/* text/tokenizer.h - text to token ids: byte-level BPE as tokenizer.json describes it.
 *
 * The ids are those of Hugging Face tokenizers, bit for bit:
 *   1. added tokens that are not "normalized" are found in the text (text/added.h)
 *   2. what lies between is brought to NFC (text/normalise.h), and the other
 *      added tokens are found in it
 *   3. the rest is cut into pieces by the file's pattern (text/pretokenize.h)
 *   4. each piece is merged on its own (text/bpe.h)
 *
 * A tokenizer is immutable once open; any number of threads may use it. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "text/token_ids.h"

#include <stdbool.h>

typedef struct tokenizer tokenizer;

/* Opens a tokenizer.json.  WEIR_FORMAT: damaged.  WEIR_UNSUPPORTED: another
 * kind of model, normalizer, pre-tokenizer, decoder or pattern, named in the
 * message.  Truncation and padding in the file are the caller's matter and
 * ignored. */
weir_status tokenizer_open(tokenizer **out, const char *path, weir_error *err);
/* The same from memory; a NUL stands behind the text.  `name` is for messages. */
weir_status tokenizer_parse(tokenizer **out, const char *text, size_t len, const char *name, weir_error *err);

/* The lists of a tokenizer as GGUF files hold them; all borrowed. */
typedef struct tokenizer_string {
    const char *text; /* no NUL behind */
    size_t      len;
} tokenizer_string;
typedef struct tokenizer_lists {
    const char             *name;   /* of the file, for messages */
    tokenizer_string        pre;    /* which pattern cuts text: "qwen35", or "qwen2" of the generation before */
    const tokenizer_string *tokens; /* [n_tokens], in the file's alphabet but for added ones */
    const int32_t          *types;  /* [n_tokens]: 1 ordinary, 3 control, 4 user-defined, 5 unused */
    const tokenizer_string *merges; /* [n_merges], "left right" */
    uint32_t                n_tokens, n_merges;
} tokenizer_lists;

/* A tokenizer of lists.  Control tokens are special, user-defined ones added;
 * text is brought to NFC, as the family's own files ask for.  Statuses as above;
 * messages name the key ("tokenizer.ggml.tokens[7]"). */
weir_status tokenizer_from_lists(tokenizer **out, const tokenizer_lists *l, weir_error *err);
void        tokenizer_free(tokenizer *t); /* NULL is allowed */

/* The largest id + 1.  Rows of the model from there on have no token. */
uint32_t tokenizer_size(const tokenizer *t);

/* The token that is spelled exactly so, an added one first; `text` is plain
 * text (" the"), not the file's alphabet.  False: there is none. */
bool tokenizer_id(const tokenizer *t, const char *text, uint32_t *id);

/* The bytes a token stands for: the text of an added one.  Borrowed; NULL with
 * *len 0 for an id that no token has. */
const uint8_t *tokenizer_bytes(const tokenizer *t, uint32_t id, size_t *len);

bool tokenizer_is_added(const tokenizer *t, uint32_t id);
bool tokenizer_is_special(const tokenizer *t, uint32_t id); /* implies added */

enum { TOKENIZER_MAX_TEXT = 1 << 30 }; /* bytes */

/* Appends the ids of `text` to `out`; on failure `out` is as before.
 *   added      recognise added tokens
 *   untrusted  may be NULL; else one byte a byte of text, not 0 where it comes
 *              from a user.  An added token is recognised only where all of its
 *              bytes are trusted; all else is text, cut and merged across such
 *              borders as one text.
 * Text that is not UTF-8 or too long is WEIR_INVALID. */
weir_status tokenizer_encode(const tokenizer *t, const char *text, size_t len, const uint8_t *untrusted, bool added,
                             token_ids *out, weir_error *err);

#endif
