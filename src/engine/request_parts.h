/* engine/request_parts.h - a request's insides, for the files that run it. */
#ifndef ENGINE_REQUEST_PARTS_H
#define ENGINE_REQUEST_PARTS_H

#include "engine/anchors.h"
#include "engine/batch.h"
#include "engine/draft_length.h"
#include "engine/generation.h"
#include "engine/ngram.h"

struct weir_request {
    weir_engine       *e;
    weir_request      *prev, *next; /* in the engine's waiting or active list */
    weir_request_state state;
    weir_error         error; /* its status and what went wrong */

    uint32_t         *prompt; /* [n_prompt] */
    uint32_t          n_prompt;
    weir_progress_fn *progress;
    void             *user;
    int32_t           priority;
    bool              no_cache;
    adapter_set       adapters;

    weir_sequence *s;    /* NULL while waiting and when done */
    bool           lent; /* s is the caller's (weir_generate) */
    uint32_t       cached;
    uint32_t       known, other; /* of prefix_hit */
    uint32_t       read;         /* prompt tokens in the sequence, kept when s is gone */
    uint32_t       overtaken;    /* by later requests that were smaller */
    uint64_t       fed;          /* the step that last read a part of the prompt */
    anchors        anchors;      /* where to leave snapshots in the prefix cache */
    uint32_t       anchored;     /* length at the last of them */

    generation g;
    uint32_t   pending; /* the last sampled token, not yet read */

    uint32_t       drafts[DRAFT_MAX];  /* guesses of what follows `pending`, for the next step */
    uint32_t       n_drafts, n_wanted; /* wanted: how many draft_make is to make */
    bool           no_drafts;          /* not wanted, or no memory for what the source needs */
    draft_row      drafting;           /* how well they did, and how many are worth it */
    ngram_index    index;              /* of "ngram" */
    weir_sequence *guesser;            /* of "model": the draft model's sequence */

    batch_item *item;   /* of the step in flight; NULL: takes no part */
    bool        walked; /* the rows of its window have been read as far as they are right */

    uint64_t submitted, admitted, answered, ended; /* clock_ns(); 0: not yet */
};

/* The request is over: with what, and (unless st is WEIR_OK) why.  Its memory is
 * given back by request_release, when no step needs it. */
void request_end(weir_request *r, weir_status st, const char *why);
void request_release(weir_request *r);

/* Leaves a snapshot in the prefix cache when it is time for one. */
void request_leave_anchor(weir_request *r);

void request_list_add(request_list *l, weir_request *r); /* behind those of its priority */
void request_list_remove(request_list *l, weir_request *r);

/* What a request needs at most, in positions: its prompt, its reply but for the last token. */
uint32_t request_positions(const weir_request *r);

#endif
