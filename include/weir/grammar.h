/* include/weir/grammar.h - texts that keep to a form: JSON, a schema, a pattern, a grammar.
 *
 * A grammar is compiled once and says at every place of a text which tokens may come
 * next.  Given to a generation (weir_generate_options.grammar) the reply is within it,
 * whatever the model would rather say; by itself it serves callers that sample on their
 * own. */
#ifndef WEIR_GRAMMAR_H
#define WEIR_GRAMMAR_H

#include "weir/model.h"

typedef enum weir_grammar_kind {
    /* A JSON Schema.  Known: type, nullable, properties, required, additionalProperties,
     * enum, const, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern,
     * format (date, time, date-time, uuid, email, ipv4), for integers minimum, maximum
     * and their exclusive forms, anyOf, oneOf (as anyOf), allOf, $ref, $defs.  Another
     * keyword that constrains is WEIR_UNSUPPORTED, by name and JSON pointer. */
    WEIR_GRAMMAR_JSON_SCHEMA,
    WEIR_GRAMMAR_JSON_OBJECT, /* any JSON object; the text is not looked at */
    WEIR_GRAMMAR_REGEX,       /* the whole reply matches; neither look-around nor back references */
    WEIR_GRAMMAR_EBNF,        /* rules "name ::= ...", beginning at "root", as llama.cpp has them (GBNF) */
    WEIR_GRAMMAR_CHOICE       /* one of the strings of a JSON array */
} weir_grammar_kind;

typedef struct weir_grammar_options {
    size_t size;      /* sizeof(weir_grammar_options): the struct may grow */
    bool   ordered;   /* properties come in the schema's order; else in any (objects of over 63 are always ordered) */
    bool   any_space; /* any white space where JSON allows it; else none, one blank, or a line break and an indent */
} weir_grammar_options;

#define WEIR_GRAMMAR_OPTIONS_INIT \
    { \
        .size = sizeof(weir_grammar_options) \
    }

typedef struct weir_grammar weir_grammar;

/* Compiles a grammar for the tokens of `m`; `opt` may be NULL.  The same text is
 * compiled once: the model keeps what it compiled lately.  On WEIR_OK the caller owns
 * *out and releases it with weir_grammar_free(); the model must outlive it.
 * WEIR_INVALID and WEIR_UNSUPPORTED say where in the text something is wrong, or that
 * it needs too much; no text takes more than some seconds.  Any thread. */
WEIR_API weir_status weir_grammar_compile(weir_grammar **out, const weir_model *m, weir_grammar_kind kind,
                                          const char *text, size_t len, const weir_grammar_options *opt,
                                          weir_error *err);
WEIR_API void        weir_grammar_free(weir_grammar *g); /* NULL is allowed; matchers may be left */

/* A text on its way through a grammar.  One thread at a time. */
typedef struct weir_matcher weir_matcher;

WEIR_API weir_status weir_matcher_new(weir_matcher **out, const weir_grammar *g, weir_error *err);
/* A second one that stands where `m` does. */
WEIR_API weir_status weir_matcher_fork(weir_matcher **out, const weir_matcher *m, weir_error *err);
WEIR_API void        weir_matcher_free(weir_matcher *m); /* NULL is allowed */

/* The token comes next; an end id of the model ends the text.  WEIR_INVALID, and
 * nothing happens, when it is not allowed. */
WEIR_API weir_status weir_matcher_accept(weir_matcher *m, uint32_t id, weir_error *err);
/* Which tokens may come next, end ids among them where the text may end: bit id % 64 of
 * bits[id / 64].  n_words is at least (vocab_size + 63) / 64; all of them are written. */
WEIR_API weir_status weir_matcher_mask(weir_matcher *m, uint64_t *bits, size_t n_words, weir_error *err);
WEIR_API bool        weir_matcher_may_end(const weir_matcher *m);
/* The text is complete: an end id was accepted, or nothing else may follow. */
WEIR_API bool weir_matcher_is_terminated(const weir_matcher *m);
/* Writes the bytes that come next in any case, at most `size`, and returns how many. */
WEIR_API size_t weir_matcher_forced_prefix(const weir_matcher *m, uint8_t *bytes, size_t size);

#endif
