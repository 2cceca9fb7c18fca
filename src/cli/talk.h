/* cli/talk.h - conversations that are kept under a name (`weir run --session`).
 *
 * $XDG_STATE_HOME/weir/sessions/NAME (without it ~/.local/state) holds the messages
 * and, in a folder of its own, the engine's cache of what was read: opened again, only
 * what is new is read. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "cli/conversation.h"
#include "cli/options.h"

typedef struct talk {
    char *messages; /* the file of conversation_save; there may be none yet */
    char *cache;    /* for weir_engine_options.cache_dir */
} talk;

/* Makes the folder of `name`: 1 to 64 letters, digits, '.', '_' and '-', not beginning
 * with a '.'.  WEIR_INVALID for another name. */
weir_status talk_open(talk *t, const char *name, weir_error *err);
void        talk_close(talk *t); /* all zero is allowed */

/* A new conversation, with what was kept (`t` all zero: nothing), then the system
 * message and the thinking that the command line asks for. */
weir_status talk_begin(const talk *t, const options *o, conversation *c, weir_error *err);
/* Writes it for the next time; nothing where `t` is all zero. */
weir_status talk_keep(const talk *t, const conversation *c, weir_error *err);

#endif
