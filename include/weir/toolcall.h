/* include/weir/toolcall.h - what a reply says, as events: reasoning, content, tool calls.
 *
 * The models write a call as
 *
 *   <tool_call>
 *   <function=NAME>
 *   <parameter=KEY>
 *   VALUE
 *   </parameter>
 *   </function>
 *   </tool_call>
 *
 * of which <tool_call> and </tool_call> are tokens of their own and all else is
 * text; or as one JSON object {"name": ..., "arguments": ...} between the two.
 * A parser follows a reply token by token and tells its events in order:
 *
 *   - only the token opens a call; or <function=NAME> at the beginning of a line
 *     with a declared NAME.  Without tools there are no calls, and tags are text;
 *   - white space before a call and between calls belongs to nobody; what else is
 *     outside of calls is content, and what stands between the parameters of a
 *     call is content behind it;
 *   - a value loses one newline at either end, and nothing else.  It ends at the
 *     first </parameter> that is followed by another tag of the call, so it may
 *     speak of tags.  Tags that were left out are made up for;
 *   - arguments are a JSON object in the order of the reply, without spaces.  A
 *     value has the type that the tool's schema gives it: null, boolean, integer,
 *     number, array or object, and otherwise a string, in this order of trial.
 *     The digits of numbers stay as they are.  What has another type than it should
 *     is passed on as a string, and what the schema says is a string is one,
 *     whatever it looks like.  Of two values with one key the first counts;
 *   - a block without a name is content, every byte of it;
 *   - a call that is begun while reasoning counts if the reasoning is not closed
 *     behind it, or nothing at all follows; otherwise it is a part of the
 *     reasoning.  Which it is, is known (and told) when more comes or the reply ends.
 *
 * How a reply was cut into tokens or pieces changes how its text is cut into
 * events and nothing else.  One parser serves one reply on one thread. */
#ifndef WEIR_TOOLCALL_H
#define WEIR_TOOLCALL_H

#include "weir/text.h"

typedef enum weir_toolcall_kind {
    WEIR_TOOLCALL_REASONING, /* text */
    WEIR_TOOLCALL_CONTENT,   /* text */
    WEIR_TOOLCALL_BEGIN,     /* index, name, id */
    WEIR_TOOLCALL_ARGUMENTS, /* index, text: a piece of the JSON object */
    WEIR_TOOLCALL_END        /* index: the call is complete, and so are its arguments */
} weir_toolcall_kind;

/* Strings are borrowed until the callback returns.  `text` is never empty; it
 * ends within a character only where the caller's text did. */
typedef struct weir_toolcall_event {
    weir_toolcall_kind kind;
    const char        *text;
    size_t             text_len;
    uint32_t           index; /* of the call: 0, 1, ... */
    const char        *name;  /* without surrounding white space or quotes */
    const char        *id;    /* "call_" and 24 letters and digits */
} weir_toolcall_event;

/* Must not call the parser. */
typedef void weir_toolcall_fn(void *user, const weir_toolcall_event *e);

/* Fills `bytes` with n random bytes; false when there are none. */
typedef bool weir_random_fn(void *user, void *bytes, size_t n);

typedef struct weir_toolcall_options {
    size_t size; /* sizeof(weir_toolcall_options): the struct may grow */
    /* Array of tools as in a request: {"type":"function","function":{name, parameters}}, or the
     * inner object alone.  Copied.  NULL or []: none. */
    const char *tools_json;
    /* Ids of <tool_call>, </tool_call>, <think>, </think> (weir_toolcall_tags); UINT32_MAX: no such token. */
    uint32_t        tool_open, tool_close, think_open, think_close;
    bool            thinking_open;      /* the reply begins with reasoning (weir_prompt) */
    bool            undeclared_is_text; /* a call of no declared tool is content */
    const char     *id_prefix;          /* at most 16 bytes, copied; NULL: "call_" */
    weir_random_fn *random;             /* of the ids; NULL: the system's */
    void           *random_user;
} weir_toolcall_options;

#define WEIR_TOOLCALL_OPTIONS_INIT \
    { \
        .size = sizeof(weir_toolcall_options), .tool_open = UINT32_MAX, .tool_close = UINT32_MAX, \
        .think_open = UINT32_MAX, .think_close = UINT32_MAX \
    }

/* The ids of the four tags in the model's tokenizer. */
WEIR_API void weir_toolcall_tags(const weir_model *m, weir_toolcall_options *opt);

typedef struct weir_toolcall_parser weir_toolcall_parser;

/* On WEIR_OK the caller owns *out (weir_toolcall_free).  WEIR_INVALID names what
 * is wrong with the tools.  `fn` is called with `user` from the functions below. */
WEIR_API weir_status weir_toolcall_new(weir_toolcall_parser **out, const weir_toolcall_options *opt,
                                       weir_toolcall_fn *fn, void *user, weir_error *err);
WEIR_API void        weir_toolcall_free(weir_toolcall_parser *p); /* NULL is allowed */

/* The next token, as a weir_token_fn is given it: its id (UINT32_MAX: none), the
 * UTF-8 text that it brings, whether that is reasoning.  The text of a tag may
 * follow text of earlier tokens.  Bytes that no UTF-8 has become U+FFFD.
 * WEIR_NO_MEMORY is the only failure here and below, and stays. */
WEIR_API weir_status weir_toolcall_token(weir_toolcall_parser *p, uint32_t id, const char *text, size_t len,
                                         bool reasoning, weir_error *err);

/* The same for a caller without token ids: text, and the tags between it. */
typedef enum weir_toolcall_tag {
    WEIR_TAG_TOOL_OPEN,
    WEIR_TAG_TOOL_CLOSE,
    WEIR_TAG_THINK_OPEN,
    WEIR_TAG_THINK_CLOSE
} weir_toolcall_tag;

WEIR_API weir_status weir_toolcall_text(weir_toolcall_parser *p, const char *text, size_t len, bool reasoning,
                                        weir_error *err);
WEIR_API weir_status weir_toolcall_mark(weir_toolcall_parser *p, weir_toolcall_tag tag, weir_error *err);

/* The reply is over.  `complete`: it ended by itself (WEIR_FINISH_STOP), and an
 * open call is closed.  Otherwise it was cut off, and an open call stays without
 * its end.  Nothing may be given to the parser afterwards. */
WEIR_API weir_status weir_toolcall_finish(weir_toolcall_parser *p, bool complete, weir_error *err);

typedef struct weir_toolcall_info {
    uint32_t    calls;      /* complete ones */
    uint32_t    repairs;    /* tags that were missing, doubled or without a partner */
    uint32_t    malformed;  /* blocks that are content now */
    uint32_t    duplicates; /* values dropped for their key */
    const char *unfinished; /* the call that was cut off, as the model wrote it; "" if none.  Borrowed */
    size_t      unfinished_len;
} weir_toolcall_info;

WEIR_API void weir_toolcall_get_info(const weir_toolcall_parser *p, weir_toolcall_info *out);

/* ---- the whole reply at once ---- */

typedef struct weir_message_call {
    char *id, *name, *arguments; /* arguments: JSON text of an object */
} weir_message_call;

/* A reply as one message.  All zero is empty; release with weir_message_free.
 * Strings end in NUL, and are NULL where there is no text of the kind. */
typedef struct weir_message {
    char              *reasoning, *content;
    size_t             reasoning_len, content_len;
    weir_message_call *calls; /* complete ones */
    size_t             n_calls;
    char              *unfinished; /* as in weir_toolcall_info */
    size_t             unfinished_len;
} weir_message;

WEIR_API void weir_message_free(weir_message *m);

/* Parses the text of a reply in which tags, also <think> and </think>, stand as they are spelled.
 * `complete` as for weir_toolcall_finish(); the ids of `opt` are not used. */
WEIR_API weir_status weir_message_parse(weir_message *out, const weir_toolcall_options *opt, const char *text,
                                        size_t len, bool complete, weir_error *err);

#endif
