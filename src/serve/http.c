/* serve/http.c - see http.h. */
#include "serve/http.h"

#include "base/clock.h"
#include "base/mem.h"
#include "serve/body.h"
#include "serve/route.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREADS         = 4,
    MAX_CONNECTIONS = 1024,
    HEADER_MEMORY   = 64 * 1024, /* of request line and headers; more is 431 */
    HEADER_SECONDS  = 10,
    BODY_SECONDS    = 60, /* without progress */
    IDLE_SECONDS    = 75, /* between requests, and for a client that does not read */
    BLOCK           = 32 * 1024,
    BACKLOG         = 511,
};

/* One request and its answer on a connection. */
typedef struct exchange {
    http_request           r;
    listener              *l;
    struct MHD_Connection *c;
    outlet                *out;
    const char            *route; /* for the counters; static */
    api_dialect            dialect;
    str                    body;
    char                  *url, *scratch; /* copies of the path */
    bool                   too_large, handled, answered;
    uint64_t               serial;
    int                    socket;
    bool                   watched; /* for a hang-up */
    struct exchange       *prev, *next;
} exchange;

struct listener {
    server            *s;
    struct MHD_Daemon *daemon;
    int                socket, epoll;
    pthread_mutex_t    lock; /* guards the list */
    exchange          *all;
    uint64_t           serial;
};

/* ---- the list of exchanges ---- */

static void list_add(listener *l, exchange *x)
{
    (void)pthread_mutex_lock(&l->lock);
    x->serial = ++l->serial;
    x->next   = l->all;
    if (l->all != NULL) l->all->prev = x;
    l->all = x;
    (void)pthread_mutex_unlock(&l->lock);
}

static void list_remove(listener *l, exchange *x)
{
    (void)pthread_mutex_lock(&l->lock);
    if (x->watched) (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, x->socket, NULL);
    if (x->prev != NULL) x->prev->next = x->next;
    if (x->next != NULL) x->next->prev = x->prev;
    if (l->all == x) l->all = x->next;
    (void)pthread_mutex_unlock(&l->lock);
}

/* The socket is looked at while the library does not. */
static void watch(exchange *x)
{
    listener          *l  = x->l;
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = x->serial}};
    (void)pthread_mutex_lock(&l->lock);
    if (!x->watched) x->watched = epoll_ctl(l->epoll, EPOLL_CTL_ADD, x->socket, &ev) == 0;
    (void)pthread_mutex_unlock(&l->lock);
}

void listener_wait(listener *l, int milliseconds)
{
    struct epoll_event events[64];
    const int          n   = epoll_wait(l->epoll, events, 64, milliseconds);
    const uint64_t     now = clock_ns();
    (void)pthread_mutex_lock(&l->lock);
    for (exchange *x = l->all; x != NULL; x = x->next) {
        for (int i = 0; i < n; i++)
            if (events[i].data.u64 == x->serial) outlet_hang_up(x->out);
        outlet_tick(x->out, now);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

bool listener_idle(listener *l)
{
    (void)pthread_mutex_lock(&l->lock);
    const bool idle = l->all == NULL;
    (void)pthread_mutex_unlock(&l->lock);
    return idle;
}

/* ---- a request ---- */

static const char *header(const http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static const char *argument(const http_request *r, const char *name)
{
    const char *value = NULL;
    size_t      n;
    const bool  there =
        MHD_lookup_connection_value_n(r->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &n) == MHD_YES;
    return there && value == NULL ? "" : value;
}

static void suspend(void *connection)
{
    MHD_suspend_connection(connection);
}

static void resume(void *connection)
{
    MHD_resume_connection(connection);
}

/* The client's own id where it is one. */
static void choose_id(http_request *r)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char       *given     = header(r, "x-request-id");
    const size_t      n         = given != NULL ? strlen(given) : 0;
    if (n > 0 && n < sizeof r->id && strspn(given, allowed) == n)
        memcpy(r->id, given, n + 1);
    else
        random_id("req_", r->id, sizeof r->id);
}

static exchange *exchange_new(listener *l, struct MHD_Connection *c, const char *method, const char *url)
{
    exchange *x = mem_zalloc(1, sizeof *x);
    if (x == NULL) return NULL;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->l                                 = l;
    x->c                                 = c;
    x->socket                            = info->connect_fd;
    x->route                             = "other";
    x->out     = outlet_new(&(outlet_sleeper){.suspend = suspend, .resume = resume, .connection = c});
    x->url     = mem_strdup(url);
    x->scratch = mem_alloc(strlen(url) + 1, 1);
    str_init(&x->body, BODY_MAX);
    if (x->out == NULL || x->url == NULL || x->scratch == NULL) {
        if (x->out != NULL) outlet_release(x->out);
        mem_free(x->url);
        mem_free(x->scratch);
        mem_free(x);
        return NULL;
    }
    x->r = (http_request){.method      = method,
                          .path        = x->url,
                          .received_ns = clock_ns(),
                          .header      = header,
                          .argument    = argument,
                          .connection  = c};
    choose_id(&x->r);
    list_add(l, x);
    return x;
}

static void on_completed(void *user, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
    exchange *x = *state;
    (void)user;
    (void)c;
    (void)why;
    if (x == NULL) return;
    *state = NULL;
    list_remove(x->l, x);
    outlet_close(x->out);
    str_free(&x->body);
    mem_free(x->url);
    mem_free(x->scratch);
    mem_free(x);
}

/* ---- what is checked before the body is read ---- */

static bool check_framing(exchange *x, api_error *err)
{
    const char *length = header(&x->r, "Content-Length"), *coding = header(&x->r, "Transfer-Encoding");
    const char *packed = header(&x->r, "Content-Encoding");
    if (length != NULL && coding != NULL)
        return api_fail(err, API_INVALID, NULL, "expected one of Content-Length and Transfer-Encoding, found both");
    if (packed != NULL && strcasecmp(packed, "identity") != 0)
        return api_fail(err, API_INVALID, NULL, "Content-Encoding: expected none, found %.40s", packed);
    if (length != NULL && strtoull(length, NULL, 10) > BODY_MAX)
        return api_fail(err, API_TOO_LARGE, NULL, "body: expected at most %d bytes, found %.20s", BODY_MAX, length);
    return true;
}

static bool check_access(exchange *x, route_access access, api_error *err)
{
    const server     *s = x->l->s;
    const credentials c = {.authorization = header(&x->r, "Authorization"),
                           .x_api_key     = header(&x->r, "x-api-key"),
                           .api_key       = header(&x->r, "api-key")};
    if (access == ROUTE_PUBLIC || (access == ROUTE_METRICS && s->o->metrics_public)) return true;
    return access == ROUTE_ADMIN ? auth_admin(&s->auth, &c, err) : auth_key(&s->auth, &c, err);
}

static bool has_body(const exchange *x)
{
    const char *length = header(&x->r, "Content-Length");
    return header(&x->r, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* True when the request may go on to its body. */
static bool admit(exchange *x)
{
    api_error   err;
    route_match m;
    route_find(x->r.method, x->r.path, x->scratch, &m, &err);
    bool ok = auth_host(&x->l->s->auth, header(&x->r, "Host"), &err) && check_framing(x, &err);
    if (ok && strcmp(x->r.method, "OPTIONS") == 0) { /* of a browser, which has no key yet */
        outlet_answer(x->out, 204, NULL, "", 0);
        return false;
    }
    if (ok) ok = check_access(x, m.route != NULL ? m.route->access : ROUTE_KEY, &err);
    if (ok && m.route == NULL) {
        if (m.allow[0] != '\0') outlet_header(x->out, "Allow", m.allow);
        ok = false; /* err is route_find's */
    }
    if (m.route != NULL) x->route = m.route->path;
    x->dialect = m.dialect;
    if (!ok) answer_error(x->out, &err, m.dialect, x->r.id);
    return ok;
}

static void dispatch(exchange *x)
{
    api_error   err;
    route_match m;
    x->handled = true;
    route_find(x->r.method, x->r.path, x->scratch, &m, &err);
    if (x->too_large) {
        (void)api_fail(&err, API_TOO_LARGE, NULL, "body: expected at most %d bytes", BODY_MAX);
        answer_error(x->out, &err, m.dialect, x->r.id);
        return;
    }
    x->r.body   = x->body.data;
    x->r.n_body = x->body.len;
    m.route->handle(x->l->s, &x->r, m.rest, x->out);
    str_free(&x->body); /* the reply may take long */
}

/* ---- the answer ---- */

static ssize_t read_answer(void *user, uint64_t at, char *to, size_t max)
{
    exchange  *x = user;
    const long n = outlet_take(x->out, to, max);
    (void)at;
    if (n == OUTLET_END) return MHD_CONTENT_READER_END_OF_STREAM;
    return n == OUTLET_BROKEN ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)n;
}

static void put(struct MHD_Response *a, const char *name, const char *value)
{
    (void)MHD_add_response_header(a, name, value);
}

/* Pages of other sites may read the answer, where their origin is allowed; also an error. */
static void put_cors(const exchange *x, struct MHD_Response *a)
{
    const char *origin = header(&x->r, "Origin"), *asked = header(&x->r, "Access-Control-Request-Headers");
    if (!auth_origin(&x->l->s->auth, origin)) return;
    put(a, "Access-Control-Allow-Origin", origin);
    put(a, "Vary", "Origin");
    if (strcmp(x->r.method, "OPTIONS") != 0) {
        put(a, "Access-Control-Expose-Headers", "x-request-id, request-id, x-model-id, x-queue-ms, retry-after");
        return;
    }
    put(a, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    if (asked != NULL) put(a, "Access-Control-Allow-Headers", asked);
    put(a, "Access-Control-Max-Age", "86400");
    if (header(&x->r, "Access-Control-Request-Private-Network") != NULL)
        put(a, "Access-Control-Allow-Private-Network", "true");
}

static void put_headers(const exchange *x, const outlet_head *h, struct MHD_Response *a)
{
    char milliseconds[32];
    (void)snprintf(milliseconds, sizeof milliseconds, "%llu",
                   (unsigned long long)((clock_ns() - x->r.received_ns) / 1000000));
    put(a, "x-request-id", x->r.id);
    if (x->dialect == API_ANTHROPIC) put(a, "request-id", x->r.id);
    put(a, "x-model-id", x->l->s->o->model_id);
    put(a, "openai-processing-ms", milliseconds);
    if (h->content_type != NULL) put(a, "Content-Type", h->content_type);
    for (size_t i = 0; i < h->n_headers; i++) put(a, h->names[i], h->values[i]);
    if (!h->whole) {
        put(a, "Cache-Control", "no-cache");
        put(a, "X-Accel-Buffering", "no");
    }
    put_cors(x, a);
}

static enum MHD_Result send_answer(exchange *x)
{
    outlet_head h;
    if (outlet_closed(x->out)) return MHD_NO; /* the client hung up: so do we */
    outlet_get_head(x->out, &h);
    struct MHD_Response *a =
        h.whole && h.size == 0
            ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
            : MHD_create_response_from_callback(h.whole ? h.size : MHD_SIZE_UNKNOWN, BLOCK, read_answer, x, NULL);
    if (a == NULL) return MHD_NO;
    put_headers(x, &h, a);
    (void)MHD_set_connection_option(x->c, MHD_CONNECTION_OPTION_TIMEOUT, IDLE_SECONDS);
    const enum MHD_Result queued = MHD_queue_response(x->c, h.status, a);
    MHD_destroy_response(a);
    metrics_http(x->l->s->metrics, x->route, h.status);
    x->answered = true;
    return queued;
}

/* Called with the headers, with each piece of the body, at its end, and whenever the connection
 * was resumed. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **state)
{
    listener *l = user;
    exchange *x = *state;
    (void)version;
    if (x == NULL) {
        *state = x = exchange_new(l, c, method, url);
        if (x == NULL) return MHD_NO;
        (void)MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, BODY_SECONDS);
        x->handled = !admit(x);
        /* Refused before its body is read, which ends the connection; without one the connection stays. */
        return x->handled && has_body(x) ? send_answer(x) : MHD_YES;
    }
    if (x->answered) return MHD_YES;
    if (*n > 0) {
        if (!x->too_large) str_put(&x->body, data, *n);
        if (x->body.failed && !x->too_large) {
            x->too_large = true;
            str_free(&x->body);
        }
        *n = 0;
        return MHD_YES;
    }
    if (!x->handled) {
        dispatch(x);
        watch(x);
    }
    return outlet_ready(x->out) ? send_answer(x) : MHD_YES;
}

/* ---- opening ---- */

static int listen_on(const struct addrinfo *a)
{
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol), on = 1;
    if (s < 0) return -1;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, BACKLOG) == 0) return s;
    const int why = errno;
    (void)close(s);
    errno = why;
    return -1;
}

static weir_status open_socket(const serve_options *o, int *out, uint16_t *port, weir_error *err)
{
    struct addrinfo         hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    struct sockaddr_storage own;
    socklen_t               n = sizeof own;
    char                    service[8];
    (void)snprintf(service, sizeof service, "%u", o->port);
    const int bad = getaddrinfo(o->host, service, &hints, &all);
    if (bad != 0) return status_fail(err, WEIR_IO, "--host: %s: %s", o->host, gai_strerror(bad));
    *out = -1;
    for (const struct addrinfo *a = all; a != NULL && *out < 0; a = a->ai_next) *out = listen_on(a);
    freeaddrinfo(all);
    if (*out < 0) return status_fail(err, WEIR_IO, "%s port %u: cannot listen: %s", o->host, o->port, strerror(errno));
    (void)getsockname(*out, (struct sockaddr *)&own, &n);
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return WEIR_OK;
}

weir_status listener_open(listener **out, server *s, uint16_t *port, weir_error *err)
{
    listener *l = mem_zalloc(1, sizeof *l);
    *out        = NULL;
    if (l == NULL) return status_fail(err, WEIR_NO_MEMORY, "the listener: out of memory");
    l->s     = s;
    l->epoll = l->socket = -1;
    (void)pthread_mutex_init(&l->lock, NULL);
    weir_status st = open_socket(s->o, &l->socket, port, err);
    if (st == WEIR_OK && (l->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        st = status_fail(err, WEIR_IO, "the listener: %s", strerror(errno));
    if (st == WEIR_OK) {
        l->daemon =
            MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, l,
                             MHD_OPTION_LISTEN_SOCKET, l->socket, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
                             MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                             (size_t)HEADER_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HEADER_SECONDS,
                             MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
        if (l->daemon == NULL) st = status_fail(err, WEIR_IO, "the listener: cannot be started");
    }
    if (st != WEIR_OK) {
        listener_close(l);
        return st;
    }
    *out = l;
    return WEIR_OK;
}

void listener_drain(listener *l)
{
    (void)MHD_quiesce_daemon(l->daemon); /* the socket is ours again */
    (void)close(l->socket);
    l->socket = -1;
}

void listener_close(listener *l)
{
    if (l == NULL) return;
    (void)pthread_mutex_lock(&l->lock);
    for (exchange *x = l->all; x != NULL; x = x->next) outlet_hang_up(x->out); /* none may stay suspended */
    (void)pthread_mutex_unlock(&l->lock);
    if (l->daemon != NULL) MHD_stop_daemon(l->daemon);
    if (l->socket >= 0) (void)close(l->socket);
    if (l->epoll >= 0) (void)close(l->epoll);
    (void)pthread_mutex_destroy(&l->lock);
    mem_free(l);
}
