/* text/pretokenize.h - cutting text into pieces with the tokenizer's pattern.
 *
 * Every match is a piece and so is every gap between matches (the behaviour
 * "Isolated").  A compiled pattern is read-only and shared by threads; a cut
 * belongs to one call. */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct pretokenizer pretokenizer;

/* Compiles a pattern written in the dialect of the file format (Oniguruma).
 * A construct that would mean something else here is WEIR_UNSUPPORTED. */
weir_status pretokenizer_new(pretokenizer **out, const char *pattern, size_t len, weir_error *err);
void        pretokenizer_free(pretokenizer *p); /* NULL is allowed */

typedef struct pretoken_cut {
    const pretokenizer *p;
    void               *match; /* the library's match block, reused for all texts of a call */
    const char         *text;
    size_t              len;
    size_t              at;                     /* where the next piece begins */
    size_t              match_start, match_end; /* the match at or behind `at` */
} pretoken_cut;

weir_status pretoken_cut_init(pretoken_cut *c, const pretokenizer *p, weir_error *err);
void        pretoken_cut_free(pretoken_cut *c); /* all zero is allowed */

/* Starts on a text of valid UTF-8; borrowed until the last piece. */
void pretoken_cut_start(pretoken_cut *c, const char *text, size_t len);
/* Is there a piece left? */
static inline bool pretoken_cut_more(const pretoken_cut *c)
{
    return c->at < c->len;
}
/* The next piece is text[*start, *end), never empty. */
weir_status pretoken_cut_next(pretoken_cut *c, size_t *start, size_t *end, weir_error *err);

#endif
