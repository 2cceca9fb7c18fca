/* cli/cmd_merge.c - `weir merge`: adapters into the weights, for good. */
#include "cli/cli.h"
#include "cli/session.h"

#include <stdio.h>

static const arg_group *const groups[] = {&options_adapters, &options_common, NULL};

static int merge(const options *o)
{
    session    s;
    weir_error err;
    if (o->adapters.n == 0) return cli_usage("merge: expected at least one --adapter");
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);
    int code = CLI_OK;
    if (weir_model_merge(s.model, s.choices, s.n_adapters, o->target, &err) != WEIR_OK)
        code = err.status == WEIR_IO ? cli_fail_output(&err) : cli_fail(&err);
    else if (o->json)
        code = cli_print_json(json_pack("{s:s, s:I}", "out", o->target, "adapters", (json_int_t)s.n_adapters));
    session_close(&s);
    return code;
}

const command cmd_merge = {
    .name    = "merge",
    .summary = "write a checkpoint with LoRA adapters in its weights",
    .usage   = "MODEL --adapter DIR[:SCALE] ... OUT",
    .details = "OUT is a folder that must not exist.  Weights keep their type, F32, F16 or BF16, and are\n"
               "rounded once; a quantised MODEL is refused.  OUT needs no adapter any more.\n",
    .model   = CLI_MODEL_AND_TARGET,
    .groups  = groups,
    .run     = merge,
};
