/* serve/ollama.h - Ollama's API: /api/...
 *
 * A request is first said again in the names that the readers of all dialects know
 * (chat_request.h, generation.h); what is Ollama's own stays beside it.  Answers are one JSON
 * object a line, or one in all. */
#ifndef SERVE_OLLAMA_H
#define SERVE_OLLAMA_H

#include "serve/chat_request.h"
#include "serve/form.h"
#include "serve/server.h"

#include <time.h>

#define OLLAMA_LINES "application/x-ndjson"

/* ---- requests ---- */

typedef enum ollama_kind { OLLAMA_CHAT, OLLAMA_GENERATE } ollama_kind;

typedef struct ollama_request {
    json_t       *body;         /* for the shared readers; owned */
    reply_form    form;         /* of `format`; of the client's body */
    const char   *model;        /* as the client said it; of the client's body, as are the next two */
    const char   *prompt;       /* of OLLAMA_GENERATE with `raw` */
    const json_t *context;      /* token ids that precede the prompt, or NULL */
    bool          stream;       /* lines; otherwise one object */
    bool          raw;          /* the prompt as it is, without the template */
    bool          truncate;     /* drop the oldest turns of a chat that is too long */
    bool          load, unload; /* nothing is asked: is the model there?  unload: it may go */
    uint32_t      num_ctx;      /* tokens of prompt and reply; 0: as many as there is room for */
    bool          logprobs;
    uint32_t      top_logprobs;
} ollama_request;

/* Reads the body of /api/chat or /api/generate.  False with *err filled (API_NO_MODEL: the model
 * is not here).  Release with ollama_request_free in any case; `given` outlives it. */
bool ollama_request_read(const server *s, const json_t *given, ollama_kind kind, ollama_request *out, api_error *err);
void ollama_request_free(ollama_request *q);

/* How many turns of a chat can be left out: all but the last.  A turn begins with a message of
 * the user; what precedes the first one is a turn, too, where it is more than system messages. */
size_t ollama_count_turns(const json_t *messages);
/* The chat without its oldest n turns; system messages stay.  NULL without memory. */
json_t *ollama_drop_turns(const json_t *messages, size_t n);

/* ---- models ---- */

/* The served name that a body's `model` (or, older, `name`) means, in whatever case, with or
 * without ":latest": the model, an adapter, or MODEL:ADAPTER.  False: API_NO_MODEL in the words
 * that clients look for. *name is what the client said. */
bool ollama_find_model(const server *s, const json_t *body, const char **name, const char **served, api_error *err);

/* ---- answers ---- */

/* Seconds and nanoseconds of the day to a JSON string, RFC 3339 in UTC. */
void ollama_put_time(const struct timespec *t, str *out);
/* `"model":...,"created_at":...`, now. */
void ollama_put_head(const char *model, str *out);

typedef struct ollama_form {
    ollama_kind       kind;
    bool              stream, logprobs, thinking_open;
    const char       *model;   /* copied */
    const weir_model *weights; /* for the text of tokens, and `context` */
    const weir_ids   *prompt;  /* of a generation whose answer has a `context`, copied; or NULL */
} ollama_form;

/* A dialect that writes to `out`.  NULL without memory. */
dialect *ollama_writer_new(const ollama_form *form, const char *request_id, outlet *out);

#endif
