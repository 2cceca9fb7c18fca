/* cli/cli.h - what the commands share: the command table's entry, exit codes,
 * and how a failure is told.
 *
 * A command's results go to stdout, everything else (messages, progress, log)
 * to stderr.  With --json stdout is one JSON object. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/args.h"
#include "cli/options.h"
#include "weir/base.h"

#include <jansson.h>
#include <stdio.h>

/* Exit codes; scripts rely on them. */
enum {
    CLI_OK     = 0,
    CLI_FAILED = 1,
    CLI_USAGE  = 2, /* a wrong command line */
    CLI_INPUT  = 3, /* a model or input file that is damaged, unknown or not there */
    CLI_MEMORY = 4, /* does not fit the memory it may have */
};

typedef enum cli_positional {
    CLI_NO_MODEL,
    CLI_MODEL_OPTIONAL,
    CLI_MODEL_REQUIRED,
    CLI_MODEL_AND_TARGET
} cli_positional;

typedef struct command {
    const char             *name;
    const char             *summary; /* one line, for the list of commands */
    const char             *usage;   /* what stands behind "weir NAME" */
    const char             *details; /* paragraphs below the usage line */
    cli_positional          model;
    const arg_group *const *groups;     /* its options, NULL behind the last */
    bool                    configured; /* takes options from a file and the environment, too (settings.h) */
    int (*run)(const options *o);       /* returns an exit code */
} command;

extern const command cmd_run, cmd_serve, cmd_inspect, cmd_tokenize, cmd_logits, cmd_merge, cmd_eval, cmd_bench, cmd_fit,
    cmd_quantize, cmd_verify, cmd_pull, cmd_ls, cmd_rm;

/* Prints "weir: " and the message; returns CLI_USAGE. */
__attribute__((format(printf, 1, 2))) int cli_usage(const char *fmt, ...);
/* Tells why something failed and returns the exit code that goes with it. */
int cli_fail(const weir_error *err);
/* The same for a file that was being written, whose trouble is no bad input. */
int cli_fail_output(const weir_error *err);

/* Prints the object (whose reference is taken; NULL: out of memory) on a line. */
int cli_print_json(json_t *object);
/* The end of a command that printed: CLI_FAILED when stdout could not be written. */
int cli_flush(void);

/* Writes what came from outside so that it cannot steer a terminal: control
 * characters but newline and tab, and bytes that are no UTF-8, come as \xNN.
 * Whole characters only.  Returns how many bytes were written. */
size_t cli_put_clean(FILE *f, const char *bytes, size_t n);

/* A JSON string of bytes that need not be UTF-8: others come as U+FFFD.  NULL
 * without memory. */
json_t *cli_json_text(const char *bytes, size_t n);

#endif
