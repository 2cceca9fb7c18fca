/* engine/verify_parts.h - what weir_verify is made of.
 *
 *   verify_adapters.c  some adapters, and choices among them
 *   verify_texts.c     some texts, and their logits by the dullest run
 *   verify_wishes.c    some requests, and what each says in the dullest run
 *   verify_engines.c   the engines, set up as a schedule wants them
 *   verify_files.c     a folder for what schedules save, and for the cache's disk
 *   verify_draw.c      schedules out of a random seed
 *   verify_steps.c     runs one that is about steps of sequences
 *   verify_requests.c  runs one that is about requests
 *   verify_shrink.c    makes one that differs as short as it can be
 *   verify_print.c     says in words what a schedule does
 *   verify.c           draws, runs and counts until time is up
 *
 * A schedule is a plain list of operations.  One that makes no sense where it
 * stands does nothing, so that every part of a schedule is a schedule. */
#ifndef ENGINE_VERIFY_PARTS_H
#define ENGINE_VERIFY_PARTS_H

#include "base/half.h"
#include "base/str.h"
#include "engine/batch.h"
#include "weir/experimental.h"

enum {
    VERIFY_ISAS      = 4,
    VERIFY_THREADS   = 4,
    VERIFY_SOURCES   = DRAFT_MODEL + 1,
    VERIFY_SEQUENCES = 4,
    VERIFY_SNAPSHOTS = 4,  /* of the prefix cache */
    VERIFY_DRAFTS    = 15, /* most guesses in a window */
    VERIFY_CHUNK     = 256,
    VERIFY_ADAPTERS  = 2,
    VERIFY_TEXTS     = 7,
    VERIFY_WISHES    = 9,
    VERIFY_OPS       = 64,
    VERIFY_BIASED    = 2,
    VERIFY_PREFIX    = 3,
    VERIFY_LENGTH    = K_PARTITION + 3 * K_PAGE, /* past the first border between partitions of attention */
    VERIFY_DETOUR    = 24                        /* room behind a text for what is read and taken back, or replied */
};

/* What a schedule exercised.  A new one is added here, in verify.c (its name), and
 * where it happens. */
typedef enum verify_invariant {
    VERIFY_CHUNKING,
    VERIFY_PREFILL,
    VERIFY_DECODE,
    VERIFY_THREADED,
    VERIFY_ISA,
    VERIFY_BATCH,
    VERIFY_WINDOW_ALL,
    VERIFY_WINDOW_PART,
    VERIFY_WINDOW_NONE,
    VERIFY_FORK,
    VERIFY_REWIND,
    VERIFY_RESET,
    VERIFY_REUSE, /* a sequence in the place of one that left */
    VERIFY_CACHE,
    VERIFY_DISK, /* a cached prefix that memory did not have */
    VERIFY_SAVE_LOAD,
    VERIFY_MTP,
    VERIFY_NGRAM,
    VERIFY_DRAFT_MODEL,
    VERIFY_REQUESTS,
    VERIFY_SAMPLING,
    VERIFY_CANCEL,
    VERIFY_ADAPTED,       /* under one adapter or two */
    VERIFY_ADAPTED_MIXED, /* in one step with others, or none */
    VERIFY_INVARIANTS
} verify_invariant;

/* The bits of one row of logits, or of one token of a reply, boiled down: two
 * independent 64-bit chains.  What differs has another digest but for a chance
 * of 2^-128. */
typedef struct digest {
    uint64_t a, b;
} digest;

static const digest digest_start = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu};

static inline void digest_put(digest *d, uint64_t w)
{
    d->a = (d->a ^ w) * 0x9FB21C651E98DF25u;
    d->a ^= d->a >> 29;
    d->b = (d->b + w) * 0xD6E8FEB86659FD93u;
    d->b ^= d->b >> 32;
}

static inline digest digest_of(const float *x, size_t n)
{
    digest d = digest_start;
    for (size_t i = 0; i < n; i++) digest_put(&d, f32_bits(x[i]));
    return d;
}

static inline bool digest_same(digest x, digest y)
{
    return x.a == y.a && x.b == y.b;
}

/* splitmix64, as in Steele, Lea and Flood, 2014 */
static inline uint32_t below(uint64_t *seed, uint32_t n)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z >> 32) * n >> 32);
}

static inline uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- the truth ---- */

/* Under which adapters something is read. */
typedef enum verify_chosen { VERIFY_NONE, VERIFY_ONE, VERIFY_STACKED, VERIFY_CHOICES } verify_chosen;
typedef struct verify_choice {
    size_t              n;
    weir_adapter_choice list[VERIFY_ADAPTERS];
} verify_choice;

/* Texts are a tree: each but the first and the fourth begins as another one does, two of them under
 * adapters that the other has not. */
typedef struct verify_text {
    uint32_t     *ids;                     /* [planned] */
    digest       *truth;                   /* [planned] of the logits after each */
    uint32_t      length;                  /* of the truth; 0: there was no time for this text */
    uint32_t      planned, parent, shared; /* the first `shared` ids are the parent's */
    verify_chosen chosen;
} verify_text;

/* A request and what it says alone.  The sampling parameters hold pointers into
 * the wish: it must not move. */
enum { VERIFY_WISH_PROMPT = 400, VERIFY_WISH_TOKENS = 16 };
typedef struct verify_reply {
    uint32_t    n;
    uint32_t    ids[VERIFY_WISH_TOKENS];
    digest      said[VERIFY_WISH_TOKENS]; /* id, text, bits of the log-probabilities */
    digest      rest;                     /* the text that was held back until the end */
    weir_finish finish;
} verify_reply;

typedef struct verify_wish {
    uint32_t              text, n_from, n_own; /* the prompt: the first n_from of the text, then n_own others */
    verify_chosen         chosen;
    int32_t               after; /* >= 0: instead of the text, prompt and reply of that wish */
    uint32_t              prompt[VERIFY_WISH_PROMPT], n_prompt;
    weir_sample_params    sample;
    weir_logit_bias       bias[VERIFY_BIASED];
    uint32_t              prefix[VERIFY_PREFIX];
    weir_generate_options generate;
    bool                  known; /* the reply is */
    verify_reply          alone;
} verify_wish;

/* ---- schedules ---- */

typedef enum verify_kind {
    OP_JOIN,     /* sequence `who` is made, to follow text `text` */
    OP_READ,     /* its next n tokens, in a step */
    OP_WINDOW,   /* n tokens as a window, of which the first `right` are the text's; `keep` stay */
    OP_APPEND,   /* n tokens through weir_sequence_append */
    OP_SCORE,    /* n tokens through weir_sequence_score */
    OP_DETOUR,   /* n other tokens, and back by a snapshot */
    OP_SNAPSHOT, /* kept until the next one of `who` */
    OP_REWIND,   /* to the snapshot of `to` */
    OP_FORK,     /* `who` becomes `to` as well, which goes on with `text` */
    OP_TURN,     /* goes on with `text`, which has begun the same */
    OP_STORE,    /* in the prefix tree */
    OP_ADOPT,    /* the empty sequence takes at most n tokens from the prefix tree */
    OP_RESTART,  /* the prefix tree goes to disk and begins anew from there; with requests: before step `at` */
    OP_SAVE,     /* into the file, in place of what was in it */
    OP_LOAD,     /* becomes what is in the file */
    OP_ABROAD,   /* through the file to another engine, n tokens there, and back */
    OP_RESET,    /* to follow `text` */
    OP_LEAVE,
    OP_SUBMIT /* wish `who`, before step `at`; it is called off as `off` says */
} verify_kind;

typedef enum verify_off { OFF_NEVER, OFF_BETWEEN_STEPS, OFF_BY_TOKEN } verify_off;

typedef struct verify_op {
    verify_kind kind;
    uint32_t    who, to, text;
    uint32_t    n, right, keep;
    uint32_t    isa, threads; /* ABROAD: of the other engine */
    bool        beside;       /* READ, WINDOW: in the same step as the one before */
    bool        known;        /* READ, WINDOW: the token that follows is known when the step ends */
    uint32_t    at, until;    /* steps; until with OFF_BY_TOKEN: tokens */
    verify_off  off;
    int32_t     priority;
    bool        no_cache, no_drafts;
} verify_op;

typedef struct verify_schedule {
    bool         requests; /* else sequences */
    uint32_t     isa, threads;
    draft_source draft;
    uint32_t     chunk, max_drafts, snapshots;
    bool         fixed_drafts, pre_norm;
    bool         disk; /* the prefix tree has one */
    uint32_t     n_ops;
    verify_op    ops[VERIFY_OPS];
} verify_schedule;

typedef struct verify_outcome {
    bool     used[VERIFY_INVARIANTS];
    bool     differs;
    char     what[200]; /* the first difference */
    uint32_t op;        /* where */
} verify_outcome;

/* The names of what is in this run's own folder. */
typedef struct verify_files {
    char *dir;      /* NULL: not yet made */
    char *sequence; /* the file of SAVE and LOAD */
    char *cache;    /* folder of the prefix tree */
    bool  denied;   /* there is no place for files: schedules do without */
} verify_files;

/* Engines are expensive: they stay open while there is memory. */
typedef struct verify_engine {
    weir_engine *e;
    uint64_t     bytes, used; /* used: when last */
} verify_engine;

typedef struct verifier {
    const weir_model   *m;
    weir_verify_options opt;
    uint32_t            vocab;
    uint32_t            sequences; /* at once: fewer when memory is short */
    uint64_t            cache_memory;
    const char         *isas[VERIFY_ISAS];
    uint32_t            n_isas;
    bool                has_mtp, may_draft_itself; /* as its own draft model: there is memory for two */
    weir_adapter       *adapters[VERIFY_ADAPTERS];
    verify_choice       choices[VERIFY_CHOICES];
    verify_text         texts[VERIFY_TEXTS];
    verify_wish        *wishes; /* [VERIFY_WISHES] */
    weir_engine        *dull;
    verify_engine       engines[VERIFY_SOURCES][VERIFY_ISAS][VERIFY_THREADS];
    uint64_t            engine_bytes, engine_uses;
    verify_files        files;

    uint64_t seed, start, end; /* when the budget is spent, in clock_ns() */
    uint64_t dull_ns, dull_tokens;

    weir_verify_result      *out;
    weir_verify_progress_fn *progress;
    void                    *user;
    bool                     stopped; /* the caller asked to stop */
} verifier;

/* True when time is up or the caller has had enough. */
bool verify_over(verifier *v);

/* The first difference of a schedule. */
__attribute__((format(printf, 3, 4))) void verify_differs(verify_outcome *o, uint32_t op, const char *fmt, ...);

/* ---- verify_adapters.c ---- */

weir_status verify_adapters_new(verifier *v, weir_error *err);
void        verify_adapters_free(verifier *v);
/* For an empty sequence of any of the engines. */
weir_status verify_choose(const verifier *v, weir_sequence *s, verify_chosen chosen, weir_error *err);

/* ---- verify_texts.c ---- */

weir_status verify_texts_new(verifier *v, weir_error *err); /* the ids */
weir_status verify_texts_run(verifier *v, weir_error *err); /* the truth, within a fifth of the budget */
void        verify_texts_free(verifier *v);
/* Ids that two texts have in common at the start; 0 when they are read under other adapters. */
uint32_t verify_shared(const verifier *v, uint32_t a, uint32_t b);

/* ---- verify_wishes.c ---- */

weir_status verify_wishes_new(verifier *v, weir_error *err);
void        verify_wishes_free(verifier *v);
/* What the wish says alone, computed the first time; *out false when that would take the
 * dullest run past a third of the budget. */
weir_status verify_wish_alone(verifier *v, uint32_t wish, bool *out, weir_error *err);

/* Listens to a reply and notes what is said.  With `stop_after` > 0 it stops it then. */
typedef struct verify_listener {
    verify_reply reply;
    uint32_t     stop_after;
} verify_listener;
bool verify_listen(void *user, const weir_token *t);

/* ---- verify_engines.c ---- */

/* The engine that the schedule wants, set up as it says and with an empty prefix cache. */
weir_status verify_engine_for(verifier *v, const verify_schedule *c, weir_engine **out, weir_error *err);
/* The prefix cache is written to disk, and memory begins without it: what another process would find. */
weir_status verify_engine_restart(verifier *v, weir_engine *e, const verify_schedule *c, weir_error *err);
/* Besides it the one with the operation's instruction set and threads, which reads its n tokens in two
 * chunks; *out NULL when that is the same engine, or there is no memory for two. */
weir_status verify_engine_beside(verifier *v, const verify_schedule *c, const verify_op *op, weir_engine **out,
                                 weir_error *err);
void verify_engine_leave(weir_engine *e, const verify_schedule *c); /* the schedule is done: no files stay open */
void verify_engine_drop(verifier *v, const verify_schedule *c);     /* it is in no known state */
void verify_engines_close(verifier *v);
/* How many sequences at once, and how much cache, memory allows. */
weir_status verify_engines_plan(verifier *v, weir_error *err);

/* ---- verify_files.c ---- */

/* Makes the folder when there is none yet; false, with one line in the log, when that cannot be. */
bool verify_files_ready(verifier *v);
/* There is no place for files, for the reason in `why`: the log says so, and schedules do without. */
void verify_files_deny(verifier *v, const char *why);
void verify_files_clear(verifier *v); /* between schedules: nothing is left in the folder */
void verify_files_free(verifier *v);  /* and nothing of the folder */

/* ---- schedules ---- */

/* An engine for some schedules, then one on it; *c keeps the engine between calls. */
void verify_draw_engine(verifier *v, verify_schedule *c);
void verify_draw_steps(verifier *v, verify_schedule *c);
/* False when no wish is known and there is no time for one. */
weir_status verify_draw_requests(verifier *v, verify_schedule *c, bool *out, weir_error *err);

weir_status verify_run_steps(verifier *v, weir_engine *e, const verify_schedule *c, verify_outcome *out,
                             weir_error *err);
weir_status verify_run_requests(verifier *v, weir_engine *e, const verify_schedule *c, verify_outcome *out,
                                weir_error *err);

/* Runs a schedule of either kind.  One that fails with an error is one that differs, on an
 * engine that is not used again; what is returned are failures to make that engine. */
weir_status verify_run(verifier *v, const verify_schedule *c, verify_outcome *out, weir_error *err);

/* True when the schedule still fails; false also when there is no time left to tell. */
typedef bool verify_fails_fn(void *user, const verify_schedule *c);
/* Makes *c, which fails, as short and plain as it can be made while it fails. */
void verify_shrink(verify_schedule *c, verify_fails_fn *fails, void *user);

/* One line for the engine and one for each operation or step. */
void verify_print(str *to, const verifier *v, const verify_schedule *c);

#endif
