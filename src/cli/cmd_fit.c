/* cli/cmd_fit.c - `weir fit`: how much memory a model would take. */
#include "cli/cli.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>

static const arg_option fit_options[] = {
    {"--parallel", NULL, ARG_U32, offsetof(options, parallel), 0, "N", 1, 4096, "sequences at once (default: 1)"},
    {"--pool", NULL, ARG_U64, offsetof(options, pool), 0, "N", 1, 34359738368.0,
     "tokens that all sequences together may have (default: as\nmany as all at their longest)"},
};
static const arg_group        fit_group = ARG_GROUP("Options", fit_options);
static const arg_group *const groups[]  = {&fit_group,     &options_adapters, &options_drafts,
                                           &options_cache, &options_common,   NULL};

static int print_json(const weir_fit *f)
{
    return cli_print_json(
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "weights_bytes",
                  (json_int_t)f->weights_bytes, "kv_bytes_per_token", (json_int_t)f->kv_bytes_per_token,
                  "kv_start_bytes", (json_int_t)f->kv_start_bytes, "state_bytes_per_sequence",
                  (json_int_t)f->state_bytes_per_sequence, "snapshot_bytes", (json_int_t)f->snapshot_bytes,
                  "cache_bytes", (json_int_t)f->cache_bytes, "draft_bytes", (json_int_t)f->draft_bytes, "adapter_bytes",
                  (json_int_t)f->adapter_bytes, "workspace_bytes", (json_int_t)f->workspace_bytes, "total_bytes",
                  (json_int_t)f->total_bytes, "max_context", (json_int_t)f->max_context, "fits", f->fits));
}

static int print_table(const weir_fit *f)
{
    (void)printf("weights             %12.1f MB\n", (double)f->weights_bytes * 1e-6);
    (void)printf("keys and values     %12.1f kB a token\n", (double)f->kv_bytes_per_token * 1e-3);
    if (f->kv_start_bytes > 0)
        (void)printf("  those at the start%11.1f MB a sequence\n", (double)f->kv_start_bytes * 1e-6);
    (void)printf("recurrent state     %12.1f MB a sequence\n", (double)f->state_bytes_per_sequence * 1e-6);
    (void)printf("prefix cache        %12.1f MB, of %.1f MB a place to go on from\n", (double)f->cache_bytes * 1e-6,
                 (double)f->snapshot_bytes * 1e-6);
    (void)printf("drafts              %12.1f MB\n", (double)f->draft_bytes * 1e-6);
    (void)printf("adapters            %12.1f MB\n", (double)f->adapter_bytes * 1e-6);
    (void)printf("workspace           %12.1f MB\n", (double)f->workspace_bytes * 1e-6);
    (void)printf("total               %12.1f MB\n", (double)f->total_bytes * 1e-6);
    (void)printf("fits                %12s\n", f->fits ? "yes" : "no");
    (void)printf("longest context     %12" PRIu32 " tokens\n", f->max_context);
    return cli_flush();
}

static int fit(const options *o)
{
    session    s;
    weir_error err;
    if (session_check_options(o, &err) != WEIR_OK) return cli_usage("fit: %s", err.text);
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);
    weir_engine_options e = session_engine_options(&s, o, 0);
    e.max_sequences       = o->parallel;
    e.pool_context        = o->pool;
    weir_fit  f;
    const int code = weir_engine_fit(s.model, &e, &f, &err) != WEIR_OK ? cli_fail(&err)
                     : o->json                                         ? print_json(&f)
                                                                       : print_table(&f);
    session_close(&s);
    return code;
}

const command cmd_fit = {
    .name    = "fit",
    .summary = "tell how much memory a model would take",
    .usage   = "MODEL [--ctx N] [--parallel N] [options]",
    .details = "Computes with the formula that the engine admits by, and loads nothing.  Drafts and the\n"
               "cache count as they are given, by default not at all.  The exit code is 0 also when the\n"
               "answer is no.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = fit,
};
