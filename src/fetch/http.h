/* fetch/http.h - requests to a hub.  The only file that knows libcurl.
 *
 * Redirects are followed here, not by the library, because it matters where they
 * lead: the token goes to the endpoint's scheme, host and port and to nothing
 * else, and once a chain has left them it does not get it back; https never leads
 * to http.  Each thread has an http of its own. */
#ifndef FETCH_HTTP_H
#define FETCH_HTTP_H

#include "base/str.h"
#include "fetch/fetch.h"
#include "fetch/http_head.h"

#include <stdatomic.h>

typedef struct http http;

/* `halt` ends a request as s->stopped does.  Everything is borrowed. */
weir_status http_open(http **out, const fetch_settings *s, const fetch_name *name, const atomic_bool *halt,
                      weir_error *err);
void        http_close(http *h); /* NULL is allowed */

/* What is asked, and who takes the body of an answer 200 or 206. */
typedef struct http_request {
    const char *url;
    uint64_t    offset;   /* first byte wanted */
    const char *if_range; /* with an offset: only if the file still has this tag; "": whatever it is */
    bool (*begin)(void *user, const http_head *head); /* false ends the transfer */
    bool (*body)(void *user, const void *bytes, size_t n);
    void *user;
} http_request;

typedef enum http_outcome {
    HTTP_DONE,    /* all of the answer came */
    HTTP_AGAIN,   /* trouble that may pass: network, an overloaded server, an address that expired */
    HTTP_REFUSED, /* trouble that stays; *err says what to do about it */
    HTTP_ENDED    /* a callback, or the user, ended it (then WEIR_CANCELLED) */
} http_outcome;

/* One try, with redirects.  *err is filled unless the outcome is HTTP_DONE or a
 * callback ended it. */
http_outcome http_try(http *h, const http_request *q, http_head *head, weir_error *err);

/* Tries that may fail in a row before a download is given up, and the first question,
 * whose failure a person waits for. */
enum { HTTP_TRIES = 10, HTTP_FIRST_TRIES = 5 };
/* Waits before the try that follows `failures` failed ones.  false: stopped. */
bool http_wait(http *h, unsigned failures, const http_head *head);

/* Gets a text of at most out->max bytes, in up to `tries` tries. */
weir_status http_get(http *h, const char *url, unsigned tries, str *out, http_head *head, weir_error *err);

/* Whether a URL has the endpoint's scheme, host and port. */
bool http_is_endpoint(const http *h, const char *url);

/* Appends `text` so that it is a part of a URL's path; '/' stays where `keep_slash`. */
void http_put_escaped(str *out, const char *text, bool keep_slash);

#endif
