/* serve/anthropic.h - Anthropic's Messages: a dialect over the same path as Chat Completions.
 *
 * A request is rewritten to the fields of a chat (anthropic_chat), which then goes where chats
 * go: chat_request.h, generation.h, prompt.h.  What comes of it is written down as Messages. */
#ifndef SERVE_ANTHROPIC_H
#define SERVE_ANTHROPIC_H

#include "serve/server.h"

/* What a request says that a chat has no field for. */
typedef struct anthropic_form {
    bool stream, omit_thinking; /* omit_thinking: thinking blocks go out empty */
    bool marked;                /* something has a cache_control: usage tells what was cached anew */
    bool limit_thinking;        /* to thinking_budget tokens */

    uint32_t thinking_budget;
} anthropic_form;

/* Reads the body of /v1/messages into *chat, a body of /v1/chat/completions that the caller owns
 * (json_decref), also when it fails.  Pure.  False with *err filled, by the request's own fields. */
bool anthropic_chat(const json_t *body, json_t **chat, anthropic_form *form, api_error *err);

/* The tools alone, to the array *out: functions, the kinds that clients carry out themselves with
 * their schemas, and others as they are, for chat_request_read to leave out. */
bool anthropic_tools(const json_t *tools, json_t **out, bool *marked, api_error *err);
/* tool_choice, to those of a chat in `chat`. */
bool anthropic_tool_choice(const json_t *choice, json_t *chat, api_error *err);

/* ---- the writer ---- */

typedef struct anthropic_head {
    char     id[40], signature[32]; /* signature: of thinking blocks; nobody reads it again */
    char    *model;                 /* as the client said it; owned */
    bool     stream, omit_thinking;
    uint32_t max_tokens; /* 0: what the context holds */
    uint32_t kept;       /* of the prompt's tokens, how many the cache has afterwards, where that is to be told; 0 */
} anthropic_head;

/* A dialect of one choice that writes to `out`; takes what *head owns.  The job's events have to
 * tell `now` (job_options.watch).  NULL without memory. */
dialect *anthropic_writer_new(anthropic_head *head, const char *request_id, outlet *out);

/* The frame that keeps a silent stream alive. */
extern const char anthropic_ping[];

#endif
