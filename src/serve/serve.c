/* serve/serve.c - see serve.h. */
#include "serve/serve.h"

#include "base/clock.h"
#include "serve/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 200, FLUSH_MS = 2000 };
/* Of stored responses. */
enum { MEMORY_BYTES = 32 << 20, DISK_BYTES = 256 << 20, MEMORY_SECONDS = 3600, DISK_SECONDS = 30 * 86400 };

/* A short name for what makes replies: version, model and how it computes. */
static void make_fingerprint(server *s)
{
    char     text[600];
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    (void)snprintf(text, sizeof text, "%s %s %s %" PRIu64 " %s %s", weir_version(), s->o->model_id,
                   s->model.weight_format, s->model.weights_bytes, s->engine.device, s->engine.kv);
    for (const char *c = text; *c != '\0'; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
    (void)snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%010" PRIx64, h >> 24);
}

static uint32_t find_tag(const weir_model *m, const char *tag)
{
    weir_ids       ids = {0};
    const bool     one = weir_tokenize(m, tag, strlen(tag), true, &ids, NULL) == WEIR_OK && ids.n == 1;
    const uint32_t id  = one ? ids.data[0] : UINT32_MAX;
    weir_ids_free(&ids);
    return id;
}

/* In a file they last; in memory they go with the server, so their time is short. */
static weir_status open_responses(server *s, weir_error *err)
{
    const bool on_disk = s->o->responses_dir != NULL;
    return response_store_open(&s->responses,
                               &(response_store_options){.dir       = s->o->responses_dir,
                                                         .max_bytes = on_disk ? DISK_BYTES : MEMORY_BYTES,
                                                         .seconds   = on_disk ? DISK_SECONDS : MEMORY_SECONDS},
                               err);
}

static weir_status open_server(server *s, const serve_options *o, weir_error *err)
{
    s->o       = o;
    s->created = (int64_t)time(NULL);
    weir_model_get_info(o->model, &s->model);
    weir_engine_get_info(o->engine, &s->engine);
    if (!s->model.has_tokenizer)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: expected a tokenizer, found none", s->model.path);
    make_fingerprint(s);
    weir_cache_info cache;
    weir_engine_cache_info(o->engine, &cache);
    s->caches        = cache.memory_limit > 0;
    s->tool_call     = find_tag(o->model, "<tool_call>");
    s->message_start = find_tag(o->model, "<|im_start|>");
    TRY(auth_init(&s->auth, o, err));
    s->metrics = metrics_new(o->model_id, s->engine.max_context);
    if (s->metrics == NULL) return status_fail(err, WEIR_NO_MEMORY, "metrics: out of memory");
    TRY(open_responses(s, err));
    TRY(engine_loop_start(
        &s->loop,
        &(engine_loop_options){
            .engine = o->engine, .metrics = s->metrics, .max_queue = o->max_queue, .say = o->say, .user = o->user},
        err));
    return adapter_shelf_open(&s->adapters, o, s->loop, err);
}

/* The old ones stay where the new ones are not to be had. */
static void read_keys_again(server *s)
{
    weir_error err;
    char       line[sizeof err.text + 80];
    if (auth_reload(&s->auth, s->o, &err) == WEIR_OK)
        (void)snprintf(line, sizeof line, "the keys were read again");
    else
        (void)snprintf(line, sizeof line, "the keys stay as they were: %s", err.text);
    if (s->o->say != NULL) s->o->say(s->o->user, line);
}

static void wait_until(listener *l, bool (*done)(void *), void *of, double seconds)
{
    const uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9);
    while (!done(of) && clock_ns() < end) listener_wait(l, TICK_MS / 10);
}

static bool loop_done(void *loop)
{
    return engine_loop_idle(loop);
}

static bool listener_done(void *l)
{
    return listener_idle(l);
}

static void tell_ready(const serve_options *o, uint16_t port)
{
    char       url[300];
    const bool v6 = strchr(o->host, ':') != NULL && o->host[0] != '[';
    (void)snprintf(url, sizeof url, v6 ? "http://[%s]:%u" : "http://%s:%u", o->host, port);
    if (o->ready != NULL) o->ready(o->user, url);
}

weir_status serve_run(const serve_options *o, weir_error *err)
{
    server      s = {0};
    listener   *l = NULL;
    uint16_t    port;
    weir_status st = open_server(&s, o, err);
    if (st == WEIR_OK) st = listener_open(&l, &s, &port, err);
    if (st == WEIR_OK) {
        tell_ready(o, port);
        while (!o->stopping(o->user)) {
            listener_wait(l, TICK_MS);
            if (o->reload != NULL && o->reload(o->user)) read_keys_again(&s);
        }
        atomic_store(&s.draining, true);
        engine_loop_drain(s.loop);
        listener_drain(l);
        wait_until(l, loop_done, s.loop, o->shutdown_timeout);
    }
    adapter_shelf_stop(s.adapters);
    engine_loop_stop(s.loop);
    if (l != NULL) wait_until(l, listener_done, l, FLUSH_MS * 1e-3);
    listener_close(l);
    adapter_shelf_close(s.adapters);
    engine_loop_free(s.loop);
    response_store_close(s.responses);
    metrics_free(s.metrics);
    auth_free(&s.auth);
    return st;
}
