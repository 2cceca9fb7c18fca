/* serve/auth.h - who may ask: keys, hosts, and the web pages of other origins. */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include "serve/api_error.h"
#include "serve/serve.h"

#include <stdbool.h>

typedef struct key_ring key_ring;

typedef struct auth {
    key_ring  *keys;     /* owned; may be changed while it is asked */
    bool       loopback; /* only this machine reaches the address */
    serve_list origins, hosts;
} auth;

/* Reads the keys of options and file (one a line, "#" begins a comment, "NAME:" before the key
 * is for people, and "admin " before that tells one that may change the server).  WEIR_INVALID: an address that others
 * reach without a key, unless `insecure`. */
weir_status auth_init(auth *a, const serve_options *o, weir_error *err);
/* Reads them again; on failure those that were there stay. */
weir_status auth_reload(auth *a, const serve_options *o, weir_error *err);
void        auth_free(auth *a); /* all zero is allowed */

/* What a request carries; NULL where it does not. */
typedef struct credentials {
    const char *authorization, *x_api_key, *api_key;
} credentials;

/* In a time that does not depend on where a wrong key differs. */
bool auth_key(const auth *a, const credentials *c, api_error *err);
/* The same for what changes the server: where there are several keys it has to be an admin's. */
bool auth_admin(const auth *a, const credentials *c, api_error *err);
/* A page of another site that had its name resolved to us says so in Host (DNS rebinding). */
bool auth_host(const auth *a, const char *host, api_error *err);
/* Whether the answer may be read by a page of `origin`. */
bool auth_origin(const auth *a, const char *origin);

/* "127.0.0.1", "::1", "localhost". */
bool auth_is_loopback(const char *host);

#endif
