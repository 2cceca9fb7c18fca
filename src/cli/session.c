/* cli/session.c - opening models and engines; see session.h. */
#include "cli/session.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/find_model.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bytes_of(double gigabytes)
{
    return (uint64_t)(gigabytes * 1e9);
}

/* A --draft that is none of the engine's own words is a MODEL. */
static bool names_model(const char *draft)
{
    static const char *const words[] = {"off", "auto", "mtp", "ngram"};
    for (size_t i = 0; draft != NULL && i < sizeof words / sizeof *words; i++)
        if (strcmp(draft, words[i]) == 0) return false;
    return draft != NULL;
}

static weir_status open_model(weir_model **out, const char *argument, weir_error *err)
{
    char *path;
    TRY(find_model(argument, &path, err));
    const weir_status st = weir_model_open(out, path, err);
    mem_free(path);
    return st;
}

/* Splits DIR:SCALE; a folder whose name is the whole goes before. */
static weir_status read_adapter(const char *text, char **dir, float *scale, weir_error *err)
{
    const char *colon = file_is_dir(text) ? NULL : strrchr(text, ':');
    *scale            = 1.0f;
    if (colon != NULL) {
        char        *end;
        const double value = strtod(colon + 1, &end);
        if (colon[1] == '\0' || strspn(colon + 1, "0123456789.eE+-") != strlen(colon + 1) || *end != '\0' ||
            !(value >= -100 && value <= 100))
            return status_fail(err, WEIR_INVALID,
                               "--adapter: expected DIR:SCALE with a SCALE from -100 to 100, found \"%.80s\"", text);
        *scale = (float)value;
    }
    *dir = mem_strndup(text, colon != NULL ? (size_t)(colon - text) : strlen(text));
    return *dir != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "--adapter: out of memory");
}

static weir_status open_adapters(session *s, const options *o, weir_error *err)
{
    if (o->adapters.n > WEIR_MAX_ADAPTERS)
        return status_fail(err, WEIR_INVALID, "--adapter: expected at most %d, found %zu", WEIR_MAX_ADAPTERS,
                           o->adapters.n);
    for (size_t i = 0; i < o->adapters.n; i++) {
        char *dir;
        float scale;
        TRY(read_adapter(o->adapters.items[i], &dir, &scale, err));
        const weir_status st = weir_adapter_open(&s->opened[i], s->model, dir, err);
        mem_free(dir);
        if (st != WEIR_OK) return status_prefix(err, st, "--adapter");
        s->adapters[i] = s->opened[i];
        s->choices[i]  = (weir_adapter_choice){s->opened[i], scale};
        s->n_adapters++;
    }
    return WEIR_OK;
}

weir_status session_open(session *s, const options *o, weir_error *err)
{
    *s             = (session){0};
    weir_status st = open_model(&s->model, o->model, err);
    if (st == WEIR_OK && names_model(o->draft)) {
        st = open_model(&s->draft_model, o->draft, err);
        if (st != WEIR_OK) st = status_prefix(err, st, "--draft");
    }
    if (st == WEIR_OK) st = open_adapters(s, o, err);
    if (st != WEIR_OK) session_close(s);
    return st;
}

weir_status session_check_options(const options *o, weir_error *err)
{
    const bool off = o->draft != NULL && strcmp(o->draft, "off") == 0;
    const bool mtp = o->draft == NULL || strcmp(o->draft, "mtp") == 0 || strcmp(o->draft, "auto") == 0;
    if (o->draft != NULL && o->draft[0] == '\0')
        return status_fail(err, WEIR_INVALID, "--draft: expected off, auto, mtp, ngram or a MODEL, found \"\"");
    if (off && o->draft_tokens != 0)
        return status_fail(err, WEIR_INVALID, "--draft-tokens needs another --draft than off");
    if (off && o->draft_fixed) return status_fail(err, WEIR_INVALID, "--draft-fixed needs another --draft than off");
    if (!mtp && o->mtp_hidden != NULL) return status_fail(err, WEIR_INVALID, "--mtp-hidden needs --draft mtp");
    if (o->cache_disk > 0 && o->cache_dir == NULL)
        return status_fail(err, WEIR_INVALID, "--cache-disk needs --cache-dir");
    if (o->cache_dir != NULL && o->cache_memory_given && o->cache_memory <= 0)
        return status_fail(err, WEIR_INVALID, "--cache-dir needs a --cache-memory above 0");
    return WEIR_OK;
}

weir_engine_options session_engine_options(const session *s, const options *o, uint32_t context)
{
    weir_engine_options e = WEIR_ENGINE_OPTIONS_INIT;
    e.device              = o->device;
    e.isa                 = o->isa;
    e.kv                  = o->kv;
    e.kv_config           = o->kv_config;
    e.kv_start            = o->kv_start;
    e.threads             = o->threads;
    e.max_context         = o->ctx != 0 ? o->ctx : context;
    e.chunk               = o->chunk;
    e.memory_limit        = bytes_of(o->memory);
    e.draft               = s->draft_model != NULL ? "model" : o->draft;
    e.draft_model         = s->draft_model;
    e.max_drafts          = o->draft_tokens;
    e.fixed_drafts        = o->draft_fixed;
    e.mtp_pre_norm        = o->mtp_hidden != NULL && strcmp(o->mtp_hidden, "pre") == 0;
    e.cache_memory        = o->cache_memory_given || o->cache_dir == NULL ? bytes_of(o->cache_memory) : WEIR_CACHE_AUTO;
    e.adapters            = s->adapters;
    e.n_adapters          = s->n_adapters;
    e.cache_dir           = o->cache_dir;
    e.cache_disk          = bytes_of(o->cache_disk);
    return e;
}

weir_status session_engine(session *s, const weir_engine_options *e, weir_error *err)
{
    const uint64_t start = clock_ns();
    progress       p;
    progress_note(&p, "loading the model ...");
    const weir_status st = weir_engine_open(&s->engine, s->model, e, err);
    progress_end(&p);
    s->load_seconds = (double)(clock_ns() - start) * 1e-9;
    return st;
}

weir_status session_sequence(session *s, const options *o, uint32_t context, weir_error *err)
{
    const weir_engine_options e = session_engine_options(s, o, context);
    TRY(session_engine(s, &e, err));
    TRY(weir_sequence_new(&s->sequence, s->engine, err));
    return weir_sequence_set_adapters(s->sequence, s->choices, s->n_adapters, err);
}

void session_close(session *s)
{
    weir_sequence_free(s->sequence);
    weir_engine_close(s->engine);
    for (size_t i = 0; i < s->n_adapters; i++) weir_adapter_close(s->opened[i]);
    weir_model_close(s->draft_model);
    weir_model_close(s->model);
    *s = (session){0};
}
