/* fetch/http.c - requests by libcurl; see http.h. */
#include "fetch/http.h"

#include "base/clock.h"
#include "base/mem.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { MAX_HOPS = 10, CONNECT_SECONDS = 20, IGNORED_BYTES = 1 << 20, MAX_WAIT_MS = 60 * 1000 };

/* Where a URL leads. */
typedef struct origin {
    char scheme[8], host[256], port[8];
} origin;

struct http {
    CURL                 *curl;
    const fetch_settings *s;
    const fetch_name     *name;
    const atomic_bool    *halt;
    origin                endpoint;
    char                  trouble[CURL_ERROR_SIZE];

    /* of the request at work */
    const http_request *request;
    http_head          *head;
    bool                began, ended; /* the body's taker was told; it ended the transfer */
    size_t              ignored;      /* bytes of a body that nobody wants */
};

static bool read_origin(origin *out, const char *url)
{
    CURLU *u    = curl_url();
    char  *part = NULL;
    bool   ok   = u != NULL && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK;
    *out        = (origin){0};
    const struct {
        CURLUPart what;
        char     *to;
        size_t    size;
    } parts[] = {{CURLUPART_SCHEME, out->scheme, sizeof out->scheme},
                 {CURLUPART_HOST, out->host, sizeof out->host},
                 {CURLUPART_PORT, out->port, sizeof out->port}};
    for (size_t i = 0; ok && i < 3; i++) {
        ok = curl_url_get(u, parts[i].what, &part, CURLU_DEFAULT_PORT) == CURLUE_OK && strlen(part) < parts[i].size;
        if (ok) memcpy(parts[i].to, part, strlen(part) + 1);
        curl_free(part);
        part = NULL;
    }
    curl_url_cleanup(u);
    return ok;
}

static bool same_origin(const origin *a, const origin *b)
{
    return strcasecmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

bool http_is_endpoint(const http *h, const char *url)
{
    origin o;
    return read_origin(&o, url) && same_origin(&o, &h->endpoint);
}

static bool stopped(const http *h)
{
    return atomic_load(h->halt) || (h->s->stopped != NULL && h->s->stopped(h->s->user));
}

/* ------------------------------------------------------------------ libcurl's callbacks */

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    http *h = user;
    http_head_line(h->head, line, size * n);
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    http *h = user;
    n *= size;
    (void)curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &h->head->status);
    if (h->head->status != 200 && h->head->status != 206) {
        h->ignored += n;
        return h->ignored <= IGNORED_BYTES ? n : 0;
    }
    if (!h->began) {
        h->began = true;
        h->ended = !h->request->begin(h->request->user, h->head);
    }
    h->ended = h->ended || !h->request->body(h->request->user, bytes, n);
    return h->ended ? 0 : n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return stopped(user) ? 1 : 0;
}

/* ------------------------------------------------------------------ a handle */

static void set_options(http *h)
{
    CURL                 *c = h->curl;
    const fetch_settings *s = h->s;
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, "weir");
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)s->stall_seconds);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->trouble);
    (void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L * 1024);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    (void)curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(c, CURLOPT_XFERINFODATA, h);
    (void)curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's answer is not the hub's */
    if (s->certificates != NULL) (void)curl_easy_setopt(c, CURLOPT_CAINFO, s->certificates);
}

weir_status http_open(http **out, const fetch_settings *s, const fetch_name *name, const atomic_bool *halt,
                      weir_error *err)
{
    *out         = NULL;
    http  *h     = mem_zalloc(1, sizeof *h);
    CURL  *curl  = curl_easy_init();
    origin place = {0};
    if (h == NULL || curl == NULL) {
        mem_free(h);
        curl_easy_cleanup(curl);
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name->repo);
    }
    if (!read_origin(&place, s->endpoint) ||
        (strcasecmp(place.scheme, "https") != 0 && strcasecmp(place.scheme, "http") != 0)) {
        mem_free(h);
        curl_easy_cleanup(curl);
        return status_fail(err, WEIR_INVALID, "%.300s: expected an address with https:// or http:// as endpoint",
                           s->endpoint);
    }
    *h = (http){.curl = curl, .s = s, .name = name, .halt = halt, .endpoint = place};
    set_options(h);
    /* https does not become http on the way. */
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR,
                           strcasecmp(place.scheme, "https") == 0 ? "https" : "http,https");
    *out = h;
    return WEIR_OK;
}

void http_close(http *h)
{
    if (h == NULL) return;
    curl_easy_cleanup(h->curl);
    mem_free(h);
}

/* ------------------------------------------------------------------ a request */

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer == NULL) return false;
    *list = longer;
    return true;
}

static bool make_headers(struct curl_slist **list, const http *h, bool with_token)
{
    enum { LINE_BYTES = 4096 };
    char                line[LINE_BYTES];
    const http_request *q = h->request;
    if (!add_header(list, "Accept-Encoding: identity")) return false;
    if (q->offset > 0) {
        (void)snprintf(line, sizeof line, "Range: bytes=%" PRIu64 "-", q->offset);
        if (!add_header(list, line)) return false;
        (void)snprintf(line, sizeof line, "If-Range: %s", q->if_range);
        if (q->if_range[0] != '\0' && !add_header(list, line)) return false;
    }
    if (!with_token || h->s->token == NULL) return true;
    const int  n  = snprintf(line, sizeof line, "Authorization: Bearer %s", h->s->token);
    const bool ok = n > 0 && (size_t)n < sizeof line && add_header(list, line);
    explicit_bzero(line, sizeof line);
    return ok;
}

/* One request without its redirects. */
static CURLcode perform(http *h, const char *url, bool with_token)
{
    struct curl_slist *headers = NULL;
    CURLcode           code    = CURLE_OUT_OF_MEMORY;
    h->began = h->ended = false;
    h->ignored          = 0;
    h->trouble[0]       = '\0';
    *h->head            = (http_head){.at_endpoint = with_token};
    if (make_headers(&headers, h, with_token)) {
        (void)curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
        code = curl_easy_setopt(h->curl, CURLOPT_URL, url);
        if (code == CURLE_OK) code = curl_easy_perform(h->curl);
        (void)curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, NULL);
        (void)curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &h->head->status);
    }
    curl_slist_free_all(headers);
    /* Enough of a body that nobody reads is no failure. */
    if (code == CURLE_WRITE_ERROR && h->ignored > IGNORED_BYTES) code = CURLE_OK;
    return code;
}

static http_outcome on_trouble(const http *h, CURLcode code, weir_error *err)
{
    const char *why = h->trouble[0] != '\0' ? h->trouble : curl_easy_strerror(code);
    if (stopped(h)) {
        (void)status_fail(err, WEIR_CANCELLED, "%s: stopped", h->name->repo);
        return HTTP_ENDED;
    }
    if (h->ended) return HTTP_ENDED;
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        (void)status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", h->name->repo);
        return HTTP_REFUSED;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: (void)status_fail(err, WEIR_IO, "%s: %s", h->name->repo, why); return HTTP_REFUSED;
    default: (void)status_fail(err, WEIR_IO, "%s: %s", h->name->repo, why); return HTTP_AGAIN;
    }
}

/* What the hub says no to, and what a person can do about it. */
static http_outcome on_refusal(const http *h, weir_error *err)
{
    const http_head *head = h->head;
    const char      *repo = h->name->repo, *page = h->s->endpoint;
    const bool       has_token = h->s->token != NULL;
    if (strcmp(head->error_code, "RevisionNotFound") == 0) {
        (void)status_fail(err, WEIR_UNSUPPORTED, "%s: has no revision \"%s\"", repo, h->name->revision);
    } else if (strcmp(head->error_code, "GatedRepo") == 0 || head->status == 403) {
        (void)status_fail(err, WEIR_UNSUPPORTED, "%s: gated or not for everyone: ask for access at %s/%s%s", repo, page,
                          repo,
                          has_token ? " with the account that the token belongs to"
                                    : ", then set HF_TOKEN to a token of your account");
    } else if (head->status == 401 && has_token && head->error_code[0] == '\0') {
        (void)status_fail(err, WEIR_UNSUPPORTED, "%s: the hub does not take the token (HF_TOKEN, or the token file)",
                          repo);
    } else if (head->status == 401 || head->status == 404) {
        (void)status_fail(err, WEIR_UNSUPPORTED, "%s: not found at %s, or private%s", repo, page,
                          has_token ? " to others than the token's account" : " (HF_TOKEN is not set)");
    } else {
        (void)status_fail(err, WEIR_UNSUPPORTED, "%s: the hub answered with HTTP status %ld%s%s", repo, head->status,
                          head->error_code[0] != '\0' ? ", " : "", head->error_code);
    }
    return HTTP_REFUSED;
}

static http_outcome judge(http *h, weir_error *err)
{
    const long status = h->head->status;
    if (status == 200 || status == 206) {
        /* An empty body has told nobody yet. */
        if (!h->began && !h->request->begin(h->request->user, h->head)) return HTTP_ENDED;
        return HTTP_DONE;
    }
    /* Storage says 403 when a signed address has expired: the hub gives a new one. */
    const bool passes = status >= 500 || status == 408 || status == 429 || !h->head->at_endpoint;
    if (!passes) return on_refusal(h, err);
    (void)status_fail(err, WEIR_IO, "%s: %s answered with HTTP status %ld", h->name->repo,
                      h->head->at_endpoint ? "the hub" : "the hub's storage", status);
    return HTTP_AGAIN;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

http_outcome http_try(http *h, const http_request *q, http_head *head, weir_error *err)
{
    http_outcome out   = HTTP_REFUSED;
    char        *url   = mem_strdup(q->url);
    bool         token = true; /* still at the endpoint */
    h->request         = q;
    h->head            = head;
    for (int hop = 0;; hop++) {
        char *next = NULL;
        if (url == NULL) {
            (void)status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", h->name->repo);
            break;
        }
        if (hop > MAX_HOPS) {
            (void)status_fail(err, WEIR_FORMAT, "%s: expected at most %d redirects", h->name->repo, MAX_HOPS);
            break;
        }
        token               = token && http_is_endpoint(h, url);
        const CURLcode code = perform(h, url, token);
        if (code != CURLE_OK) {
            out = on_trouble(h, code, err);
            break;
        }
        (void)curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next);
        if (!is_redirect(head->status) || next == NULL || strlen(next) > HTTP_URL_BYTES) {
            out = judge(h, err);
            break;
        }
        mem_free(url);
        url = mem_strdup(next);
    }
    mem_free(url);
    return out;
}

bool http_wait(http *h, unsigned failures, const http_head *head)
{
    uint64_t ms = (uint64_t)h->s->backoff_ms << (failures - 1 < 16 ? failures - 1 : 16);
    if (ms > MAX_WAIT_MS / 2) ms = MAX_WAIT_MS / 2;
    ms += clock_ns() / 1000 % (ms / 2 + 1); /* so that many programs do not come back at once */
    if (head->retry_after * UINT64_C(1000) > ms) ms = head->retry_after * UINT64_C(1000);
    if (ms > MAX_WAIT_MS) ms = MAX_WAIT_MS;
    const uint64_t end = clock_ns() + ms * 1000000;
    while (clock_ns() < end) {
        if (stopped(h)) return false;
        const struct timespec slice = {.tv_nsec = 20 * 1000 * 1000};
        (void)nanosleep(&slice, NULL);
    }
    return !stopped(h);
}

/* ------------------------------------------------------------------ small texts */

static bool begin_text(void *user, const http_head *head)
{
    (void)head;
    str_clear(user);
    return true;
}

static bool add_text(void *user, const void *bytes, size_t n)
{
    str *s = user;
    str_put(s, bytes, n);
    return !s->failed;
}

weir_status http_get(http *h, const char *url, unsigned tries, str *out, http_head *head, weir_error *err)
{
    const http_request q = {.url = url, .if_range = "", .begin = begin_text, .body = add_text, .user = out};
    for (unsigned failures = 0;;) {
        weir_error         why;
        const http_outcome outcome = http_try(h, &q, head, &why);
        if (outcome == HTTP_DONE) return str_status(out, url, err);
        if (outcome == HTTP_ENDED && out->failed)
            return status_fail(err, WEIR_FORMAT, "%s: expected an answer of at most %zu bytes", url, out->max);
        if (outcome != HTTP_AGAIN) {
            if (err != NULL) *err = why;
            return why.status;
        }
        if (++failures >= tries) return status_fail(err, why.status, "%s (tried %u times)", why.text, failures);
        if (!http_wait(h, failures, head)) return status_fail(err, WEIR_CANCELLED, "%s: stopped", h->name->repo);
    }
}

void http_put_escaped(str *out, const char *text, bool keep_slash)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (const char *p = text; *p != '\0'; p++) {
        if ((keep_slash && *p == '/') || strchr(plain, *p) != NULL)
            str_putc(out, *p);
        else
            str_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
    }
}
