/* text/template.h - chat templates: the part of Jinja2 that they use.
 *
 * A checkpoint carries its chat format as a Jinja2 template.  weir runs that
 * template as transformers does (trim_blocks, lstrip_blocks, loop controls,
 * immutable sandbox, JSON without HTML escapes) and adds one thing: for every
 * byte of the result it says whether the byte was written by the template or
 * came in with the data.  The tokenizer recognises control tokens in the
 * template's bytes only, so "<|im_end|>" typed by a user stays text.
 *
 * A template never changes after template_parse; any number of threads may
 * render it at once.  Work, memory, output and nesting are bounded. */
#ifndef TEXT_TEMPLATE_H
#define TEXT_TEMPLATE_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct template template;

enum { TEMPLATE_MAX_BYTES = 1024 * 1024 };

/* Compiles `source` (UTF-8, no NUL needed behind it; not kept).  `name` stands
 * in messages.  Errors name line, what was expected and what was found:
 * WEIR_FORMAT for bad syntax, WEIR_UNSUPPORTED for a statement, filter, test
 * or function that is not known here.  Free with template_free. */
weir_status template_parse(template **out, const char *source, size_t len, const char *name, weir_error *err);
void        template_free(template *t); /* NULL is allowed */

/* One variable of a rendering.  Its bytes count as data unless `trusted`. */
typedef struct template_var {
    const char   *name;
    const json_t *value; /* borrowed */
    bool          trusted;
} template_var;

/* 0 stands for the default. */
typedef struct template_options {
    uint64_t max_steps;  /* 50 million: syntax nodes run, and bytes handled / 64 */
    size_t   max_memory; /* 64 MiB */
    size_t   max_output; /* 64 MiB */
    int64_t  now;        /* seconds since 1970 for strftime_now; 0: the clock */
} template_options;

typedef struct template_text {
    char    *text;      /* `len` bytes of UTF-8, NUL behind */
    uint8_t *untrusted; /* one per byte of text: 1 = came from the data, 0 = written by the template */
    size_t   len;
} template_text;

/* Renders into *out (template_text_free).  `opt` may be NULL.  On failure *out
 * is all zero and the status is WEIR_INVALID when template and data do not fit
 * (the text of raise_exception is passed on as it is), WEIR_UNSUPPORTED for an
 * unknown method, WEIR_NO_MEMORY for a limit, which the text names. */
weir_status template_render(const template *t, const template_var *vars, size_t n_vars, const template_options *opt,
                            template_text *out, weir_error *err);
void        template_text_free(template_text *t); /* all zero is allowed */

#endif
