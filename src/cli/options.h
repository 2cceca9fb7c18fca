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
    uint32_t    threads, ctx, chunk, kv_start; /* 0: the library's choice */
    const char *isa, *device, *kv, *kv_config;
    uint64_t    seed;
    double      memory; /* GB it may take; 0: what the machine has */
    bool        seed_given, json, quiet, help;

    /* drafts and the prefix cache */
    const char *draft; /* NULL: the command's own choice */
    const char *mtp_hidden;
    uint32_t    draft_tokens;             /* 0: the library's choice */
    double      cache_memory, cache_disk; /* GB */
    const char *cache_dir;
    bool        cache_memory_given, draft_fixed;

    arg_list adapters; /* DIR or DIR:SCALE */

    /* run */
    const char *prompt, *system, *session;
    bool        raw, chat, think, no_think;
    bool        temp_given, top_p_given, top_k_given, logprobs_given;
    uint32_t    max_tokens, top_k, logprobs;
    double      temp, top_p, min_p, presence_penalty, repetition_penalty;
    arg_list    stop;
    const char *grammar, *json_schema, *regex;

    /* serve; parallel is below */
    const char *host, *api_key_file;
    const char *adapter_dir, *config;
    arg_list    api_keys, admin_keys, cors_origins, allowed_hosts;
    uint32_t    port, max_queue, max_adapters, adapter_rank, reasoning_budget, answer_reserve;
    bool        reasoning_budget_given;
    bool        insecure, metrics_public, strict_model, print_config, no_web;
    double      shutdown_timeout; /* seconds */

    /* inspect, tokenize, logits, eval */
    bool        tensors, plain, hidden;
    const char *ids, *out, *text;
    uint32_t    window, windows;

    /* quantize */
    const char *target, *recipe, *calibration;
    uint32_t    bits, group;
    double      bpw;
    bool        bits_given, bpw_given;

    /* rm */
    bool yes;

    /* bench, fit, verify */
    const char *shape, *format;
    uint32_t    depth, runs, parallel, prompts, tokens;
    uint64_t    pool;
    arg_numbers batches, window_sizes;
    double      budget;
    bool        budget_given;
} options;

/* What holds where the command line says nothing. */
#define OPTIONS_INIT \
    { \
        .device = "cpu", .repetition_penalty = 1.0, .window = 1024, .runs = 5, .bits = 4, .group = 64, \
        .host = "127.0.0.1", .port = 8080, .max_queue = 64, .shutdown_timeout = 30, .max_adapters = 4 \
    }

/* Taken by every command; by those that generate; and by those that keep what they read. */
extern const arg_group options_common, options_drafts, options_cache;
/* The last of the common ones, taken by commands that do not compute. */
extern const arg_group options_output;
/* Taken by those that draw tokens. */
extern const arg_group options_sampling;
/* Taken by those that read tokens with adapters. */
extern const arg_group options_adapters;

#endif
