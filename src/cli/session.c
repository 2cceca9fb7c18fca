/* cli/session.c - opening models and engines; see session.h. */
#include "cli/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/find_model.h"
#include "cli/progress.h"

weir_status session_open(session *s, const options *o, weir_error *err)
{
    *s = (session){0};
    char *path;
    TRY(find_model(o->model, &path, err));
    const weir_status st = weir_model_open(&s->model, path, err);
    mem_free(path);
    return st;
}

weir_engine_options session_engine_options(const options *o, uint32_t context)
{
    weir_engine_options e = WEIR_ENGINE_OPTIONS_INIT;
    e.device              = o->device;
    e.isa                 = o->isa;
    e.kv                  = o->kv;
    e.threads             = o->threads;
    e.max_context         = o->ctx != 0 ? o->ctx : context;
    e.memory_limit        = (uint64_t)(o->memory * 1e9);
    return e;
}

weir_status session_engine(session *s, const options *o, uint32_t context, weir_error *err)
{
    const weir_engine_options e     = session_engine_options(o, context);
    const uint64_t            start = clock_ns();
    progress                  p;
    progress_note(&p, "loading the model ...");
    weir_status st = weir_engine_open(&s->engine, s->model, &e, err);
    if (st == WEIR_OK) st = weir_sequence_new(&s->sequence, s->engine, err);
    progress_end(&p);
    s->load_seconds = (double)(clock_ns() - start) * 1e-9;
    return st;
}

void session_close(session *s)
{
    weir_sequence_free(s->sequence);
    weir_engine_close(s->engine);
    weir_model_close(s->model);
    *s = (session){0};
}
