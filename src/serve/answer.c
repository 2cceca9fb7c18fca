/* serve/answer.c - whole answers, and names for things. */
#include "base/clock.h"
#include "serve/server.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { ERROR_MAX = 16 * 1024 };
static const char json_media[] = "application/json; charset=utf-8";

void answer_error(outlet *out, const api_error *e, api_dialect d, const char *request_id)
{
    str  body;
    char seconds[16];
    str_init(&body, ERROR_MAX);
    api_error_json(e, d, request_id, &body);
    if (e->retry_after > 0) {
        (void)snprintf(seconds, sizeof seconds, "%u", e->retry_after);
        outlet_header(out, "Retry-After", seconds);
    }
    if (e->kind == API_NUMERICS) outlet_header(out, "x-should-retry", "false"); /* it would fail again */
    if (e->kind == API_BAD_KEY) outlet_header(out, "WWW-Authenticate", "Bearer");
    outlet_answer(out, api_http_status(e, d), json_media, body.data, body.len);
    str_free(&body);
}

void answer_json(outlet *out, str *body)
{
    static const char failed[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,"
                                 "\"code\":\"internal\"}}";
    if (body->failed)
        outlet_answer(out, 500, json_media, failed, strlen(failed));
    else
        outlet_answer(out, 200, json_media, body->data, body->len);
    str_free(body);
}

uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = clock_ns();
    return seed;
}

void random_id(const char *prefix, char *out, size_t size)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    unsigned char     bytes[24];
    char              text[25];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(clock_ns() >> (i % 8));
    for (size_t i = 0; i < sizeof bytes; i++) text[i] = letters[bytes[i] % 62];
    text[24] = '\0';
    (void)snprintf(out, size, "%s%s", prefix, text);
}
