/* text/jinja_lex.h - template text to tokens, with Jinja2's white space rules.
 *
 * trim_blocks: one newline after a statement or comment goes.  lstrip_blocks:
 * blanks between the start of a line and a statement or comment go.  "-" inside
 * a tag strips all white space on that side, "+" keeps it. */
#ifndef TEXT_JINJA_LEX_H
#define TEXT_JINJA_LEX_H

#include "text/arena.h"

#include "base/status.h"

typedef enum jtoken_kind {
    T_END,
    T_TEXT,
    T_OUTPUT_BEGIN,
    T_OUTPUT_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_ASSIGN,
    T_DOT,
    T_COMMA,
    T_COLON,
    T_PIPE,
    T_LPAREN,
    T_RPAREN,
    T_LBRACKET,
    T_RBRACKET,
    T_LBRACE,
    T_RBRACE,
} jtoken_kind;

typedef struct jtoken {
    jtoken_kind kind;
    uint32_t    line;
    const char *p; /* T_TEXT, T_NAME, T_STRING (escapes resolved) */
    size_t      len;
    union {
        int64_t i;
        double  f;
    } u;
} jtoken;

typedef struct jtokens {
    jtoken *t; /* the last one is T_END */
    size_t  n, cap;
} jtokens;

/* Everything lives in `mem`.  `name` is for messages.  source: valid UTF-8. */
weir_status jinja_lex(jtokens *out, arena *mem, const char *source, size_t len, const char *name, weir_error *err);

/* "','", "a name", ... for messages. */
const char *jtoken_describe(jtoken_kind kind);

#endif
