/* cli/options.c - the options that several commands take. */
#include "cli/options.h"

enum { N_OUTPUT = 3 };
static const arg_option common[] = {
    {"--threads", NULL, ARG_U32, offsetof(options, threads), 0, "N", 1, 512,
     "threads that compute (default: one per physical core)"},
    {"--isa", NULL, ARG_CHOICE, offsetof(options, isa), 0, "scalar|avx2|avx512|neon", 0, 0,
     "instruction set (default: the best this CPU has); the\nresults are the same bits with each"},
    {"--device", NULL, ARG_CHOICE, offsetof(options, device), 0, "cpu|cuda", 0, 0, "where to compute (default: cpu)"},
    {"--kv", NULL, ARG_STRING, offsetof(options, kv), 0, "FORM[,FORM]", 0, 0,
     "form of cached keys and values, or of keys, values: bf16, f32,\naffine8, affine4 (8 or 4 bits in groups of 64; "
     "-32 and -128\nbehind the name: of so many), or turbo (8 and 3 bits);\ndefault: bf16"},
    {"--kv-config", NULL, ARG_STRING, offsetof(options, kv_config), 0, "FILE", 0, 0,
     "forms layer by layer (default: the model's kv_config.json,\nwhere there is one and no --kv)"},
    {"--kv-start", NULL, ARG_U32, offsetof(options, kv_start), 0, "N", 0, 1 << 23,
     "the first N tokens of every sequence keep bf16 instead of 8 or\n4 bits (default: 0); rounded up to 256"},
    {"--ctx", NULL, ARG_U32, offsetof(options, ctx), 0, "N", 1, 1 << 23,
     "most tokens in a sequence (default: as many as the model\nwas made for and memory holds)"},
    {"--chunk", NULL, ARG_U32, offsetof(options, chunk), 0, "N", 1, 8192,
     "most prompt tokens in one step (default: 256); smaller ones\nhear Ctrl-C sooner"},
    {"--memory", NULL, ARG_REAL, offsetof(options, memory), 0, "GB", 0.001, 1e9,
     "memory that weights and caches may take, in 10^9 bytes\n(default: what this machine has)"},
    {"--seed", NULL, ARG_U64, offsetof(options, seed), offsetof(options, seed_given), "N", 0, 9007199254740992.0,
     "where random draws start (default: fresh each time)"},
    /* options_output begins here. */
    {"--json", NULL, ARG_FLAG, offsetof(options, json), 0, NULL, 0, 0, "print one JSON object on stdout"},
    {"--quiet", NULL, ARG_FLAG, offsetof(options, quiet), 0, NULL, 0, 0, "no progress and no remarks on stderr"},
    {"--help", "-h", ARG_FLAG, offsetof(options, help), 0, NULL, 0, 0, "show this text"},
};

static const arg_option sampling[] = {
    {"--temp", NULL, ARG_REAL, offsetof(options, temp), offsetof(options, temp_given), "T", 0, 5,
     "temperature; 0 takes the likeliest token"},
    {"--top-p", NULL, ARG_REAL, offsetof(options, top_p), offsetof(options, top_p_given), "P", 0, 1,
     "keep the likeliest tokens that make up this probability"},
    {"--top-k", NULL, ARG_U32, offsetof(options, top_k), offsetof(options, top_k_given), "K", 0, 1 << 30,
     "keep the K likeliest tokens; 0 keeps all"},
    {"--min-p", NULL, ARG_REAL, offsetof(options, min_p), 0, "P", 0, 1,
     "keep tokens at least this likely, the likeliest being 1"},
    {"--presence-penalty", NULL, ARG_REAL, offsetof(options, presence_penalty), 0, "X", -2, 2,
     "taken off the logits of tokens generated before"},
    {"--repetition-penalty", NULL, ARG_REAL, offsetof(options, repetition_penalty), 0, "X", 0.01, 100,
     "divides the logits of tokens seen before (1: off)"},
};

static const arg_option drafts[] = {
    {"--draft", NULL, ARG_STRING, offsetof(options, draft), 0, "off|auto|mtp|ngram|MODEL", 0, 0,
     "where guesses of the next tokens come from: the model's own\nhead (mtp), the text so far (ngram), a smaller "
     "MODEL of the\n"
     "same tokenizer; auto: mtp where the model has the head.\nGuesses change the speed, never the text"},
    {"--draft-tokens", NULL, ARG_U32, offsetof(options, draft_tokens), 0, "N", 1, 16,
     "most guesses in one step (default: 3 with mtp, 8 with ngram,\n4 with a MODEL)"},
    {"--draft-fixed", NULL, ARG_FLAG, offsetof(options, draft_fixed), 0, NULL, 0, 0,
     "always so many guesses, not as many as pay: for measuring,\nand for counts that are the same each time"},
    {"--mtp-hidden", NULL, ARG_CHOICE, offsetof(options, mtp_hidden), 0, "post|pre", 0, 0,
     "what the mtp head is fed: the hidden state after the final\nnorm (default), or before"},
};
static const arg_option cache[] = {
    {"--cache-memory", NULL, ARG_REAL, offsetof(options, cache_memory), offsetof(options, cache_memory_given), "GB", 0,
     1e9, "memory for what was read before and may come again, in 10^9\nbytes; 0: none"},
    {"--cache-dir", NULL, ARG_STRING, offsetof(options, cache_dir), 0, "DIR", 0, 0,
     "a folder that keeps it for the next time (default: none)"},
    {"--cache-disk", NULL, ARG_REAL, offsetof(options, cache_disk), 0, "GB", 0.001, 1e9,
     "most bytes in --cache-dir, in 10^9 (default: 32 GB)"},
};
static const arg_option adapters[] = {
    {"--adapter", NULL, ARG_LIST, offsetof(options, adapters), 0, "DIR[:SCALE]", 0, 0,
     "a LoRA adapter, of PEFT or mlx-lm, SCALE times as strong as it\nwas trained (default: 1); several add up in this "
     "order"},
};

const arg_group options_common   = ARG_GROUP("Common options", common);
const arg_group options_sampling = ARG_GROUP("Sampling (default: the checkpoint's own advice)", sampling);
const arg_group options_drafts   = ARG_GROUP("Drafts", drafts);
const arg_group options_cache    = ARG_GROUP("Cache", cache);
const arg_group options_output   = {
      .title = "Common options", .options = &common[sizeof common / sizeof common[0] - N_OUTPUT], .n = N_OUTPUT};
const arg_group options_adapters = ARG_GROUP("Adapters", adapters);
