/* serve/responses_items.h - the items of a Responses input, to a chat's messages.
 *
 * Pure.  An item is one thing that happened: a message, a piece of reasoning, a call, what a
 * call gave.  The template wants turns: reasoning, text and calls that follow each other are
 * one message of the assistant.  Items of kinds that a model cannot read are left out, never
 * refused: a client sends its whole history again with every request. */
#ifndef SERVE_RESPONSES_ITEMS_H
#define SERVE_RESPONSES_ITEMS_H

#include "serve/api_error.h"

#include <jansson.h>

/* `input` is a string or an array of items.  *out: a new array of items that all have a type
 * and an id, as they are kept and listed; messages have an array of parts.  False with *err. */
bool responses_items_read(const json_t *input, json_t **out, api_error *err);

/* Appends the messages that `items` (of responses_items_read, or of a stored response) come to.
 * *left_out counts what was skipped.  False with *err, which names `input[index]`. */
bool responses_items_to_messages(const json_t *items, json_t *messages, size_t *left_out, api_error *err);

#endif
