/* cli/options.h - everything a command line can say.
 *
 * One struct for all commands: each lists the groups of options it takes
 * (cli.h), and what it does not take stays at its default. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/args.h"

typedef struct options {
    const char *model; /* as written; NULL: the bundled demo model */

    /* common */
    uint32_t    threads, ctx; /* 0: the library's choice */
    const char *isa, *device, *kv;
    uint64_t    seed;
    double      memory; /* GB it may take; 0: what the machine has */
    bool        seed_given, json, quiet, help;

    /* run */
    const char *prompt, *system, *draft;
    bool        raw, chat, think, no_think;
    bool        temp_given, top_p_given, top_k_given, logprobs_given;
    uint32_t    max_tokens, top_k, logprobs;
    double      temp, top_p, min_p, presence_penalty, repetition_penalty;
    arg_list    stop;

    /* inspect, tokenize, logits, eval */
    bool        tensors, plain, hidden;
    const char *ids, *out, *text;
    uint32_t    window, windows;

    /* bench, fit, verify */
    const char *shape, *format;
    uint32_t    depth, runs, parallel;
    double      budget;
    bool        budget_given;
} options;

/* What holds where the command line says nothing. */
#define OPTIONS_INIT \
    { \
        .device = "cpu", .repetition_penalty = 1.0, .draft = "off", .window = 1024, .parallel = 1, .runs = 5 \
    }

/* Taken by every command. */
extern const arg_group options_common;

#endif
