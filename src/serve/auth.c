/* serve/auth.c - see auth.h. */
#include "serve/auth.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>
#include <strings.h>

enum { MAX_KEY_FILE = 1 << 20, MAX_KEYS = 4096 };

bool auth_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

static weir_status add_key(auth *a, const char *key, size_t n, weir_error *err)
{
    if (a->n_keys == MAX_KEYS)
        return status_fail(err, WEIR_INVALID, "--api-key-file: expected at most %d keys", MAX_KEYS);
    char **more = mem_realloc(a->keys, a->n_keys + 1, sizeof *more);
    if (more == NULL) return status_fail(err, WEIR_NO_MEMORY, "--api-key: out of memory");
    a->keys            = more;
    a->keys[a->n_keys] = mem_strndup(key, n);
    if (a->keys[a->n_keys] == NULL) return status_fail(err, WEIR_NO_MEMORY, "--api-key: out of memory");
    a->n_keys++;
    return WEIR_OK;
}

static weir_status add_line(auth *a, const char *line, size_t n, weir_error *err)
{
    while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL) n--;
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    if (n == 0 || *line == '#') return WEIR_OK;
    const char *colon = memchr(line, ':', n);
    if (colon != NULL) {
        n -= (size_t)(colon + 1 - line);
        line = colon + 1;
    }
    return n > 0 ? add_key(a, line, n, err) : status_fail(err, WEIR_FORMAT, "--api-key-file: a name without a key");
}

static weir_status read_file(auth *a, const char *path, weir_error *err)
{
    char  *text;
    size_t n;
    TRY(file_read(&text, &n, path, MAX_KEY_FILE, err));
    weir_status st = WEIR_OK;
    for (const char *at = text; st == WEIR_OK && at < text + n;) {
        const char  *end = memchr(at, '\n', (size_t)(text + n - at));
        const size_t len = end != NULL ? (size_t)(end - at) : (size_t)(text + n - at);
        st               = add_line(a, at, len, err);
        at += len + 1;
    }
    mem_free(text);
    return st;
}

weir_status auth_init(auth *a, const serve_options *o, weir_error *err)
{
    *a             = (auth){.loopback = auth_is_loopback(o->host), .origins = o->origins, .hosts = o->hosts};
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < o->api_keys.n && st == WEIR_OK; i++) {
        const char *key = o->api_keys.items[i];
        st              = key[0] != '\0' ? add_key(a, key, strlen(key), err)
                                         : status_fail(err, WEIR_INVALID, "--api-key: expected a key, found \"\"");
    }
    if (st == WEIR_OK && o->api_key_file != NULL) st = read_file(a, o->api_key_file, err);
    if (st == WEIR_OK && o->api_key_file != NULL && a->n_keys == 0)
        st = status_fail(err, WEIR_FORMAT, "%s: expected a key a line, found none", o->api_key_file);
    if (st == WEIR_OK && a->n_keys == 0 && !a->loopback && !o->insecure)
        st = status_fail(err, WEIR_INVALID,
                         "--host: others reach %s: expected --api-key, or --insecure to serve everybody", o->host);
    if (st != WEIR_OK) auth_free(a);
    return st;
}

void auth_free(auth *a)
{
    for (size_t i = 0; i < a->n_keys; i++) mem_free(a->keys[i]);
    mem_free(a->keys);
    *a = (auth){0};
}

/* Looks at every byte of `given`, wherever the first difference is. */
static bool equal_in_constant_time(const char *key, const char *given)
{
    const size_t  n = strlen(key), m = strlen(given);
    unsigned char different = n != m;
    for (size_t i = 0; i < m; i++) different |= (unsigned char)(given[i] ^ key[n > 0 ? i % n : 0]);
    return different == 0;
}

static bool is_key(const auth *a, const char *given)
{
    bool found = false;
    if (given == NULL) return false;
    for (size_t i = 0; i < a->n_keys; i++)
        if (equal_in_constant_time(a->keys[i], given)) found = true;
    return found;
}

bool auth_key(const auth *a, const credentials *c, api_error *err)
{
    static const char scheme[] = "bearer";
    const char       *bearer   = NULL;
    if (a->n_keys == 0) return true;
    if (c->authorization != NULL && strncasecmp(c->authorization, scheme, strlen(scheme)) == 0) {
        bearer = c->authorization + strlen(scheme);
        bearer = *bearer == ' ' ? bearer + strspn(bearer, " ") : NULL;
    }
    if (is_key(a, bearer) || is_key(a, c->x_api_key) || is_key(a, c->api_key)) return true;
    return api_fail(err, API_BAD_KEY, NULL, "a key is needed: Authorization: Bearer KEY");
}

/* `host` without its port. */
static size_t name_length(const char *host)
{
    if (host[0] == '[') return strcspn(host, "]") + (strchr(host, ']') != NULL ? 1 : 0);
    return strcspn(host, ":");
}

bool auth_host(const auth *a, const char *host, api_error *err)
{
    char name[256];
    if (!a->loopback || host == NULL) return true;
    const size_t n = name_length(host);
    if (n < sizeof name) {
        memcpy(name, host, n);
        name[n] = '\0';
        for (size_t i = 0; i < n; i++)
            if (name[i] >= 'A' && name[i] <= 'Z') name[i] = (char)(name[i] + 32);
        if (auth_is_loopback(name)) return true;
        for (size_t i = 0; i < a->hosts.n; i++)
            if (strcasecmp(a->hosts.items[i], name) == 0) return true;
    }
    return api_fail(err, API_FORBIDDEN, NULL, "the Host of the request is not this server (--allowed-host)");
}

bool auth_origin(const auth *a, const char *origin)
{
    static const char *const apps[] = {"app://", "vscode-webview://", "tauri://"};
    if (origin == NULL) return false;
    for (size_t i = 0; i < a->origins.n; i++)
        if (strcmp(a->origins.items[i], "*") == 0 || strcmp(a->origins.items[i], origin) == 0) return true;
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++)
        if (strncmp(origin, apps[i], strlen(apps[i])) == 0) return true;
    const char *host = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : NULL;
    char        name[64];
    if (host == NULL) return false;
    const size_t n = name_length(host);
    if (n >= sizeof name) return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return auth_is_loopback(name) &&
           (host[n] == '\0' || (host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1)));
}
