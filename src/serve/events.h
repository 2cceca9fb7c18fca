/* serve/events.h - what replies say, and who writes it down.
 *
 * Every choice of a request is one reply (replier.h), which turns the engine's tokens into
 * events.  A dialect turns events into what its clients expect: frames as they come for a
 * stream, or one object at the end.  Both are driven by the same events, so that a stream
 * joins to the whole answer.
 *
 * Per choice, in this order:
 *
 *     BEGIN  (REASONING | CONTENT | CALL ARGUMENTS* CALL_END)*  END
 *
 * Choices interleave.  Then comes one end() for all of them, or fail() at any time instead:
 * nothing follows either.  Texts are whole characters, never empty, and borrowed for the call.
 * All calls of one dialect come from one thread, the engine's, and must not wait. */
#ifndef SERVE_EVENTS_H
#define SERVE_EVENTS_H

#include "serve/api_error.h"
#include "weir/request.h"

typedef enum reply_kind {
    REPLY_BEGIN,     /* the prompt has been read */
    REPLY_REASONING, /* text */
    REPLY_CONTENT,   /* text, with the log probabilities of the tokens it came from */
    REPLY_CALL,      /* a tool call opens: call, call_id, name */
    REPLY_ARGUMENTS, /* text: a piece of the JSON of call's arguments */
    REPLY_CALL_END,
    REPLY_END, /* finish, stop; log probabilities of tokens that gave no text */
} reply_kind;

typedef enum reply_finish { REPLY_STOP, REPLY_LENGTH, REPLY_TOOL_CALLS } reply_finish;

/* A token of the content with its log probability, and the likeliest in its place. */
typedef struct reply_logprob {
    weir_logprob chosen;
    uint32_t     n_top;
    weir_logprob top[20];
} reply_logprob;

/* Of all choices; the prompt counts once. */
typedef struct reply_usage {
    uint32_t prompt, cached; /* cached: of the prompt */
    uint32_t completion, reasoning;
    uint32_t drafted, accepted;
    double   wait_seconds, read_seconds, reply_seconds;
} reply_usage;

typedef struct reply_event {
    reply_kind           kind;
    uint32_t             choice;
    const char          *text;
    size_t               len;
    const reply_logprob *logprobs; /* [n_logprobs], those asked for only */
    uint32_t             n_logprobs;
    uint32_t             call; /* counts from 0 in each choice */
    const char          *call_id, *name;
    reply_finish         finish;
    const char          *stop; /* the stop string that was met, or NULL */
    const reply_usage   *now;  /* of this choice so far, where the job asks for it (watch); else NULL */
} reply_event;

/* Of the first prompt. */
typedef struct reply_progress {
    uint32_t total, cached, done; /* cached ones are among done */
    double   seconds;
} reply_progress;

typedef struct dialect dialect;
struct dialect {
    void (*event)(dialect *d, const reply_event *e);
    void (*end)(dialect *d, const reply_usage *u);
    void (*fail)(dialect *d, const api_error *e);
    void (*free)(dialect *d);
    /* Tokens of the prompt have been read, before any event; NULL: not wanted. */
    void (*progress)(dialect *d, const reply_progress *p);
};

#endif
