/* serve/route.h - which handler a path has.
 *
 * One trailing slash and the query do not count; OpenAI-style paths are the same with and
 * without /v1. */
#ifndef SERVE_ROUTE_H
#define SERVE_ROUTE_H

#include "serve/server.h"

typedef enum route_access {
    ROUTE_KEY,     /* needs a key where there are any */
    ROUTE_METRICS, /* the same, unless metrics are public */
    ROUTE_ADMIN,   /* changes the server: needs a key for that where there are several */
    ROUTE_PUBLIC,
} route_access;

typedef struct route {
    const char  *path;   /* without /v1; for a "*" stands anything */
    const char  *method; /* "GET" (and HEAD), "POST" or "DELETE" */
    route_access access;
    bool         v1; /* with and without /v1 */
    handler     *handle;
} route;

typedef struct route_match {
    const route *route;     /* NULL: err says why */
    const char  *rest;      /* of the path, where "*" stands */
    char         allow[40]; /* for 405, or "" */
    api_dialect  dialect;
} route_match;

/* `path` is decoded, without its query.  `scratch` has strlen(path) + 1 bytes, and holds `rest`. */
void route_find(const char *method, const char *path, char *scratch, route_match *out, api_error *err);

#endif
