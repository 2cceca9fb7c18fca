/* cli/cmd_ls.c - `weir ls`: what the cache holds. */
#include "cli/cli.h"
#include "cli/hub.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct list {
    json_t *json; /* NULL: a table */
    size_t  n;
    bool    failed;
} list;

static void add_json(list *l, const fetch_revision *r)
{
    json_t *v = json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:b, s:o}", "repo", r->repo, "commit", r->commit, "refs",
                          cli_json_text(r->refs, strlen(r->refs)), "format",
                          cli_json_text(r->format, strlen(r->format)), "path", cli_json_text(r->path, strlen(r->path)),
                          "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes, "complete",
                          r->missing[0] == '\0', "missing", cli_json_text(r->missing, strlen(r->missing)));
    if (json_array_append_new(l->json, v) != 0) l->failed = true;
}

static void put(const char *text, size_t width)
{
    const size_t n = cli_put_clean(stdout, text, strlen(text));
    (void)printf("%*s", (int)(n < width ? width - n + 2 : 2), "");
}

static void on_revision(void *user, const fetch_revision *r)
{
    list *l = user;
    if (l->json != NULL) {
        add_json(l, r);
        return;
    }
    if (l->n++ == 0) (void)printf("%-44s  %-24s  %10s  %-20s  state\n", "model", "revision", "size", "format");
    char revision[64], size[HUB_SIZE_BYTES];
    (void)snprintf(revision, sizeof revision, "%.12s%s%.40s%s", r->commit, r->refs[0] != '\0' ? " (" : "", r->refs,
                   r->refs[0] != '\0' ? ")" : "");
    put(r->repo, 44);
    put(revision, 24);
    (void)printf("%10s  ", hub_size(size, r->bytes));
    put(r->format, 20);
    if (r->missing[0] != '\0') (void)fputs("missing: ", stdout);
    (void)cli_put_clean(stdout, r->missing[0] != '\0' ? r->missing : "complete",
                        strlen(r->missing[0] != '\0' ? r->missing : "complete"));
    (void)fputc('\n', stdout);
}

static int ls(const options *o)
{
    hub        h;
    weir_error err;
    if (hub_open(&h, &err) != WEIR_OK) return cli_fail(&err);
    list l    = {.json = o->json ? json_array() : NULL};
    int  code = CLI_OK;
    if (fetch_list(&h.settings, on_revision, &l, &err) != WEIR_OK) {
        code = cli_fail(&err);
        json_decref(l.json);
    } else if (o->json) {
        json_t *v = json_pack("{s:o, s:o}", "cache", cli_json_text(h.root, strlen(h.root)), "models", l.json);
        if (l.failed) {
            json_decref(v);
            v = NULL;
        }
        code = cli_print_json(v);
    } else {
        if (l.n == 0) {
            (void)cli_put_clean(stdout, h.root, strlen(h.root));
            (void)fputs(" holds no models\n", stdout);
        }
        code = cli_flush();
    }
    hub_close(&h);
    return code;
}

const command cmd_ls = {
    .name    = "ls",
    .summary = "list the models in the cache",
    .usage   = "[options]",
    .details = "Every revision in the local Hugging Face cache: its names, its size, the format of its weights, and\n"
               "what is missing.\n",
    .model   = CLI_NO_MODEL,
    .groups  = hub_groups,
    .run     = ls,
};
