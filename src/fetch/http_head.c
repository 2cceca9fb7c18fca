/* fetch/http_head.c - header lines, which anyone may have written; see http_head.h. */
#include "fetch/http_head.h"

#include <string.h>
#include <strings.h>

/* A number of at most 18 digits, so that it cannot overflow; *at moves behind it. */
static bool read_number(const char **at, const char *end, uint64_t *out)
{
    const char *p = *at;
    uint64_t    v = 0;
    while (p < end && p - *at < 18 && *p >= '0' && *p <= '9') v = v * 10 + (uint64_t)(*p++ - '0');
    if (p == *at || (p < end && *p >= '0' && *p <= '9')) return false;
    *at  = p;
    *out = v;
    return true;
}

/* "bytes 100-199/1000"; a total of "*" is unknown. */
static void read_range(http_head *head, const char *p, const char *end)
{
    uint64_t last;
    if (end - p < 6 || strncasecmp(p, "bytes ", 6) != 0) return;
    p += 6;
    if (!read_number(&p, end, &head->range_start) || p == end || *p++ != '-') return;
    if (!read_number(&p, end, &last) || last < head->range_start || p == end || *p++ != '/') return;
    head->has_range = true;
    head->has_total = read_number(&p, end, &head->range_total);
}

/* <URL>; rel="next", perhaps among others with commas between */
static void read_link(http_head *head, const char *p, const char *end)
{
    while (p < end) {
        const char *open = memchr(p, '<', (size_t)(end - p));
        if (open == NULL) return;
        const char *close = memchr(open, '>', (size_t)(end - open));
        if (close == NULL) return;
        const char  *comma = memchr(close, ',', (size_t)(end - close)), *stop = comma != NULL ? comma : end;
        const size_t n = (size_t)(close - open) - 1;
        for (const char *q = close; q < stop; q++) {
            static const char quoted[] = "rel=\"next\"", bare[] = "rel=next";
            const size_t      room = (size_t)(stop - q);
            const bool        next = (room >= sizeof quoted - 1 && strncasecmp(q, quoted, sizeof quoted - 1) == 0) ||
                              (room >= sizeof bare - 1 && strncasecmp(q, bare, sizeof bare - 1) == 0);
            if (!next || n == 0 || n >= sizeof head->next) continue;
            memcpy(head->next, open + 1, n);
            head->next[n] = '\0';
            return;
        }
        p = stop < end ? stop + 1 : end;
    }
}

static void copy_text(char *out, size_t size, const char *p, const char *end)
{
    const size_t n = (size_t)(end - p);
    if (n == 0 || n >= size || memchr(p, '\0', n) != NULL) return;
    memcpy(out, p, n);
    out[n] = '\0';
}

static void read_value(http_head *head, const char *name, size_t n, const char *p, const char *end)
{
    uint64_t v;
#define IS(text) (n == sizeof(text) - 1 && strncasecmp(name, text, n) == 0)
    if (IS("content-length")) {
        if (read_number(&p, end, &head->length) && p == end) head->has_length = true;
    } else if (IS("content-range")) {
        read_range(head, p, end);
    } else if (IS("etag")) {
        if (p < end && *p == '"') copy_text(head->tag, sizeof head->tag, p, end); /* W/"..." is weak */
    } else if (IS("x-error-code")) {
        copy_text(head->error_code, sizeof head->error_code, p, end);
    } else if (IS("retry-after")) {
        if (read_number(&p, end, &v) && p == end) head->retry_after = v > 3600 ? 3600 : (uint32_t)v;
    } else if (IS("link")) {
        read_link(head, p, end);
    }
#undef IS
}

void http_head_line(http_head *head, const char *line, size_t n)
{
    const char *end = line + n;
    while (end > line && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t')) end--;
    if (end - line >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        *head = (http_head){.at_endpoint = head->at_endpoint};
        return;
    }
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (colon == NULL) return;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    read_value(head, line, (size_t)(colon - line), value, end);
}
