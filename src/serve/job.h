/* serve/job.h - a request of a client that the engine works on.
 *
 * Made and checked by a listener's thread, handed to the engine's thread with
 * engine_loop_submit, and freed there.  It has n choices for each of its prompts; each is a
 * request of the engine's.  The dialect and its outlet hear what comes of it. */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include "serve/adapter_shelf.h"
#include "serve/events.h"
#include "serve/outlet.h"
#include "serve/replier.h"
#include "weir/toolcall.h"

enum { JOB_MAX_CHOICES = 128, JOB_MAX_STOPS = 16, JOB_MAX_STOP_IDS = 64 };

typedef struct job job;
struct engine_loop;

typedef struct job_choice {
    job                  *of;
    replier               replier;
    weir_sample_params    sample;
    weir_generate_options options;
    weir_request         *request; /* NULL before it is submitted, and once it is over */
    uint64_t              last_token_ns;
} job_choice;

/* What the choices share. */
typedef struct job_options {
    weir_sample_params  sample; /* logit_bias and choice apart */
    uint32_t            n;      /* choices of a prompt */
    uint32_t            max_tokens;
    bool                max_tokens_given, prompt_only; /* prompt_only: read the prompt, say nothing */
    bool                logprobs, raw, thinking_open, no_cache;
    uint32_t            top_logprobs;
    int32_t             priority;
    size_t              n_stop;
    char               *stop[JOB_MAX_STOPS]; /* owned */
    weir_logit_bias    *bias;                /* owned */
    size_t              n_bias;
    weir_adapter_choice adapters[WEIR_MAX_ADAPTERS];
    adapter_entry      *held[WEIR_MAX_ADAPTERS]; /* the same, [n_adapters], released with the options */
    size_t              n_adapters;
    weir_grammar       *grammar; /* what the content keeps to, or NULL; owned */

    size_t   n_stop_ids;
    uint32_t stop_ids[JOB_MAX_STOP_IDS];
    bool     include_stop;    /* the stop string that is met is part of the content */
    bool     limit_reasoning; /* to reasoning_budget tokens */
    uint32_t reasoning_budget;
    bool     watch; /* events tell how far their choice is (reply_event.now) */

    /* Calls (calls.h); `tools` NULL: what the model writes of them is content. */
    char                 *tools;  /* JSON, owned */
    weir_toolcall_options parser; /* tools_json apart */
    bool                  one_call;
    weir_ids              prefix; /* ids that the content begins with; owned */
} job_options;

void job_options_free(job_options *o);

struct job {
    job                *next;
    outlet             *out;
    dialect            *d; /* owned */
    job_options         o;
    weir_ids           *prompts; /* [n_prompts], owned */
    size_t              n_prompts;
    job_choice         *choices; /* [n_choices], choice i of prompt i / n */
    uint32_t            n_choices, n_done;
    bool                failed;    /* the dialect heard of it; nothing more to say */
    bool                cancelled; /* nobody listens */
    bool                revoked;   /* failed because somebody cancelled it */
    bool                cut;       /* a choice ended at max_tokens */
    bool                wait_told; /* x-queue-ms is out */
    struct engine_loop *loop;      /* once it is submitted */
    reply_usage         usage;
    uint32_t            known, known_other;                              /* of weir_request_info, for the log */
    uint64_t            received_ns, submitted_ns, started_ns, first_ns; /* 0: not yet */
    char                request_id[129];
    const char         *path;        /* static; for the log line */
    const char         *stream_type; /* static: the answer streams; NULL: it comes whole */
    bool                comments;    /* the stream has comments to keep it alive with */
};

/* Takes *o and the prompts (both are emptied), the dialect and a share of the outlet, also when
 * it fails: NULL without memory. */
job *job_new(job_options *o, weir_ids *prompts, size_t n_prompts, dialect *d, outlet *out);
/* Gives the adapters back; its requests are over. */
void job_release_adapters(job *j);
void job_free(job *j);

#endif
