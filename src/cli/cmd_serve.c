/* cli/cmd_serve.c - `weir serve`: a model over HTTP. */
#include "cli/cli.h"
#include "cli/notify.h"
#include "cli/sampling.h"
#include "cli/session.h"
#include "cli/settings.h"
#include "cli/terminal.h"

#include "base/file.h"
#include "base/mem.h"
#include "serve/serve.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_PARALLEL = 4 };

static const arg_option serve_options_table[] = {
    {"--host", NULL, ARG_STRING, offsetof(options, host), 0, "ADDRESS", 0, 0,
     "where to listen (default: 127.0.0.1, for this machine alone)"},
    {"--port", NULL, ARG_U32, offsetof(options, port), 0, "N", 0, 65535, "(default: 8080); 0 takes a free one"},
    {"--parallel", NULL, ARG_U32, offsetof(options, parallel), 0, "N", 1, 4096,
     "replies at once (default: 4); what comes beyond waits"},
    {"--max-queue", NULL, ARG_U32, offsetof(options, max_queue), 0, "N", 0, 1 << 20,
     "how many may wait (default: 64); more are refused (429)"},
    {"--api-key", NULL, ARG_LIST, offsetof(options, api_keys), 0, "KEY", 0, 0,
     "serve only who has this key; may be given 16 times"},
    {"--api-key-file", NULL, ARG_STRING, offsetof(options, api_key_file), 0, "FILE", 0, 0,
     "keys, one a line: KEY, NAME:KEY or admin NAME:KEY; read again\non SIGHUP"},
    {"--admin-key", NULL, ARG_LIST, offsetof(options, admin_keys), 0, "KEY", 0, 0,
     "a key that may change the server, where there are several"},
    {"--adapter-dir", NULL, ARG_STRING, offsetof(options, adapter_dir), 0, "DIR", 0, 0,
     "adapters in this folder may be loaded by request (default: none)"},
    {"--max-adapters", NULL, ARG_U32, offsetof(options, max_adapters), 0, "N", 1, 1000,
     "memory for so many of them at once (default: 4),"},
    {"--adapter-rank", NULL, ARG_U32, offsetof(options, adapter_rank), 0, "R", 1, 256,
     "each of at most this rank (default: 64)"},
    {"--strict-model", NULL, ARG_FLAG, offsetof(options, strict_model), 0, NULL, 0, 0,
     "refuse requests for a model that is not this one"},
    {"--insecure", NULL, ARG_FLAG, offsetof(options, insecure), 0, NULL, 0, 0,
     "allow a --host that others reach without any key"},
    {"--cors-origin", NULL, ARG_LIST, offsetof(options, cors_origins), 0, "ORIGIN", 0, 0,
     "web pages that may ask, beside those of this machine; \"*\": all"},
    {"--allowed-host", NULL, ARG_LIST, offsetof(options, allowed_hosts), 0, "NAME", 0, 0,
     "a further name that requests may call this machine by"},
    {"--metrics-public", NULL, ARG_FLAG, offsetof(options, metrics_public), 0, NULL, 0, 0, "/metrics needs no key"},
    {"--no-web", NULL, ARG_FLAG, offsetof(options, no_web), 0, NULL, 0, 0, "no page for browsers at /"},
    {"--shutdown-timeout", NULL, ARG_REAL, offsetof(options, shutdown_timeout), 0, "SECONDS", 0, 86400,
     "that replies have to finish after SIGTERM or Ctrl-C\n(default: 30)"},
    {"--config", NULL, ARG_STRING, offsetof(options, config), 0, "FILE", 0, 0,
     "options, one a line: NAME = VALUE, where this line and variables\nWEIR_NAME say nothing (default: that of "
     "WEIR_CONFIG)"},
    {"--print-config", NULL, ARG_FLAG, offsetof(options, print_config), 0, NULL, 0, 0,
     "print what holds, as such a file, and end"},
    {"--think", NULL, ARG_FLAG, offsetof(options, think), 0, NULL, 0, 0, "reason before the answer,"},
    {"--no-think", NULL, ARG_FLAG, offsetof(options, no_think), 0, NULL, 0, 0,
     "or answer at once, where a request says nothing (default: as\nthe template has it)"},
    {"--reasoning-budget", NULL, ARG_U32, offsetof(options, reasoning_budget),
     offsetof(options, reasoning_budget_given), "N", 0, 1 << 30,
     "tokens of reasoning, where a request says nothing (default:\nno limit); 0: no reasoning"},
    {"--answer-reserve", NULL, ARG_U32, offsetof(options, answer_reserve), 0, "N", 0, 1 << 30,
     "of a request's max_tokens leave these to the answer: the\nreasoning may have the others (default: 0, off)"},
};
static const arg_group        serve_group = ARG_GROUP("Options", serve_options_table);
static const arg_group *const groups[]    = {
       &serve_group, &options_sampling, &options_adapters, &options_drafts, &options_cache, &options_common, NULL};

static int check(const options *o)
{
    weir_error err;
    if (session_check_options(o, &err) != WEIR_OK) return cli_usage("serve: %s", err.text);
    if (o->think && o->no_think) return cli_usage("serve: expected one of --think and --no-think, found both");
    if (o->seed_given) return cli_usage("serve: expected no --seed: each request may say its own");
    if (o->json) return cli_usage("serve: expected no --json");
    return CLI_OK;
}

static void on_ready(void *user, const char *url)
{
    const options *o = user;
    char           state[400];
    (void)snprintf(state, sizeof state, "READY=1\nSTATUS=listening on %s", url);
    notify(state);
    if (o->quiet) return;
    (void)fprintf(stderr, "weir: listening on %s\n", url);
}

static void on_request(void *user, const char *line)
{
    const options *o = user;
    if (!o->quiet) (void)fprintf(stderr, "weir: %s\n", line);
}

static bool reload(void *user)
{
    (void)user;
    return terminal_hung_up();
}

static bool stopping(void *user)
{
    (void)user;
    const bool stop = terminal_interrupted() || terminal_ended();
    if (stop) notify("STOPPING=1");
    return stop;
}

/* The last part of a path, without what tells the kind of file; of a name from the model cache, all. */
static char *name_of(const char *argument, const char *path)
{
    const bool  is_path = argument == NULL || file_exists(argument) || file_is_dir(argument);
    const char *from    = is_path ? path : argument;
    size_t      n       = strlen(from);
    while (n > 1 && from[n - 1] == '/') n--;
    size_t at = n;
    while (is_path && at > 0 && from[at - 1] != '/') at--;
    if (!is_path) at = 0;
    static const char *const kinds[] = {".gguf", ".safetensors"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t k = strlen(kinds[i]);
        if (n - at > k && strncmp(from + n - k, kinds[i], k) == 0) n -= k;
    }
    return mem_strndup(from + at, n - at);
}

/* What requests may name: an adapter is called as its folder. */
static weir_status name_adapters(const session *s, serve_adapter *out, char **names, weir_error *err)
{
    for (size_t i = 0; i < s->n_adapters; i++) {
        weir_adapter_info info;
        weir_adapter_get_info(s->opened[i], &info);
        names[i] = name_of(NULL, info.path);
        if (names[i] == NULL) return status_fail(err, WEIR_NO_MEMORY, "--adapter: out of memory");
        for (size_t k = 0; k < i; k++)
            if (strcmp(names[k], names[i]) == 0)
                return status_fail(err, WEIR_INVALID,
                                   "--adapter: expected folders of different names, found \"%s\" twice", names[i]);
        out[i] = (serve_adapter){.name = names[i], .choice = s->choices[i]};
    }
    return WEIR_OK;
}

/* *fit: what the engine takes. */
static weir_status open_engine(session *s, const options *o, weir_fit *fit, weir_error *err)
{
    weir_engine_options e = session_engine_options(s, o, 0);
    e.max_sequences       = o->parallel != 0 ? o->parallel : DEFAULT_PARALLEL;
    if (o->draft == NULL) e.draft = "auto";
    if (!o->cache_memory_given) e.cache_memory = WEIR_CACHE_AUTO;
    if (o->adapter_dir != NULL) {
        e.max_adapters     = (uint32_t)s->n_adapters + o->max_adapters;
        e.max_adapter_rank = o->adapter_rank;
    }
    TRY(session_engine(s, &e, err));
    return weir_engine_fit(s->model, &e, fit, err);
}

static weir_status serve(const session *s, const options *o, const weir_sample_params *sample, const weir_fit *fit,
                         weir_error *err)
{
    serve_adapter   adapters[WEIR_MAX_ADAPTERS];
    char           *names[WEIR_MAX_ADAPTERS] = {0};
    weir_model_info info;
    weir_model_get_info(s->model, &info);
    char       *id = name_of(o->model, info.path);
    weir_status st =
        id != NULL ? name_adapters(s, adapters, names, err) : status_fail(err, WEIR_NO_MEMORY, "serve: out of memory");
    const serve_options so = {
        .model            = s->model,
        .engine           = s->engine,
        .model_id         = id,
        .adapters         = adapters,
        .n_adapters       = s->n_adapters,
        .host             = o->host,
        .port             = (uint16_t)o->port,
        .api_keys         = {o->api_keys.items, o->api_keys.n},
        .admin_keys       = {o->admin_keys.items, o->admin_keys.n},
        .api_key_file     = o->api_key_file,
        .adapter_dir      = o->adapter_dir,
        .strict_model     = o->strict_model,
        .fit              = *fit,
        .insecure         = o->insecure,
        .metrics_public   = o->metrics_public,
        .web              = !o->no_web,
        .origins          = {o->cors_origins.items, o->cors_origins.n},
        .hosts            = {o->allowed_hosts.items, o->allowed_hosts.n},
        .responses_dir    = o->cache_dir,
        .sample           = *sample,
        .thinking         = o->think      ? SERVE_THINK_ON
                            : o->no_think ? SERVE_THINK_OFF
                                          : SERVE_THINK_TEMPLATE,
        .limit_reasoning  = o->reasoning_budget_given,
        .reasoning_budget = o->reasoning_budget,
        .answer_reserve   = o->answer_reserve,
        .max_queue        = o->max_queue,
        .shutdown_timeout = o->shutdown_timeout,
        .ready            = on_ready,
        .say              = on_request,
        .reload           = reload,
        .stopping         = stopping,
        .user             = (void *)(uintptr_t)o,
    };
    if (st == WEIR_OK) st = serve_run(&so, err);
    for (size_t i = 0; i < WEIR_MAX_ADAPTERS; i++) mem_free(names[i]);
    mem_free(id);
    return st;
}

static int run(const options *o)
{
    const int bad = check(o);
    if (bad != CLI_OK) return bad;
    if (o->print_config) {
        settings_print(o, groups);
        return cli_flush();
    }
    if (o->api_key_file != NULL) terminal_take_hang_ups();
    session            s = {0};
    weir_sample_params sample;
    weir_fit           fit;
    weir_error         err;
    weir_status        st = session_open(&s, o, &err);
    if (st == WEIR_OK) st = sampling_from(s.model, o, &sample, &err);
    if (st == WEIR_OK) st = open_engine(&s, o, &fit, &err);
    if (st == WEIR_OK) st = serve(&s, o, &sample, &fit, &err);
    const int code = st == WEIR_OK ? CLI_OK : cli_fail(&err);
    session_close(&s);
    return code;
}

const command cmd_serve = {
    .name       = "serve",
    .summary    = "serve a model over HTTP, as OpenAI's, Anthropic's and Ollama's APIs",
    .usage      = "[MODEL] [options]",
    .details    = "Listens until SIGTERM or Ctrl-C; then replies that run may finish.  Requests share the\n"
                  "engine: each gets the same reply as alone.  Each --adapter is offered under its\n"
                  "folder's name, to requests that ask for it.  docs/SERVE.md lists paths and fields.\n",
    .model      = CLI_MODEL_OPTIONAL,
    .groups     = groups,
    .configured = true,
    .run        = run,
};
