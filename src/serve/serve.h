/* serve/serve.h - an HTTP server in front of one engine.
 *
 * It speaks the dialects that clients have: docs/SERVE.md lists paths and fields.  The threads:
 * a few of the listener (libmicrohttpd; they parse, render and tokenize, and never wait for the
 * engine), one that owns the engine (engine_loop.h), one that writes stored responses down
 * (response_store.h), and the caller's, which looks after connections and waits for the end. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "weir/request.h"

typedef struct serve_adapter {
    const char         *name; /* as a request's `model` or `adapter` says it */
    weir_adapter_choice choice;
} serve_adapter;

enum { SERVE_MAX_LIST = 16 };

typedef struct serve_list {
    const char *const *items;
    size_t             n;
} serve_list;

typedef enum serve_thinking { SERVE_THINK_TEMPLATE, SERVE_THINK_ON, SERVE_THINK_OFF } serve_thinking;

typedef struct serve_options {
    const weir_model *model;
    weir_engine      *engine;   /* used by the server alone until serve_run returns */
    const char       *model_id; /* what /v1/models calls it */

    const serve_adapter *adapters; /* that requests may name */
    size_t               n_adapters;
    const char          *adapter_dir;  /* where others may be loaded from; NULL: nowhere */
    bool                 strict_model; /* refuse a `model` that is not served */
    weir_fit             fit;          /* of the engine, for GET /fit */

    const char *host;
    uint16_t    port; /* 0: a free one */

    serve_list  api_keys, admin_keys; /* none, also not in the file: every request is served */
    const char *api_key_file;         /* read again when reload says so */
    bool        insecure;             /* allow an address that others reach, without keys */
    bool        metrics_public;
    bool        web;     /* the page for browsers, at / */
    serve_list  origins; /* of web pages that may ask, beside local ones; "*": all */
    serve_list  hosts;   /* Host names that are ours, beside local ones */

    const char *responses_dir; /* where stored responses are kept; NULL: in memory */

    weir_sample_params sample; /* where a request says nothing */
    serve_thinking     thinking;
    bool               limit_reasoning;  /* to reasoning_budget tokens, where a request says nothing */
    uint32_t           reasoning_budget; /* 0: no reasoning */
    uint32_t           answer_reserve;   /* of a request's max_tokens, for what follows the reasoning; 0: none */
    uint32_t           max_queue;        /* choices that may wait beside those that run */
    double             shutdown_timeout; /* seconds that running replies have to finish */

    void (*ready)(void *user, const char *url); /* it listens */
    void (*say)(void *user, const char *line);  /* about a request that is over; from another thread */
    bool (*reload)(void *user);                 /* asked as often; NULL: never */
    bool (*stopping)(void *user);               /* asked a few times a second: true begins the shutdown */
    void *user;
} serve_options;

/* Serves until `stopping` says so and what runs has finished, or shutdown_timeout has passed:
 * then the rest gets an error.  WEIR_INVALID names the option; WEIR_IO: cannot listen there. */
weir_status serve_run(const serve_options *o, weir_error *err);

#endif
