/* include/weir/text.h - strings, token ids and chats.
 *
 * All functions may be called from any thread at the same time; a weir_detok
 * belongs to one thread at a time. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "weir/model.h"

/* A list of token ids; release with weir_ids_free.  All zero is empty. */
typedef struct weir_ids {
    uint32_t *data;
    size_t    n;
    size_t    capacity;
} weir_ids;

WEIR_API void weir_ids_free(weir_ids *ids);

/* Appends the ids of `len` bytes of UTF-8 to *out.  With `added_tokens` the
 * spellings of added tokens ("<|im_end|>") become their ids; without they are
 * ordinary text.  WEIR_INVALID names the offset of a byte that is not UTF-8;
 * WEIR_UNSUPPORTED: the model has no tokenizer. */
WEIR_API weir_status weir_tokenize(const weir_model *m, const char *text, size_t len, bool added_tokens, weir_ids *out,
                                   weir_error *err);

/* The bytes that `id` stands for (part of a character, maybe), borrowed from
 * the model; NULL and *len 0 for an id without text. */
WEIR_API const uint8_t *weir_token_bytes(const weir_model *m, uint32_t id, size_t *len);

/* Ids to text as they come, never half a character: incomplete UTF-8 is held
 * back, at most 3 bytes of it. */
typedef struct weir_detok weir_detok;

/* With `skip_special` tokens the tokenizer calls special give no text. */
WEIR_API weir_status weir_detok_new(weir_detok **out, const weir_model *m, bool skip_special, weir_error *err);
WEIR_API void        weir_detok_free(weir_detok *d); /* NULL is allowed */
/* The text that `id` completes, valid until the next call on `d`; may be empty.
 * Bytes that cannot become a character come as U+FFFD. */
WEIR_API weir_status weir_detok_push(weir_detok *d, uint32_t id, const char **text, size_t *len, weir_error *err);
/* What is still held back, as U+FFFD; then `d` is as new. */
WEIR_API weir_status weir_detok_flush(weir_detok *d, const char **text, size_t *len, weir_error *err);

/* A conversation rendered with the checkpoint's own template. */
typedef struct weir_prompt {
    char    *text; /* what the template made, for people */
    size_t   text_len;
    weir_ids ids;
    bool     thinking_open; /* the prompt ends inside <think>: the reply begins with reasoning */
} weir_prompt;

/* Renders and tokenizes a chat.  `messages_json`: array of messages in the
 * OpenAI form (role, content, reasoning_content, tool_calls, ...).
 * `tools_json`: array of tools or NULL.  `kwargs_json`: object of template
 * variables (add_generation_prompt, enable_thinking, ...) or NULL.  Spellings
 * of control tokens inside messages stay text.  WEIR_INVALID names the message
 * and field, or is the template's own complaint; WEIR_UNSUPPORTED: the model
 * has no tokenizer or no template.  Release with weir_prompt_free. */
WEIR_API weir_status weir_chat_render(const weir_model *m, const char *messages_json, const char *tools_json,
                                      const char *kwargs_json, weir_prompt *out, weir_error *err);
WEIR_API void        weir_prompt_free(weir_prompt *p); /* all zero is allowed */

#endif
