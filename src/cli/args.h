/* cli/args.h - options of a command line, described by constant tables.
 *
 * One table drives the parser and the help text, so they cannot disagree.
 * `--name value`, `--name=value` and `-p value` are understood; `--` ends the
 * options.  Numbers are taken whole and within their range, or refused. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum arg_kind {
    ARG_FLAG,   /* bool */
    ARG_STRING, /* const char *, borrowed from argv */
    ARG_CHOICE, /* const char *, one of the words in `value` ("bf16|f32") */
    ARG_U32,    /* uint32_t */
    ARG_U64,    /* uint64_t */
    ARG_REAL,   /* double */
    ARG_LIST,   /* arg_list, one more string each time */
    ARG_NUMBERS /* arg_numbers, rising: "1,4,8" */
} arg_kind;

/* Where a value comes from; a later one replaces what an earlier one said. */
typedef enum arg_source { ARGS_FILE = 1, ARGS_ENVIRONMENT, ARGS_COMMAND } arg_source;

enum { ARG_LIST_MAX = 16 };
typedef struct arg_list {
    const char *items[ARG_LIST_MAX];
    size_t      n;
    arg_source  from; /* all of them */
} arg_list;

typedef struct arg_numbers {
    uint32_t items[ARG_LIST_MAX];
    size_t   n;
} arg_numbers;

typedef struct arg_option {
    const char *name;  /* "--threads" */
    const char *brief; /* "-p", or NULL */
    arg_kind    kind;
    size_t      target; /* offset of the value in the struct that is filled */
    size_t      given;  /* offset of a bool that tells it was there; 0: nobody asks */
    const char *value;  /* what the help calls the value; the words of a choice */
    double      min, max;
    const char *help;
} arg_option;

typedef struct arg_group {
    const char       *title;
    const arg_option *options;
    size_t            n;
} arg_group;

#define ARG_GROUP(heading, table) \
    { \
        .title = (heading), .options = (table), .n = sizeof(table) / sizeof(table)[0] \
    }

/* Reads argv[0..argc) into *values by the NULL-ended list of groups.  At most
 * `max_positionals` words that are no options go to `positionals`, *n of them.
 * On failure a message stands in `message`. */
typedef struct arg_result {
    const char *positionals[4];
    size_t      n_positionals;
    char        message[400];
} arg_result;

bool args_parse(void *values, const arg_group *const *groups, size_t max_positionals, int argc, char **argv,
                arg_result *out);

/* Sets one option; a flag's `text` is true or false. */
bool args_set(void *values, const arg_option *o, const char *text, arg_source from, arg_result *out);

/* Prints the groups as help text to stdout. */
void args_print_help(const arg_group *const *groups);

#endif
