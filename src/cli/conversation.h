/* cli/conversation.h - a chat's messages, and the prompt they make.
 *
 * Every turn renders the whole conversation anew: the template shows an
 * assistant's turn differently once it is past (its reasoning goes).  What of
 * the prompt was read before is the business of the engine's prefix cache. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include "base/status.h"
#include "weir/text.h"

#include <jansson.h>

typedef enum conversation_thinking { THINK_TEMPLATE, THINK_ON, THINK_OFF } conversation_thinking;

typedef struct conversation {
    json_t               *messages; /* array in the OpenAI form */
    conversation_thinking thinking;
} conversation;

weir_status conversation_init(conversation *c, weir_error *err);
void        conversation_free(conversation *c); /* all zero is allowed */

/* Forgets all messages but a system message. */
void conversation_clear(conversation *c);
/* The first message, "" for none. */
weir_status conversation_system(conversation *c, const char *text, weir_error *err);
/* Appends a message; `reasoning` may be NULL.  WEIR_INVALID: not UTF-8. */
weir_status conversation_add(conversation *c, const char *role, const char *text, const char *reasoning,
                             weir_error *err);
/* Takes the last message back. */
void conversation_drop(conversation *c);

/* The conversation and the head of the next reply, by the model's template;
 * release with weir_prompt_free. */
weir_status conversation_render(const conversation *c, const weir_model *m, weir_prompt *out, weir_error *err);

/* A file is {"messages": [...], "enable_thinking": bool}; written whole or not
 * at all.  A load that fails leaves the conversation as it is. */
weir_status conversation_save(const conversation *c, const char *path, weir_error *err);
weir_status conversation_load(conversation *c, const char *path, weir_error *err);

#endif
