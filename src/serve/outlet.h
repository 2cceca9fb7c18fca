/* serve/outlet.h - where an answer goes: a bounded buffer between who makes it and who sends it.
 *
 * The maker (a handler, or the engine's thread) writes and never waits.  The sender (the
 * listener's threads, http.c) takes what is there, and sleeps where nothing is: its connection
 * is suspended, and the next write resumes it.  Either may leave first; the last one to release
 * the outlet frees it.  All functions may be called from any thread.
 *
 * An answer is whole (outlet_answer), or a stream: outlet_begin, outlet_put..., outlet_end.
 * While a stream is silent outlet_tick writes its keep-alive. */
#ifndef SERVE_OUTLET_H
#define SERVE_OUTLET_H

#include "base/str.h"

#include <stdint.h>

typedef struct outlet outlet;

enum { OUTLET_MAX = 1 << 20, OUTLET_HEADERS = 16 };

/* How the sender's connection is put to sleep and woken; called with the outlet locked, so
 * they must not call back. */
typedef struct outlet_sleeper {
    void (*suspend)(void *connection);
    void (*resume)(void *connection);
    void *connection;
} outlet_sleeper;

/* NULL without memory.  It belongs to the sender (outlet_close) and, from outlet_share on, to a maker too. */
outlet *outlet_new(const outlet_sleeper *s);
outlet *outlet_share(outlet *o);
void    outlet_release(outlet *o); /* a maker is done with it; NULL is allowed */

/* ---- the maker ---- */

/* A header of the answer, before it begins; copied.  At most OUTLET_HEADERS. */
void outlet_header(outlet *o, const char *name, const char *value);
/* The whole answer. */
void outlet_answer(outlet *o, unsigned status, const char *content_type, const char *body, size_t n);
/* The answer is going to be a stream of this (static) type, unless something fails before it
 * begins.  `comments`: outlet_tick may write an event stream's comment while it is silent. */
void outlet_expect_stream(outlet *o, const char *content_type, bool comments);
/* What keeps the stream alive instead of the comment: this (static) frame. */
void outlet_keep_alive(outlet *o, const char *frame);
/* Begins the stream, once; later calls do nothing. */
void outlet_begin(outlet *o);
bool outlet_begun(outlet *o);
/* Appends to the stream, which begins it.  False when it is for nothing: the client has hung up,
 * or reads so slowly that OUTLET_MAX bytes wait, which counts as hanging up. */
bool outlet_put(outlet *o, const char *bytes, size_t n);
/* Nothing follows. */
void outlet_end(outlet *o);
/* The sender left: the client hung up. */
bool outlet_closed(outlet *o);
/* Tokens of the prompt read so far, for the keep-alive. */
void outlet_progress(outlet *o, uint32_t done, uint32_t total);

/* ---- the sender ---- */

/* True when the answer has begun; otherwise the connection was suspended until it has. */
bool outlet_ready(outlet *o);

typedef struct outlet_head {
    unsigned    status;
    const char *content_type;
    size_t      n_headers;
    const char *names[OUTLET_HEADERS], *values[OUTLET_HEADERS]; /* borrowed from the outlet */
    bool        whole;                                          /* `size` bytes are all */
    size_t      size;
} outlet_head;

void outlet_get_head(outlet *o, outlet_head *out);

enum { OUTLET_END = -1, OUTLET_BROKEN = -2 };
/* Up to `max` bytes; 0 when there are none yet: then the connection was suspended.  OUTLET_END
 * behind the last; OUTLET_BROKEN for an answer that ran out of memory. */
long outlet_take(outlet *o, char *to, size_t max);
/* The client hung up: the maker hears of it, and a sleeping connection is resumed, so that it can go. */
void outlet_hang_up(outlet *o);
/* The sender leaves, also when all was sent.  Releases. */
void outlet_close(outlet *o);
/* The time of day for streams, every second or so: begins one that has waited for two seconds,
 * and keeps one alive that was silent for five. */
void outlet_tick(outlet *o, uint64_t now_ns);

#endif
