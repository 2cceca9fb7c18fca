/* text/toolcall_parts.h - the insides of the parser of weir/toolcall.h.
 *
 *   toolcall.c         tokens and marks in, events out, what to make of calls while reasoning
 *   toolcall_scan.c    the state machine over text and marks
 *   toolcall_schema.c  which tools there are, and which types their parameters have
 *   toolcall_value.c   the text of a value to JSON
 *   toolcall_message.c a whole reply at once
 *
 * Text waits in `in` until it is certain what it is: every decision looks at the
 * text from a place on, and is put off while more text could change it.  So it
 * cannot depend on where the text was cut. */
#ifndef TEXT_TOOLCALL_PARTS_H
#define TEXT_TOOLCALL_PARTS_H

#include "base/json.h"
#include "base/str.h"
#include "weir/toolcall.h"

/* The tags that are tokens, as bytes that no UTF-8 has; what a caller writes of them becomes U+FFFD. */
enum { MARK_OPEN = 0xff, MARK_CLOSE = 0xfe, MARKS_FROM = 0xf8 };

/* Types of a value, to be or-ed. */
enum {
    TYPE_NULL    = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER  = 8,
    TYPE_ARRAY   = 16,
    TYPE_OBJECT  = 32,
    TYPE_STRING  = 64,
    TYPE_ANY     = 0 /* the schema says nothing */
};

typedef struct name_span {
    const char *s;
    size_t      len;
} name_span;

/* ---- toolcall_schema.c ---- */

typedef struct tool_set {
    json_doc doc;
    size_t   n;
} tool_set;

/* WEIR_INVALID names the entry that is no tool.  `text` NULL: none. */
weir_status tools_parse(tool_set *t, const char *text, weir_error *err);
void        tools_free(tool_set *t); /* all zero is allowed */
/* The function object of that name, or NULL. */
const json_t *tools_find(const tool_set *t, name_span name);
/* Its schema says of which types `key` may be; TYPE_ANY when it says nothing.  `tool` may be NULL. */
unsigned tool_types(const json_t *tool, name_span key);
/* False only when the tool lists its parameters and `key` is none of them. */
bool tool_has_parameter(const json_t *tool, name_span key);

/* ---- toolcall_value.c ---- */

/* Appends text as the inside of a JSON string. */
void value_escape(str *out, const char *s, size_t n);
/* Appends a value as JSON, of one of the types if it can be read so, else as a string. */
void value_put(str *out, const char *s, size_t n, unsigned types);
/* The object or array that is all of s, to compact JSON; `python`: also with single
 * quotes, True, False, None and trailing commas.  False, and `out` as before, when it is none. */
bool value_compact(str *out, const char *s, size_t n, bool python);
/* The value of a member in a compact object; NULL when it has none of the name. */
name_span value_member(const char *s, size_t n, const char *name);
/* A compact JSON string's text. */
void value_unescape(str *out, name_span string);

/* ---- the machine ---- */

typedef enum scan_state {
    SCAN_TEXT,    /* outside of calls */
    SCAN_OPEN,    /* behind <tool_call> */
    SCAN_JSON,    /* in an object behind it */
    SCAN_BETWEEN, /* in a call, outside of its values */
    SCAN_VALUE
} scan_state;

/* Where reading stands in relation to a call that was begun while reasoning. */
typedef enum draft_state {
    DRAFT_NONE,
    DRAFT_OPEN,  /* it waits: the reasoning may still be closed */
    DRAFT_CLOSED /* it was closed, and nothing followed yet */
} draft_state;

struct weir_toolcall_parser {
    weir_toolcall_fn     *fn;
    void                 *user;
    weir_toolcall_options opt; /* its strings apart */
    char                  id_prefix[17];
    tool_set              tools;
    weir_toolcall_info    info;
    bool                  no_ids; /* the system gave no random bytes */
    bool                  failed; /* some text was lost for want of memory */

    bool        reasoning; /* the reply is inside of it, as far as it is known */
    draft_state drafting;
    str         draft, tail; /* what waits: the call and what follows it; white space behind the close */

    str    in; /* not yet decided, from `at` on */
    size_t at;
    bool   ended; /* no more will come */

    scan_state    state;
    str           raw;    /* of the block or call so far, to be content if it is none, or `unfinished` */
    const json_t *tool;   /* of the call; NULL: not declared */
    str           keys;   /* of the call, a newline behind each */
    str           stray;  /* text between parameters */
    str           value;  /* text of a value that is not a string for certain */
    unsigned      types;  /* of the value */
    uint32_t      index;  /* of the call */
    bool          by_tag; /* the call was opened by its token: the closing one will come */

    bool     streams, dropped; /* the value: is told as it comes; has the key of an earlier one */
    bool     fresh, line;      /* nothing of it was read; the next byte begins a line */
    size_t   ahead;            /* bytes behind a </parameter> that may not be the end, read so far; 0: none */
    size_t   candidate;        /* bytes of that tag */
    unsigned returns;          /* times that reading went back to one, in this call */

    size_t scanned; /* of a JSON object: bytes read, */
    int    depth;   /* brackets open */
    char   quote;   /* and the quote that is open, or 0 */

    str  space;      /* white space of the text that a call would swallow */
    bool text_line;  /* in the text: nothing but blanks since the line began */
    bool after_call; /* nothing but white space since a call */
    bool said;       /* some content was told */
    bool malformed;  /* since a block that is content: its closing tag is content, too */

    str                out; /* text of one kind that is not yet told */
    weir_toolcall_kind out_kind;
};

/* Empties a text of the parser; that it was not whole is not forgotten. */
static inline void toolcall_clear(weir_toolcall_parser *p, str *text)
{
    p->failed = p->failed || text->failed;
    str_clear(text);
}

/* toolcall.c: text of an event; adjacent ones are joined.  toolcall_out gives the
 * place to append it to. */
str *toolcall_out(weir_toolcall_parser *p, weir_toolcall_kind kind);
void toolcall_put(weir_toolcall_parser *p, weir_toolcall_kind kind, const char *s, size_t n);
void toolcall_flush(weir_toolcall_parser *p);
void toolcall_begin(weir_toolcall_parser *p, name_span name);
void toolcall_end(weir_toolcall_parser *p);

/* toolcall_scan.c: decides as much of `in` as can be decided. */
void scan_run(weir_toolcall_parser *p);
/* No more will come.  `complete`: an open call is closed; else it is left in `raw`. */
void scan_finish(weir_toolcall_parser *p, bool complete);
/* Text with marks to text as it is spelled. */
void scan_spell(str *out, const char *s, size_t n);

#endif
