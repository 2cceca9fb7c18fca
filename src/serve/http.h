/* serve/http.h - the listener: sockets, limits, and the way of a request to its handler.
 *
 * The only room of libmicrohttpd.  A few threads of the library read requests, run handlers and
 * send answers; a connection whose answer is not there yet is suspended, and resumed by its
 * outlet.  A suspended connection's socket is not looked at by the library: listener_wait does,
 * and tells the outlet when the client hangs up. */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "serve/server.h"

typedef struct listener listener;

/* Listens on the options' host and port, and serves from now on.  WEIR_IO: the address cannot be
 * had.  *port: the one it got. */
weir_status listener_open(listener **out, server *s, uint16_t *port, weir_error *err);

/* Sleeps up to so long; wakes for clients that hang up and for streams that need a sign of life. */
void listener_wait(listener *l, int milliseconds);
/* Accepts no more connections. */
void listener_drain(listener *l);
/* No answer is on its way. */
bool listener_idle(listener *l);
/* Ends what is left.  No handler may run and no outlet be written any more.  NULL is allowed. */
void listener_close(listener *l);

#endif
