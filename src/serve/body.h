/* serve/body.h - the JSON of a request body.
 *
 * One object; nesting at most BODY_DEPTH; UTF-8; integers exactly, up to 2^63; the last of
 * duplicate keys counts; half a surrogate pair is U+FFFD.  Objects keep the order of their
 * keys (jansson does). */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H

#include "serve/api_error.h"

#include <jansson.h>

enum { BODY_MAX = 64 << 20, BODY_DEPTH = 128, BODY_VALUES = 4 << 20 };

/* Parses n bytes, which may be changed (surrogates).  False with *err filled; otherwise the
 * caller owns *out (json_decref). */
bool body_parse(char *text, size_t n, json_t **out, api_error *err);

#endif
