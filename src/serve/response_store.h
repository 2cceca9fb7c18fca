/* serve/response_store.h - responses that are over, for who continues or asks for them.
 *
 * A table of SQLite's, in memory or in a file.  It is bounded: what was used longest ago goes
 * first, and what is older than its time is gone.  A file that is broken is set aside under
 * another name, and the store begins anew: the server never fails for it.
 *
 * All functions may be called from any thread.  Only the store's own thread writes what is put
 * in, so that who puts never waits; who reads waits for what was put before. */
#ifndef SERVE_RESPONSE_STORE_H
#define SERVE_RESPONSE_STORE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct response_store response_store;

typedef struct response_store_options {
    const char *dir;       /* of the file, made when it is not there; NULL: in memory */
    uint64_t    max_bytes; /* texts of all responses together */
    int64_t     seconds;   /* that a response is kept */
    int64_t (*now)(void);  /* seconds since 1970; NULL: the clock's */
} response_store_options;

#define RESPONSE_STORE_FILE "responses.sqlite3"

/* A response: all texts owned (mem_free). */
typedef struct stored_response {
    char *id;
    char *previous; /* the id of the one that it continues, or NULL */
    char *items;    /* JSON array: the input's own items */
    char *response; /* JSON object */
} stored_response;

void stored_response_free(stored_response *r); /* all zero is allowed */

/* WEIR_IO: the file cannot be had (broken ones can). */
weir_status response_store_open(response_store **out, const response_store_options *o, weir_error *err);
void        response_store_close(response_store *s); /* writes what is left; NULL is allowed */

/* Takes what *r owns.  What does not fit the bound even alone is forgotten. */
void response_store_put(response_store *s, stored_response *r);
/* False when there is none. */
bool response_store_get(response_store *s, const char *id, stored_response *out);
bool response_store_delete(response_store *s, const char *id);

enum { RESPONSE_CHAIN_MAX = 1024 };

/* The response and those that it continues, the oldest first.  False when one of them is gone (or
 * memory ran out).  Release with stored_responses_free. */
bool response_store_chain(response_store *s, const char *id, stored_response **out, size_t *n);
void stored_responses_free(stored_response *r, size_t n);

#endif
