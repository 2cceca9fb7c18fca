/* tests/unit/engine/sampling.h - a small vocabulary ready to be sampled from. */
#ifndef UNIT_ENGINE_SAMPLING_H
#define UNIT_ENGINE_SAMPLING_H

#include "engine/sample.h"

enum { SAMPLING_MAX_VOCAB = 4096 };

/* Static storage for one workspace: tests run on one thread. */
static inline sample_workspace *sampling_workspace(void)
{
    static uint64_t         memory[SAMPLING_MAX_VOCAB * 2 + 2];
    static sample_workspace ws;
    if (ws.c == NULL) sample_workspace_init(&ws, memory, SAMPLING_MAX_VOCAB);
    return &ws;
}

static inline sample_input sampling_input(const float *logits, uint32_t n, const weir_sample_params *p)
{
    return (sample_input){.logits = logits, .n_logits = n, .n_valid = n, .params = p};
}

#endif
