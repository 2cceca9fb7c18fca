/* cli/session.h - the model and the engine that a command line asks for. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/options.h"
#include "weir/engine.h"
#include "weir/sequence.h"

typedef struct session {
    weir_model    *model;
    weir_engine   *engine;   /* NULL until session_engine */
    weir_sequence *sequence; /* the same */
    double         load_seconds;
} session;

/* Opens the MODEL.  On failure the session is all zero. */
weir_status session_open(session *s, const options *o, weir_error *err);
/* Makes an engine of it, for `context` tokens (0: the library's choice; --ctx
 * goes before both), and an empty sequence. */
weir_status session_engine(session *s, const options *o, uint32_t context, weir_error *err);
void        session_close(session *s); /* all zero is allowed */

/* The engine's options as the command line has them. */
weir_engine_options session_engine_options(const options *o, uint32_t context);

#endif
