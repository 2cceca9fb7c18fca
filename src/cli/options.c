/* cli/options.c - the options that every command takes. */
#include "cli/options.h"

static const arg_option common[] = {
    {"--threads", NULL, ARG_U32, offsetof(options, threads), 0, "N", 1, 512,
     "threads that compute (default: one per physical core)"},
    {"--isa", NULL, ARG_CHOICE, offsetof(options, isa), 0, "scalar|avx2|avx512|neon", 0, 0,
     "instruction set (default: the best this CPU has); the\nresults are the same bits with each"},
    {"--device", NULL, ARG_CHOICE, offsetof(options, device), 0, "cpu|cuda", 0, 0, "where to compute (default: cpu)"},
    {"--kv", NULL, ARG_CHOICE, offsetof(options, kv), 0, "bf16|f32", 0, 0,
     "format of cached keys and values (default: bf16)"},
    {"--ctx", NULL, ARG_U32, offsetof(options, ctx), 0, "N", 1, 1 << 23,
     "most tokens in a sequence (default: as many as the model\nwas made for and memory holds)"},
    {"--memory", NULL, ARG_REAL, offsetof(options, memory), 0, "GB", 0.001, 1e9,
     "memory that weights and caches may take, in 10^9 bytes\n(default: what this machine has)"},
    {"--seed", NULL, ARG_U64, offsetof(options, seed), offsetof(options, seed_given), "N", 0, 9007199254740992.0,
     "where random draws start (default: fresh each time)"},
    {"--json", NULL, ARG_FLAG, offsetof(options, json), 0, NULL, 0, 0, "print one JSON object on stdout"},
    {"--quiet", NULL, ARG_FLAG, offsetof(options, quiet), 0, NULL, 0, 0, "no progress and no remarks on stderr"},
    {"--help", "-h", ARG_FLAG, offsetof(options, help), 0, NULL, 0, 0, "show this text"},
};

const arg_group options_common = ARG_GROUP("Common options", common);
