/* engine/engine_parts.h - the structs behind the public handles, for this room. */
#ifndef ENGINE_ENGINE_PARTS_H
#define ENGINE_ENGINE_PARTS_H

#include "checkpoint/checkpoint.h"
#include "engine/sample.h"
#include "load/load.h"
#include "model/model.h"
#include "text/template.h"
#include "text/tokenizer.h"
#include "weir/generate.h"
#include "weir/text.h"

struct weir_model {
    checkpoint      *c;
    tokenizer       *tok;     /* NULL: no tokenizer.json */
    template        *chat;    /* NULL: none that can be used, */
    weir_error       no_chat; /* and why */
    load_description d;
    uint32_t         eos[CONFIG_MAX_EOS + 1];
    size_t           n_eos;
    uint64_t        *allowed; /* bit per id that has a token; NULL: all have */
};

struct weir_engine {
    const weir_model *source;
    kernels          *k;
    state            *st;
    model             m;
    work              w;
    weir_engine_info  info;
    k_span            span; /* of the step in flight: a backend may look until finish() */
    k_step            step;
    uint32_t         *rows; /* [chunk] 0, 1, 2, ...: row lists for the head */
    void             *sample_memory;
    sample_workspace  sampler;
};

enum { HEAD_ROWS = 16 }; /* rows whose logits are made at a time */

struct weir_sequence {
    weir_engine *e;
    sequence    *q;
    float       *logits; /* [vocab] of the next token; meaningless while length is 0 */
    bool         broken; /* a step failed half-way: the recurrent state is of no known position */
};

struct weir_snapshot {
    const weir_engine *e; /* of the sequence it was taken from */
    uint32_t           length;
    uint32_t          *tokens; /* [length] */
    uint8_t           *state;  /* state_bytes_per_sequence */
    float             *logits; /* [vocab] */
};

/* Ids that weir samples from: those of the tokenizer, or the whole head. */
uint32_t model_valid_ids(const weir_model *m);

#endif
