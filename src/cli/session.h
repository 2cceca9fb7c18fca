/* cli/session.h - the models and the engine that a command line asks for. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/options.h"
#include "weir/engine.h"
#include "weir/sequence.h"

typedef struct session {
    weir_model    *model, *draft_model; /* draft_model: NULL unless --draft names one */
    weir_engine   *engine;              /* NULL until session_engine */
    weir_sequence *sequence;            /* NULL until session_sequence */
    double         load_seconds;

    /* Those of --adapter, in order; the models' and the engine's. */
    size_t              n_adapters;
    const weir_adapter *adapters[WEIR_MAX_ADAPTERS];
    weir_adapter_choice choices[WEIR_MAX_ADAPTERS];
    weir_adapter       *opened[WEIR_MAX_ADAPTERS];
} session;

/* Opens the MODEL, the one that --draft names, and the adapters.  On failure the session is
 * all zero. */
weir_status session_open(session *s, const options *o, weir_error *err);
/* Makes an engine by these options, and tells how long it took. */
weir_status session_engine(session *s, const weir_engine_options *e, weir_error *err);
/* An engine without cache and drafts for one sequence of `context` tokens (--ctx
 * goes before that), and this sequence, empty, with the adapters. */
weir_status session_sequence(session *s, const options *o, uint32_t context, weir_error *err);
void        session_close(session *s); /* all zero is allowed */

/* The engine's options as the command line has them, with room for `context`
 * tokens (0: the library's choice) unless --ctx says otherwise.  Drafts and the
 * cache only as they are given: a command's own defaults come on top. */
weir_engine_options session_engine_options(const session *s, const options *o, uint32_t context);

/* WEIR_INVALID where options of drafts and cache contradict each other. */
weir_status session_check_options(const options *o, weir_error *err);

#endif
