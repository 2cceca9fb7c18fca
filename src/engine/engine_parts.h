/* engine/engine_parts.h - the structs behind the public handles, for this room. */
#ifndef ENGINE_ENGINE_PARTS_H
#define ENGINE_ENGINE_PARTS_H

#include "checkpoint/checkpoint.h"
#include "engine/adapters.h"
#include "engine/draft_length.h"
#include "engine/kv_forms.h"
#include "engine/sample.h"
#include "grammar/shelf.h"
#include "load/load.h"
#include "model/model.h"
#include "state/prefix_tree.h"
#include "state/store_format.h"
#include "text/template.h"
#include "text/tokenizer.h"
#include "weir/request.h"
#include "weir/text.h"

struct weir_model {
    checkpoint      *c;
    tokenizer       *tok;     /* NULL: no tokenizer.json */
    template        *chat;    /* NULL: none that can be used, */
    weir_error       no_chat; /* and why */
    load_description d;
    char            *kv_config; /* path of the directory's kv_config.json; NULL: none */
    uint32_t         eos[CONFIG_MAX_EOS + 1];
    size_t           n_eos;
    uint64_t        *allowed;  /* bit per id that has a token; NULL: all have */
    shelf           *grammars; /* compiled lately; NULL: no tokenizer */
};

/* One ragged step; batch.h. */
typedef struct batch_item batch_item;
typedef struct batch {
    batch_item *items;
    k_span     *spans, *more;  /* [max_items]: of the step; of the replay or of MTP */
    uint32_t   *ids, *mtp_ids; /* tokens of the rows */
    uint32_t   *mtp_from;      /* rows of work.hidden */
    uint32_t   *drafted;       /* [max_items] rows that a draft source goes on from */
    uint32_t    max_items, max_rows, n_items, n_rows;
    uint64_t    catch_up_ns; /* of the last step, spent on MTP rows of steps before it */
} batch;

typedef enum draft_source { DRAFT_OFF, DRAFT_MTP, DRAFT_NGRAM, DRAFT_MODEL } draft_source;

/* Requests that take part in steps, and those that wait; schedule.h. */
typedef struct request_list {
    weir_request *first, *last;
    uint32_t      n;
} request_list;

struct weir_engine {
    const weir_model *source;
    kernels          *k;
    state            *st;
    model             m;
    work              w;
    adapter_bank      adapters;
    weir_engine_info  info;
    char              kv_name[KV_NAME_MAX]; /* what info.kv points to */
    k_step            step;                 /* in flight: a backend may look until finish() */
    batch             batch;
    uint32_t         *rows; /* [max rows of a step] 0, 1, 2, ...: row lists for the head */
    void             *sample_memory;
    sample_workspace  sampler;

    prefix_tree *cache;                        /* NULL: none */
    uint64_t     cache_limit;                  /* bytes of memory */
    uint8_t      identity[STORE_KEY_BYTES];    /* of the states it makes (identity.h) */
    uint64_t     page_bytes, early_page_bytes; /* of all layers, behind the early pages and there */
    uint32_t     early_pages;                  /* of a sequence */
    uint32_t     message_start;                /* the id that begins a chat message; UINT32_MAX: none */
    uint64_t     cache_lookups, cache_hits, cache_tokens, read_tokens;

    request_list waiting, active;
    uint64_t     n_steps;
    bool         stepping; /* a callback is not to call for a step */

    draft_source   draft;
    bool           fixed_drafts;
    uint32_t       decode_rows;  /* most rows of replies in a step */
    draft_policy   drafting;     /* how many drafts pay */
    uint64_t       compute_ns;   /* of the last step, for its rows; */
    uint64_t       commit_ns;    /* for moving on, but for what waited */
    bool           only_replies; /* in the last step, no prompts: what it took tells what drafts cost */
    weir_request **chain;        /* [max_sequences] the requests that a draft source works on */
    weir_engine   *drafter;      /* runs the draft model; NULL: none */
};

enum { HEAD_ROWS = 16 }; /* rows whose logits are made at a time */

struct weir_sequence {
    weir_engine *e;
    sequence    *q;
    float       *logits;   /* [vocab] of the next token; meaningless while length is 0; NULL in a request's */
    bool         broken;   /* a step failed half-way: the recurrent state is of no known position */
    uint32_t     mtp_made; /* positions from 0 on whose MTP rows are made (batch.c) */
    adapter_set  adapters;
};

/* MTP rows of a sequence that goes on with another's state: the hidden row of the
 * last position is a part of it, to be paired with another token. */
static inline uint32_t mtp_made_at(uint32_t length)
{
    return length > 0 ? length - 1 : 0;
}

struct weir_snapshot {
    const weir_engine *e; /* of the sequence it was taken from */
    uint32_t           length;
    uint8_t            origin[STORE_KEY_BYTES]; /* of the adapters */
    uint32_t          *tokens;                  /* [length] */
    uint8_t           *state;                   /* state_bytes_per_sequence */
    float             *logits;                  /* [vocab] */
};

/* Ids that weir samples from: those of the tokenizer, or the whole head. */
uint32_t model_valid_ids(const weir_model *m);
/* WEIR_INVALID unless the ids of both models mean the same. */
weir_status model_same_tokens(const weir_model *a, const weir_model *b, weir_error *err);

#endif
