/* engine/draft_length.h - how many drafts each row of a batch gets.
 *
 * A decode step over B rows emits B tokens and takes c(B) seconds.  Verifying
 * d_r drafts of row r in the same step makes it one over n = B + sum d_r rows,
 * and drafting itself takes g(j) seconds for the j drafts of a source.  Draft j
 * of a row survives when all before it do, so with the acceptances a_1, a_2, ...
 * of that row (a_j: draft j is right, given that those before it were)
 *
 *     E(d) = B + sum_r sum_{j <= d_r} a_1 ... a_j     tokens are expected, and
 *     E(d) / (c(n) + sum_sources g(j))                tokens a second.
 *
 * Drafts are added one at a time, always the one with the largest product, and
 * the number that gives the most tokens a second is taken.  All of a, c and g are
 * measured; what is not known yet is found out by probes: now and then one row
 * goes one draft deeper than it would.
 *
 * Being wrong must be cheap, whatever the drafts are like.  So speculation plays
 * with a purse, counted in plain steps.  A round pays what it took longer than a
 * plain step of its rows, and earns the share of a plain step that its accepted
 * drafts stand for.  The purse holds at most DRAFT_PURSE, is given
 * DRAFT_ALLOWANCE a round, and no round may stake more than part of what is in
 * it.  Whatever happens, then, N rounds cost at most
 * DRAFT_PURSE + N * DRAFT_ALLOWANCE plain steps more than their tokens would have
 * cost without speculation: 2 % of any 200 rounds.  (As far as the measured c
 * and g are right, and a step takes no longer than its rows one by one.)
 *
 * Time decides only how much is tried, never what is said.  All functions take
 * measured seconds; there is no clock in here and no allocation.  The policy and
 * its rows belong to the one thread that steps the engine. */
#ifndef ENGINE_DRAFT_LENGTH_H
#define ENGINE_DRAFT_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_MAX       = 16, /* drafts a row and round */
    DRAFT_MAX_ROWS  = 64, /* rows of a step with its drafts; beyond it nobody speculates */
    DRAFT_SOURCES   = 3,  /* how many kinds of source may be told apart; numbered by the caller */
    DRAFT_CONFIRM   = 5,  /* measurements that settle a duration, or in a row prove it wrong */
    DRAFT_PROBE_MIN = 4,  /* rounds from one probe to the next */
    DRAFT_PROBE_MAX = 512,
};

#define DRAFT_PRIOR 0.6       /* acceptance before anything was seen */
#define DRAFT_DECAY 0.9       /* of a row's acceptance, an outcome */
#define DRAFT_PURSE 3.0       /* plain steps */
#define DRAFT_ALLOWANCE 0.005 /* plain steps a round */

/* A running mean of one duration that single outliers cannot spoil. */
typedef struct draft_time {
    double  seconds;              /* 0: never measured */
    double  doubt[DRAFT_CONFIRM]; /* the first measurements; then the last, when all of them contradict it */
    uint8_t n_doubt;
    uint8_t n; /* measurements in it, no more than are remembered */
} draft_time;

/* A duration for every n, and by which part of it a measurement differs from it
 * on the average. */
typedef struct draft_times {
    draft_time of[DRAFT_MAX_ROWS + 1];
    double     deviation;
} draft_times;

/* What one row knows, and what it is asked and told in a round. */
typedef struct draft_row {
    double  alpha[DRAFT_SOURCES][DRAFT_MAX]; /* [source][j]: draft j + 1 was right, given those before */
    uint8_t source;                          /* set by the caller before choosing: who would draft */
    uint8_t limit;                           /* the same: drafts it may have at most; DRAFT_MAX if more */
    uint8_t n_drafts;                        /* the answer */
    uint8_t probe;                           /* the draft that is tried to learn about it, counted from 1; 0: none */
} draft_row;

/* What happened since the last choice. */
typedef struct draft_round {
    uint32_t n_rows, n_accepted;
    uint32_t n_drafted[DRAFT_SOURCES];
} draft_round;

typedef struct draft_policy {
    draft_times step;                             /* c */
    draft_times draft[DRAFT_SOURCES];             /* g */
    double      alpha[DRAFT_SOURCES][DRAFT_MAX];  /* over all rows: what a new row starts with */
    uint8_t     n_seen[DRAFT_SOURCES][DRAFT_MAX]; /* outcomes in it, no more than are remembered */
    double      purse;
    draft_round round;
    uint32_t    interval, since_probe; /* rounds */
    uint32_t    next_row;              /* whose turn it is to be probed */
    bool        probe_plain;           /* the next probe is a step without drafts, if there would be any */
} draft_policy;

void draft_length_init(draft_policy *p);
void draft_length_row_init(draft_row *row, const draft_policy *p);

/* Sets n_drafts of all rows, 0..limit.  Their outcomes are to be told before the
 * next call. */
void draft_length_choose(draft_policy *p, draft_row *const *rows, uint32_t n_rows);

/* Of `drafted` drafts (the source may have had fewer than chosen) the first
 * `accepted` were right.  Called once a round and row that drafted anything. */
void draft_length_outcome(draft_policy *p, draft_row *row, uint32_t drafted, uint32_t accepted);

/* A step that only decoded took so long with n_rows rows, drafts included. */
void draft_length_step_took(draft_policy *p, uint32_t n_rows, double seconds);

/* All the n drafts of a source for one round took so long together.  A source
 * that is never reported costs nothing. */
void draft_length_draft_took(draft_policy *p, uint32_t source, uint32_t n, double seconds);

#endif
