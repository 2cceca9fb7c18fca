/* serve/json_out.h - JSON written straight into a string builder.
 *
 * Frames are many and small, and their shape is known: text with holes.  What goes into the
 * holes is written here, always on one line. */
#ifndef SERVE_JSON_OUT_H
#define SERVE_JSON_OUT_H

#include "base/str.h"

/* A JSON string with its quotes.  Bytes that are not UTF-8 come as U+FFFD; escaped are only
 * the quote, the backslash and control characters. */
void json_out_string(str *out, const char *bytes, size_t n);
/* The inside of it, without the quotes. */
void json_out_escaped(str *out, const char *bytes, size_t n);
/* The shortest decimal form that reads back as v; what is not finite, as -9999.0 or 0. */
void json_out_number(str *out, double v);

#endif
