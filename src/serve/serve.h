/* serve/serve.h - an HTTP server in front of one engine.
 *
 * It speaks the dialects that clients have: docs/SERVE.md lists paths and fields.  The threads:
 * a few of the listener (libmicrohttpd; they parse, render and tokenize, and never wait for the
 * engine), one that owns the engine (engine_loop.h), and the caller's, which looks after
 * connections and waits for the end. */
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

    const char *host;
    uint16_t    port; /* 0: a free one */

    serve_list  api_keys; /* none, also not in the file: every request is served */
    const char *api_key_file;
    bool        insecure; /* allow an address that others reach, without keys */
    bool        metrics_public;
    bool        web;     /* the page for browsers, at / */
    serve_list  origins; /* of web pages that may ask, beside local ones; "*": all */
    serve_list  hosts;   /* Host names that are ours, beside local ones */

    weir_sample_params sample; /* where a request says nothing */
    serve_thinking     thinking;
    uint32_t           max_queue;        /* choices that may wait beside those that run */
    double             shutdown_timeout; /* seconds that running replies have to finish */

    void (*ready)(void *user, const char *url); /* it listens */
    void (*say)(void *user, const char *line);  /* about a request that is over; from another thread */
    bool (*stopping)(void *user);               /* asked a few times a second: true begins the shutdown */
    void *user;
} serve_options;

/* Serves until `stopping` says so and what runs has finished, or shutdown_timeout has passed:
 * then the rest gets an error.  WEIR_INVALID names the option; WEIR_IO: cannot listen there. */
weir_status serve_run(const serve_options *o, weir_error *err);

#endif
