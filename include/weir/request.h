/* include/weir/request.h - many generations at once on one engine.
 *
 * Requests are queued and join the engine's steps when there is room: a step is
 * one pass over the weights for the next tokens of all replies, the drafts that
 * are checked with them, and a chunk of the prompts that are still being read.
 * What a request gives is the same, to the last bit, as if it ran alone.
 *
 * One thread at a time uses an engine, its sequences and its requests; the
 * callbacks run inside weir_engine_step() and weir_generate().  A callback may
 * submit and cancel requests, and ask for infos; it must not free any, nor use a
 * sequence, nor call for a step or a flush: what can fail then says WEIR_INVALID and
 * does nothing. */
#ifndef WEIR_REQUEST_H
#define WEIR_REQUEST_H

#include "weir/generate.h"

typedef struct weir_request weir_request;

typedef struct weir_request_options {
    size_t                       size;   /* sizeof(weir_request_options): the struct may grow */
    const uint32_t              *prompt; /* n_prompt >= 1 token ids; copied */
    size_t                       n_prompt;
    const weir_generate_options *generate; /* NULL: defaults; what it points to must live as long as the request */
    int32_t                      priority; /* -100 to 100; higher goes first, equals in order of arrival */
    bool                         no_cache; /* neither use the prefix cache nor leave anything in it */

    const weir_adapter_choice *adapters; /* n_adapters of the engine's, at most WEIR_MAX_ADAPTERS; copied */
    size_t                     n_adapters;

    weir_token_fn    *token;    /* as for weir_generate(); NULL is allowed */
    weir_progress_fn *progress; /* after each chunk of the prompt: tokens done (cached ones included), of how many; the
                                                last call follows the first token.  NULL is allowed */
    void *user;                 /* for both */
} weir_request_options;

#define WEIR_REQUEST_OPTIONS_INIT \
    { \
        .size = sizeof(weir_request_options) \
    }

typedef enum weir_request_state {
    WEIR_REQUEST_WAITING, /* for room */
    WEIR_REQUEST_READING, /* its prompt */
    WEIR_REQUEST_REPLYING,
    WEIR_REQUEST_DONE
} weir_request_state;

/* How a request is going; complete when state is WEIR_REQUEST_DONE. */
typedef struct weir_request_info {
    weir_request_state state;
    weir_status        status;                     /* WEIR_OK, WEIR_CANCELLED, or what went wrong, */
    const char        *error;                      /* in words; "" with WEIR_OK.  Borrowed from the request */
    uint32_t           prompt_tokens, read_tokens; /* read: of the prompt, cached ones included */
    uint32_t           cached_tokens;              /* of the prompt, taken from the prefix cache */
    uint32_t known_tokens; /* of the prompt, as far as the cache had seen it; it continues from cached_tokens */
    uint32_t known_other;  /* the token that memory had next instead of the prompt's; UINT32_MAX: none */
    weir_generate_result reply;
    double               wait_seconds, read_seconds, reply_seconds;
} weir_request_info;

/* Queues a request.  On WEIR_OK the caller owns *out and releases it with
 * weir_request_free().  WEIR_INVALID names the option that is wrong;
 * WEIR_NO_MEMORY says what the request needs and what the engine has at most. */
WEIR_API weir_status weir_engine_submit(weir_engine *e, const weir_request_options *opt, weir_request **out,
                                        weir_error *err);

/* Takes part in no further step; its state becomes WEIR_REQUEST_DONE at once,
 * with WEIR_FINISH_CANCELLED.  What was read stays in the cache.  May be called
 * from a callback; no callback of this request follows. */
WEIR_API void weir_request_cancel(weir_request *r);
/* Cancels it if it is not done, and releases it.  NULL is allowed. */
WEIR_API void weir_request_free(weir_request *r);

WEIR_API void weir_request_get_info(const weir_request *r, weir_request_info *out);

/* Does one step for the requests there are.  *left tells how many are not done
 * afterwards.  A request's own failure ends that request only and is in its
 * info; the call itself fails when the engine does, which ends the requests of
 * the step. */
WEIR_API weir_status weir_engine_step(weir_engine *e, uint32_t *left, weir_error *err);

/* Waits until all that the prefix cache is to keep on disk is there.  Steps write behind, a
 * part each, also those without requests, and closing the engine writes the rest.  WEIR_IO:
 * something could not be written; the engine goes on without it. */
WEIR_API weir_status weir_engine_flush(weir_engine *e, weir_error *err);

/* What the prefix cache holds and did. */
typedef struct weir_cache_info {
    uint64_t memory_bytes, memory_limit; /* snapshots, and pages (also those that sequences hold, too) */
    uint64_t disk_bytes, disk_limit;
    uint32_t anchors, disk_anchors; /* places to continue from */
    uint64_t lookups, hits, cached_tokens, read_tokens;
} weir_cache_info;

WEIR_API void weir_engine_cache_info(const weir_engine *e, weir_cache_info *out);

#endif
