/* cli/hub.c - the environment of huggingface_hub; see hub.h.
 *
 * Proxies (HTTPS_PROXY, NO_PROXY and their like) are read by libcurl. */
#include "cli/hub.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_LIMIT = 4096, TOKEN_BYTES = 2048, STALL_SECONDS = 30, BACKOFF_MS = 100 };

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The folder that holds the cache and the token. */
static void put_home(str *s)
{
    const char *dir;
    if ((dir = env("HF_HOME")) != NULL)
        str_puts(s, dir);
    else if ((dir = env("XDG_CACHE_HOME")) != NULL)
        str_printf(s, "%s/huggingface", dir);
    else if ((dir = env("HOME")) != NULL)
        str_printf(s, "%s/.cache/huggingface", dir);
    else
        str_puts(s, ".");
}

static weir_status read_root(char **out, weir_error *err)
{
    const char *dir = env("HF_HUB_CACHE");
    str         s;
    str_init(&s, PATH_LIMIT);
    if (dir == NULL) dir = env("HUGGINGFACE_HUB_CACHE");
    if (dir != NULL) {
        str_puts(&s, dir);
    } else {
        put_home(&s);
        str_puts(&s, "/hub");
    }
    const weir_status st = str_status(&s, "path of the model cache", err);
    if (st == WEIR_OK) *out = str_take(&s);
    str_free(&s);
    return st;
}

/* A token goes into a header line: one word, or none at all. */
static weir_status take_token(char **out, const char *text, const char *from, weir_error *err)
{
    const size_t start = strspn(text, " \t\r\n"), n = strcspn(text + start, " \t\r\n");
    for (size_t i = 0; i < n; i++)
        if (text[start + i] < 0x21 || text[start + i] > 0x7E)
            return status_fail(err, WEIR_INVALID, "%s: expected a token of letters and digits", from);
    if (n == 0) return WEIR_OK;
    *out = mem_strndup(text + start, n);
    return *out != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", from);
}

static weir_status read_token(char **out, weir_error *err)
{
    const char *value;
    if ((value = env("HF_TOKEN")) != NULL) return take_token(out, value, "HF_TOKEN", err);
    if ((value = env("HUGGING_FACE_HUB_TOKEN")) != NULL) return take_token(out, value, "HUGGING_FACE_HUB_TOKEN", err);
    str path;
    str_init(&path, PATH_LIMIT);
    if ((value = env("HF_TOKEN_PATH")) != NULL) {
        str_puts(&path, value);
    } else {
        put_home(&path);
        str_puts(&path, "/token");
    }
    char       *text = NULL;
    size_t      n;
    weir_status st = str_status(&path, "path of the token", err);
    if (st == WEIR_OK && file_exists(path.data)) st = file_read(&text, &n, path.data, TOKEN_BYTES, err);
    if (st == WEIR_OK && text != NULL) st = take_token(out, text, path.data, err);
    mem_free(text);
    str_free(&path);
    return st;
}

static weir_status read_endpoint(char **out, weir_error *err)
{
    const char *text = env("HF_ENDPOINT");
    if (text == NULL) text = "https://huggingface.co";
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '/') n--;
    if (n > PATH_LIMIT) return status_fail(err, WEIR_INVALID, "HF_ENDPOINT: expected at most %d bytes", PATH_LIMIT);
    *out = mem_strndup(text, n);
    return *out != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "HF_ENDPOINT: out of memory");
}

static weir_status read_timeout(uint32_t *out, weir_error *err)
{
    const char *text = env("HF_HUB_DOWNLOAD_TIMEOUT");
    char       *end;
    if (text == NULL) return WEIR_OK;
    const unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < 1 || value > 3600)
        return status_fail(err, WEIR_INVALID, "HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to 3600 seconds, found \"%.60s\"",
                           text);
    *out = (uint32_t)value;
    return WEIR_OK;
}

static bool is_true(const char *text)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

static bool stopped(void *user)
{
    (void)user;
    return terminal_interrupted();
}

weir_status hub_open(hub *h, weir_error *err)
{
    *h                = (hub){0};
    uint32_t    stall = STALL_SECONDS;
    weir_status st    = read_root(&h->root, err);
    if (st == WEIR_OK) st = read_endpoint(&h->endpoint, err);
    if (st == WEIR_OK) st = read_token(&h->token, err);
    if (st == WEIR_OK) st = read_timeout(&stall, err);
    if (st != WEIR_OK) {
        hub_close(h);
        return st;
    }
    h->settings = (fetch_settings){.root          = h->root,
                                   .endpoint      = h->endpoint,
                                   .token         = h->token,
                                   .certificates  = env("SSL_CERT_FILE"),
                                   .offline       = is_true(env("HF_HUB_OFFLINE")),
                                   .stall_seconds = stall,
                                   .backoff_ms    = BACKOFF_MS,
                                   .stopped       = stopped};
    return WEIR_OK;
}

void hub_close(hub *h)
{
    mem_free(h->root);
    mem_free(h->endpoint);
    mem_free(h->token);
    *h = (hub){0};
}

int hub_fail(const weir_error *err)
{
    return err->status == WEIR_IO ? cli_fail_output(err) : cli_fail(err);
}

const char *hub_size(char out[HUB_SIZE_BYTES], uint64_t bytes)
{
    const double n = (double)bytes;
    if (bytes >= 1000000000)
        (void)snprintf(out, HUB_SIZE_BYTES, "%.2f GB", n * 1e-9);
    else if (bytes >= 1000000)
        (void)snprintf(out, HUB_SIZE_BYTES, "%.1f MB", n * 1e-6);
    else
        (void)snprintf(out, HUB_SIZE_BYTES, "%.1f kB", n * 1e-3);
    return out;
}

const arg_group *const hub_groups[] = {&options_output, NULL};
