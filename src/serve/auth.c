/* serve/auth.c - see auth.h. */
#include "serve/auth.h"

#include "base/file.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

enum { MAX_KEY_FILE = 1 << 20, MAX_KEYS = 4096 };

bool auth_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

typedef struct one_key {
    char *text; /* owned */
    bool  admin;
} one_key;

typedef struct key_list {
    one_key *items;
    size_t   n;
} key_list;

struct key_ring {
    pthread_rwlock_t lock;
    key_list         list;
};

static void free_list(key_list *l)
{
    for (size_t i = 0; i < l->n; i++) mem_free(l->items[i].text);
    mem_free(l->items);
    *l = (key_list){0};
}

static weir_status add_key(key_list *l, const char *text, size_t n, bool admin, weir_error *err)
{
    if (l->n == MAX_KEYS) return status_fail(err, WEIR_INVALID, "--api-key-file: expected at most %d keys", MAX_KEYS);
    one_key *more = mem_realloc(l->items, l->n + 1, sizeof *more);
    if (more == NULL) return status_fail(err, WEIR_NO_MEMORY, "--api-key: out of memory");
    l->items       = more;
    l->items[l->n] = (one_key){mem_strndup(text, n), admin};
    if (l->items[l->n].text == NULL) return status_fail(err, WEIR_NO_MEMORY, "--api-key: out of memory");
    l->n++;
    return WEIR_OK;
}

static weir_status add_line(key_list *l, const char *line, size_t n, weir_error *err)
{
    static const char mark[] = "admin ";
    while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL) n--;
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    if (n == 0 || *line == '#') return WEIR_OK;
    const bool admin = n >= strlen(mark) && strncmp(line, mark, strlen(mark)) == 0;
    if (admin) {
        line += strlen(mark);
        n -= strlen(mark);
    }
    const char *colon = memchr(line, ':', n);
    if (colon != NULL) {
        n -= (size_t)(colon + 1 - line);
        line = colon + 1;
    }
    return n > 0 ? add_key(l, line, n, admin, err)
                 : status_fail(err, WEIR_FORMAT, "--api-key-file: a name without a key");
}

static weir_status read_file(key_list *l, const char *path, weir_error *err)
{
    char  *text;
    size_t n;
    TRY(file_read(&text, &n, path, MAX_KEY_FILE, err));
    weir_status st = WEIR_OK;
    for (const char *at = text; st == WEIR_OK && at < text + n;) {
        const char  *end = memchr(at, '\n', (size_t)(text + n - at));
        const size_t len = end != NULL ? (size_t)(end - at) : (size_t)(text + n - at);
        st               = add_line(l, at, len, err);
        at += len + 1;
    }
    mem_free(text);
    return st;
}

static weir_status add_given(key_list *l, const serve_list *keys, bool admin, weir_error *err)
{
    for (size_t i = 0; i < keys->n; i++) {
        if (keys->items[i][0] == '\0')
            return status_fail(err, WEIR_INVALID, "%s: expected a key, found \"\"",
                               admin ? "--admin-key" : "--api-key");
        TRY(add_key(l, keys->items[i], strlen(keys->items[i]), admin, err));
    }
    return WEIR_OK;
}

/* On failure *l is empty. */
static weir_status read_keys(key_list *l, const serve_options *o, weir_error *err)
{
    *l             = (key_list){0};
    weir_status st = add_given(l, &o->api_keys, false, err);
    if (st == WEIR_OK) st = add_given(l, &o->admin_keys, true, err);
    if (st == WEIR_OK && o->api_key_file != NULL) st = read_file(l, o->api_key_file, err);
    if (st == WEIR_OK && o->api_key_file != NULL && l->n == 0)
        st = status_fail(err, WEIR_FORMAT, "%s: expected a key a line, found none", o->api_key_file);
    if (st == WEIR_OK && l->n == 0 && !auth_is_loopback(o->host) && !o->insecure)
        st = status_fail(err, WEIR_INVALID,
                         "--host: others reach %s: expected --api-key, or --insecure to serve everybody", o->host);
    if (st != WEIR_OK) free_list(l);
    return st;
}

weir_status auth_init(auth *a, const serve_options *o, weir_error *err)
{
    key_list list;
    *a = (auth){.loopback = auth_is_loopback(o->host), .origins = o->origins, .hosts = o->hosts};
    TRY(read_keys(&list, o, err));
    a->keys = mem_zalloc(1, sizeof *a->keys);
    if (a->keys == NULL) {
        free_list(&list);
        return status_fail(err, WEIR_NO_MEMORY, "--api-key: out of memory");
    }
    (void)pthread_rwlock_init(&a->keys->lock, NULL);
    a->keys->list = list;
    return WEIR_OK;
}

weir_status auth_reload(auth *a, const serve_options *o, weir_error *err)
{
    key_list list;
    TRY(read_keys(&list, o, err));
    (void)pthread_rwlock_wrlock(&a->keys->lock);
    key_list old  = a->keys->list;
    a->keys->list = list;
    (void)pthread_rwlock_unlock(&a->keys->lock);
    free_list(&old);
    return WEIR_OK;
}

void auth_free(auth *a)
{
    if (a->keys != NULL) {
        free_list(&a->keys->list);
        (void)pthread_rwlock_destroy(&a->keys->lock);
        mem_free(a->keys);
    }
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

/* Adds what the key is to *found and *admin. */
static void look_up(const key_list *l, const char *given, bool *found, bool *admin)
{
    if (given == NULL) return;
    for (size_t i = 0; i < l->n; i++) {
        if (!equal_in_constant_time(l->items[i].text, given)) continue;
        *found = true;
        *admin |= l->items[i].admin;
    }
}

/* *admin: the key may change the server; the only one there is may, too. */
static bool check_key(const auth *a, const credentials *c, bool *admin, api_error *err)
{
    static const char scheme[] = "bearer";
    const char       *bearer   = NULL;
    bool              found    = false;
    *admin                     = true;
    if (a->keys == NULL) return true;
    if (c->authorization != NULL && strncasecmp(c->authorization, scheme, strlen(scheme)) == 0) {
        bearer = c->authorization + strlen(scheme);
        bearer = *bearer == ' ' ? bearer + strspn(bearer, " ") : NULL;
    }
    (void)pthread_rwlock_rdlock(&a->keys->lock);
    const key_list *l = &a->keys->list;
    *admin            = l->n <= 1;
    look_up(l, bearer, &found, admin);
    look_up(l, c->x_api_key, &found, admin);
    look_up(l, c->api_key, &found, admin);
    const bool ok = l->n == 0 || found;
    (void)pthread_rwlock_unlock(&a->keys->lock);
    return ok || api_fail(err, API_BAD_KEY, NULL, "a key is needed: Authorization: Bearer KEY");
}

bool auth_key(const auth *a, const credentials *c, api_error *err)
{
    bool admin;
    return check_key(a, c, &admin, err);
}

bool auth_admin(const auth *a, const credentials *c, api_error *err)
{
    bool admin;
    if (!check_key(a, c, &admin, err)) return false;
    return admin || api_fail(err, API_FORBIDDEN, NULL, "this needs an admin's key (--admin-key)");
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
