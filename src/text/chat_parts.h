/* text/chat_parts.h - what the files of chat.h share. */
#ifndef TEXT_CHAT_PARTS_H
#define TEXT_CHAT_PARTS_H

#include "text/chat.h"

/* chat_normalise.c: a new array (json_decref), see chat.h for the rules.
 * Unchanged values are shared with `messages`. */
weir_status chat_normalise(json_t **out, const json_t *messages, weir_error *err);

/* One run of the template over normalised messages.  `prompt` overrides
 * add_generation_prompt when it is not NULL. */
typedef struct chat_run {
    const template         *t;
    const chat_request     *request;
    const template_options *opt;
    const json_t           *prompt;
} chat_run;

weir_status chat_run_template(const chat_run *run, const json_t *messages, template_text *out, weir_error *err);

/* chat_repair.c: renders messages that the template refused, with stand-ins for
 * what it refuses.  `refusal` is the template's status, and stays the result
 * (with `err` as it is) when there is nothing to repair or it does not work. */
weir_status chat_repair(const chat_run *run, const json_t *messages, weir_status refusal, template_text *out,
                        weir_error *err);

/* Where the template itself last wrote `literal` in t, or SIZE_MAX. */
size_t chat_last_written(const template_text *t, const char *literal);

#endif
