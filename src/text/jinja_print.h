/* text/jinja_print.h - values as text: Python's str() and repr(), and JSON. */
#ifndef TEXT_JINJA_PRINT_H
#define TEXT_JINJA_PRINT_H

#include "text/jinja_string.h"

typedef struct json_style {
    bool ascii, sort_keys;
    bool indented; /* one item a line, each level `indent` deeper */
    jstr indent, item_separator, key_separator;
} json_style;

/* As json.dumps writes.  Fails on what JSON cannot hold. */
void print_json(jinja *j, jbuf *b, jvalue v, const json_style *style);
/* str(); for strings jv_to_str is cheaper. */
void print_value(jinja *j, jbuf *b, jvalue v);
/* float.__repr__ into out[32]: the shortest digits that read back the same. */
void print_float(char *out, size_t size, double f);

#endif
