/* cli/cmd_rm.c - `weir rm`: a model out of the cache. */
#include "cli/cli.h"
#include "cli/hub.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const arg_option rm_options[] = {
    {"--yes", "-y", ARG_FLAG, offsetof(options, yes), 0, NULL, 0, 0, "do not ask"},
};
static const arg_group        rm_group = ARG_GROUP("Options", rm_options);
static const arg_group *const groups[] = {&rm_group, &options_output, NULL};

/* Asks on the terminal; anything but a line that begins with y is no. */
static bool confirmed(const char *what, const fetch_removal *r)
{
    char line[64], size[HUB_SIZE_BYTES];
    (void)fprintf(stderr, "remove %s: %" PRIu32 " revision%s, %s? [y/N] ", what, r->revisions,
                  r->revisions == 1 ? "" : "s", hub_size(size, r->bytes));
    (void)fflush(stderr);
    if (fgets(line, sizeof line, stdin) == NULL || terminal_interrupted()) {
        (void)fputc('\n', stderr);
        return false;
    }
    return line[0] == 'y' || line[0] == 'Y';
}

static int remove_named(const options *o, const hub *h, const fetch_name *name)
{
    fetch_removal r;
    weir_error    err;
    char          size[HUB_SIZE_BYTES];
    if (fetch_remove(&h->settings, name, true, &r, &err) != WEIR_OK) return hub_fail(&err);
    if (!o->yes && !terminal_stdin()) return cli_usage("rm: expected --yes, or a terminal to ask on");
    if (!o->yes && !confirmed(o->model, &r)) {
        (void)fputs("weir: nothing was removed\n", stderr);
        return CLI_FAILED;
    }
    if (fetch_remove(&h->settings, name, false, &r, &err) != WEIR_OK) return hub_fail(&err);
    if (o->json)
        return cli_print_json(json_pack("{s:s, s:I, s:I}", "repo", name->repo, "revisions", (json_int_t)r.revisions,
                                        "bytes", (json_int_t)r.bytes));
    (void)printf("%s: %" PRIu32 " revision%s removed, %s\n", name->repo, r.revisions, r.revisions == 1 ? "" : "s",
                 hub_size(size, r.bytes));
    return cli_flush();
}

static int rm(const options *o)
{
    hub        h;
    fetch_name name;
    weir_error err;
    if (fetch_parse_name(&name, o->model, &err) != WEIR_OK || hub_open(&h, &err) != WEIR_OK) return cli_fail(&err);
    const int code = remove_named(o, &h, &name);
    hub_close(&h);
    return code;
}

const command cmd_rm = {
    .name    = "rm",
    .summary = "remove a model from the cache",
    .usage   = "ORG/NAME[@REVISION] [--yes] [options]",
    .details = "Removes a repository from the local Hugging Face cache, or one revision of it and of its files those\n"
               "that no other revision uses.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = rm,
};
