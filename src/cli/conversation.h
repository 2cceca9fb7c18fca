/* cli/conversation.h - a chat's messages, and reading them into a sequence.
 *
 * Every turn renders the whole conversation anew and reads only what is new.
 * The template renders an assistant's turn differently once it is past (its
 * reasoning goes), so a new prompt rarely extends the tokens already read; but
 * it does extend what stood before that turn.  There, just before the
 * generation prompt, the recurrent state is snapshotted: a turn re-reads at
 * most the last reply. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include "weir/sequence.h"
#include "weir/text.h"

#include <jansson.h>

typedef enum conversation_thinking { THINK_TEMPLATE, THINK_ON, THINK_OFF } conversation_thinking;

/* Two: when a turn is given up after its snapshot was taken, the next one
 * starts at the snapshot before. */
enum { CONVERSATION_SNAPSHOTS = 2 };

typedef struct conversation {
    json_t               *messages; /* array in the OpenAI form */
    conversation_thinking thinking;
    bool                  snapshot;                          /* more turns will follow */
    weir_snapshot        *snapshots[CONVERSATION_SNAPSHOTS]; /* NULL, or older first */
} conversation;

/* What one conversation_read did. */
typedef struct conversation_reading {
    uint32_t prompt; /* tokens of the rendered conversation */
    uint32_t kept;   /* of these, already in the sequence */
    double   seconds;
    bool     thinking_open; /* the reply begins inside its reasoning */
} conversation_reading;

weir_status conversation_init(conversation *c, weir_error *err);
void        conversation_free(conversation *c); /* all zero is allowed */

/* Forgets all messages but a system message; the sequence is to be reset, too. */
void conversation_clear(conversation *c);
/* The first message, "" for none. */
weir_status conversation_system(conversation *c, const char *text, weir_error *err);
/* Appends a message; `reasoning` may be NULL.  WEIR_INVALID: not UTF-8. */
weir_status conversation_add(conversation *c, const char *role, const char *text, const char *reasoning,
                             weir_error *err);
/* Takes the last message back. */
void conversation_drop(conversation *c);

/* Makes `s` hold the rendered conversation, ready to generate.  When Ctrl-C
 * stops it: WEIR_CANCELLED. */
weir_status conversation_read(conversation *c, const weir_model *m, const weir_engine *e, weir_sequence *s,
                              conversation_reading *out, weir_error *err);

/* A file is {"messages": [...], "enable_thinking": bool}; written whole or not
 * at all.  A load that fails leaves the conversation as it is. */
weir_status conversation_save(const conversation *c, const char *path, weir_error *err);
weir_status conversation_load(conversation *c, const char *path, weir_error *err);

#endif
