/* text/json_scan.h - a strict pull scanner for the two big tables of tokenizer.json.
 *
 * Why not the JSON library: a file of the family's size (248,000 tokens and as
 * many merges, 23 MB) takes jansson 680 ms to make a tree of, before any of it is
 * looked at; read where it stands it is a tokenizer after 100 ms (2.1 GHz Xeon,
 * bench/bench_tokenizer.c).  Only the tables come through here; everything else
 * of the file is handed to base/json.h. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H

#include "base/status.h"

#include <stdbool.h>

/* Entries of the alphabet table: one a byte, then one a sequence C2 80 .. C5 BF. */
enum { JSON_SCAN_PAIRS = 256, JSON_SCAN_ENTRIES = 256 + 4 * 64 };

typedef struct json_scan {
    const char *text; /* borrowed; a NUL stands behind it */
    size_t      len, at;
    int16_t     alphabet[JSON_SCAN_ENTRIES]; /* the byte that is spelled so, or -1 */
} json_scan;

void json_scan_init(json_scan *s, const char *text, size_t len);

/* Text of the scanned file; borrowed. */
typedef struct json_span {
    const char *text;
    size_t      len;
} json_span;

/* The next character that is not white space, or 0 at the end; not consumed. */
char json_scan_peek(json_scan *s);
/* Consumes the next character, which must be c. */
weir_status json_scan_expect(json_scan *s, char c, weir_error *err);
/* Behind a member or an element: consumes ',' (*more is true) or `close`. */
weir_status json_scan_more(json_scan *s, char close, bool *more, weir_error *err);
/* A string as it stands in the file, without its quotes. */
weir_status json_scan_raw(json_scan *s, json_span *out, weir_error *err);
/* Any value as it stands in the file.  Only its extent is found here. */
weir_status json_scan_value(json_scan *s, json_span *out, weir_error *err);
/* An integer 0 .. UINT32_MAX. */
weir_status json_scan_u32(json_scan *s, uint32_t *out, weir_error *err);

/* A string of the byte alphabet (text/byte_alphabet.h), decoded to `out`, which
 * has room for as many bytes as the file has. */
weir_status json_scan_token(json_scan *s, uint8_t *out, size_t *n, weir_error *err);
/* A string "left right" of two tokens.  They lie in `out` one behind the other. */
weir_status json_scan_token_pair(json_scan *s, uint8_t *out, size_t *n_left, size_t *n, weir_error *err);

#endif
