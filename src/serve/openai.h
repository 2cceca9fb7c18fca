/* serve/openai.h - what Chat Completions and Completions share. */
#ifndef SERVE_OPENAI_H
#define SERVE_OPENAI_H

#include "serve/server.h"

/* Every frame of an answer repeats it. */
typedef struct openai_head {
    char              id[64];
    char             *model; /* as the client said it; owned */
    int64_t           created;
    const char       *fingerprint;
    const weir_model *weights; /* for the text of tokens */
} openai_head;

/* How a client wants its answer. */
typedef struct openai_form {
    bool stream, include_usage;
} openai_form;

/* Reads stream, stream_options and model.  False with *err filled; `head` is released with
 * openai_head_free in any case. */
bool openai_read_form(const server *s, const json_t *body, const char *id_prefix, openai_form *form, openai_head *head,
                      api_error *err);
void openai_head_free(openai_head *h);

/* `"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...,` */
void openai_put_head(const openai_head *h, const char *object, str *out);
/* `"usage":{...}` */
void        openai_put_usage(const reply_usage *u, str *out);
const char *openai_finish(reply_finish f);
/* `"stop"`, or null. */
void openai_put_stop(const char *stop, str *out);
/* Chat's form: `{"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]}` for each, with
 * commas between. */
void openai_put_logprobs(const weir_model *m, const reply_logprob *l, uint32_t n, str *out);
/* tool_choice "none": the model sees the tools, and cannot begin a call.  False without memory. */
bool openai_ban_tool_calls(const server *s, job_options *o, api_error *err);
/* A token's text as a JSON string, U+FFFD for what is no whole character. */
void openai_put_token(const weir_model *m, uint32_t id, str *out);

/* ---- the dialects ---- */

typedef struct chat_form {
    openai_form form;
    uint32_t    n;
    bool        logprobs;
} chat_form;

/* A dialect that writes to `out`; takes what *head owns.  NULL without memory. */
dialect *chat_writer_new(openai_head *head, const chat_form *form, const char *request_id, outlet *out);

typedef struct completions_form {
    openai_form form;
    uint32_t    n; /* choices in all */
    bool        logprobs;
    char      **echo; /* [n]: what precedes a choice's text, or NULL; taken */
} completions_form;

dialect *completions_writer_new(openai_head *head, const completions_form *form, const char *request_id, outlet *out);

#endif
