/* fetch/http_head.h - the lines before an answer's body. */
#ifndef FETCH_HTTP_HEAD_H
#define FETCH_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_TAG_BYTES = 200, HTTP_CODE_BYTES = 40, HTTP_URL_BYTES = 8192 };

typedef struct http_head {
    long     status;
    bool     at_endpoint; /* who answered is the hub itself, no storage it sent us to */
    bool     has_length, has_range, has_total;
    uint64_t length;                      /* Content-Length */
    uint64_t range_start, range_total;    /* Content-Range; the total may be unknown */
    char     tag[HTTP_TAG_BYTES];         /* a strong ETag with its quotes, else "" */
    char     error_code[HTTP_CODE_BYTES]; /* the hub's word for what is wrong, or "" */
    uint32_t retry_after;                 /* seconds; 0: not said */
    char     next[HTTP_URL_BYTES];        /* the next page, or "" */
} http_head;

/* Reads one line, its end included or not.  A status line begins anew.  Lines
 * that are none, or have values that are none, are passed over. */
void http_head_line(http_head *head, const char *line, size_t n);

#endif
