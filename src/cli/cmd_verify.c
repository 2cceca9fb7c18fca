/* cli/cmd_verify.c - `weir verify`: proof of exactness on this machine. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include "base/clock.h"
#include "weir/experimental.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const arg_option verify_options[] = {
    {"--budget", NULL, ARG_REAL, offsetof(options, budget), offsetof(options, budget_given), "SECONDS", 0.01, 999999,
     "about how long to go on (default: 10)"},
};
static const arg_group        verify_group = ARG_GROUP("Options", verify_options);
static const arg_group *const groups[]     = {&verify_group, &options_common, NULL};

typedef struct watching {
    progress bar;
    double   budget;
} watching;

static bool on_progress(void *user, double seconds, const weir_verify_result *so_far)
{
    watching *w = user;
    (void)so_far;
    progress_show(&w->bar, seconds < w->budget ? seconds : w->budget, w->budget);
    return !terminal_interrupted();
}

static int print_json(const weir_verify_result *r, double seconds, uint64_t seed)
{
    json_t *counts = json_object();
    for (uint32_t i = 0; i < r->n_invariants; i++)
        (void)json_object_set_new(counts, r->invariants[i].name, json_integer((json_int_t)r->invariants[i].count));
    return cli_print_json(json_pack("{s:I, s:I, s:o, s:s, s:f, s:I}", "schedules", (json_int_t)r->schedules,
                                    "differing", (json_int_t)r->differing, "invariants", counts, "first_difference",
                                    r->first_difference, "seconds", seconds, "seed", (json_int_t)seed));
}

static int print_table(const weir_verify_result *r, double seconds, uint64_t seed)
{
    (void)printf("%" PRIu64 " schedules in %.1f s (seed %" PRIu64
                 "), each compared bit for bit with the plainest run\n",
                 r->schedules, seconds, seed);
    for (uint32_t i = 0; i < r->n_invariants; i++)
        if (r->invariants[i].count > 0)
            (void)printf("  %-24s %13" PRIu64 "\n", r->invariants[i].name, r->invariants[i].count);
        else
            (void)printf("  %-24s %13s\n", r->invariants[i].name, "not exercised");
    (void)printf("differing: %" PRIu64 "\n", r->differing);
    if (r->differing > 0) (void)printf("the first, as short as it could be made:\n%s", r->first_difference);
    return cli_flush();
}

/* Where temporary files go, as other programs have it; NULL: where the library puts them. */
static const char *scratch(void)
{
    const char *dir = getenv("TMPDIR");
    return dir == NULL || dir[0] == '\0' ? NULL : dir;
}

static int verify(const options *o)
{
    session    s;
    weir_error err;
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);
    watching w = {.budget = o->budget_given ? o->budget : 10.0};
    progress_start(&w.bar, "verifying");
    const uint64_t      start = clock_ns(), seed = o->seed_given ? o->seed : start & UINT32_MAX;
    weir_verify_options opt = WEIR_VERIFY_OPTIONS_INIT;
    opt.budget_seconds      = w.budget;
    opt.seed                = seed;
    opt.kv                  = o->kv;
    opt.scratch             = scratch();
    opt.kv_config           = o->kv_config;
    opt.kv_start            = o->kv_start;
    weir_verify_result r;
    const weir_status  st      = weir_verify(s.model, &opt, on_progress, &w, &r, &err);
    const double       seconds = (double)(clock_ns() - start) * 1e-9;
    progress_end(&w.bar);
    int code;
    if (st != WEIR_OK)
        code = cli_fail(&err);
    else
        code = o->json ? print_json(&r, seconds, seed) : print_table(&r, seconds, seed);
    if (code == CLI_OK && (r.differing > 0 || terminal_interrupted())) code = CLI_FAILED;
    session_close(&s);
    return code;
}

const command cmd_verify = {
    .name    = "verify",
    .summary = "prove on this machine that results do not depend on how they are computed",
    .usage   = "[MODEL] [--budget SECONDS] [options]",
    .details = "Computes sequences and requests in many random ways (cut into chunks, side by side, with\n"
               "drafts, forked, rewound, saved and loaded, out of the cache and from disk, with other threads\n"
               "and instruction sets ...)\n"
               "and compares the bits with those of the plainest run.  Exit code 1 when any differ.\n",
    .model   = CLI_MODEL_OPTIONAL,
    .groups  = groups,
    .run     = verify,
};
