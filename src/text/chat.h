/* text/chat.h - a conversation to the text of a prompt.
 *
 * Clients write the same conversation in several ways; templates expect one.
 * chat_render first normalises a copy of the messages:
 *
 *   - role "developer" is "system"; leading system messages become one, joined
 *     with an empty line;
 *   - content null or absent is ""; parts that are all text become one string;
 *   - tool_calls[].function.arguments given as a JSON string becomes an object.
 *
 * Then it runs the checkpoint's own template.  Three shapes that agents send
 * are refused by the published templates.  They are rendered all the same:
 *
 *   - a system message behind the first turn stands where it stands, as a turn
 *     of its own (moved to the front it would change the cached prefix);
 *   - a history without a question of the user (after compaction) is rendered
 *     as if there were one in front of the first answer, without that turn;
 *   - a last message of the assistant, when a generation prompt is asked for, is
 *     continued: the prompt ends behind its text.  Its thinking counts as
 *     closed, in the form in which the template writes a finished answer. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/template.h"

typedef struct chat_request {
    const json_t *messages; /* array of objects; borrowed, never changed */
    const json_t *tools;    /* array, or NULL */
    const json_t *kwargs;   /* object or NULL: add_generation_prompt, enable_thinking, preserve_thinking,
                               reasoning_effort ... every member becomes a variable of the template */
} chat_request;

typedef struct chat_prompt {
    template_text text;
    bool          thinking_open; /* the prompt ends inside a <think> that the template wrote */
    bool          continues;     /* it ends inside the text of a last assistant message */
} chat_prompt;

/* Renders into *out (chat_prompt_free).  `opt` may be NULL.  WEIR_INVALID names
 * the message and field ("messages[2].role: ..."), or carries the text of the
 * template's own raise_exception; limits as template_render.  On failure *out
 * is all zero. */
weir_status chat_render(const template *t, const chat_request *request, const template_options *opt, chat_prompt *out,
                        weir_error *err);
void        chat_prompt_free(chat_prompt *p); /* all zero is allowed */

/* The template of the checkpoint in folder `dir`: chat_template.jinja, else
 * chat_template of tokenizer_config.json (a string, or a list of which the
 * entry named "default" counts), else WEIR_UNSUPPORTED.  Free with
 * template_free. */
weir_status chat_template_load(template **out, const char *dir, weir_error *err);

#endif
