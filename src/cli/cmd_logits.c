/* cli/cmd_logits.c - `weir logits`: the numbers behind a list of token ids. */
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/reading.h"
#include "cli/session.h"
#include "cli/tensor_file.h"
#include "cli/terminal.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

static const arg_option logits_options[] = {
    {"--ids", NULL, ARG_STRING, offsetof(options, ids), 0, "FILE", 0, 0, "JSON array of token ids"},
    {"--out", NULL, ARG_STRING, offsetof(options, out), 0, "FILE", 0, 0, "the .safetensors file to write"},
    {"--hidden", NULL, ARG_FLAG, offsetof(options, hidden), 0, NULL, 0, 0, "also the residual stream after each layer"},
};
static const arg_group        logits_group = ARG_GROUP("Options", logits_options);
static const arg_group *const groups[]     = {&logits_group, &options_adapters, &options_common, NULL};

typedef struct writing {
    tensor_file file;
    uint32_t    n_layers; /* 0: no hidden rows */
    uint64_t    total;
    progress    bar;
    weir_status st; /* of the file; the library's own is WEIR_CANCELLED then */
    weir_error  file_error;
} writing;

static bool on_rows(void *user, const weir_rows *r)
{
    writing *w = user;
    w->st      = tensor_file_rows(&w->file, 0, r->first_position, r->n, r->logits, &w->file_error);
    for (uint32_t l = 0; w->st == WEIR_OK && l < w->n_layers; l++)
        w->st = tensor_file_rows(&w->file, 1 + l, r->first_position, r->n, r->hidden[l], &w->file_error);
    progress_show(&w->bar, r->first_position + r->n, (double)w->total);
    return w->st == WEIR_OK && !terminal_interrupted();
}

/* "logits" first, then "hidden.0" ...; mem_free. */
static tensor_spec *make_specs(const weir_model_info *info, uint64_t n, bool hidden, size_t *n_specs)
{
    *n_specs           = 1 + (hidden ? info->n_layers : 0);
    tensor_spec *specs = mem_zalloc(*n_specs, sizeof *specs);
    if (specs == NULL) return NULL;
    specs[0] = (tensor_spec){.name = "logits", .rows = n, .columns = info->vocab_size};
    for (size_t i = 1; i < *n_specs; i++) {
        specs[i] = (tensor_spec){.rows = n, .columns = info->hidden_size};
        (void)snprintf(specs[i].name, sizeof specs[i].name, "hidden.%zu", i - 1);
    }
    return specs;
}

/* Scores the ids into --out; returns an exit code. */
static int write_logits(session *s, const options *o, const uint32_t *ids, size_t n)
{
    weir_model_info info;
    weir_model_get_info(s->model, &info);
    weir_error   err;
    size_t       n_specs;
    tensor_spec *specs = make_specs(&info, n, o->hidden, &n_specs);
    if (specs == NULL) {
        (void)status_fail(&err, WEIR_NO_MEMORY, "logits: out of memory");
        return cli_fail(&err);
    }

    int     code = CLI_OK;
    writing w    = {.n_layers = o->hidden ? info.n_layers : 0, .total = n};
    progress_start(&w.bar, "logits");
    if (tensor_file_create(&w.file, o->out, specs, n_specs, &err) != WEIR_OK) {
        code = cli_fail_output(&err);
    } else {
        const weir_status st = reading_score(s->sequence, ids, n, o->hidden, on_rows, &w, &err);
        progress_end(&w.bar);
        if (w.st != WEIR_OK)
            code = cli_fail_output(&w.file_error);
        else if (st != WEIR_OK)
            code = cli_fail(&err);
        else if (tensor_file_commit(&w.file, &err) != WEIR_OK)
            code = cli_fail_output(&err);
        tensor_file_abandon(&w.file);
    }
    mem_free(specs);
    return code;
}

static int logits(const options *o)
{
    if (o->ids == NULL) return cli_usage("logits: expected --ids FILE");
    if (o->out == NULL) return cli_usage("logits: expected --out FILE");
    session    s;
    weir_error err;
    uint32_t  *ids = NULL;
    size_t     n   = 0;
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);

    int         code;
    weir_status st = input_ids(s.model, o->ids, &ids, &n, &err);
    if (st == WEIR_OK && o->ctx != 0 && n > o->ctx)
        st = status_fail(&err, WEIR_INVALID, "--ctx: expected at least the %zu ids of %s, found %" PRIu32, n, o->ids,
                         o->ctx);
    if (st == WEIR_OK) st = session_sequence(&s, o, (uint32_t)n, &err);
    if (st != WEIR_OK)
        code = cli_fail(&err);
    else
        code = write_logits(&s, o, ids, n);
    if (code == CLI_OK && o->json)
        code = cli_print_json(json_pack("{s:I, s:s}", "tokens", (json_int_t)n, "out", o->out));
    mem_free(ids);
    session_close(&s);
    return code;
}

const command cmd_logits = {
    .name    = "logits",
    .summary = "write the logits of every position to a file",
    .usage   = "MODEL --ids FILE --out FILE.safetensors [--hidden] [options]",
    .details = "Reads the token ids and writes the tensor \"logits\" [ids, vocabulary], f32; with --hidden\n"
               "also \"hidden.0\" ... [ids, hidden size], the residual stream after each layer.  Needs no\n"
               "tokenizer.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = logits,
};
