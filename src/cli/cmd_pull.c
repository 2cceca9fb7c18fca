/* cli/cmd_pull.c - `weir pull`: a model from a hub into the cache. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/hub.h"
#include "cli/progress.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void on_progress(void *user, const fetch_progress *p)
{
    if (p->total > 0) progress_bytes(user, (double)p->done, (double)p->total, (double)p->received);
}

static int print_json(const fetch_name *name, const fetch_result *r, double seconds)
{
    return cli_print_json(json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:b, s:f}", "repo", name->repo, "revision", name->revision, "commit",
        r->commit, "path", cli_json_text(r->path, strlen(r->path)), "files", (json_int_t)r->files, "bytes",
        (json_int_t)r->bytes, "received", (json_int_t)r->received, "offline", r->offline, "seconds", seconds));
}

static int print_text(const fetch_name *name, const fetch_result *r, double seconds)
{
    char size[HUB_SIZE_BYTES];
    (void)printf("%s %.12s: %" PRIu32 " file%s, %s", name->repo, r->commit, r->files, r->files == 1 ? "" : "s",
                 hub_size(size, r->bytes));
    if (r->received > 0)
        (void)printf("; %s came in %.0f s (%.1f MB/s)", hub_size(size, r->received), seconds,
                     (double)r->received * 1e-6 / seconds);
    else
        (void)fputs(r->offline ? "; complete, nobody was asked" : "; all of it was there", stdout);
    (void)fputc('\n', stdout);
    (void)cli_put_clean(stdout, r->path, strlen(r->path));
    (void)fputc('\n', stdout);
    return cli_flush();
}

static int pull_named(const options *o, const hub *h, const fetch_name *name)
{
    progress       bar;
    fetch_result   r;
    weir_error     err;
    const uint64_t start = clock_ns();
    progress_start(&bar, name->repo);
    const weir_status st = fetch_pull(&h->settings, name, on_progress, &bar, &r, &err);
    progress_end(&bar);
    if (st != WEIR_OK) {
        const int code = hub_fail(&err);
        if (st == WEIR_CANCELLED || st == WEIR_IO)
            (void)fputs("weir: the same command goes on where this one ended\n", stderr);
        return code;
    }
    const double seconds = (double)(clock_ns() - start) * 1e-9;
    const int    code    = o->json ? print_json(name, &r, seconds) : print_text(name, &r, seconds);
    mem_free(r.path);
    return code;
}

static int pull(const options *o)
{
    hub        h;
    fetch_name name;
    weir_error err;
    if (fetch_parse_name(&name, o->model, &err) != WEIR_OK || hub_open(&h, &err) != WEIR_OK) return cli_fail(&err);
    const int code = pull_named(o, &h, &name);
    hub_close(&h);
    return code;
}

const command cmd_pull = {
    .name    = "pull",
    .summary = "download a model from Hugging Face",
    .usage   = "ORG/NAME[:FILE][@REVISION] [options]",
    .details = "Puts what the model needs into the local Hugging Face cache, where `weir run ORG/NAME` and other\n"
               "programs find it.  What is there is not downloaded again, and a download that was ended goes on.\n"
               "REVISION is a branch, a tag or a commit (default: main).  Of a repository of .gguf files FILE, or a\n"
               "quantisation such as Q4_K_M (the default), says which.  Every byte is checked against its hash.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = hub_groups,
    .run     = pull,
};
