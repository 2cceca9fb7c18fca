/* serve/form.h - the form that a reply is to keep to: JSON, a schema, a pattern, a grammar.
 *
 * First it is read from the request (pure), then compiled for the model, by the listener's
 * thread: what is wrong with it is told before the answer begins.  The model keeps what it
 * compiled lately, so that the same form costs nothing the next time. */
#ifndef SERVE_FORM_H
#define SERVE_FORM_H

#include "serve/job.h"

#include <jansson.h>

typedef struct reply_form {
    bool              given; /* else the reply is free, and nothing below counts */
    weir_grammar_kind kind;
    const json_t     *value;     /* what is compiled, or a string with its text; borrowed from the request */
    bool              ordered;   /* weir_grammar_options */
    bool              any_space; /* the same */
    char              where[96]; /* the field, for messages */
} reply_form;

/* How a dialect writes the one value that says it. */
typedef enum form_style {
    FORM_TYPED, /* {"type":"text" | "json_object" | "json_schema", ...}, the schema beside it or in json_schema:
                   OpenAI's response_format, Responses' text.format, Anthropic's output_format */
    FORM_BARE   /* "json", or a schema itself; "" is none: Ollama's format */
} form_style;

/* Reads one value; `where` is its field.  NULL and JSON's null are no form.  False with *err filled. */
bool form_read_value(form_style style, const json_t *value, const char *where, reply_form *out, api_error *err);

/* Reads the body of a request in OpenAI's way: response_format, and what vLLM and llama.cpp
 * have on top.  All are looked at; the first in the order of docs/SERVE.md counts.  False with
 * *err filled. */
bool form_read(const json_t *body, reply_form *out, api_error *err);

/* Compiles it into o->grammar, which is NULL without a form; what was there is released.  `m` is not
 * touched without one.  Takes some seconds at worst.  False with *err filled: it names the field, and
 * the place in the form. */
bool form_apply(const weir_model *m, const reply_form *f, job_options *o, api_error *err);

#endif
