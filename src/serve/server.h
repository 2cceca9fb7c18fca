/* serve/server.h - what the handlers of requests share. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "serve/auth.h"
#include "serve/engine_loop.h"
#include "serve/response_store.h"
#include "serve/serve.h"

#include <jansson.h>
#include <stdatomic.h>

/* Does not change while it serves, but for what is inside loop, metrics and responses. */
typedef struct server {
    const serve_options *o;
    weir_model_info      model;
    weir_engine_info     engine;
    auth                 auth;
    engine_loop         *loop;
    metrics             *metrics;
    response_store      *responses;
    adapter_shelf       *adapters;
    int64_t              created;         /* seconds since 1970 */
    char                 fingerprint[16]; /* "fp_" and ten hexadecimal digits */
    uint32_t             tool_call;       /* the id of <tool_call>; UINT32_MAX: there is none */
    uint32_t             message_start;   /* the same of <|im_start|> */
    bool                 caches;          /* the engine keeps prompts */
    atomic_bool          draining;
} server;

/* A request as the listener has read it. */
typedef struct http_request http_request;
struct http_request {
    const char *method, *path; /* path: decoded, without query */
    char        id[129];       /* x-request-id, the client's or ours */
    char       *body;          /* may be changed by who parses it */
    size_t      n_body;
    uint64_t    received_ns;
    /* A header's value, or NULL; borrowed. */
    const char *(*header)(const http_request *r, const char *name);
    /* The value of a query argument, or NULL; borrowed. */
    const char *(*argument)(const http_request *r, const char *name);
    void *connection;
};

/* Answers through `out`, at once or later.  `rest` is what the path has behind the route. */
typedef void handler(server *s, const http_request *r, const char *rest, outlet *out);

handler handle_chat, handle_completions, handle_models, handle_model, handle_tokenize, handle_detokenize,
    handle_apply_template, handle_health, handle_ready, handle_metrics, handle_version, handle_root, handle_home,
    handle_web, handle_messages, handle_count_tokens, handle_responses, handle_responses_upgrade,
    handle_responses_tokens, handle_response, handle_response_delete, handle_response_items, handle_response_cancel,
    handle_responses_compact, handle_adapters, handle_adapter_load, handle_adapter_delete, handle_vllm_load,
    handle_vllm_unload, handle_lora_list, handle_lora_set, handle_request_cancel, handle_fit, handle_props,
    handle_slots;
handler handle_ollama_chat, handle_ollama_generate, handle_ollama_tags, handle_ollama_show, handle_ollama_ps,
    handle_ollama_version, handle_ollama_pull, handle_ollama_embed, handle_ollama_refused, handle_ollama_change;

/* ---- answering ---- */

void answer_error(outlet *out, const api_error *e, api_dialect d, const char *request_id);
/* Sends the text, and empties it; what ran out of memory is told instead. */
void answer_json(outlet *out, str *body);

/* ---- random names ---- */

/* prefix and 24 characters of 62; `out` has room for them. */
void     random_id(const char *prefix, char *out, size_t size);
uint64_t random_seed(void);

/* ---- models and adapters ---- */

/* Which adapters a request's `adapter`, `lora` and `model` fields choose, in this order; else those that usually hold.
 * They are released with the options. */
bool choose_adapters(const server *s, const json_t *body, job_options *out, api_error *err);

#endif
