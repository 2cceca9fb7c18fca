/* serve/outlet.c - see outlet.h. */
#include "serve/outlet.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const uint64_t begin_after_ns = 2000000000u, silence_ns = 4500000000u;

/* Whole answers are bounded by what a reply may have; this is a last resort. */
enum { ANSWER_MAX = 1 << 30 };

struct outlet {
    pthread_mutex_t lock;
    outlet_sleeper  sleeper;
    unsigned        owners;
    bool            asleep; /* the connection is suspended */
    bool            begun, whole, ended, closed;
    bool            stream, comments; /* expected to be a stream; keep-alives are allowed */
    unsigned        status;
    const char     *content_type, *alive; /* alive: the frame of a keep-alive; NULL: a comment */
    size_t          n_headers;
    char           *names[OUTLET_HEADERS], *values[OUTLET_HEADERS];
    str             bytes;
    size_t          taken; /* of bytes */
    uint64_t        born, spoke;
    uint32_t        done, total;
};

outlet *outlet_new(const outlet_sleeper *s)
{
    outlet *o = mem_zalloc(1, sizeof *o);
    if (o == NULL) return NULL;
    (void)pthread_mutex_init(&o->lock, NULL);
    o->sleeper = *s;
    o->owners  = 1;
    o->status  = 200;
    o->born = o->spoke = clock_ns();
    str_init(&o->bytes, ANSWER_MAX);
    return o;
}

outlet *outlet_share(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    o->owners++;
    (void)pthread_mutex_unlock(&o->lock);
    return o;
}

void outlet_release(outlet *o)
{
    if (o == NULL) return;
    (void)pthread_mutex_lock(&o->lock);
    const bool last = --o->owners == 0;
    (void)pthread_mutex_unlock(&o->lock);
    if (!last) return;
    for (size_t i = 0; i < o->n_headers; i++) {
        mem_free(o->names[i]);
        mem_free(o->values[i]);
    }
    str_free(&o->bytes);
    (void)pthread_mutex_destroy(&o->lock);
    mem_free(o);
}

/* Called locked. */
static void wake(outlet *o)
{
    if (!o->asleep) return;
    o->asleep = false;
    o->sleeper.resume(o->sleeper.connection);
}

void outlet_header(outlet *o, const char *name, const char *value)
{
    (void)pthread_mutex_lock(&o->lock);
    if (!o->begun && o->n_headers < OUTLET_HEADERS) {
        char *n = mem_strdup(name), *v = mem_strdup(value);
        if (n != NULL && v != NULL) {
            o->names[o->n_headers]    = n;
            o->values[o->n_headers++] = v;
        } else {
            mem_free(n);
            mem_free(v);
        }
    }
    (void)pthread_mutex_unlock(&o->lock);
}

void outlet_answer(outlet *o, unsigned status, const char *content_type, const char *body, size_t n)
{
    (void)pthread_mutex_lock(&o->lock);
    if (!o->begun) {
        o->begun = o->whole = o->ended = true;
        o->status                      = status;
        o->content_type                = content_type;
        str_put(&o->bytes, body, n);
        wake(o);
    }
    (void)pthread_mutex_unlock(&o->lock);
}

void outlet_expect_stream(outlet *o, const char *content_type, bool comments)
{
    (void)pthread_mutex_lock(&o->lock);
    o->stream       = true;
    o->comments     = comments;
    o->content_type = content_type;
    (void)pthread_mutex_unlock(&o->lock);
}

void outlet_keep_alive(outlet *o, const char *frame)
{
    (void)pthread_mutex_lock(&o->lock);
    o->alive = frame;
    (void)pthread_mutex_unlock(&o->lock);
}

static void begin(outlet *o)
{
    if (o->begun) return;
    o->begun = true;
    o->spoke = clock_ns();
    wake(o);
}

void outlet_begin(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    begin(o);
    (void)pthread_mutex_unlock(&o->lock);
}

bool outlet_begun(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    const bool yes = o->begun;
    (void)pthread_mutex_unlock(&o->lock);
    return yes;
}

static bool has_room(const outlet *o)
{
    return o->bytes.len - o->taken < OUTLET_MAX;
}

static void append(outlet *o, const char *bytes, size_t n)
{
    if (o->taken == o->bytes.len) {
        str_clear(&o->bytes);
        o->taken = 0;
    } else if (o->taken > OUTLET_MAX) { /* what was sent makes room */
        memmove(o->bytes.data, o->bytes.data + o->taken, o->bytes.len - o->taken + 1);
        o->bytes.len -= o->taken;
        o->taken = 0;
    }
    str_put(&o->bytes, bytes, n);
    o->spoke = clock_ns();
}

bool outlet_put(outlet *o, const char *bytes, size_t n)
{
    (void)pthread_mutex_lock(&o->lock);
    if (!has_room(o)) o->closed = true; /* who does not read is as good as gone */
    const bool useful = !o->closed && !o->ended;
    if (useful) {
        begin(o);
        append(o, bytes, n);
    }
    wake(o);
    (void)pthread_mutex_unlock(&o->lock);
    return useful;
}

void outlet_end(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    begin(o);
    o->ended = true;
    wake(o);
    (void)pthread_mutex_unlock(&o->lock);
}

bool outlet_closed(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    const bool yes = o->closed;
    (void)pthread_mutex_unlock(&o->lock);
    return yes;
}

void outlet_progress(outlet *o, uint32_t done, uint32_t total)
{
    (void)pthread_mutex_lock(&o->lock);
    o->done  = done;
    o->total = total;
    (void)pthread_mutex_unlock(&o->lock);
}

bool outlet_ready(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    const bool ready = o->begun || o->closed;
    if (!ready) {
        o->asleep = true;
        o->sleeper.suspend(o->sleeper.connection);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return ready;
}

void outlet_get_head(outlet *o, outlet_head *out)
{
    (void)pthread_mutex_lock(&o->lock);
    *out = (outlet_head){.status       = o->status,
                         .content_type = o->content_type,
                         .n_headers    = o->n_headers,
                         .whole        = o->whole,
                         .size         = o->bytes.len};
    memcpy(out->names, o->names, sizeof out->names);
    memcpy(out->values, o->values, sizeof out->values);
    (void)pthread_mutex_unlock(&o->lock);
}

long outlet_take(outlet *o, char *to, size_t max)
{
    long result = 0;
    (void)pthread_mutex_lock(&o->lock);
    const size_t left = o->bytes.len - o->taken, n = left < max ? left : max;
    if (o->bytes.failed || o->closed) {
        result = OUTLET_BROKEN;
    } else if (n > 0) {
        memcpy(to, o->bytes.data + o->taken, n);
        o->taken += n;
        result = (long)n;
    } else if (o->ended) {
        result = OUTLET_END;
    } else {
        o->asleep = true;
        o->sleeper.suspend(o->sleeper.connection);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return result;
}

void outlet_hang_up(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    o->closed = true;
    wake(o);
    (void)pthread_mutex_unlock(&o->lock);
}

void outlet_close(outlet *o)
{
    (void)pthread_mutex_lock(&o->lock);
    o->closed = true;
    o->asleep = false; /* there is no connection any more */
    (void)pthread_mutex_unlock(&o->lock);
    outlet_release(o);
}

void outlet_tick(outlet *o, uint64_t now)
{
    (void)pthread_mutex_lock(&o->lock);
    if (o->stream && !o->ended && !o->closed) {
        if (!o->begun && now > o->born + begin_after_ns) begin(o);
        if (o->begun && o->comments && has_room(o) && now > o->spoke + silence_ns) {
            char      text[64];
            const int n = snprintf(text, sizeof text, ": keepalive %u/%u\n\n", o->done, o->total);
            if (o->alive != NULL)
                append(o, o->alive, strlen(o->alive));
            else
                append(o, text, (size_t)n);
            wake(o);
        }
    }
    (void)pthread_mutex_unlock(&o->lock);
}
